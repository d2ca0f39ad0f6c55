"""`spark.read.format("tailrace")`: what a DataFrame holds is what the text outlet prints, and bad options say what is wrong."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.cases import Case, open_case
from support.live import live_case
from support.servers import Server
from tailrace.catalog.names.qualified_names import read_table_name
from tailrace.catalog.state.state_file import write_state
from tailrace.changes import COLUMNS, change_batch
from tailrace.decode import decode
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner, Source, capture, open_pipeline, scan_log
from tailrace.storage.index_store import IndexStore
from tailrace.wal.indexfile import write_index
from tailrace.wal.log_fingerprint import fingerprint_before

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return open_case("hot", 18, "with_slot", tmp_path_factory.mktemp("case"))


def read(spark: SparkSession, case: Case, **options: str) -> DataFrame:
    wanted = {"source": str(case.data_dir), "database": "app", "startLsn": case.meta["start_lsn"], "table": "public.h"} | options
    return spark.read.format("tailrace").options(**wanted).load()


def as_python(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in frame.orderBy("commit_lsn", "lsn", "sequence").collect()]


@pytest.fixture(scope="module")
def every(spark: SparkSession, case: Case) -> list[dict[str, Any]]:
    """All rows of the case's table: what parts, other sources and other spellings are compared with. Planning a read takes Spark a second."""
    rows = as_python(read(spark, case))
    assert len(rows) > 10
    return rows


def in_this_process(case: Case, table: str, **options: Any) -> list[dict[str, Any]]:
    pipeline = open_pipeline(case.data_dir, "app", start_lsn=Lsn.parse(case.meta["start_lsn"]), runner=LocalRunner(1), **options)
    latest = pipeline.catalogs.history().relation_named(*read_table_name(table), int(pipeline.log.indexes[-1].next_lsn))
    assert latest
    rows = [
        row
        for stretch in pipeline.plan.stretches
        for batch in decode(stretch, pipeline.source.segments.read)
        if batch.relation.oid == latest.oid
        for row in change_batch(batch, pipeline.plan.transactions, latest).to_pylist()
    ]
    return sorted(rows, key=lambda row: (row["commit_lsn"], row["lsn"], row["sequence"]))


@pytest.mark.parametrize(
    ("story", "table"), [("subxact", "public.t"), ("toast", "public.t"), ("replica_identity", "public.whole")]
)
def test_rows_are_those_of_this_process(spark: SparkSession, story: str, table: str, tmp_path: Path) -> None:
    case = open_case(story, 18, "with_slot", tmp_path)
    frame = read(spark, case, table=table)
    assert frame.columns == list(COLUMNS)
    rows, expected = as_python(frame), in_this_process(case, table)
    assert rows
    assert [_plain(row) for row in rows] == [_plain(row) for row in expected]


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """Spark gives times in the session's zone, without one."""
    return {name: value for name, value in row.items() if name != "commit_timestamp"}


def test_counts_are_those_of_the_text(spark: SparkSession, case: Case) -> None:
    counted = {row["kind"]: row["count"] for row in read(spark, case).groupBy("kind").count().collect()}
    lines = case.expected.splitlines()
    # The story renames the table to h1, h2 … and back; it is one table all the same.
    assert counted == {
        kind: sum(bool(re.search(rf"table public\.h\d*: {kind.upper()}:", line)) for line in lines) for kind in counted
    }
    assert set(counted) == {"insert", "update", "delete"}


def test_a_filter_is_not_remembered(spark: SparkSession, case: Case) -> None:
    """Spark caches the plans of Python sources that push filters down; ours does not, and gives all rows after a filtered query."""
    frame = read(spark, case)
    every = frame.count()
    assert 0 < frame.where("kind = 'delete'").count() < every
    assert frame.where("new.id > 5").count() < every
    assert frame.count() == every


def test_some_columns(spark: SparkSession, case: Case, every: list[dict[str, Any]]) -> None:
    frame = read(spark, case, columns="kind, new")
    assert frame.columns == ["kind", "new"]
    rows = [row.asDict(recursive=True) for row in frame.collect()]
    assert sorted(map(str, rows)) == sorted(str({name: row[name] for name in ("kind", "new")}) for row in every)


def test_two_ranges_are_the_whole(spark: SparkSession, case: Case, every: list[dict[str, Any]]) -> None:
    middle = str(Lsn(every[len(every) // 2]["commit_lsn"]))
    before, behind = as_python(read(spark, case, endLsn=middle)), as_python(read(spark, case, startLsn=middle))
    assert before
    assert behind
    assert before + behind == every


def test_an_archive_and_a_state(spark: SparkSession, case: Case, every: list[dict[str, Any]], tmp_path: Path) -> None:
    state = tmp_path / "app.state"
    state.write_bytes(write_state(capture(Source.open(case.before_dir), LocalRunner(1), "app")))
    frame = read(spark, case, source=str(case.wal_dir), catalog=str(state))
    assert as_python(frame) == every


def test_in_windows(spark: SparkSession, case: Case, every: list[dict[str, Any]], tmp_path: Path) -> None:
    """The rows are those of one window: of a table, of several, of a partitioned one, and where there are none."""
    small = {"window": "64kB"}
    frame = read(spark, case, **small)
    assert frame.rdd.getNumPartitions() > read(spark, case).rdd.getNumPartitions()
    assert as_python(frame) == every
    none = {"startLsn": case.meta["end_lsn"], "endLsn": case.meta["start_lsn"]}
    assert read(spark, case, **small, **none).schema == frame.schema
    assert read(spark, case, **small, **none).collect() == []
    parts = open_case("partitions", 18, "with_slot", tmp_path)
    dropped = next(row for row in parts.expected.splitlines() if "table public.base" in row).split("\t")[0]
    upto = [line.split("\t")[0] for line in parts.expected.splitlines() if "COMMIT" in line and line.split("\t")[0] < dropped][-2]
    whole, windows = (as_python(read(spark, parts, table="public.p", endLsn=upto, **options)) for options in ({}, small))
    assert len(whole) > 10
    assert windows == whole
    upto = next(line.split("\t")[0] for line in parts.expected.splitlines() if "table public.derived: DELETE" in line)
    several = {
        "source": str(parts.data_dir),
        "database": "app",
        "startLsn": parts.meta["start_lsn"],
        "endLsn": upto,
        "tables": "base, derived",
    }
    frames = (spark.read.format("tailrace").options(**several, **options).load() for options in ({}, small))
    whole, windows = map(as_python, frames)
    assert len(whole) == 4
    assert windows == whole


def test_kept_indexes_are_read(spark: SparkSession, case: Case, every: list[dict[str, Any]], tmp_path: Path) -> None:
    """One of other WAL, under the name of this, is noticed where rows are read; so it was taken for what it says it is."""
    segments = Source.open(case.data_dir).segments
    (index,) = scan_log(segments, LocalRunner(1))
    fingerprint = fingerprint_before(segments.read, segments.identity, index.next_lsn, index.stretch.start)
    path = IndexStore(tmp_path)._path(segments.identity, index.stretch)
    path.parent.mkdir(parents=True)
    path.write_bytes(write_index(replace(index, sealed=True), fingerprint))
    assert as_python(read(spark, case, index=str(tmp_path))) == every
    path.write_bytes(write_index(replace(index, sealed=True, fingerprint=index.fingerprint ^ 1), fingerprint))
    with pytest.raises(Exception, match="was sound when it was indexed"):
        read(spark, case, index=str(tmp_path)).collect()


def test_arrays_and_numerics_as_text(spark: SparkSession, tmp_path: Path) -> None:
    case = open_case("fast_default", 18, "with_slot", tmp_path)
    settings = {"arrays": "text", "numeric": "text", "times": "text", "DateStyle": "German"}
    new = as_python(read(spark, case, table="public.t", **settings).select("commit_lsn", "lsn", "sequence", "new"))[-1]["new"]
    assert new["m"] == '[0:1][2:2]={{x},{"y z"}}'
    assert new["n"] == "NaN"
    assert new["d"] == "15.03.0044 BC"
    with pytest.raises(Exception, match="Set arrays=text"):
        read(spark, case, table="public.t", times="native").collect()
    with pytest.raises(Exception, match='date out of range: "0044-03-15 BC"'):
        read(spark, case, table="public.t").collect()


def test_no_rows_are_an_empty_frame(spark: SparkSession, case: Case) -> None:
    """A reversed range has none, as for the command line."""
    none = read(spark, case, startLsn=case.meta["end_lsn"], endLsn=case.meta["start_lsn"])
    assert none.schema == read(spark, case).schema
    assert none.collect() == []


def test_a_path_is_the_source_and_names_are_sql(spark: SparkSession, case: Case, every: list[dict[str, Any]]) -> None:
    wanted = {"database": "app", "startLsn": case.meta["start_lsn"], "table": 'PUBLIC."h"'}
    assert as_python(spark.read.format("tailrace").options(**wanted).load(str(case.data_dir))) == every


def test_columns_have_their_comments(spark: SparkSession) -> None:
    """Those of where the range ends."""
    with Server(18, test_decoding=False) as server:
        start = server.flush_lsn()
        server.say(
            "CREATE TABLE said (id int PRIMARY KEY, kind text, twice int GENERATED ALWAYS AS (id * 2) VIRTUAL)",
            "COMMENT ON COLUMN said.id IS 'the first'", "INSERT INTO said VALUES (1, 'a')",
        )  # fmt: skip
        end = server.flush_lsn()
        server.say(
            "COMMENT ON COLUMN said.id IS 'the key'",
            "COMMENT ON COLUMN said.kind IS 'what it is'",
            "INSERT INTO said VALUES (2, 'b')",
        )
        server.stop()
        wanted = {"source": str(server.data_dir), "database": server.dbname, "table": "public.said", "startLsn": start}

        def frame(**more: str) -> DataFrame:
            return spark.read.format("tailrace").options(**wanted, **more).load()

        def comments(fields: Any) -> dict[str, str]:
            return {field.name: field.metadata["comment"] for field in fields if "comment" in field.metadata}

        for side in ("new", "old"):
            assert comments(frame().schema[side].dataType) == {"id": "the key", "kind": "what it is"}
            assert comments(frame(endLsn=end).schema[side].dataType) == {"id": "the first"}
        assert comments(frame().schema) == {}
        feed = frame(readChangeFeed="true")
        assert comments(feed.schema) == {"id": "the key", "kind": "what it is"}
        assert sorted((row.id, row.kind) for row in feed.collect()) == [(1, "a"), (2, "b")]
        assert [tuple(row.new) for row in frame(endLsn=end).collect()] == [(1, "a")]


def test_a_partitioned_table_has_the_changes_of_its_leaves(spark: SparkSession, tmp_path: Path) -> None:
    """Of those that were its leaves as the change saw it: the text shows which rows were detached, and that is said here."""
    case = open_case("partitions", 18, "with_slot", tmp_path)
    dropped = next(row for row in case.expected.splitlines() if "table public.base" in row).split("\t")[0]
    # The transaction before the last but one that is empty drops the table.
    upto = [line.split("\t")[0] for line in case.expected.splitlines() if "COMMIT" in line and line.split("\t")[0] < dropped][-2]
    rows = as_python(read(spark, case, table="public.p", endLsn=upto))
    alone = {(5, "free"), (7, "free"), (12, "free"), (11, "new"), (500, "af"), (501, "af")}
    shown = re.findall(r"table public\.p_\w+: (\w+): (.*)", case.expected)
    expected = []
    for kind, text in shown:
        key = (int(re.findall(r"id\[integer\]:(\d+)", text)[-1]), re.findall(r"region\[text\]:'(\w+)'", text)[-1])
        if kind != "INSERT" or key not in alone:
            expected.append((kind.lower(), *key))
    found = [(row["kind"], *((row["new"] or row["old"])[name] for name in ("id", "region"))) for row in rows]
    assert sorted(found) == sorted(expected)
    assert {row["new"]["v"] for row in rows if row["new"]} >= {"a", "b", "c", "d", "direct", "merged in"}
    assert read(spark, case, table="public.p", endLsn=upto).schema["new"].dataType.fieldNames() == ["id", "region", "v", "n"]


def test_several_tables_are_maps_of_text(spark: SparkSession, case: Case, every: list[dict[str, Any]], tmp_path: Path) -> None:
    """What they hold is what the text outlet shows."""
    parts = open_case("partitions", 18, "with_slot", tmp_path)
    upto = next(line.split("\t")[0] for line in parts.expected.splitlines() if "table public.derived: DELETE" in line)
    wanted = {"source": str(parts.data_dir), "database": "app", "startLsn": parts.meta["start_lsn"], "endLsn": upto}
    frame = spark.read.format("tailrace").options(tables='public.base, "derived"', **wanted).load()
    assert frame.columns == ["schema", "table", *COLUMNS]
    rows = [(row["table"], row["kind"], row["new"], row["old"]) for row in as_python(frame)]
    assert rows == [
        ("base", "insert", {"id": "1", "v": "base"}, None),
        ("derived", "insert", {"id": "2", "v": "derived", "w": "2"}, None),
        ("base", "update", {"id": "1", "v": "both"}, None),
        ("derived", "update", {"id": "2", "v": "both", "w": "2"}, None),
    ]
    named = {"tables": "public.h", "columns": "table, kind, new, old, lsn, sequence, commit_lsn"}
    options = {"source": str(case.data_dir), "database": "app", "startLsn": case.meta["start_lsn"]} | named
    maps = as_python(spark.read.format("tailrace").options(**options).load())
    for side in ("new", "old"):
        assert [row[side] and row[side]["id"] for row in maps] == [row[side] and str(row[side]["id"]) for row in every]


@pytest.mark.postgres
def test_infinite_times_are_collected(spark: SparkSession, tmp_path: Path) -> None:
    def work(server: Server) -> None:
        for statement in (
            "CREATE TABLE forever (id int, d date, ts timestamp, tz timestamptz, l date[])",
            "INSERT INTO forever SELECT 1, 'infinity', 'infinity', 'infinity', '{infinity}'",
            "INSERT INTO forever SELECT 2, '-infinity', '-infinity', '-infinity', '{-infinity,2000-01-01}'",
        ):
            server.sql(statement)

    case = live_case(18, work, tmp_path)
    late, early = (row["new"] for row in as_python(read(spark, case, table="public.forever")))
    assert (late["d"], late["ts"], late["l"]) == (dt.date.max, dt.datetime.max, [dt.date.max])
    assert (early["d"], early["ts"], early["l"]) == (dt.date.min, dt.datetime.min, [dt.date.min, dt.date(2000, 1, 1)])
    assert (early["tz"].year, late["tz"].year) == (1, 9999)
    stored = read(spark, case, table="public.forever", times="native")
    assert stored.where("new.d > DATE'9999-12-31'").count() == 1


WRONG = {
    "source twice": ({"path": "/elsewhere"}, "conflicting or redundant options"),
    "one and several": ({"tables": "public.h"}, "conflicting or redundant options"),
    "name": ({"table": "public..h"}, "invalid name syntax"),
    "option": ({"tabel": "x"}, 'unrecognized option "tabel"'),
    "table": ({"table": "public.nope"}, 'relation "public.nope" does not exist'),
    "no table": ({"table": ""}, 'option "table" missing'),
    "database": ({"database": "nope"}, 'database "nope" does not exist'),
    "column": ({"columns": "kind, knid"}, 'column "knid" does not exist'),
    "LSN": ({"startLsn": "zz"}, 'invalid input syntax for type pg_lsn: "zz"'),
    "source": ({"source": "/no/such"}, 'source directory "/no/such" does not exist'),
    "size": ({"window": "64 MiB"}, 'invalid size: "64 MiB"'),
    "style": ({"numeric": "float"}, 'invalid value for parameter "numeric": "float"'),
}


@pytest.mark.parametrize(("options", "message"), WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong(spark: SparkSession, case: Case, options: dict[str, str], message: str) -> None:
    with pytest.raises(Exception, match=r"(?s).*") as caught:
        read(spark, case, **options)
    assert message in str(caught.value)


def test_a_task_does_not_take_along_what_others_read() -> None:
    """Spark pickles source and reader into every task, once the reader is made."""
    from pyspark import cloudpickle  # noqa: PLC0415

    from tailrace.spark.jobs import _Share, _stage_source  # noqa: PLC0415

    source = _stage_source("stage", b"work", [_Share(number, [bytes(1 << 20)]) for number in range(8)])
    carried = cloudpickle.dumps(source({}))
    assert len(carried) > 1 << 20
    planned = cloudpickle.loads(carried)
    reader = planned.reader(None)
    assert len(reader.partitions()) == 8
    assert len(cloudpickle.dumps((planned, reader))) < 1 << 16
