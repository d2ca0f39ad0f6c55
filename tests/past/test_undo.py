"""What `tailrace undo` prints, run on the very server: it brings back what was before the transaction, and leaves alone what others did since."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cases import DBNAME
from support.command import Run
from support.live import cluster
from support.segments import forget_segments_before
from support.servers import Server
from tailrace.model import Lsn

pytestmark = pytest.mark.postgres
MAJORS = [18, *(pytest.param(each, marks=pytest.mark.matrix) for each in (14, 15, 16, 17))]

TYPES = r"""
CREATE SCHEMA "Odd Schema";
CREATE TYPE "Odd Schema"."Mood" AS ENUM ('sad', 'it''s', 'back\slash');
CREATE TYPE pair AS (a int, b text);
CREATE DOMAIN positive AS int CHECK (value > 0);
"""
COLUMNS = {
    "int2": ("smallint", "-7", "8"),
    "int8": ("bigint", "-9223372036854775808", "9223372036854775807"),
    "select": ("integer", "-1", "0"),
    'Quoted "name"': ("text", r"it's a \ back''slash", "new\nline"),
    "bool": ("boolean", "t", "f"),
    "wide": ("numeric", "12345678901234567890.12345678901234567890", "NaN"),
    "price": ("numeric(10,2)", "9.90", "-0.01"),
    "real": ("real", "1.17549435e-38", "-Infinity"),
    "double": ("double precision", "0.1", "1e300"),
    "cash": ("money", "$1.50", "$2.50"),
    "var": ("character varying(12)", "ümlaut €", ""),
    "fixed": ("character(5)", "ab", "abcde"),
    "letter": ('"char"', "x", "y"),
    "name": ("name", "who", "Who Else"),
    "bytes": ("bytea", r"\x00ff5c27", r"\x"),
    "bits": ("bit(3)", "101", "010"),
    "varbits": ("bit varying", "1", "0101"),
    "day": ("date", "2026-02-28", "0044-03-15 BC"),
    "clock": ("time", "12:34:56.789", "24:00:00"),
    "zoned": ("time with time zone", "12:34:56+02", "01:00:00-08"),
    "stamp": ("timestamp", "2026-01-01 00:00:00.000001", "infinity"),
    "instant": ("timestamp with time zone", "2026-01-01 12:00:00+00", "-infinity"),
    "length": ("interval", "-1 days +02:03:04", "1 year 2 mons"),
    "id128": ("uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "00000000-0000-0000-0000-000000000000"),
    "plain json": ("json", '{"a":  1, "a": 2}', "[]"),
    "jsonb": ("jsonb", '{"a": [1, "it\'s", null]}', '"x"'),
    "path": ("jsonpath", "$.a[*]", "$"),
    "address": ("inet", "10.0.0.1/8", "::1"),
    "network": ("cidr", "10.0.0.0/8", "::/0"),
    "mac": ("macaddr", "08:00:2b:01:02:03", "00:00:00:00:00:00"),
    "spot": ("point", "(1,2)", "(-0.5,1e10)"),
    "box": ("box", "(2,2),(0,0)", "(4,1),(0,0)"),
    "ring": ("circle", "<(0,0),1>", "<(1,1),1>"),
    "shape": ("polygon", "((0,0),(1,1),(1,0))", "((0,0),(2,2),(2,0))"),
    "words": ("tsvector", "'a':1 'it''s':2A", "'b'"),
    "query": ("tsquery", "'a' & !'b'", "'c'"),
    "numbers": ("integer[]", "{1,NULL,3}", "[2:3]={4,5}"),
    "texts": ("text[]", r"""{"a,b","it's","\\",NULL,""}""", "{}"),
    "boxes": ("box[]", "{(2,2),(0,0)}", "{(4,1),(0,0)}"),
    "span": ("int4range", "[1,5)", "empty"),
    "spans": ("nummultirange", "{[1.5,2.5),[4,)}", "{}"),
    "mood": ('"Odd Schema"."Mood"', "it's", r"back\slash"),
    "pair": ("pair", '(1,"it\'s")', '(,"")'),
    "positive": ("positive", "1", "2"),
    "place": ("pg_lsn", "0/16B3748", "FFFFFFFF/0"),
    "object": ("oid", "4294967295", "0"),
    "vector": ("int2vector", "1 2", "3"),
    "class": ("regclass", '"Odd Schema"."do.t"', "pg_class"),
    "nothing": ("text", None, "something"),
    "long": ("text", "x" * 9000, "y" * 9000),
}  # fmt: skip
"""A column of every family, with names that need quotes: its type, a value, and another."""


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(value: str | None) -> str:
    return "NULL" if value is None else "E'" + value.replace("\\", "\\\\").replace("'", "''") + "'"


def _values(which: int) -> str:
    return ", ".join(_literal(column[which]) for column in COLUMNS.values())


def _assigned(which: int, *but: str) -> str:
    return ", ".join(f"{_quoted(name)} = {_literal(column[which])}" for name, column in COLUMNS.items() if name not in but)


NAMES = ", ".join(map(_quoted, COLUMNS))


def _table(name: str, identity: str) -> str:
    columns = ", ".join(f"{_quoted(column)} {kind}" for column, (kind, _, _) in COLUMNS.items())
    return f"""
CREATE TABLE {name} (id integer PRIMARY KEY, {columns});
ALTER TABLE {name} ALTER "long" SET STORAGE EXTERNAL;
ALTER TABLE {name} REPLICA IDENTITY {identity};
INSERT INTO {name} SELECT g, {_values(1)} FROM generate_series(1, 6) g;
UPDATE {name} SET "nothing" = 'changed before' WHERE id = 3;
"""


def _change(name: str) -> str:
    """Everything that a transaction may do to rows: some of them twice, and one that changes its key, with TOASTed values that stay."""
    return f"""
INSERT INTO {name} (id, {NAMES}) VALUES (100, {_values(2)});
UPDATE {name} SET {_assigned(2)} WHERE id = 1;
UPDATE {name} SET {_assigned(2, "long")} WHERE id = 2;
UPDATE {name} SET id = 30 WHERE id = 3;
UPDATE {name} SET "nothing" = 'again' WHERE id = 30;
DELETE FROM {name} WHERE id IN (4, 5);
INSERT INTO {name} (id, {NAMES}) VALUES (4, {_values(2)});
UPDATE {name} SET id = 5, "int2" = NULL WHERE id = 100;
"""


def _state(server: Server, *tables: str) -> dict[str, list[str]]:
    return {table: sorted(str(row) for (row,) in server.sql(f"SELECT t::text FROM {table} t")) for table in tables}


def _undo(server: Server, tailrace: Run, xid: int, *words: str) -> tuple[int, str, str]:
    """What it prints of the server as it is; the server goes on."""
    server.stop()
    told = tailrace("undo", server.data_dir, "--database", DBNAME, "--on", "local", "--xid", xid, *words)
    server.start()
    return told


@pytest.mark.parametrize("major", MAJORS)
def test_what_is_printed_brings_back_what_was(major: int, tailrace: Run) -> None:
    tables = ('"Odd Schema"."do.t"', "keyed")
    with Server(major, dbname=DBNAME, test_decoding=False) as server:
        server.checkpoint()
        server.sql(TYPES + _table(tables[0], "FULL") + _table(tables[1], "DEFAULT"))
        before = _state(server, *tables)
        xid = server.in_a_transaction("".join(map(_change, tables)))
        after = _state(server, *tables)
        status, script, err = _undo(server, tailrace, xid)
        assert (status, err) == (0, "")
        assert _state(server, *tables) == after != before
        with server.connect() as connection:  # a session that reads text its own way
            connection.execute("SET DateStyle = 'SQL, DMY'; SET IntervalStyle = sql_standard; SET TimeZone = 'Asia/Kathmandu'")
            connection.execute("SET search_path = ''; SET standard_conforming_strings = off; SET bytea_output = escape")
            connection.execute(script.encode())
        assert _state(server, *tables) == before


@pytest.mark.parametrize("major", MAJORS)
def test_what_others_changed_since_is_left_alone(major: int, tailrace: Run) -> None:
    with Server(major, dbname=DBNAME, test_decoding=False) as server:
        server.checkpoint()
        server.sql(
            "CREATE TABLE t (id int PRIMARY KEY, v text, b box); INSERT INTO t SELECT g, 'first', '(2,2),(0,0)' FROM generate_series(1, 6) g;"
            "CREATE TABLE bag (v text); ALTER TABLE bag REPLICA IDENTITY FULL; INSERT INTO bag VALUES ('same'), ('same'), ('other')"
        )
        xid = server.in_a_transaction(
            "UPDATE t SET v = 'second' WHERE id IN (1, 2, 3); DELETE FROM t WHERE id IN (4, 5); INSERT INTO t VALUES (7, 'new'), (8, 'new');"
            "INSERT INTO bag VALUES ('same'); UPDATE bag SET v = 'changed' WHERE v = 'other'",
        )
        server.sql(
            "UPDATE t SET v = 'third' WHERE id = 1; UPDATE t SET b = '(4,1),(0,0)' WHERE id = 2; INSERT INTO t VALUES (4, 'another');"
            "UPDATE t SET b = '(1,1),(0,0)' WHERE id = 7; UPDATE bag SET v = 'by others' WHERE v = 'changed'"
        )
        status, script, err = _undo(server, tailrace, xid)
        assert (status, err) == (0, "")
        server.sql(script)
        assert server.sql("SELECT id, v, b::text FROM t ORDER BY id") == [
            (1, "third", "(2,2),(0,0)"), (2, "second", "(4,1),(0,0)"), (3, "first", "(2,2),(0,0)"), (4, "another", None),
            (5, "first", "(2,2),(0,0)"), (6, "first", "(2,2),(0,0)"), (7, "new", "(1,1),(0,0)"),
        ]  # fmt: skip
        assert server.sql("SELECT v FROM bag ORDER BY 1") == [("by others",), ("same",), ("same",)]
        here = _state(server, "t", "bag")
        server.sql(script)
        assert _state(server, "t", "bag") == here | {"bag": ['("by others")', "(same)"]}


def test_tables_that_are_not_plain(tailrace: Run) -> None:
    tables = ("p", "ident", "parent", "child", "moved")
    with Server(18, dbname=DBNAME, test_decoding=False) as server:
        server.checkpoint()
        server.sql(
            "CREATE TABLE p (id int, k int, v text, PRIMARY KEY (id, k)) PARTITION BY LIST (k);"
            "CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1); CREATE TABLE p2 (v text, k int NOT NULL, gone int, id int NOT NULL);"
            "ALTER TABLE p2 DROP gone; ALTER TABLE p ATTACH PARTITION p2 FOR VALUES IN (2);"
            "CREATE TABLE ident (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, a int, twice int GENERATED ALWAYS AS (a * 2) STORED,"
            " thrice int GENERATED ALWAYS AS (a * 3) VIRTUAL);"
            "CREATE TABLE parent (id int, v text); ALTER TABLE parent REPLICA IDENTITY FULL;"
            "CREATE TABLE child () INHERITS (parent); ALTER TABLE child REPLICA IDENTITY FULL;"
            "CREATE TABLE before (id int NOT NULL, v varchar(9), gone text); CREATE UNIQUE INDEX other ON before (id);"
            "ALTER TABLE before REPLICA IDENTITY USING INDEX other;"
            "INSERT INTO p VALUES (1, 1, 'one'), (2, 2, 'two'); INSERT INTO ident (a) VALUES (1), (2);"
            "INSERT INTO parent VALUES (1, 'same'); INSERT INTO child VALUES (1, 'same'); INSERT INTO before VALUES (1, 'x', 'y'), (2, 'z', NULL)"
        )
        server.sql(
            "ALTER TABLE before DROP gone; ALTER TABLE before ADD n int DEFAULT 5; ALTER TABLE before ADD r float DEFAULT random() * 0"
        )
        expected = _state(server, "p", "ident", "parent", "child") | {"moved": _state(server, "before")["before"]}
        xid = server.in_a_transaction(
            "UPDATE p SET k = 2, v = 'moved' WHERE id = 1; DELETE FROM p WHERE id = 2;"
            "UPDATE ident SET a = 10 WHERE id = 1; DELETE FROM ident WHERE id = 2;"
            "UPDATE ONLY parent SET v = 'changed'; DELETE FROM child; UPDATE before SET v = 'longer' WHERE id = 1; DELETE FROM before WHERE id = 2",
        )
        server.sql("ALTER TABLE before RENAME TO moved; ALTER TABLE moved RENAME v TO w")
        status, script, err = _undo(server, tailrace, xid)
        assert (status, err) == (0, "")
        assert "OVERRIDING SYSTEM VALUE" in script
        server.sql(script)
        assert _state(server, *tables) == expected


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cluster whose rows are older than its log."""
    return cluster(
        18, tmp_path_factory.mktemp("older"),
        prepare=lambda server: server.sql(
            "CREATE TABLE t (id int PRIMARY KEY, v text, long text); ALTER TABLE t ALTER long SET STORAGE EXTERNAL;"
            "INSERT INTO t SELECT g, 'old', repeat('x', 9000) FROM generate_series(1, 5) g;"
            "CREATE TABLE nokey (v text); INSERT INTO nokey VALUES ('a'), ('b');"
            "CREATE TABLE gone (id int PRIMARY KEY); INSERT INTO gone VALUES (1); CREATE TABLE emptied (id int PRIMARY KEY)"
        ),
    )  # fmt: skip


def test_what_cannot_be_restored_is_named(older: Path, tailrace: Run) -> None:
    with Server(18, dbname=DBNAME, data=older, test_decoding=False) as server:
        server.sql("UPDATE t SET v = 'told' WHERE id = 1")  # from here on the log knows this row, but for what is TOASTed
        xid = server.in_a_transaction(
            "UPDATE t SET v = 'new' WHERE id = 1; UPDATE t SET v = 'new' WHERE id = 2; DELETE FROM t WHERE id IN (3, 1);"
            "INSERT INTO t VALUES (9, 'mine', 'z');"
            "UPDATE nokey SET v = 'c' WHERE v = 'a'; DELETE FROM nokey WHERE v = 'b'; INSERT INTO nokey VALUES ('mine');"
            "INSERT INTO gone VALUES (2); TRUNCATE emptied; CREATE TABLE born (id int); INSERT INTO born VALUES (1);"
            "ALTER TABLE nokey ADD added int",
        )
        server.sql("DROP TABLE gone")
        status, script, err = _undo(server, tailrace, xid)
        assert status == 1
        named = [line.partition(": ")[2] for line in script.splitlines() if line.startswith("-- NOT RESTORED")]
        assert [line.partition(" at 0/")[0] for line in named] == [
            "column added: added integer", "created: (id integer)", "TRUNCATE: the rows that were there are not in its record",
            "INSERT", "DELETE", "UPDATE", "DELETE", "DELETE", "UPDATE",
        ]  # fmt: skip
        assert sorted(err.splitlines()) == sorted(
            f"tailrace: warning: public.{each}"
            for each in (
                "nokey: column added: added integer", "born: created: (id integer)",
                "emptied: TRUNCATE: the rows that were there are not in its record",
                "gone: INSERT: the table has been dropped since", "nokey: DELETE: nothing tells which row it was",
                "nokey: UPDATE: no earlier version in the log has v", "t: UPDATE: no earlier version in the log has v",
                "t: DELETE: no earlier version in the log has v, long", "t: DELETE: no earlier version in the log has long",
            )
        )  # fmt: skip
        server.sql(script)
        assert server.sql("SELECT id, v FROM t ORDER BY id") == [(2, "new"), (4, "old"), (5, "old")]
        assert server.sql("SELECT v FROM nokey") == [("c",)]


def test_columns_that_are_others_since(tailrace: Run) -> None:
    with Server(18, dbname=DBNAME, test_decoding=False) as server:
        server.checkpoint()
        server.sql(
            "CREATE TABLE t (id int PRIMARY KEY, n int, gone text, kept text); INSERT INTO t VALUES (1, 5, 'x', 'y'), (2, 6, 'x', 'y')"
        )
        xid = server.in_a_transaction("UPDATE t SET n = 50, gone = 'z' WHERE id = 1; DELETE FROM t WHERE id = 2")
        server.sql("ALTER TABLE t DROP gone; ALTER TABLE t ALTER n TYPE numeric(6,2); ALTER TABLE t ADD late int DEFAULT 3")
        status, script, err = _undo(server, tailrace, xid)
        assert status == 1
        assert [line.removeprefix("tailrace: warning: public.t: ") for line in err.splitlines()] == [
            "DELETE: column dropped since: gone", "UPDATE: column dropped since: gone",
        ]  # fmt: skip
        assert script.count("-- of another type since: n\n") == 2
        server.sql(script)
        assert server.sql("SELECT id, n::text, kept, late FROM t ORDER BY id") == [(1, "5.00", "y", 3), (2, "6.00", "y", 3)]


def test_a_transaction_that_may_not_be_whole(tailrace: Run) -> None:
    """Beside one that began before the log, it may have met a row that nothing in the log tells of."""
    with Server(18, dbname=DBNAME, test_decoding=False) as server:
        server.sql("CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t VALUES (1, 'one')")
        with server.connect(autocommit=False) as older:
            older.execute("INSERT INTO t VALUES (2, 'two')")
            server.switch_wal()
            server.checkpoint()
            begin = Lsn.parse(server.flush_lsn())
            xid = server.in_a_transaction("UPDATE t SET v = 'uno' WHERE id = 1")
            older.commit()
        later = server.in_a_transaction("UPDATE t SET v = 'eins' WHERE id = 1")
        server.stop()
        forget_segments_before(server.data_dir, begin)
        server.start()
        status, out, err = _undo(server, tailrace, xid)
        assert (status, out) == (1, "")
        assert err.startswith(f"tailrace: error: transaction {xid} cannot be told whole\nHINT:  Transactions are whole from ")
        status, out, err = _undo(server, tailrace, later)
        assert status == 1
        assert "NOT RESTORED, public.t: UPDATE at" in out
        assert err.startswith("tailrace: warning: public.t: UPDATE: no earlier version in the log has v\n")


def test_a_transaction_that_there_is_not(tailrace: Run) -> None:
    with Server(18, dbname=DBNAME, test_decoding=False) as server:
        server.checkpoint()
        with server.connect(autocommit=False) as connection:
            connection.execute("CREATE TABLE t (id int)")
            row = connection.execute("SELECT pg_current_xact_id()::text").fetchone()
            connection.rollback()
        with server.connect(autocommit=False) as connection:
            connection.execute("SELECT pg_current_xact_id(); SAVEPOINT s; CREATE TABLE u (id int)")
        assert row is not None
        rolled_back = int(row[0])
        for xid, message in (
            (rolled_back, f"transaction {rolled_back} was rolled back"),
            (rolled_back + 2, f"{rolled_back + 2} is a subtransaction of {rolled_back + 1}"),
            (999_999, "transaction 999999 is not in the log"),
        ):
            status, out, err = _undo(server, tailrace, xid)
            assert (status, out) == (1, "")
            assert err.startswith(f"tailrace: error: {message}")
