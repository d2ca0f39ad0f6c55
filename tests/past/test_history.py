"""What became of tables, from the log of a live server: in order, with xids, and nothing guessed of what was before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.cases import DBNAME, open_case
from support.command import Run
from support.live import cluster
from support.servers import Server
from tailrace.model import Lsn
from tailrace.past.table_events import table_events
from tailrace.pipeline import open_feed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MAJORS = [18, *(pytest.param(each, marks=pytest.mark.matrix) for each in (14, 15, 16, 17))]
STORY = r"""
CREATE SCHEMA later;
CREATE TABLE t (id int PRIMARY KEY, v varchar(10), n numeric(8,2), at timestamp(3), c char(4), l bit(2)[], i interval day to second(2));
BEGIN; ALTER TABLE t ADD "New one" text DEFAULT 'x'; ALTER TABLE t RENAME v TO w; ALTER TABLE t ALTER w TYPE text; ALTER TABLE t DROP n; COMMIT;
ALTER TABLE t ALTER id TYPE bigint;
VACUUM FULL t;
TRUNCATE t RESTART IDENTITY CASCADE;
BEGIN; ALTER TABLE t ADD never int; ROLLBACK;
ANALYZE t;
ALTER TABLE t RENAME TO u;
ALTER TABLE u SET SCHEMA later;
ALTER SCHEMA later RENAME TO latest;
CREATE TABLE t (other int);
BEGIN; CREATE TABLE latest.fleeting (id int); ALTER TABLE latest.fleeting ADD v text; DROP TABLE latest.fleeting; COMMIT;
DROP TABLE latest.u;
CREATE UNLOGGED TABLE scratch (id int);
TRUNCATE scratch;
ALTER TABLE old RENAME a TO b; ALTER TABLE old ADD c int
"""
U, T = "latest.u", "public.t"
TOLD = [
    (T, "created", "", "",
     "(id integer, v character varying(10), n numeric(8,2), at timestamp(3) without time zone, c character(4), l bit(2)[], "
     "i interval day to second(2))"),
    (T, "column added", "New one", "", '"New one" text'),
    (T, "column renamed", "v", "v", "w"),
    (T, "column retyped", "w", "character varying(10)", "text"),
    (T, "column dropped", "n", "n numeric(8,2)", ""),
    (T, "column retyped", "id", "integer", "bigint"),
    (T, "rewritten", "", "file", "file"),
    (T, "rewritten", "", "file", "file"),
    (T, "truncated", "", "", "RESTART IDENTITY CASCADE"),
    ("public.u", "renamed", "", T, "public.u"),
    ("later.u", "moved", "", "public.u", "later.u"),
    (U, "schema renamed", "", "later.u", U),
    (T, "created", "", "", "(other integer)"),
    (U, "dropped", "", U, ""),
]  # fmt: skip


def _told(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def _brief(event: dict[str, Any]) -> tuple[str, ...]:
    before, after = event["before"] or "", event["after"] or ""
    if event["event"] == "rewritten":
        assert before != after
        before, after = before.partition(" ")[0], after.partition(" ")[0]
    return event["table"], event["event"], event["column"] or "", before, after


@pytest.mark.postgres
@pytest.mark.parametrize("major", MAJORS)
def test_what_became_of_tables(major: int, tmp_path: Path, tailrace: Run) -> None:
    before = cluster(major, tmp_path, prepare=lambda server: server.sql("CREATE TABLE old (a int NOT NULL)"))
    with Server(major, dbname=DBNAME, data=before, test_decoding=False) as server:
        xids = []
        with server.connect() as connection:
            for statement in STORY.strip().split(";\n"):
                connection.execute(statement.encode())
                row = connection.execute("SELECT (pg_snapshot_xmax(pg_current_snapshot())::text)::bigint").fetchone()
                assert row is not None
                xids.append(int(row[0]))
        files = server.sql("SELECT pg_relation_filepath('public.t'), 't'::regclass::oid::bigint")
        server.stop()
        words = ("--database", DBNAME, "--on", "local", "--json")
        status, out, err = tailrace("history", server.data_dir, "public.t", *words)
        assert (status, err) == (0, "")
        events = _told(out)
        assert [_brief(event) for event in events] == TOLD
        assert [event["commit"] for event in events] == sorted((event["commit"] for event in events), key=Lsn.parse)
        assert len({event["commit"] for event in events[1:5]}) == 1
        assert [Lsn.parse(event["record"]) for event in events[1:5]] == sorted(
            Lsn.parse(event["record"]) for event in events[1:5]
        )
        assert [xids[0] <= event["xid"] < xids[-1] for event in events] == [True] * len(events)
        assert events[0]["xid"] == xids[0]
        assert {event["oid"] for event in events} == {events[0]["oid"], files[0][1]}
        assert [_brief(each)[1:] for each in _told(tailrace("history", server.data_dir, "latest.fleeting", *words)[1])] == [
            ("created", "", "", "(id integer)"), ("column added", "v", "", "v text"), ("dropped", "", "latest.fleeting", ""),
        ]  # fmt: skip
        scratch = _told(tailrace("history", server.data_dir, "scratch", *words)[1])
        assert [event["event"] for event in scratch] == ["created", "truncated"]
        old = _told(tailrace("history", server.data_dir, "old", *words)[1])
        assert [_brief(event)[1:] for event in old] == [
            ("known", "", "", "(a integer)"), ("column renamed", "a", "a", "b"), ("column added", "c", "", "c integer"),
        ]  # fmt: skip
        assert (old[0]["xid"], old[0]["time"], old[0]["record"]) == (None, None, None)
        assert Lsn.parse(old[0]["commit"]) < Lsn.parse(events[0]["commit"])
        status, out, err = tailrace("history", server.data_dir, "public.never", *words)
        assert (status, out) == (1, "")
        assert err.startswith('tailrace: error: relation "public.never" does not exist\n')
        _same_from_a_state(before, server.data_dir, tailrace, tmp_path)


def _same_from_a_state(before: Path, data: Path, tailrace: Run, tmp_path: Path) -> None:
    """A captured state knows nothing of what was before it; what came then is the same, in windows as well."""
    state = tmp_path / "state"
    assert tailrace("catalog", "capture", before, "--database", DBNAME, "-o", state)[0] == 0
    for table in ("public.t", "old"):
        words = (table, "--database", DBNAME, "--on", "local")
        whole = tailrace("history", data, *words)[1].splitlines()
        captured = tailrace("history", data / "pg_wal", *words, "--catalog", state, "--window", "1MB")[1].splitlines()
        assert [line for line in captured if "known" not in line] == [line for line in whole if "known" not in line]
        assert sum("known" in line for line in captured) == (table == "old")


@pytest.mark.spark
def test_as_a_data_frame(spark: SparkSession, tmp_path: Path) -> None:
    import tailrace.spark  # noqa: PLC0415

    case = open_case("ddl", 16, "no_slot", tmp_path)
    rows = tailrace.spark.schema_events(spark, str(case.data_dir), database=DBNAME).collect()
    events = table_events(open_feed(case.data_dir, DBNAME))
    assert [(row.commit_lsn, row.lsn or 0, row.xid or 0, row.oid, row.table, row.event) for row in rows] == [
        (each.commit_lsn, each.lsn, each.xid, each.oid, each.table, each.kind) for each in events
    ]
    assert len({row.table for row in rows}) > 10
    mine = tailrace.spark.schema_events(spark, str(case.data_dir), database=DBNAME, table="public.one").toArrow()
    assert mine.column("event").to_pylist()[:2] == ["created", "column added"]
    assert mine.column("commit_timestamp").null_count == 0
    assert set(mine.column("oid").to_pylist()) == {row.oid for row in rows if row.table == "public.one"}
