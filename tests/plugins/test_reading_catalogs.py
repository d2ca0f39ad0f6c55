"""What a plugin may read: catalogs and user catalog tables, as the moment of its callback has them, and nothing else.

tests/oracle/test_user_catalogs.py asks servers. Here are the recorded story `user_catalog`, which says itself what must be there, and refusals.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from support.cases import open_case
from support.decoding import state_before
from tailrace.catalog.history.user_tables import is_user_catalog
from tailrace.errors import MissingHistory, PluginError, TailraceError, UsageError
from tailrace.model import Lsn, Relation, Transaction
from tailrace.pipeline import LocalRunner, Pipeline, Scanning, open_pipeline
from tailrace.plugins.callbacks import Change, Context, OutputOptions, Plugin
from tailrace.plugins.callbacks.cb_wrappers import CalledPlugin

SMALL_STRETCHES = 1 << 17
NOT_A_CATALOG = 'cannot query non-catalog table "{}" during logical decoding'


class Reader(Plugin):
    """Reads at every callback, and keeps what it has read. A subclass says what."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Any]] = []

    def read(self, ctx: Context) -> Any:
        raise NotImplementedError

    def begin(self, ctx: Context, txn: Transaction) -> None:
        self.told.append(("begin", self.read(ctx)))

    def change(self, ctx: Context, txn: Transaction, relation: Relation, change: Change) -> None:
        self.told.append((f"{change.kind} {relation.name}", self.read(ctx)))

    def commit(self, ctx: Context, txn: Transaction, commit_lsn: Lsn) -> None:
        self.told.append(("commit", self.read(ctx)))


def _read(plugin: Plugin, folder: Path, *, captured: bool = False, story: str = "user_catalog", major: int = 18) -> Pipeline:
    case = open_case(story, major, "with_slot", folder)
    called = CalledPlugin(plugin)
    called.startup({}, major)
    pipeline = open_pipeline(
        case.data_dir, case.meta["dbname"], start_lsn=Lsn.parse(case.meta["start_lsn"]), runner=LocalRunner(2), demand=called.demand,
        scanning=Scanning(SMALL_STRETCHES), catalog=state_before(case) if captured else None,
    )  # fmt: skip
    for _ in pipeline.lines(called):
        pass
    return pipeline


def _rows_or_refusal(ctx: Context, name: str) -> Any:
    try:
        return {int(row["id"]): row["v" if "v" in row else "w"] if len(row) > 1 else None for row in ctx.catalog(name)}
    except TailraceError as error:
        return error.message


class Settings(Reader):
    def read(self, ctx: Context) -> Any:
        return _rows_or_refusal(ctx, "settings")


OTHERS = NOT_A_CATALOG.format("settings")
ONE, TWO, THREE = {1: "one"}, {2: "two"}, {3: "three " * 1000}
TOLD = [
    ("begin", 'relation "settings" does not exist'),
    ("commit", {}),  # CREATE TABLE settings
    ("begin", {}),
    ("commit", {}),  # CREATE TABLE t
    ("begin", {}),
    ("insert settings", ONE),
    ("insert settings", ONE | TWO),
    ("commit", ONE | TWO),
    ("begin", ONE | TWO),
    ("insert settings", ONE | TWO | THREE),
    ("update settings", ONE | THREE | {2: "two, changed"}),
    ("insert t", ONE | THREE | {2: "two, changed"}),
    ("update settings", ONE | THREE | {2: "again"}),  # and the DELETE before it was rolled back
    ("delete settings", ONE | {2: "again"}),
    ("commit", ONE | {2: "again"}),
    ("begin", ONE | {2: "again"}),
    ("commit", OTHERS),  # ALTER TABLE settings SET (user_catalog_table = false)
    ("begin", OTHERS),
    ("insert settings", OTHERS),
    ("commit", OTHERS),
]


@pytest.mark.parametrize(("major", "captured"), [(16, False), (18, True), (15, True)])
def test_rows_of_a_user_catalog_table_are_those_of_the_moment(major: int, captured: bool, tmp_path: Path) -> None:
    plugin = Settings()
    _read(plugin, tmp_path, captured=captured, major=major)
    assert plugin.told[: len(TOLD)] == TOLD
    assert {read for _, read in plugin.told[len(TOLD) :]} == {OTHERS}


class OfT(Reader):
    def read(self, ctx: Context) -> Any:
        return _rows_or_refusal(ctx, "t")


@pytest.mark.parametrize("captured", [False, True])
def test_a_table_that_became_one_is_known_from_its_next_file_on(captured: bool, tmp_path: Path) -> None:
    """ALTER TABLE has made one of `t`, whose rows of before nobody kept; VACUUM FULL writes all of them into a new file."""
    plugin = OfT()
    _read(plugin, tmp_path, captured=captured)
    read = [rows for _, rows in plugin.told if rows != NOT_A_CATALOG.format("t") and "does not exist" not in rows]
    first = next(number for number, rows in enumerate(read) if isinstance(rows, dict))
    assert first > 3
    assert all("of user catalog table" in rows and "are not known" in rows for rows in read[:first])
    assert read[first] == {1: None, 2: "w"}  # the commit of VACUUM FULL
    assert read[-1] == {1: "x", 2: "x", 3: "x", 4: "x"}
    assert plugin.told[-1][1] == NOT_A_CATALOG.format("t")


class Names(Reader):
    def read(self, ctx: Context) -> Any:
        tables = [row for row in ctx.catalog("pg_class", "oid", "relname", "relnatts") if int(row["oid"]) >= 16384]
        return {row["relname"]: row["relnatts"] for row in tables if row["relname"] in ("settings", "t")}


def test_rows_of_a_catalog_are_those_of_the_moment(tmp_path: Path) -> None:
    plugin = Names()
    _read(plugin, tmp_path)
    every = [read for _, read in plugin.told]
    assert every[0] == {}
    assert every[1] == {"settings": "2"}
    assert every[3] == {"settings": "2", "t": "1"}
    assert every[-1] == {"settings": "2", "t": "2"}
    assert [each["t"] for each in every[3:]] == sorted(each["t"] for each in every[3:])


class Typed(Reader):
    typed = True

    def read(self, ctx: Context) -> Any:
        return [(row["oid"], row["relhasindex"], row["relname"]) for row in ctx.catalog(1259) if row["relname"] == "pg_class"]


def test_values_are_like_those_of_changes(tmp_path: Path) -> None:
    plugin = Typed()
    _read(plugin, tmp_path)
    assert {tuple(read) for _, read in plugin.told} == {((1259, True, "pg_class"),)}


class Writing(Reader):
    """There is no way to: it has rows of its own."""

    def read(self, ctx: Context) -> Any:
        rows = list(ctx.catalog("pg_namespace", "nspname"))
        before = [dict(row) for row in rows]
        for row in rows:
            row["nspname"] = "mine"
        rows.clear()
        return before == [dict(row) for row in ctx.catalog("pg_namespace", "nspname")] and len(before)


def test_what_is_read_cannot_be_written(tmp_path: Path) -> None:
    plugin = Writing()
    _read(plugin, tmp_path)
    assert {read > 0 for _, read in plugin.told} == {True}


class Asking(Reader):
    def __init__(self, *asked: Any) -> None:
        super().__init__()
        self.asked = asked

    def read(self, ctx: Context) -> Any:
        return list(ctx.catalog(*self.asked))


@pytest.mark.parametrize(
    ("asked", "message", "sqlstate"),
    [
        (("public.t",), NOT_A_CATALOG.format("t"), "25000"),
        (("pg_am",), 'catalog "pg_am" is not followed', "0A000"),
        (("nothing",), 'relation "nothing" does not exist', "42P01"),
        ((4000000000,), "could not open relation with OID 4000000000", "42P01"),
        (("pg_class", "nothing"), 'column "nothing" of relation "pg_class" does not exist', "42703"),
        (("pg_attribute", "attmissingval"), 'column "attmissingval" has pseudo-type anyarray', "42P16"),
    ],
)
def test_what_is_refused(asked: tuple[Any, ...], message: str, sqlstate: str, tmp_path: Path) -> None:
    class Late(Asking):
        def begin(self, ctx: Context, txn: Transaction) -> None: ...

        def commit(self, ctx: Context, txn: Transaction, commit_lsn: Lsn) -> None: ...

    with pytest.raises(UsageError) as raised:
        _read(Late(*asked), tmp_path)
    assert (raised.value.message, raised.value.sqlstate) == (message, sqlstate)
    assert "in the change callback, associated LSN" in raised.value.context
    assert pickle.loads(pickle.dumps(raised.value)).message == message


class InWorkers(Asking):
    parallel = True


def test_a_parallel_plugin_reads_none(tmp_path: Path) -> None:
    with pytest.raises(PluginError, match="plugins that are called in order"):
        _read(InWorkers("pg_class"), tmp_path)


def test_nothing_is_read_outside_of_transactions(tmp_path: Path) -> None:
    class Early(Asking):
        def startup(self, ctx: Context, options: OutputOptions, is_init: bool) -> None:
            self.read(ctx)

    with pytest.raises(PluginError, match="can only be read in begin, change"):
        CalledPlugin(Early("pg_class")).startup({}, 18)


class Related(Reader):
    def read(self, ctx: Context) -> Any:
        try:
            by_name = ctx.relation("public.t")
        except UsageError:
            return None
        assert ctx.relation(by_name.oid) == by_name
        return [column.name for column in by_name.live_columns]


def test_relations_are_those_of_the_moment(tmp_path: Path) -> None:
    plugin = Related()
    _read(plugin, tmp_path)
    read = [each for number, (_, each) in enumerate(plugin.told) if not number or each != plugin.told[number - 1][1]]
    assert read == [None, ["id"], ["id", "w"]]


@pytest.mark.parametrize(
    ("options", "is_one"),
    [
        ((b"user_catalog_table=true",), True), ((b"fillfactor=50", b"user_catalog_table=on"), True),
        ((b"user_catalog_table=1", b"fillfactor=50"), True), ((b"user_catalog_table=of",), False), ((b"user_catalog_table=Y",), True),
        ((b"user_catalog_table=o",), False), ((b"fillfactor=50",), False), ((), False),
    ],
)  # fmt: skip
def test_options_that_make_one(options: tuple[bytes, ...], is_one: bool) -> None:
    """A text[] without its length word: header, and elements with theirs, aligned."""
    parts = [(4 * (len(each) + 4)).to_bytes(4, "little") + each + b"\0" * (-len(each) % 4) for each in options]
    assert is_user_catalog(bytes(20) + b"".join(parts)) is is_one
    assert not is_user_catalog(None)


def test_what_is_not_known_says_how_it_would_be(tmp_path: Path) -> None:
    class First(Asking):
        def begin(self, ctx: Context, txn: Transaction) -> None: ...

        def change(self, ctx: Context, txn: Transaction, relation: Relation, change: Change) -> None: ...

        def commit(self, ctx: Context, txn: Transaction, commit_lsn: Lsn) -> None:
            with_t = [
                row for row in ctx.catalog("pg_class", "relname", "relnatts") if dict(row) == {"relname": "t", "relnatts": "2"}
            ]
            if with_t:
                self.read(ctx)

    with pytest.raises(MissingHistory) as raised:
        _read(First("t"), tmp_path, captured=True)
    assert "CREATE TABLE" in raised.value.hint
    assert raised.value.sqlstate == "58P01"
