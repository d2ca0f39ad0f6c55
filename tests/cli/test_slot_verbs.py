"""`tailrace slot` as programs use it: --json says what the plain output says, and where a slot works and in which windows changes nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from support.command import Run
from support.servers import Server
from support.slots import THEIRS, theirs
from tailrace.errors import UsageError
from tailrace.pipeline import windows
from tailrace.plugins.registry import register_plugin
from tailrace.plugins.test_decoding import TestDecoding

pytestmark = pytest.mark.postgres
RUNNERS = (("local", "LocalRunner"), ("spark", "SparkRunner"))


def one(done: tuple[int, str, str]) -> Any:
    """What a verb printed: one JSON value on one line."""
    status, out, err = done
    assert (status, err) == (0, "")
    assert out.count("\n") == 1
    return json.loads(out)


def as_rows(out: str) -> str:
    """Objects as the same rows by tabs."""
    rows = [json.loads(line) for line in out.splitlines()]
    assert all(list(row) == ["lsn", "xid", "data"] for row in rows)
    return "".join(f"{row['lsn']}\t{row['xid']}\t{row['data']}\n" for row in rows)


def test_json(tailrace: Run, tmp_path: Path) -> None:
    state = ("--state", tmp_path / "state")
    with Server(16) as server:
        server.sql("CREATE TABLE t (id int PRIMARY KEY, v text)")
        server.sql("SELECT pg_create_logical_replication_slot(%s, 'test_decoding')", [THEIRS])
        made = one(
            tailrace(
                "slot", "create", "a", server.data_dir, "--database", server.dbname, *state, "-o", "include-xids=1", "--json"
            )
        )
        assert made == one(tailrace("slot", "show", "a", *state, "--json"))
        assert [made] == one(tailrace("slot", "ls", *state, "--json"))
        assert (made["slot_name"], made["options"], made["wal_status"]) == ("a", {"include-xids": "1"}, "reserved")
        for number in range(3):
            server.sql("INSERT INTO t VALUES (%s, %s)", [number, f'"{number}\\\t'])
        assert one(tailrace("slot", "copy", "a", "b", *state, "--json")) == {**made, "slot_name": "b"}
        assert one(tailrace("slot", "rename", "b", "c", *state, "--json")) == {**made, "slot_name": "c"}
        end = server.flush_lsn()
        expected = theirs(server)
        assert as_rows(tailrace("slot", "peek", "a", *state, "--json")[1]) == expected
        first = as_rows(tailrace("slot", "get", "a", *state, "--json", "--upto-nchanges", 1)[1])
        assert first + as_rows(tailrace("slot", "get", "a", *state, "--json")[1]) == expected
        assert first.count("\n") == 3
        moved = one(tailrace("slot", "advance", "c", end, *state, "--json"))
        assert (moved["slot_name"], moved["confirmed_flush_lsn"]) == ("c", end)
        one(tailrace("slot", "create", "d", server.data_dir, "--database", server.dbname, *state, "--json"))
        server.sql("INSERT INTO t VALUES (9, 'nine')")
        expected = theirs(server)
        file = tmp_path / "out"
        assert tailrace("slot", "receive", "d", *state, "-f", file, "--endpos", server.flush_lsn(), "--json") == (0, "", "")
        assert as_rows(file.read_text()) == expected
        assert one(tailrace("slot", "drop", "d", *state, "--json")) == {"slot_name": "d", "dropped": True}
        assert [slot["slot_name"] for slot in one(tailrace("slot", "ls", *state, "--json"))] == ["a", "c"]


class Announced(TestDecoding):
    """Notes its startups, and refuses slots that are called so."""

    name = "announced"
    calls: ClassVar[list[tuple[str, dict[str, str | None], bool]]] = []

    def startup(self, options: Mapping[str, str | None], major: int, *, is_init: bool = False) -> None:
        self.calls.append((self.context.slot, dict(options), is_init))
        if self.context.slot == "refused":
            raise UsageError("I will not serve it")
        super().startup(options, major, is_init=is_init)

    def shutdown(self) -> None:
        self.calls.append(("", {}, False))


def test_a_copy_starts_the_plugin_up(tailrace: Run, tmp_path: Path) -> None:
    """As the server does: for the new slot, with is_init, and it may be refused."""
    state = ("--state", tmp_path / "state")
    register_plugin(Announced.name, Announced)
    with Server(16) as server:
        source = (server.data_dir, "--database", server.dbname)
        words = ("--plugin", Announced.name, "-o", "include-xids=0")
        assert tailrace("slot", "create", "a", *source, *state, *words)[0] == 0
        Announced.calls.clear()
        assert tailrace("slot", "copy", "a", "b", *state)[0] == 0
        assert Announced.calls == [("b", {"include-xids": "0"}, True), ("", {}, False)]
        status, out, err = tailrace("slot", "copy", "a", "refused", *state)
        assert (status, out, err.splitlines()[0]) == (1, "", "tailrace: error: I will not serve it")
        assert err.splitlines()[-1] == 'CONTEXT:  slot "refused", output plugin "announced", in the startup callback'
        assert [slot["slot_name"] for slot in one(tailrace("slot", "ls", *state, "--json"))] == ["a", "b"]


@pytest.mark.marathon
@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_windows_and_spark_change_nothing(tailrace: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each verb that decodes, in small windows, here and on Spark."""
    runs: list[tuple[str, int]] = []
    followed = windows._followed

    def watched(source: Any, runner: Any, *more: Any) -> Any:
        runs.append((type(runner).__name__, 1))
        return followed(source, runner, *more)

    monkeypatch.setattr(windows, "_followed", watched)

    def took(*words: object) -> tuple[str, set[str], int]:
        runs.clear()
        status, out, err = tailrace("slot", *words, "--state", tmp_path / "state")
        assert status == 0, err
        return out, {name for name, _ in runs}, len(runs)

    with Server(16) as server:
        server.sql("CREATE TABLE t (id int PRIMARY KEY, v text)")
        captured = tmp_path / "captured"
        assert tailrace("catalog", "capture", server.data_dir, "--database", server.dbname, "-o", captured)[0] == 0
        server.sql("INSERT INTO t SELECT -g, repeat('x', 900) FROM generate_series(1, 4500) g")
        server.sql("SELECT pg_create_logical_replication_slot(%s, 'test_decoding')", [THEIRS])
        for on, runner in RUNNERS:
            out, names, many = took(
                "create", on, server.data_dir, "--database", server.dbname, "--catalog", captured, "--on", on, "--window", "64kB"
            )
            assert (out.split("\t")[0], names) == (on, {runner})
            assert many > 1 or on == "spark"  # where stretches are larger
            for copy in "bc":
                assert took("copy", on, f"{on}_{copy}")[1] == set()
        server.sql("INSERT INTO t SELECT g, repeat('x', 900) FROM generate_series(1, 4500) g")
        for number in range(20):
            server.sql("UPDATE t SET v = %s WHERE id = %s", [f"{number}", number])
        end = server.flush_lsn()
        expected = theirs(server)
        for on, runner in RUNNERS:
            how = ("--on", on, "--window", "64kB")
            if on == "local":
                assert took("peek", on, *how)[0] == expected
            out, names, many = took("get", on, *how, "--upto-lsn", end)
            assert (out, names) == (expected, {runner})
            assert many > 1 or on == "spark"
            file = tmp_path / on
            assert took("receive", f"{on}_b", "-f", file, "--endpos", end, *how)[1:] == ({runner}, many)
            assert file.read_text() == "".join(row.split("\t", 2)[2] + "\n" for row in expected.splitlines())
            assert took("advance", f"{on}_c", end, *how) == (f"{on}_c\t{end}\n", {runner}, many)
