"""What clusters are made of: segment sizes, compressed page images, databases made from others or moved, settings that change, a server that
goes on while it is read. PostgreSQL's slot is the oracle each time; where a cluster could not have kept one, a clone of it did.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from support.cases import DBNAME
from support.decoding import check, check_both_ways, check_equal, decode, opened, rows_of, text_of
from support.live import SLOT, Slot, cluster, live_case
from support.schedule import make_schedule, run_schedule
from support.segments import forget_other_segments
from support.servers import Server
from tailrace.catalog.rows.row_versions import XMAX_MULTI
from tailrace.errors import InsufficientLogging, MissingHistory
from tailrace.majors import MAJORS
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner, Source

pytestmark = [pytest.mark.matrix, pytest.mark.postgres]
APART = ("SET allow_in_place_tablespaces = on", "CREATE TABLESPACE apart LOCATION ''")


@pytest.mark.parametrize("megabytes", [2, 64, pytest.param(1024, marks=pytest.mark.marathon)])
def test_segment_sizes(megabytes: int, tmp_path: Path) -> None:
    schedule = make_schedule(7, 200)
    settings = {"min_wal_size": f"{2 * megabytes}MB"}
    case = live_case(18, lambda server: run_schedule(server, schedule), tmp_path, settings, wal_segment_mb=megabytes)
    assert "INSERT" in case.expected
    check_both_ways(case)


@pytest.mark.parametrize("major", MAJORS)
def test_compressed_page_images(major: int, tmp_path: Path) -> None:
    """By pglz; no build that can be fetched has the others (`tests/wal/test_full_page_images.py`)."""
    schedule = make_schedule(8, 150)
    case = live_case(major, lambda server: run_schedule(server, schedule), tmp_path, {"wal_compression": "on"}, slot=False)
    assert "INSERT" in case.expected
    check_both_ways(case)


@pytest.mark.parametrize(
    ("major", "strategy"), [(14, ""), *((major, each) for major in (15, 18) for each in ("WAL_LOG", "FILE_COPY"))]
)
def test_a_database_made_in_the_middle(major: int, strategy: str, tmp_path: Path) -> None:
    """Its catalogs come from those of its template, which no record of the log describes row by row."""
    with Server(major, dbname="shape") as server:
        server.say("CREATE TYPE mood AS ENUM ('sad', 'ok')")
        server.say("CREATE TABLE inherited (id int PRIMARY KEY, m mood, v text DEFAULT 'd')")
        server.say("ALTER TABLE inherited ADD w int DEFAULT 3", "INSERT INTO inherited VALUES (1, 'ok')", "CHECKPOINT")
        server.say("ALTER TABLE inherited ADD x int DEFAULT 4")
        made = f"CREATE DATABASE {DBNAME} TEMPLATE shape {f'STRATEGY {strategy}' if strategy else ''}"
        server.sql(made, dbname="postgres")
        server.dbname = DBNAME
        slot = Slot.on(server)
        server.say("INSERT INTO inherited VALUES (2, 'sad')", "UPDATE inherited SET v = 'changed'")
        server.say("ALTER TABLE inherited DROP COLUMN w", "CREATE TABLE own (m mood[])", "INSERT INTO own VALUES ('{ok,sad}')")
        server.say("DELETE FROM inherited", "VACUUM FULL pg_class", "INSERT INTO inherited VALUES (3, 'ok')")
        case = slot.stopped(tmp_path)
    check(case, decode(case, LocalRunner(2), captured=False))
    assert "m[mood]:'sad'" in case.expected


@pytest.mark.parametrize("major", MAJORS)
def test_catalogs_vacuumed_without_page_images(major: int, tmp_path: Path) -> None:
    """With full_page_writes off, the first record on a page of a catalog brings no image; freezing it takes nothing from what it says."""

    def work(server: Server) -> None:
        server.say("VACUUM FREEZE pg_attribute", "INSERT INTO t VALUES (1, 'one')", "UPDATE t SET id = 2")

    settings = {"full_page_writes": "off"}
    before = cluster(major, tmp_path, settings, lambda server: server.say("CREATE TABLE t (id int PRIMARY KEY, v text)"))
    case = live_case(major, work, tmp_path, settings, before=before)
    assert "INSERT" in case.expected
    check_both_ways(case)


@pytest.mark.parametrize("major", MAJORS)
def test_wal_level_that_was_lower_where_the_log_begins(major: int, tmp_path: Path) -> None:
    """The log at hand tells of the change to logical only, not what the level was before."""
    with Server(major, {"wal_level": "replica"}, dbname=DBNAME) as server:
        server.switch_wal()
        server.stop()
        forget_other_segments(server.data_dir)
        server.start()
        server.say("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
        server.stop()
        server.settings["wal_level"] = "logical"
        server.start()
        slot = Slot.on(server)
        server.say("INSERT INTO t VALUES (2)")
        case = slot.stopped(tmp_path)
    first = Source.open(case.data_dir).segments.first_lsn
    with pytest.raises(InsufficientLogging, match="logical decoding requires wal_level >= logical"):
        opened(case.data_dir, start_lsn=first)
    assert "id[integer]:2" in case.expected
    assert rows_of(case.data_dir, start_lsn=slot.start_lsn) == case.expected
    assert rows_of(case.data_dir).endswith(case.expected)


@pytest.mark.parametrize("how", ["open", "new"])
def test_a_server_that_goes_on_while_it_is_read(how: str) -> None:
    """Between the copy of its WAL and the reading of its pages, it commits an ALTER and writes that to its files."""
    with Server(18, dbname=DBNAME) as server:
        server.say("CREATE TABLE t (id int)", "SELECT pg_switch_wal()")
        server.stop()
        forget_other_segments(server.data_dir)
        server.start()
        start = Lsn.parse(server.flush_lsn())
        server.say("INSERT INTO t VALUES (1)")
        with server.connect(autocommit=False) as altering:
            if how == "open":
                altering.execute("ALTER TABLE t ADD w int DEFAULT 3")
                server.switch_wal()
            source = Source.open(server.data_dir)
            if how == "new":
                altering.execute("ALTER TABLE t ADD w int DEFAULT 3")
        server.checkpoint()
        if how == "new":
            with pytest.raises(MissingHistory, match="but the WAL at hand ends at"):
                opened(source, start_lsn=start)
            source = Source.open(server.data_dir)
        text = text_of(opened(source, start_lsn=start), {"include-xids": "off"})
    assert [line.split("\t")[2] for line in text.splitlines()][:3] == ["BEGIN", "table public.t: INSERT: id[integer]:1", "COMMIT"]


@pytest.mark.parametrize("major", [15, 18])
def test_a_database_that_moves(major: int, tmp_path: Path) -> None:
    """To another tablespace, in the middle. The slot is read before that, since afterwards the server does not find those files."""
    before: list[str] = []

    def work(server: Server) -> None:
        server.say("CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t VALUES (1, 'before')", "CHECKPOINT")
        before.append(Slot(server, start_lsn="", name=SLOT).get())
        with server.connect("postgres") as connection:
            for statement in (*APART, f"ALTER DATABASE {DBNAME} SET TABLESPACE apart"):
                connection.execute(statement.encode())
        server.say("INSERT INTO t VALUES (2, 'after')", "CREATE TABLE u (id int)", "INSERT INTO u VALUES (1)")
        server.say("VACUUM FULL pg_class", "ALTER TABLE t SET TABLESPACE pg_default", "INSERT INTO t VALUES (3, 'back')")
        server.say("INSERT INTO u VALUES (2)")

    case = live_case(major, work, tmp_path, wal_segment_mb=1)
    assert "'before'" in before[0]
    check_both_ways(replace(case, expected=before[0] + case.expected))


@pytest.mark.parametrize("major", MAJORS)
def test_multixacts_of_before_the_log(major: int, tmp_path: Path) -> None:
    """Catalog rows that were updated while others held locks on them, as the data directory has them when the log begins."""
    with Server(major, dbname=DBNAME) as server:
        server.say("CREATE TABLE t (id int)", "CREATE TABLE u (id int)")
        server.say("CREATE TYPE mood AS ENUM ('sad', 'ok')", "CREATE TABLE m (m mood)")
        with server.connect(autocommit=False) as one, server.connect(autocommit=False) as other:
            for connection in (one, other):
                connection.execute("SET lock_timeout = '5s'")
                connection.execute("SELECT FROM pg_class WHERE relname IN ('t', 'u') FOR KEY SHARE")
            other.execute("ALTER TABLE t ADD w int DEFAULT 7")
            one.execute("ALTER TABLE u ADD lost int")
            other.commit()
            one.commit()
        server.checkpoint()
        server.switch_wal()
        server.stop()
        forget_other_segments(server.data_dir)
        server.start()
        slot = Slot.on(server)
        server.say("INSERT INTO t VALUES (1)", "INSERT INTO u VALUES (2, 3)", "ALTER TABLE t ADD x int")
        server.say("INSERT INTO t VALUES (4, 5, 6)", "VACUUM FULL pg_class", "INSERT INTO u VALUES (7, 8)")
        case = slot.stopped(tmp_path)
    pipeline = opened(case.data_dir, start_lsn=slot.start_lsn)
    check_equal(text_of(pipeline, {}), case.expected)
    assert "lost[integer]:8" in case.expected
    assert any((case.data_dir / "pg_multixact" / "members" / "0000").read_bytes()[:8192])
    assert not (pipeline.catalogs.state.versions.columns.hints & XMAX_MULTI).any()


@pytest.mark.marathon
def test_a_row_of_nearly_a_gigabyte() -> None:
    """PostgreSQL prints what fits a gigabyte; so much we print as well, and the same."""
    with Server(18, dbname=DBNAME) as server:
        server.checkpoint()
        slot = Slot.on(server)
        server.say("CREATE TABLE t (id int, v text)", "INSERT INTO t SELECT 1, repeat('0123456789', 70000000)")
        theirs = server.sql(
            "SELECT length(data), md5(data) FROM pg_logical_slot_get_changes('s', NULL, NULL) WHERE left(data, 6) = 'table '"
        )
        server.stop()
        pipeline = opened(server.data_dir, start_lsn=slot.start_lsn)
        ours = text_of(pipeline, {"include-xids": "off", "skip-empty-xacts": "on"}).split("\n")
    (row,) = [line.split("\t", 2)[2] for line in ours if "\ttable " in line[:60]]
    assert [(len(row), hashlib.md5(row.encode()).hexdigest())] == theirs
