"""The lake equals the source, step by step, whatever happens to rows and tables in between; and twice is once."""

from __future__ import annotations

import re
from decimal import Decimal

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from support.servers import Server
from support.stopped_runs import interrupt_after
from tailrace.changes import ORDER
from tailrace.demo.compare import compare
from tailrace.errors import InsufficientLogging, MissingHistory, TailraceError
from tailrace.lake import mirror as mirroring
from tailrace.lake.changelog import append_changes
from tailrace.lake.mirror import mirror
from tailrace.lake.reading import read_table
from tailrace.lake.target_tables import TroubleWarning
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner, Scanning, open_feed, open_pipeline

pytestmark = pytest.mark.postgres

FIRST = """
CREATE TABLE t (id int PRIMARY KEY, name text, big text, n numeric(10,2), d date, f float8, "Odd ""name" boolean);
ALTER TABLE t ALTER COLUMN big SET STORAGE EXTERNAL;
CREATE TABLE bag (a int, b text);
ALTER TABLE bag REPLICA IDENTITY FULL;
CREATE TABLE pair (x int, y text, v jsonb, tags text[], at timestamptz, PRIMARY KEY (x, y));
CREATE TABLE gone (id int PRIMARY KEY);
INSERT INTO t SELECT n, 'name ' || n, repeat(md5(n::text), 200), n * 1.25, '2026-01-01'::date + n, n / 3.0, n % 2 = 0
    FROM generate_series(1, 50) n;
INSERT INTO bag SELECT n % 5, 'b' FROM generate_series(1, 30) n;
INSERT INTO bag VALUES (NULL, NULL), (NULL, NULL), (1, NULL);
INSERT INTO pair
    SELECT n, 'y' || n, jsonb_build_object('n', n), ARRAY['a', NULL, n::text], '2026-02-03 04:05:06.7+00'
    FROM generate_series(1, 20) n;
INSERT INTO gone VALUES (1), (2);
"""
SECOND = """
UPDATE t SET name = 'again' WHERE id < 10;
UPDATE t SET id = id + 1000 WHERE id BETWEEN 5 AND 15;
UPDATE t SET name = NULL, n = NULL WHERE id > 1005;
DELETE FROM t WHERE id IN (20, 21, 1007);
INSERT INTO t VALUES (20, 'new', NULL, NULL, NULL, 'NaN', NULL);
DELETE FROM bag WHERE ctid IN (SELECT ctid FROM bag WHERE a = 1 LIMIT 2);
DELETE FROM bag WHERE ctid IN (SELECT ctid FROM bag WHERE a IS NULL LIMIT 1);
UPDATE bag SET b = 'c' WHERE a = 2;
UPDATE pair SET y = y || '!' WHERE x < 5;
DELETE FROM pair WHERE x > 15;
"""
THIRD = """
INSERT INTO t VALUES (2000, 'before', 'x', 1, '2026-01-01', 1, true);
ALTER TABLE t RENAME COLUMN name TO title;
ALTER TABLE t ADD COLUMN added text DEFAULT 'given';
ALTER TABLE t DROP COLUMN d;
INSERT INTO t (id, title) VALUES (2001, 'after');
UPDATE t SET title = 'changed' WHERE id = 1;
TRUNCATE pair;
INSERT INTO pair VALUES (1, 'only');
ALTER TABLE bag RENAME TO sack;
INSERT INTO sack VALUES (7, 'renamed');
DROP TABLE gone;
"""
TYPES = """
CREATE TYPE mood AS ENUM ('good', 'bad');
CREATE TYPE couple AS (a int, b text);
CREATE DOMAIN small AS int CHECK (value < 100);
CREATE TABLE kinds (
    id int PRIMARY KEY, i interval, t time, tz timetz, ts timestamp, tt timestamptz, d date, u uuid, r int4range,
    mr nummultirange, e mood, c couple, s small, n numeric, m numeric(5,1), na numeric(6,2)[], ia int[], ta text[],
    j jsonb, js json, y bytea, o oid,
    b bit(3), ip inet, ch char(4), nm name, f4 real, f8 float8, i2 smallint, i8 bigint, tf boolean, p point, mo money,
    l pg_lsn);
INSERT INTO kinds VALUES (
    1, '1 month 2 hours', '01:02:03', '01:02:03+02', 'infinity', '-infinity', 'infinity', '00000000-0000-0000-0000-000000000001',
    '[1,5)', '{[1,2)}', 'good', '(1,x)', 5, 1e200, 1.5, '{1.25,NULL}', '{1,NULL}', '{a,"b c"}', '{"a":[1]}', '{"a":1}', '\\x00ff',
    4000000000, '101', '10.0.0.1/8', 'ab', 'name', 1.5, 'NaN', 1, 2, true, '(1,2)', 3.5, '0/1');
INSERT INTO kinds (id) VALUES (2);
"""


def _run(server, script):
    server.say(*(statement for statement in script.split(";\n") if statement.strip()))


def _equal(server, lake, **folders):
    with server.connect() as connection:
        for table, (folder, key) in folders.items():
            found = compare(connection, table, lake / folder, key)
            assert found.equal, found
            assert found.source_rows


@pytest.fixture(scope="module")
def server():
    with Server(18, test_decoding=False) as running:
        yield running


def test_step_by_step(server, tmp_path):
    lake, log = tmp_path / "lake", tmp_path / "log"
    tables = {"t": ("public.t", ("id",)), "pair": ("public.pair", ("x", "y"))}
    total = 0
    for number, script in enumerate((FIRST, SECOND, THIRD)):
        _run(server, script)
        pipeline = open_pipeline(server.data_dir, "postgres")
        mirror(pipeline, lake)
        assert [path.name for path in lake.iterdir() if path.name.startswith("_")] == []
        _equal(server, lake, **tables, **{"bag" if number < 2 else "sack": (f"public.{'bag' if number < 2 else 'sack'}", ())})
        append_changes(pipeline, log, ["public.t"])
        changes = read_table(log / "public.t")
        total = len(changes)
        keys = {tuple(row.values()) for row in changes.select(ORDER).to_pylist()}
        assert len(keys) == total == (50, 84, 87)[number]
    assert "title" in [field.name for field in changes.schema.field("new").type]

    versions = {path.name: DeltaTable(path).version() for path in lake.iterdir()}
    again = open_pipeline(server.data_dir, "postgres", upto_lsn=pipeline.log.end)
    assert mirror(again, lake) == []
    assert versions == {path.name: DeltaTable(path).version() for path in lake.iterdir()}
    append_changes(again, log, ["public.t"])
    assert len(read_table(log / "public.t")) == total


def test_a_hole_is_an_error(server, tmp_path):
    _run(server, "CREATE TABLE hole (id int PRIMARY KEY);\nINSERT INTO hole VALUES (1)")
    mirror(open_pipeline(server.data_dir, "postgres"), tmp_path, ["public.hole"])
    _run(server, "INSERT INTO hole VALUES (2)")
    behind = Lsn.parse(server.flush_lsn())
    _run(server, "INSERT INTO hole VALUES (3)")
    with pytest.warns(TroubleWarning, match="at hand only from"):
        (found,) = mirror(open_pipeline(server.data_dir, "postgres", start_lsn=behind), tmp_path, ["public.hole"])
    assert (found.table, type(found.trouble)) == ("public.hole", MissingHistory)
    mirror(open_pipeline(server.data_dir, "postgres"), tmp_path, ["public.hole"])
    assert read_table(tmp_path / "public.hole").num_rows == 3


@pytest.mark.parametrize("opened", [open_pipeline, open_feed])
def test_a_replica_identity_that_was_lost(server, tmp_path, opened):
    """The error says where, and the hint what brings the table up; behind that place there is nothing but to copy it anew."""
    _run(server, "DROP TABLE IF EXISTS keyed;\nCREATE TABLE keyed (id int PRIMARY KEY, n int);\nINSERT INTO keyed VALUES (1, 1)")
    _run(server, "UPDATE keyed SET n = 2")
    before = Lsn.parse(server.flush_lsn())
    _run(server, "ALTER TABLE keyed DROP CONSTRAINT keyed_pkey")
    behind = Lsn.parse(server.flush_lsn())

    def trouble(**range_: Lsn) -> TailraceError | None:
        (found,) = mirror(opened(server.data_dir, "postgres", **range_), tmp_path, ["public.keyed"])
        return found.trouble

    with pytest.warns(TroubleWarning):
        error = trouble()
    assert isinstance(error, InsufficientLogging)
    assert error.message == 'cannot update table "keyed" because it does not have a replica identity and publishes updates'
    lost = Lsn.parse(re.match("The table lost its replica identity at ([0-9A-F/]+)[.] Bring it up to there first", error.hint)[1])
    assert before <= lost < behind
    assert trouble(upto_lsn=lost) is None
    _run(server, "INSERT INTO keyed VALUES (2, 2)")
    assert trouble() is None
    assert sorted(read_table(tmp_path / "public.keyed")["id"].to_pylist()) == [1, 2]
    _run(server, "DELETE FROM keyed WHERE id = 1")
    with pytest.warns(TroubleWarning):
        error = trouble()
    assert isinstance(error, InsufficientLogging)
    assert error.message.startswith('cannot delete from table "keyed"')
    assert error.hint.startswith(f"The table lost its replica identity at {lost}. The rows that were changed since")


def test_values_from_before_the_wal(server, tmp_path):
    """A row whose unsent value is nowhere: an error, and no half-written table."""
    _run(server, "CREATE TABLE lost (id int PRIMARY KEY, big text STORAGE EXTERNAL, n int)")
    _run(server, "INSERT INTO lost VALUES (1, repeat('x', 9000), 1)")
    start = Lsn.parse(server.flush_lsn())
    _run(server, "UPDATE lost SET n = 2")
    with pytest.warns(TroubleWarning, match='"big" was not sent'):
        (found,) = mirror(open_pipeline(server.data_dir, "postgres", start_lsn=start), tmp_path, ["public.lost"])
    assert isinstance(found.trouble, MissingHistory)
    assert not (tmp_path / "public.lost").exists()


def test_a_foreign_table_is_left_alone(server, tmp_path):
    """It keeps the table of its name out, and nobody else."""
    _run(
        server, "CREATE TABLE other (id int PRIMARY KEY);\nINSERT INTO other VALUES (1);\nCREATE TABLE mine (id int PRIMARY KEY)"
    )
    for name in ("public.other", "theirs"):
        DeltaTable.create(tmp_path / name, schema=pa.schema([("a", pa.int64())]))
    with pytest.warns(TroubleWarning, match="holds something else"):
        found = mirror(open_pipeline(server.data_dir, "postgres"), tmp_path, ["public.other", "public.mine"])
    assert [(each.table, each.trouble is None) for each in found] == [("public.mine", True), ("public.other", False)]
    assert [DeltaTable(tmp_path / name).version() for name in ("public.other", "theirs")] == [0, 0]


def test_killed_between_two_tables(server, tmp_path, monkeypatch):
    """What was committed stays and is not done again; the rest follows with the next run."""
    script = "CREATE TABLE k{0} (id int PRIMARY KEY, n int);\nINSERT INTO k{0} VALUES (1, 1);\nUPDATE k{0} SET n = n + 1"
    for number in range(3):
        _run(server, script.format(number))
    pipeline, tables = open_pipeline(server.data_dir, "postgres"), [f"public.k{number}" for number in range(3)]
    interrupt_after(monkeypatch, mirroring, "bring_up", 1)
    with pytest.raises(KeyboardInterrupt):
        mirror(pipeline, tmp_path, tables)
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["public.k0"]
    version = DeltaTable(tmp_path / "public.k0").version()
    monkeypatch.undo()
    done = mirror(pipeline, tmp_path, tables)
    assert [each.table for each in done] == ["public.k1", "public.k2"]
    _equal(server, tmp_path, **{f"k{number}": (f"public.k{number}", ("id",)) for number in range(3)})
    assert DeltaTable(tmp_path / "public.k0").version() == version


def test_threads_and_small_stretches(server, tmp_path):
    """The same in pieces, by several workers, in two halves of the log."""
    _run(server, "CREATE TABLE many (id int PRIMARY KEY, n int);\nINSERT INTO many SELECT n, 0 FROM generate_series(1, 9000) n")
    middle = Lsn.parse(server.flush_lsn())
    _run(server, "UPDATE many SET n = id WHERE id % 3 = 0;\nDELETE FROM many WHERE id % 5 = 0")
    _run(server, "UPDATE many SET id = -id WHERE id % 7 = 0")
    for upto in (middle, None):
        pipeline = open_pipeline(server.data_dir, "postgres", runner=LocalRunner(3), upto_lsn=upto, scanning=Scanning(256 << 10))
        mirror(pipeline, tmp_path, ["many"])
        append_changes(pipeline, tmp_path / "log", ["many"])
    _equal(server, tmp_path, many=("public.many", ("id",)))
    log = read_table(tmp_path / "log" / "public.many")
    kept = 9000 - 1800
    assert len(log) == len(set(zip(*(log[name].to_pylist() for name in ORDER), strict=True)))
    assert len(log) == 9000 + 3000 + 1800 + sum(1 for n in range(1, 9001) if n % 5 and n % 7 == 0)
    assert kept == read_table(tmp_path / "public.many").num_rows


def test_every_kind_of_type(server, tmp_path):
    """Delta takes whatever a column can be; what it has no type for is PostgreSQL's text."""
    _run(server, TYPES)
    for change in ("INSERT INTO kinds (id) VALUES (3)", "UPDATE kinds SET id = id + 10"):
        mirror(open_pipeline(server.data_dir, "postgres"), tmp_path, ["kinds"])
        _run(server, change)
    (done,) = mirror(open_pipeline(server.data_dir, "postgres"), tmp_path, ["kinds"])
    assert done.unbounded == {"ts": 1, "tt": 1, "d": 1}
    table = read_table(tmp_path / "public.kinds").sort_by("id")
    infinite = [table[name].cast(kind)[0].as_py() for name, kind in (("ts", pa.int64()), ("tt", pa.int64()), ("d", pa.int32()))]
    assert infinite == [2**63 - 1, -(2**63), 2**31 - 1]
    rows = table.drop_columns(["ts", "tt", "d"]).to_pylist()
    assert [row["id"] for row in rows] == [11, 12, 13]
    one, two, _ = rows
    assert (one["i"], one["t"], one["u"][:8], one["r"], one["e"]) == ("1 mon 02:00:00", "01:02:03", "00000000", "[1,5)", "good")
    assert (one["na"], one["ia"], one["j"], one["y"]) == ([Decimal("1.25"), None], [1, None], '{"a": [1]}', b"\x00\xff")
    assert (one["n"], one["m"]) == ("1" + "0" * 200, Decimal("1.5"))
    assert (one["c"], one["o"], one["b"]) == ("(1,x)", 4_000_000_000, "101")
    assert two == {**dict.fromkeys(two), "id": 12}
