"""Clusters that crash: what recovery replays, what was open and is lost, records that were cut off. PostgreSQL's slot is the oracle."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from support.cases import DBNAME
from support.damage import cut_off
from support.decoding import check, check_both_ways, decode
from support.live import Slot, live_case
from support.servers import Server
from tailrace.majors import MAJORS
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner, Source, capture

pytestmark = [pytest.mark.matrix, pytest.mark.postgres]


def _crashes(server: Server) -> None:
    """Twice in the middle: with transactions open that changed tables and catalogs, and with one prepared."""
    server.say("CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t VALUES (1, 'before')")
    opened = [server.connect(autocommit=False) for _ in range(3)]
    opened[0].execute("INSERT INTO t SELECT g, repeat('lost', 500) FROM generate_series(100, 120) g")
    opened[1].execute("CREATE TABLE lost (id int); INSERT INTO lost VALUES (1); SAVEPOINT s; INSERT INTO lost VALUES (2)")
    opened[2].execute("INSERT INTO t VALUES (50, 'kept')")
    opened[2].execute("PREPARE TRANSACTION 'kept'")
    server.say("INSERT INTO t VALUES (2, 'makes all of it reach the disk')", "CHECKPOINT", "INSERT INTO t VALUES (3, 'after')")
    opened[0].execute("UPDATE t SET v = 'lost too' WHERE id = 1")
    server.say("INSERT INTO t VALUES (4, 'flushed')")
    server.crash()
    server.start()
    server.say("COMMIT PREPARED 'kept'", "CREATE TABLE lost (other text)", "INSERT INTO lost VALUES ('another table')")
    server.say("VACUUM FULL pg_class", "ALTER TABLE t ADD w int DEFAULT 8", "INSERT INTO t VALUES (5, 'x', 5)")
    server.crash()
    server.start()
    server.say("UPDATE t SET w = w + 1", "DELETE FROM t WHERE id < 3")


@pytest.mark.parametrize(("major", "slot"), [*((major, True) for major in MAJORS), (15, False), (18, False)])
def test_crash_recovery(major: int, slot: bool, tmp_path: Path) -> None:
    case = live_case(major, _crashes, tmp_path, slot=slot, wal_segment_mb=1)
    assert "another table" in case.expected
    check_both_ways(case)


@pytest.mark.parametrize("restart", ["crash", "stop"])
@pytest.mark.parametrize("major", [14, 18])
def test_what_a_crash_left_open_is_over(major: int, restart: str) -> None:
    """A state captured later does not ask for the WAL of transactions that have no end in it, but does for those that are prepared."""
    with Server(major, dbname=DBNAME) as server:
        server.say("CREATE TABLE t (id int)", "CHECKPOINT")
        lost, nested, kept, later = (server.connect(autocommit=False) for _ in range(4))
        lost.execute("CREATE TABLE lost (id int); INSERT INTO lost VALUES (1)")
        nested.execute("INSERT INTO t VALUES (1); SAVEPOINT s; INSERT INTO t VALUES (2)")
        kept.execute("SAVEPOINT s; INSERT INTO t VALUES (3); RELEASE s; PREPARE TRANSACTION 'kept'")
        server.say("INSERT INTO t VALUES (4)")
        before = capture(Source.open(server.data_dir), LocalRunner(1), DBNAME)
        server.crash()
        server.start()
        recovered = capture(Source.open(server.data_dir), LocalRunner(1), DBNAME)
        server.say("CHECKPOINT", "INSERT INTO t VALUES (5)")
        if restart == "stop":
            server.restart()
        following = capture(Source.open(server.data_dir), LocalRunner(1), DBNAME)
        server.say("COMMIT PREPARED 'kept'", "CHECKPOINT", "INSERT INTO t VALUES (6)")
        after = capture(Source.open(server.data_dir), LocalRunner(1), DBNAME)
        del later
    assert len(before.xids_open) == 5
    for state in (recovered, following):
        assert len(state.xids_open) == 2
        assert state.needs_wal_from < before.lsn
    assert after.xids_open == {}
    assert after.needs_wal_from == after.lsn


@pytest.mark.parametrize("megabytes", [5, 40])
@pytest.mark.parametrize("major", MAJORS)
def test_a_record_that_a_crash_cut_off(major: int, megabytes: int, tmp_path: Path) -> None:
    """Its beginning fills 2 MB of the log, of which that is the end; then the server goes on where the rest of it would be."""
    with Server(major, dbname=DBNAME) as server:
        slot = Slot.on(server)
        server.say("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
        message = Lsn.parse(server.flush_lsn())
        server.say(f"SELECT pg_logical_emit_message(false, 'm', repeat('x', {megabytes} << 20))")
        server.crash()
        cut_off(server.wal_dir, message + (2 << 20))
        cut = Path(shutil.copytree(server.data_dir, tmp_path / "cut", symlinks=True))
        server.start()
        before = slot.peek()
        server.say("INSERT INTO t VALUES (2)")
        case = slot.stopped(tmp_path)
    for each in (replace(case, data_dir=cut, before_dir=cut, expected=before), case):
        for stretch_bytes in (1 << 17, 64 << 20):
            check(each, decode(each, LocalRunner(2), captured=False, stretch_bytes=stretch_bytes))
    assert "id[integer]:2" in case.expected
