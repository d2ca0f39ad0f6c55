"""wal2json and debezium on recorded cases: their rows are those of test_decoding, each a JSON object. What wal2json prints is compared with a server,
byte for byte, in `tests/oracle/test_wal2json.py`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest

from support.cases import Case, open_case
from support.command import Run
from support.decoding import opened
from support.live import Slot
from support.servers import Server
from tailrace.errors import UsageError
from tailrace.model import PAGE_SIZE, Lsn
from tailrace.pipeline import LocalRunner, Scanning, open_pipeline
from tailrace.plugins import driver
from tailrace.plugins.debezium import Debezium
from tailrace.plugins.output_plugin import OutputPlugin
from tailrace.plugins.registry import plugin_named

STORIES = ("types", "toast", "truncate", "messages", "partitions", "replica_identity", "origin")
FORMAT = {"format-version": "2"}
LETTERS = {"INSERT": "I", "UPDATE": "U", "DELETE": "D", "TRUNCATE": "T"}
Row = tuple[int, int, str]


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Case]:
    return {story: open_case(story, 18, "with_slot", tmp_path_factory.mktemp(story)) for story in STORIES}


def rows(case: Case, plugin: OutputPlugin, options: Mapping[str, str | None], pages: int | None = None) -> list[Row]:
    plugin.startup(options, case.major)
    scanning = Scanning(None if pages is None else pages * PAGE_SIZE)
    start = Lsn.parse(case.meta["start_lsn"])
    pipeline = open_pipeline(
        case.data_dir, "app", start_lsn=start, runner=LocalRunner(2), scanning=scanning, demand=plugin.demand
    )
    found: list[Row] = []
    for lines in pipeline.lines(plugin):
        found += zip(lines.lsn.tolist(), lines.xid.tolist(), lines.texts.to_list(), strict=True)
        assert lines.ends.max(initial=0) <= len(lines)
        assert len(lines.ends) == len(lines.ended)
    return found


def kinds(case: Case) -> list[tuple[int, int, str]]:
    """LSN, xid and letter of what test_decoding prints; of a TRUNCATE, one for each table."""
    found = []
    for lsn, xid, text in rows(case, plugin_named("test_decoding"), {}):
        word = re.match(r"BEGIN|COMMIT|message|table", text)
        assert word is not None
        if word[0] != "table":
            found.append((lsn, xid, word[0][0].upper()))
            continue
        verb = re.search(r": (INSERT|UPDATE|DELETE|TRUNCATE):", text)
        assert verb is not None
        tables = text[: verb.start()].count(", ") + 1
        found += [(lsn, xid, LETTERS[verb[1]])] * tables
    return found


@pytest.mark.parametrize("story", STORIES)
def test_wal2json_tells_what_test_decoding_tells(cases: dict[str, Case], story: str) -> None:
    everything = FORMAT | {"include-types": "0", "include-xids": "1", "include-pk": "1", "include-lsn": "1"}
    found = [(lsn, xid, json.loads(text)) for lsn, xid, text in rows(cases[story], plugin_named("wal2json"), everything)]
    told = [(lsn, xid, each["action"]) for lsn, xid, each in found]
    expected = kinds(cases[story])
    # Changes of rows that nothing identifies, wal2json leaves out.
    assert [each for each in expected if each in set(told)] == told
    assert {letter for _, _, letter in set(expected) - set(told)} <= {"U", "D"}
    assert all(each["xid"] == xid for _, xid, each in found if each["xid"] is not None)


@pytest.mark.parametrize("story", STORIES)
def test_debezium_tells_what_test_decoding_tells(cases: dict[str, Case], story: str) -> None:
    case = cases[story]
    letters = {"I": "c", "U": "u", "D": "d", "T": "t", "M": "m"}
    expected = [(lsn, xid, letters[letter]) for lsn, xid, letter in kinds(case) if letter in letters]
    found = [(lsn, xid, json.loads(text)) for lsn, xid, text in rows(case, Debezium(), {"skipped.operations": "none"})]
    assert [(lsn, xid, each["op"]) for lsn, xid, each in found] == expected
    for lsn, xid, event in found:
        assert event["source"]["lsn"] == lsn
        assert event["source"]["txId"] in (xid, None)
        assert event["ts_ms"] == event["source"]["ts_ms"] == event["source"]["ts_us"] // 1000
    with_schemas = [
        json.loads(text) for _, _, text in rows(case, Debezium(), {"skipped.operations": "none", "schemas.enable": "on"})
    ]
    assert [each["payload"] for each in with_schemas] == [event for _, _, event in found]
    for each in with_schemas:
        check_schema(each["schema"], each["payload"])


def check_schema(schema: dict[str, Any], value: dict[str, Any]) -> None:
    """What stands in a struct is of the type that its schema says."""
    types = {
        "struct": dict, "string": str, "bytes": str, "boolean": bool, "int16": int, "int32": int, "int64": int, "float": (int, float, str),
        "double": (int, float, str),
    }  # fmt: skip
    fields = {each["field"]: each for each in schema["fields"]}
    assert set(value) <= set(fields)
    for name, inner in value.items():
        if inner is None or inner == "__debezium_unavailable_value":
            continue
        assert isinstance(inner, types[fields[name]["type"]]), (name, inner)
        if isinstance(inner, dict):
            check_schema(fields[name], inner)


@pytest.mark.parametrize(
    ("plugin", "options"),
    [
        ("wal2json", FORMAT | {"include-timestamp": "1"}), ("wal2json", {"include-lsn": "1", "pretty-print": "1"}),
        ("wal2json", {"write-in-chunks": "1"}), ("debezium", {}),
    ],
)  # fmt: skip
def test_cuts_and_memory_do_not_matter(
    cases: dict[str, Case], plugin: str, options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    few = {story: cases[story] for story in ("messages", "toast", "truncate")}
    whole = {story: rows(case, plugin_named(plugin), options) for story, case in few.items()}
    monkeypatch.setattr(driver, "HELD_BYTES", 300)
    assert {story: rows(case, plugin_named(plugin), options, pages=3) for story, case in few.items()} == whole


def test_what_nothing_is_told_of_still_ends(cases: dict[str, Case]) -> None:
    """A consumer gets on though a plugin is silent."""
    plugin = plugin_named("wal2json")
    plugin.startup(FORMAT | {"add-tables": "no.where", "include-transaction": "0", "add-msg-prefixes": "none"}, 18)
    case = cases["toast"]
    pipeline = open_pipeline(
        case.data_dir, "app", start_lsn=Lsn.parse(case.meta["start_lsn"]), runner=LocalRunner(1), demand=plugin.demand
    )
    lines = list(pipeline.lines(plugin))
    assert sum(map(len, lines)) == 0
    last = int(pipeline.plan.transactions.end_lsn[pipeline.plan.shown].max())
    assert max(each.position_behind(Lsn(0)) for each in lines) == last


@pytest.mark.parametrize("story", STORIES)
def test_an_object_a_transaction_has_what_objects_of_changes_have(cases: dict[str, Case], story: str) -> None:
    """Format 1, in one row, in chunks and pretty, beside format 2; but for TRUNCATE, NULLs in keys, and UPDATEs of the whole row's identity."""
    case = cases[story]
    options = {"include-xids": "1", "include-types": "0"}
    expected: list[tuple[int, int, list[tuple[Any, ...]]]] = []
    for lsn, xid, text in rows(case, plugin_named("wal2json"), FORMAT | options):
        each = json.loads(text)
        if each["action"] == "M" and not each["transactional"]:
            expected.append((lsn, xid, [("message", each["prefix"], each["content"])]))
        elif each["action"] == "B":
            inside: list[tuple[Any, ...]] = []
        elif each["action"] == "C":
            expected.append((lsn, xid, inside))
        elif each["action"] == "M":
            inside.append(("message", each["prefix"], each["content"]))
        elif each["action"] != "T":
            kind = {"I": "insert", "U": "update", "D": "delete"}[each["action"]]
            inside.append((kind, each["schema"], each["table"], [(c["name"], c["value"]) for c in each.get("columns", ())]))
    for more in ({}, {"pretty-print": "1"}):
        told = rows(case, plugin_named("wal2json"), options | more)
        assert [(lsn, xid, [_brief(each) for each in json.loads(text)["change"]]) for lsn, xid, text in told] == expected
        chunks = rows(case, plugin_named("wal2json"), {**options, **more, "write-in-chunks": "1"})
        whole, joined = ("".join(text for _, _, text in each).replace("\n", "") for each in (told, chunks))
        assert joined == whole


def _brief(change: dict[str, Any]) -> tuple[Any, ...]:
    if change["kind"] == "message":
        return "message", change["prefix"], change["content"]
    columns = zip(change.get("columnnames", ()), change.get("columnvalues", ()), strict=True)
    return change["kind"], change["schema"], change["table"], list(columns)


@pytest.mark.parametrize(
    ("options", "sqlstate"),
    [
        ({"nonsense": "1"}, "22023"), ({"decimal.handling.mode": "exact"}, "22023"), ({"skipped.operations": "c,x"}, "22023"),
        ({"tombstones.on.delete": "true"}, "0A000"), ({"provide.transaction.metadata": "true"}, "0A000"), ({"topic.prefix": None}, "22023"),
        ({"interval.handling.mode": "string"}, "0A000"),
    ],
)  # fmt: skip
def test_options_that_debezium_refuses(options: dict[str, str | None], sqlstate: str) -> None:
    with pytest.raises(UsageError) as raised:
        Debezium().startup(options, 18)
    assert raised.value.sqlstate == sqlstate


def test_events_name_what_they_are_of(cases: dict[str, Case]) -> None:
    options = {"topic.prefix": "shop", "schemas.enable": "1", "skipped.operations": "u,d"}
    events = [json.loads(text) for _, _, text in rows(cases["truncate"], Debezium(), options)]
    assert {each["payload"]["op"] for each in events} == {"c", "t"}
    for each in events:
        source = each["payload"]["source"]
        assert (source["name"], source["db"], source["connector"]) == ("shop", "app", "postgresql")
        topic = f"shop.{source['schema']}.{source['table']}"
        assert each["schema"]["name"] == re.sub(r"[^\w.]", "_", topic) + ".Envelope"


def test_numbers_as_strings(cases: dict[str, Case]) -> None:
    """As wal2json 2.6 prints them: the same rows, with numbers in quotes, and what JSON lacks by its name."""
    plain, quoted = (
        [
            json.loads(text, parse_float=str, parse_int=str)
            for _, _, text in rows(cases["types"], plugin_named("wal2json"), FORMAT | more)
        ]
        for more in ({}, {"numeric-data-types-as-string": "1"})
    )
    names = set()
    for mine, other in zip(plain, quoted, strict=True):
        for here, there in zip(mine.get("columns", ()), other.get("columns", ()), strict=True):
            if here["value"] is None and there["value"] is not None:
                names.add(there["value"])
            else:
                assert here == there
    assert names == {"NaN", "Infinity", "-Infinity"}


@pytest.mark.postgres
def test_a_primary_key_is_told_whatever_the_identity() -> None:
    """Of format 1 since wal2json 2.6."""
    with Server(16, dbname="app") as server:
        slot = Slot.on(server)
        server.say("CREATE TABLE t (a int, b text, c int, PRIMARY KEY (a, c))", "ALTER TABLE t REPLICA IDENTITY FULL")
        server.say("INSERT INTO t VALUES (1, 'x', 2)", "UPDATE t SET b = 'y'", "DELETE FROM t")
        server.stop()
        plugin = plugin_named("wal2json")
        plugin.startup({"include-pk": "on"}, 16)
        pipeline = opened(server.data_dir, start_lsn=slot.start_lsn, demand=plugin.demand)
        told = [json.loads(text) for lines in pipeline.lines(plugin) for text in lines.texts.to_list()]
    changes = [change for each in told for change in each["change"]]
    assert [change["kind"] for change in changes] == ["insert", "update", "delete"]
    assert all(change["pk"] == {"pknames": ["a", "c"], "pktypes": ["integer", "integer"]} for change in changes)


@pytest.mark.postgres
def test_what_cannot_be_told_is_warned_of(tailrace: Run) -> None:
    """In wal2json's words; INSERTs are told."""
    with Server(16, dbname="app") as server:
        slot = Slot.on(server)
        server.say("CREATE TABLE t (a int)", "INSERT INTO t VALUES (1), (2)", "UPDATE t SET a = 3", "DELETE FROM t")
        expected = server.sql(
            "SELECT count(*) FROM pg_logical_slot_peek_changes(%s, NULL, NULL) WHERE data LIKE '%%INSERT%%'", [slot.name]
        )
        server.stop()
        for options, warned in (
            ((), ['table "t" without primary key or replica identity is nothing']),
            (
                ("-o", "format-version=2"),
                [f'no tuple identifier for {verb} in table "public"."t"' for verb in ("DELETE", "UPDATE")],
            ),
        ):
            words = ("--database", "app", "--start-lsn", slot.start_lsn, "--plugin", "wal2json", *options)
            status, told, said = tailrace("decode", server.data_dir, *words)
            assert status == 0
            assert said.splitlines() == [f"tailrace: warning: {text}" for text in warned]
            assert len(re.findall(r'"insert"|"action":"I"', told)) == expected[0][0] == 2
