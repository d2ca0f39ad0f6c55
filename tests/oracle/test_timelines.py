"""Standbys: promoted, copied, and followed past the point where they branched off. PostgreSQL's slot is the oracle."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cases import DBNAME
from support.decoding import check, check_equal, decode, opened, rows_of
from support.live import Slot
from support.schedule import make_schedule, run_schedule
from support.servers import Server
from support.waiting import until
from tailrace.errors import UsageError
from tailrace.majors import MAJORS
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner, Source, capture

pytestmark = [pytest.mark.matrix, pytest.mark.postgres]


@pytest.mark.parametrize("major", MAJORS)
def test_promotion(major: int, tmp_path: Path) -> None:
    """A standby fed from the primary's WAL is promoted; its log goes from the old timeline over to the new."""
    with Server(major, dbname=DBNAME) as primary:
        primary.checkpoint()
        slot = Slot.on(primary)
        primary.say("CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t VALUES (1, 'before the copy')")
        copied = _copy_for_a_standby(primary, tmp_path)
        run_schedule(primary, make_schedule(5, 150))
        primary.say("INSERT INTO t VALUES (2, 'on the old timeline')")
        with primary.connect(autocommit=False) as open_one:
            open_one.execute("INSERT INTO t VALUES (3, 'open when the standby is promoted')")
            primary.switch_wal()
            with _standby_of(primary, copied) as standby:
                until(lambda: str(standby.value("SELECT v FROM t WHERE id = 2")) == "on the old timeline")
                standby.sql("SELECT pg_promote()")
                until(lambda: not standby.value("SELECT pg_is_in_recovery()"))
                standby.say(
                    "INSERT INTO t VALUES (4, 'on the new timeline')", "ALTER TABLE t ADD w int", "VACUUM FULL pg_attribute"
                )
                standby.restart()
                standby.say("INSERT INTO t VALUES (5, 'after a restart', 5)")
                case = Slot(standby, slot.start_lsn, slot.name).stopped(tmp_path)
    check(case, decode(case, LocalRunner(2), captured=False, stretch_bytes=1 << 20))
    assert "on the new timeline" in case.expected
    assert "open when" not in case.expected


@pytest.mark.parametrize("major", MAJORS)
def test_a_state_of_another_history(major: int, tmp_path: Path) -> None:
    """The old primary goes on by itself after the promotion: what its catalogs say then is nothing that the new timeline has seen."""
    with Server(major, dbname=DBNAME) as primary:
        primary.say("CREATE TABLE t (id int PRIMARY KEY, v text)")
        copied = _copy_for_a_standby(primary, tmp_path)
        primary.say("ALTER TABLE t RENAME v TO of_the_old", "INSERT INTO t VALUES (1, 'the old primary')")
        primary.stop()
        alone = capture(Source.open(primary.data_dir), LocalRunner(1), DBNAME)
    before = capture(Source.open(copied), LocalRunner(1), DBNAME)
    with Server(major, {"restore_command": "false"}, dbname=DBNAME, data=copied) as promoted:
        promoted.sql("SELECT pg_promote()")
        slot = Slot.on(promoted)
        promoted.say("INSERT INTO t SELECT i, repeat('the new', 100) FROM generate_series(1, 200) i")
        at_work = capture(Source.open(promoted.data_dir), LocalRunner(1), DBNAME)
        promoted.say("INSERT INTO t VALUES (1000, 'afterwards')")
        case = slot.stopped(tmp_path)
    assert (before.timeline, alone.timeline, at_work.timeline) == (1, 1, 2)
    with pytest.raises(UsageError, match="not in the history of timeline 2"):
        opened(case.wal_dir, catalog=alone)
    assert "afterwards" in case.expected
    assert rows_of(case.wal_dir, catalog=before).endswith(case.expected)
    text = rows_of(case.wal_dir, catalog=at_work)
    assert "afterwards" in text
    assert case.expected.endswith(text)


@pytest.mark.parametrize("major", MAJORS)
def test_backup_of_a_standby(major: int, tmp_path: Path) -> None:
    """The data directory of a standby that was never promoted is as good as the primary's."""
    with Server(major, dbname=DBNAME) as primary:
        primary.checkpoint()
        copied = _copy_for_a_standby(primary, tmp_path)
        slot = Slot.on(primary)
        run_schedule(primary, make_schedule(6, 150))
        primary.say("CHECKPOINT", "CREATE TABLE done (id int)", "INSERT INTO done VALUES (1)")
        expected = slot.get()
        primary.switch_wal()
        with _standby_of(primary, copied) as standby:
            until(lambda: bool(standby.value("SELECT count(*) FROM done")))
            standby.stop()
            text = rows_of(standby.data_dir, start_lsn=slot.start_lsn, stretch_bytes=1 << 20)
    assert "table public.done: INSERT" in expected
    check_equal(text, expected)


@pytest.mark.parametrize("major", [14, 18])
def test_state_captured_from_a_stopped_standby(major: int, tmp_path: Path) -> None:
    """Its checkpoint may be the shutdown of the primary that it is a copy of; it has replayed more since."""
    with Server(major, dbname=DBNAME) as primary:
        copied = _copy_for_a_standby(primary, tmp_path)
        slot = Slot.on(primary)
        primary.say("CREATE TABLE t (id int)", "INSERT INTO t VALUES (1)")
        with primary.connect(autocommit=False) as open_one:
            open_one.execute("INSERT INTO t VALUES (2)")
            primary.say("CREATE TABLE done (id int)", "INSERT INTO done VALUES (1)", "SELECT pg_switch_wal()")
            with _standby_of(primary, copied) as standby:
                until(lambda: bool(standby.value("SELECT count(*) FROM done")))
                standby.stop()
                state = capture(Source.open(standby.data_dir), LocalRunner(1), DBNAME)
        primary.say("ALTER TABLE t ADD v text", "INSERT INTO t VALUES (3, 'three')")
        case = slot.stopped(tmp_path)
    assert state.lsn > Lsn.parse(slot.start_lsn)
    text = rows_of(case.data_dir, catalog=state, start_lsn=state.lsn)
    assert case.expected.endswith(text)
    assert "id[integer]:2" in text


def _copy_for_a_standby(primary: Server, directory: Path) -> Path:
    """The primary is stopped for that, and goes on."""
    primary.stop()
    copied = primary.copy_to(directory / "standby")
    (copied / "standby.signal").touch()
    primary.start()
    return copied


def _standby_of(primary: Server, copied: Path) -> Server:
    """It reads the segments that the primary has finished."""
    restore = {"restore_command": f"cp {primary.wal_dir}/%f %p", "hot_standby": "on", "wal_retrieve_retry_interval": "100ms"}
    return Server(primary.major, restore, dbname=primary.dbname, data=copied)
