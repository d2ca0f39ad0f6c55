"""What happens to whole clusters: crashes, promotions, clones, other segment sizes, compressed page images, xids that begin again.

PostgreSQL's slot is the oracle each time; where a cluster could not have kept one, a clone of it did.
"""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from support.cases import Case
from support.decoding import check, decode, text_of
from support.live import DBNAME, cluster, with_slot, without_slot
from support.normalise import print_rows
from support.schedule import make_schedule, run_schedule
from support.segments import forget_other_segments
from support.servers import Server
from tailrace.catalog.row_versions import XMAX_MULTI
from tailrace.errors import MissingHistory, UsageError
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner, Source, capture, open_pipeline

pytestmark = [pytest.mark.matrix, pytest.mark.postgres]
MAJORS = (14, 15, 16, 17, 18)
CHANGES = "SELECT lsn, xid, data FROM pg_logical_slot_get_changes('s', NULL, NULL)"
SLOT = "SELECT lsn FROM pg_create_logical_replication_slot('s', 'test_decoding')"


def _compare(case: Case) -> None:
    for captured in (False, True):
        check(case, decode(case, LocalRunner(2), captured=captured, stretch_bytes=1 << 20))
    assert "INSERT" in case.expected


def _say(server: Server, *statements: str) -> None:
    with server.connect(DBNAME) as connection:
        for statement in statements:
            connection.execute(statement.encode())


# -- crashes -----------------------------------------------------------------------------------------------------------------------


def _crashes(server: Server) -> None:
    """Twice in the middle: with transactions open that changed tables and catalogs, and with one prepared."""
    _say(server, "CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t VALUES (1, 'before')")
    opened = [server.connect(DBNAME, autocommit=False) for _ in range(3)]
    opened[0].execute("INSERT INTO t SELECT g, repeat('lost', 500) FROM generate_series(100, 120) g")
    opened[1].execute("CREATE TABLE lost (id int); INSERT INTO lost VALUES (1); SAVEPOINT s; INSERT INTO lost VALUES (2)")
    opened[2].execute("INSERT INTO t VALUES (50, 'kept')")
    opened[2].execute("PREPARE TRANSACTION 'kept'")
    _say(server, "INSERT INTO t VALUES (2, 'makes all of it reach the disk')", "CHECKPOINT", "INSERT INTO t VALUES (3, 'after')")
    opened[0].execute("UPDATE t SET v = 'lost too' WHERE id = 1")
    _say(server, "INSERT INTO t VALUES (4, 'flushed')")
    server.crash()
    server.start()
    _say(server, "COMMIT PREPARED 'kept'", "CREATE TABLE lost (other text)", "INSERT INTO lost VALUES ('another table')")
    _say(server, "VACUUM FULL pg_class", "ALTER TABLE t ADD w int DEFAULT 8", "INSERT INTO t VALUES (5, 'x', 5)")
    server.crash()
    server.start()
    _say(server, "UPDATE t SET w = w + 1", "DELETE FROM t WHERE id < 3")


@pytest.mark.parametrize("major", MAJORS)
def test_crash_recovery(major: int, tmp_path: Path) -> None:
    _compare(with_slot(major, _crashes, tmp_path, wal_segment_mb=1))


@pytest.mark.parametrize("restart", ["crash", "stop"])
@pytest.mark.parametrize("major", [14, 18])
def test_what_a_crash_left_open_is_over(major: int, restart: str) -> None:
    """A state captured later does not ask for the WAL of transactions that have no end in it, but does for those that are prepared."""
    with Server(major) as server:
        server.sql(f"CREATE DATABASE {DBNAME}")
        _say(server, "CREATE TABLE t (id int)")
        server.checkpoint()
        lost, nested, kept, later = (server.connect(DBNAME, autocommit=False) for _ in range(4))
        lost.execute("CREATE TABLE lost (id int); INSERT INTO lost VALUES (1)")
        nested.execute("INSERT INTO t VALUES (1); SAVEPOINT s; INSERT INTO t VALUES (2)")
        kept.execute("SAVEPOINT s; INSERT INTO t VALUES (3); RELEASE s; PREPARE TRANSACTION 'kept'")
        _say(server, "INSERT INTO t VALUES (4)")
        before = capture(Source.open(server.data_dir), LocalRunner(1), DBNAME)
        server.crash()
        server.start()
        recovered = capture(Source.open(server.data_dir), LocalRunner(1), DBNAME)
        _say(server, "CHECKPOINT", "INSERT INTO t VALUES (5)")
        if restart == "stop":
            server.restart()
        following = capture(Source.open(server.data_dir), LocalRunner(1), DBNAME)
        _say(server, "COMMIT PREPARED 'kept'", "CHECKPOINT", "INSERT INTO t VALUES (6)")
        after = capture(Source.open(server.data_dir), LocalRunner(1), DBNAME)
        del later
    assert len(before.xids_open) == 5
    for state in (recovered, following):
        assert len(state.xids_open) == 2
        assert state.needs_wal_from < before.lsn
    assert after.xids_open == {}
    assert after.needs_wal_from == after.lsn


@pytest.mark.parametrize("major", [15, 18])
def test_crash_recovery_without_a_slot(major: int, tmp_path: Path) -> None:
    _compare(without_slot(major, _crashes, tmp_path, wal_segment_mb=1))


@pytest.mark.parametrize("megabytes", [5, 40])
@pytest.mark.parametrize("major", MAJORS)
def test_a_record_that_a_crash_cut_off(major: int, megabytes: int, tmp_path: Path) -> None:
    """Its beginning fills 2 MB of the log, of which that is the end; then the server goes on where the rest of it would be."""
    with Server(major) as server:
        server.sql(f"CREATE DATABASE {DBNAME}")
        start = str(server.value(SLOT, dbname=DBNAME))
        _say(server, "CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
        message = Lsn.parse(server.flush_lsn())
        _say(server, f"SELECT pg_logical_emit_message(false, 'm', repeat('x', {megabytes} << 20))")
        server.crash()
        _cut_off(server.wal_dir, message + (2 << 20))
        cut = Path(shutil.copytree(server.data_dir, tmp_path / "cut", symlinks=True))
        server.start()
        before = print_rows(server.sql(CHANGES.replace("get", "peek"), dbname=DBNAME))
        _say(server, "INSERT INTO t VALUES (2)")
        expected = print_rows(server.sql(CHANGES, dbname=DBNAME))
        server.stop()
        data = server.copy_to(tmp_path / "data")
    for directory, text in ((cut, before), (data, expected)):
        case = Case("cut off", major, "with_slot", directory, directory, text, {"dbname": DBNAME, "start_lsn": start})
        for stretch_bytes in (1 << 17, 64 << 20):
            check(case, decode(case, LocalRunner(2), captured=False, stretch_bytes=stretch_bytes))
    assert "id[integer]:2" in expected


def _cut_off(wal_dir: Path, lsn: int) -> None:
    """No page of the log from there on was ever written."""
    for path in wal_dir.glob("?" * 24):
        begin = (int(path.name[8:16], 16) << 32) + (int(path.name[16:], 16) << 20)
        if begin >= lsn:
            path.unlink()
        elif begin + (1 << 20) > lsn:
            within = lsn % (1 << 20) // 8192 * 8192
            path.write_bytes(path.read_bytes()[:within].ljust(1 << 20, b"\0"))


# -- transactions that were open -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("major", MAJORS)
def test_transactions_open_where_we_begin(major: int, tmp_path: Path) -> None:
    """Of those that began before a running server's last checkpoint, a captured state knows where; without the WAL from there they are refused."""
    with Server(major) as server:
        server.sql(f"CREATE DATABASE {DBNAME}")
        server.checkpoint()
        server.sql(SLOT, dbname=DBNAME)
        _say(server, "CREATE TABLE t (id int PRIMARY KEY, v text)")
        opened = [server.connect(DBNAME, autocommit=False) for _ in range(3)]
        for number, connection in enumerate(opened):
            connection.execute(f"INSERT INTO t VALUES ({number}, 'before')")
        opened[2].execute("PREPARE TRANSACTION 'p'")
        server.switch_wal()
        server.checkpoint()
        opened[0].execute("INSERT INTO t VALUES (10, 'between')")
        server.switch_wal()
        state = capture(Source.open(server.data_dir), LocalRunner(1), DBNAME)
        opened[0].execute("INSERT INTO t VALUES (20, 'after')")
        opened[0].commit()
        first_end = Lsn.parse(server.flush_lsn())
        opened[1].commit()
        second_end = Lsn.parse(server.flush_lsn())
        _say(server, "COMMIT PREPARED 'p'", "INSERT INTO t VALUES (3, 'all of it')")
        expected = print_rows(server.sql(CHANGES, dbname=DBNAME))
        server.stop()
        data = server.copy_to(tmp_path / "data")
    assert len(state.xids_open) == 3
    pipeline = open_pipeline(data, DBNAME, runner=LocalRunner(1), catalog=state)
    text = text_of(pipeline, {})
    assert text.count("INSERT") == 6
    assert expected.endswith(text)

    for path in (data / "pg_wal").glob("?" * 24):
        if int(path.name[16:], 16) << 20 < state.lsn - (1 << 20):
            path.unlink()
    for start in (state.lsn, first_end, second_end):
        with pytest.raises(MissingHistory, match="began before"):
            open_pipeline(data, DBNAME, runner=LocalRunner(1), start_lsn=start)
    text = text_of(open_pipeline(data, DBNAME, runner=LocalRunner(1)), {})
    assert text.count("INSERT") == 1
    assert expected.endswith(text)


@pytest.mark.parametrize("major", MAJORS)
def test_transactions_open_at_a_redo_pointer(major: int, tmp_path: Path) -> None:
    """The WAL at hand begins with a RUNNING_XACTS that knows of none: they begin behind it, but before the catalogs are known."""
    with Server(major) as server:
        server.sql(f"CREATE DATABASE {DBNAME}")
        server.checkpoint()
        server.sql(SLOT, dbname=DBNAME)
        _say(server, "CREATE TABLE t (id int PRIMARY KEY, v text)")
        server.checkpoint()
        server.switch_wal()
        begins = Lsn.parse(server.flush_lsn())
        server.sql(SLOT.replace("'s'", "'another'"), dbname=DBNAME)
        plain, nested = (server.connect(DBNAME, autocommit=False) for _ in range(2))
        plain.execute("INSERT INTO t VALUES (1, 'before')")
        nested.execute("SAVEPOINT a; CREATE TABLE n (id int); INSERT INTO n VALUES (1); RELEASE a")
        server.checkpoint()
        start = Lsn.parse(server.flush_lsn())
        _say(server, "INSERT INTO t VALUES (2, 'meanwhile')")
        plain.commit()
        plain_ends = Lsn.parse(server.flush_lsn())
        nested.execute("INSERT INTO n VALUES (2)")
        nested.commit()
        nested_ends = Lsn.parse(server.flush_lsn())
        _say(server, "INSERT INTO t VALUES (3, 'all of it')")
        expected = print_rows(server.sql(CHANGES, dbname=DBNAME))
        server.stop()
        data = server.copy_to(tmp_path / "data")
    for path in (data / "pg_wal").glob("?" * 24):
        if int(path.name[16:], 16) << 20 <= begins - (1 << 20):
            path.unlink()
    pipeline = open_pipeline(data, DBNAME, runner=LocalRunner(1))
    text = text_of(pipeline, {})
    assert text.count("INSERT") == 1
    assert expected.endswith(text)
    assert pipeline.warning.startswith("left out are 3 transactions with 4 rows at hand, which commit from")
    for position in (start, plain_ends):
        with pytest.raises(MissingHistory, match=r"what tables were is known from .* began before that"):
            open_pipeline(data, DBNAME, runner=LocalRunner(1), start_lsn=position)
    assert text_of(open_pipeline(data, DBNAME, runner=LocalRunner(1), start_lsn=nested_ends), {}) == text


@pytest.mark.parametrize("major", MAJORS)
def test_messages_while_an_older_transaction_is_open(major: int, tmp_path: Path) -> None:
    """It is rolled back, so that the start may lie before its end; what needs no commit is told from there on."""
    with Server(major) as server:
        server.sql(f"CREATE DATABASE {DBNAME}")
        server.checkpoint()
        server.sql(SLOT, dbname=DBNAME)
        _say(server, "CREATE TABLE t (id int PRIMARY KEY)")
        before = len(server.sql(CHANGES, dbname=DBNAME))
        older = server.connect(DBNAME, autocommit=False)
        older.execute("INSERT INTO t VALUES (1)")
        server.switch_wal()
        server.checkpoint()
        start = Lsn.parse(server.flush_lsn())
        _say(server, "SELECT pg_logical_emit_message(false, 'while', 'it is open')", "INSERT INTO t VALUES (2)")
        older.rollback()
        _say(server, "SELECT pg_logical_emit_message(false, 'after', 'its end')", "INSERT INTO t VALUES (3)")
        expected = print_rows(server.sql(CHANGES, dbname=DBNAME))
        server.stop()
        data = server.copy_to(tmp_path / "data")
    assert before
    for path in (data / "pg_wal").glob("?" * 24):
        if int(path.name[16:], 16) << 20 <= start - (1 << 20):
            path.unlink()
    assert text_of(open_pipeline(data, DBNAME, runner=LocalRunner(1), start_lsn=start), {}) == expected


@pytest.mark.parametrize("major", MAJORS)
def test_transactions_prepared_before_a_restart(major: int, tmp_path: Path) -> None:
    """A shutdown checkpoint is where nothing runs, but for them."""
    with Server(major) as server:
        server.sql(f"CREATE DATABASE {DBNAME}")
        _say(server, "CREATE TABLE t (id int)", "BEGIN", "INSERT INTO t VALUES (1)", "PREPARE TRANSACTION 'p'")
        server.stop()
        forget_other_segments(server.data_dir)
        server.start()
        server.switch_wal()
        server.stop()
        forget_other_segments(server.data_dir)
        server.start()
        start = Lsn.parse(server.flush_lsn())
        _say(server, "INSERT INTO t VALUES (2)", "COMMIT PREPARED 'p'", "INSERT INTO t VALUES (3)")
        server.stop()
        data = server.copy_to(tmp_path / "data")
    with pytest.raises(MissingHistory, match="began before the WAL at hand"):
        open_pipeline(data, DBNAME, runner=LocalRunner(1), start_lsn=start)
    text = text_of(open_pipeline(data, DBNAME, runner=LocalRunner(1)), {})
    assert text.count("INSERT") == 1
    assert "id[integer]:3" in text


@pytest.mark.parametrize("major", [14, 18])
@pytest.mark.parametrize("at_hand", [False, True])
def test_state_captured_with_a_prepared_transaction(major: int, tmp_path: Path, *, at_hand: bool) -> None:
    """The stopped directory names it; whether its rows can be shown depends on the WAL."""
    with Server(major) as server:
        server.sql(f"CREATE DATABASE {DBNAME}")
        server.value(SLOT, dbname=DBNAME)
        _say(
            server,
            "CREATE TABLE t (id int)",
            "BEGIN",
            "INSERT INTO t VALUES (1)",
            "SAVEPOINT a",
            "INSERT INTO t VALUES (2)",
            "PREPARE TRANSACTION 'p'",
        )
        server.stop()
        if not at_hand:
            forget_other_segments(server.data_dir)
            server.start()
            server.switch_wal()
            server.stop()
            forget_other_segments(server.data_dir)
        state = capture(Source.open(server.data_dir), LocalRunner(1), DBNAME)
        server.start()
        _say(server, "INSERT INTO t VALUES (3)", "COMMIT PREPARED 'p'", "INSERT INTO t VALUES (4)")
        expected = print_rows(server.sql(CHANGES, dbname=DBNAME)) if at_hand else ""
        server.stop()
        data = server.copy_to(tmp_path / "data")
    if at_hand:
        assert expected.endswith(
            text_of(open_pipeline(data, DBNAME, runner=LocalRunner(1), catalog=state, start_lsn=state.lsn), {})
        )
        assert "id[integer]:2" in expected
    else:
        with pytest.raises(MissingHistory, match="began before the WAL at hand"):
            open_pipeline(data, DBNAME, runner=LocalRunner(1), catalog=state, start_lsn=state.lsn)
        assert text_of(open_pipeline(data, DBNAME, runner=LocalRunner(1), catalog=state), {}).count("INSERT") == 1


# -- timelines ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("major", MAJORS)
def test_promotion(major: int, tmp_path: Path) -> None:
    """A standby fed from the primary's WAL is promoted; its log goes from the old timeline over to the new."""
    with Server(major) as primary:
        primary.sql(f"CREATE DATABASE {DBNAME}")
        primary.checkpoint()
        start = str(primary.value(SLOT, dbname=DBNAME))
        _say(primary, "CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t VALUES (1, 'before the copy')")
        primary.stop()
        copied = primary.copy_to(tmp_path / "standby")
        (copied / "standby.signal").touch()
        primary.start()
        run_schedule(primary, make_schedule(5, 150))
        _say(primary, "INSERT INTO t VALUES (2, 'on the old timeline')")
        with primary.connect(DBNAME, autocommit=False) as open_one:
            open_one.execute("INSERT INTO t VALUES (3, 'open when the standby is promoted')")
            primary.sql("SELECT pg_switch_wal()")
            restore = {"restore_command": f"cp {primary.wal_dir}/%f %p", "hot_standby": "on"}
            with Server(major, restore, data=copied) as standby:
                _until(lambda: str(standby.value("SELECT v FROM t WHERE id = 2", dbname=DBNAME)) == "on the old timeline")
                standby.sql("SELECT pg_promote()")
                _until(lambda: not standby.value("SELECT pg_is_in_recovery()"))
                _say(
                    standby,
                    "INSERT INTO t VALUES (4, 'on the new timeline')",
                    "ALTER TABLE t ADD w int",
                    "VACUUM FULL pg_attribute",
                )
                standby.restart()
                _say(standby, "INSERT INTO t VALUES (5, 'after a restart', 5)")
                expected = print_rows(standby.sql(CHANGES, dbname=DBNAME))
                standby.stop()
                data = standby.copy_to(tmp_path / "promoted")
    case = Case("promotion", major, "with_slot", data, data, expected, {"dbname": DBNAME, "start_lsn": start})
    check(case, decode(case, LocalRunner(2), captured=False, stretch_bytes=1 << 20))
    assert "on the new timeline" in expected
    assert "open when" not in expected


@pytest.mark.parametrize("major", MAJORS)
def test_a_state_of_another_history(major: int, tmp_path: Path) -> None:
    """The old primary goes on by itself after the promotion: what its catalogs say then is nothing that the new timeline has seen."""
    with Server(major) as primary:
        primary.sql(f"CREATE DATABASE {DBNAME}")
        _say(primary, "CREATE TABLE t (id int PRIMARY KEY, v text)")
        primary.stop()
        common = primary.copy_to(tmp_path / "common")
        primary.start()
        _say(primary, "ALTER TABLE t RENAME v TO of_the_old", "INSERT INTO t VALUES (1, 'the old primary')")
        primary.stop()
        alone = capture(Source.open(primary.data_dir), LocalRunner(1), DBNAME)
    before = capture(Source.open(common), LocalRunner(1), DBNAME)
    (common / "standby.signal").touch()
    with Server(major, {"restore_command": "false"}, data=common) as promoted:
        promoted.sql("SELECT pg_promote()")
        promoted.sql(SLOT, dbname=DBNAME)
        _say(promoted, "INSERT INTO t SELECT i, repeat('the new', 100) FROM generate_series(1, 200) i")
        at_work = capture(Source.open(promoted.data_dir), LocalRunner(1), DBNAME)
        _say(promoted, "INSERT INTO t VALUES (1000, 'afterwards')")
        expected = print_rows(promoted.sql(CHANGES, dbname=DBNAME))
        promoted.stop()
        wal = promoted.copy_to(tmp_path / "data") / "pg_wal"
    assert (before.timeline, alone.timeline, at_work.timeline) == (1, 1, 2)
    with pytest.raises(UsageError, match="not in the history of timeline 2"):
        open_pipeline(wal, DBNAME, runner=LocalRunner(1), catalog=alone)
    for state in (before, at_work):
        text = text_of(open_pipeline(wal, DBNAME, runner=LocalRunner(1), catalog=state), {})
        assert "afterwards" in text
        assert expected.endswith(text) or text.endswith(expected)


@pytest.mark.parametrize("major", MAJORS)
def test_backup_of_a_standby(major: int, tmp_path: Path) -> None:
    """The data directory of a standby that was never promoted is as good as the primary's."""
    with Server(major) as primary:
        primary.sql(f"CREATE DATABASE {DBNAME}")
        primary.checkpoint()
        primary.stop()
        copied = primary.copy_to(tmp_path / "standby")
        (copied / "standby.signal").touch()
        primary.start()
        start = str(primary.value(SLOT, dbname=DBNAME))
        run_schedule(primary, make_schedule(6, 150))
        primary.checkpoint()
        _say(primary, "CREATE TABLE done (id int)", "INSERT INTO done VALUES (1)")
        expected = print_rows(primary.sql(CHANGES, dbname=DBNAME))
        primary.sql("SELECT pg_switch_wal()")
        restore = {"restore_command": f"cp {primary.wal_dir}/%f %p", "hot_standby": "on"}
        with Server(major, restore, data=copied) as standby:
            _until(lambda: bool(standby.value("SELECT count(*) FROM done", dbname=DBNAME)))
            standby.stop()
            data = standby.copy_to(tmp_path / "backup")
    case = Case("standby", major, "with_slot", data, data, expected, {"dbname": DBNAME, "start_lsn": start})
    check(case, decode(case, LocalRunner(2), captured=False, stretch_bytes=1 << 20))


@pytest.mark.parametrize("major", [14, 18])
def test_state_captured_from_a_stopped_standby(major: int, tmp_path: Path) -> None:
    """Its checkpoint may be the shutdown of the primary that it is a copy of; it has replayed more since."""
    with Server(major) as primary:
        primary.sql(f"CREATE DATABASE {DBNAME}")
        primary.stop()
        copied = primary.copy_to(tmp_path / "standby")
        (copied / "standby.signal").touch()
        primary.start()
        start = str(primary.value(SLOT, dbname=DBNAME))
        _say(primary, "CREATE TABLE t (id int)", "INSERT INTO t VALUES (1)")
        with primary.connect(DBNAME, autocommit=False) as opened:
            opened.execute("INSERT INTO t VALUES (2)")
            _say(primary, "CREATE TABLE done (id int)", "INSERT INTO done VALUES (1)", "SELECT pg_switch_wal()")
            restore = {"restore_command": f"cp {primary.wal_dir}/%f %p", "hot_standby": "on"}
            with Server(major, restore, data=copied) as standby:
                _until(lambda: bool(standby.value("SELECT count(*) FROM done", dbname=DBNAME)))
                standby.stop()
                state = capture(Source.open(standby.data_dir), LocalRunner(1), DBNAME)
        _say(primary, "ALTER TABLE t ADD v text", "INSERT INTO t VALUES (3, 'three')")
        expected = print_rows(primary.sql(CHANGES, dbname=DBNAME))
        primary.stop()
        data = primary.copy_to(tmp_path / "data")
    assert state.lsn > Lsn.parse(start)
    pipeline = open_pipeline(data, DBNAME, runner=LocalRunner(1), catalog=state, start_lsn=state.lsn)
    text = text_of(pipeline, {})
    assert expected.endswith(text)
    assert "id[integer]:2" in text


def _until(there: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            if there():
                return
        except (psycopg.Error, ValueError):
            pass
        time.sleep(0.1)
    raise AssertionError("it did not come to be within a minute")


# -- files -------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("megabytes", [2, 64, 1024])
def test_segment_sizes(megabytes: int, tmp_path: Path) -> None:
    schedule = make_schedule(7, 200)
    settings = {"wal_init_zero": "off", "min_wal_size": f"{2 * megabytes}MB"}
    _compare(with_slot(18, lambda server: run_schedule(server, schedule), tmp_path, settings, wal_segment_mb=megabytes))


@pytest.mark.parametrize("method", ["pglz", "lz4", "zstd"])
@pytest.mark.parametrize("major", MAJORS)
def test_compressed_page_images(major: int, method: str, tmp_path: Path) -> None:
    if major == 14 and method != "pglz":
        pytest.skip("since PostgreSQL 15")
    schedule = make_schedule(8, 150)
    settings = {"wal_compression": "on" if major == 14 else method}
    try:
        case = without_slot(major, lambda server: run_schedule(server, schedule), tmp_path, settings)
    except RuntimeError as error:
        if "invalid value for parameter" not in str(error):
            raise
        pytest.skip(f"this build of PostgreSQL {major} has no {method}")
    _compare(case)


@pytest.mark.parametrize(
    ("major", "strategy"), [(14, ""), *((major, each) for major in (15, 18) for each in ("WAL_LOG", "FILE_COPY"))]
)
def test_a_database_made_in_the_middle(major: int, strategy: str, tmp_path: Path) -> None:
    """Its catalogs come from those of its template, which no record of the log describes row by row."""
    with Server(major) as server:
        server.sql("CREATE DATABASE shape")
        server.sql(
            "CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE TABLE inherited (id int PRIMARY KEY, m mood, v text DEFAULT 'd')",
            dbname="shape",
        )
        server.sql("ALTER TABLE inherited ADD w int DEFAULT 3; INSERT INTO inherited VALUES (1, 'ok')", dbname="shape")
        server.checkpoint()
        server.sql("ALTER TABLE inherited ADD x int DEFAULT 4", dbname="shape")
        server.sql(f"CREATE DATABASE {DBNAME} TEMPLATE shape {f'STRATEGY {strategy}' if strategy else ''}")
        start = str(server.value(SLOT, dbname=DBNAME))
        _say(
            server,
            "INSERT INTO inherited VALUES (2, 'sad')",
            "UPDATE inherited SET v = 'changed'",
            "ALTER TABLE inherited DROP COLUMN w",
        )
        _say(
            server,
            "CREATE TABLE own (m mood[])",
            "INSERT INTO own VALUES ('{ok,sad}')",
            "DELETE FROM inherited",
            "VACUUM FULL pg_class",
        )
        _say(server, "INSERT INTO inherited VALUES (3, 'ok')")
        expected = print_rows(server.sql(CHANGES, dbname=DBNAME))
        server.stop()
        data = server.copy_to(tmp_path / "data")
    case = Case("database", major, "with_slot", data, data, expected, {"dbname": DBNAME, "start_lsn": start})
    check(case, decode(case, LocalRunner(2), captured=False))
    assert "m[mood]:'sad'" in expected


@pytest.mark.parametrize("major", MAJORS)
def test_catalogs_vacuumed_without_page_images(major: int, tmp_path: Path) -> None:
    """With full_page_writes off, the first record on a page of a catalog brings no image; freezing it takes nothing from what it says."""

    def work(server: Server) -> None:
        _say(server, "VACUUM FREEZE pg_attribute", "INSERT INTO t VALUES (1, 'one')", "UPDATE t SET id = 2")

    settings = {"full_page_writes": "off"}
    before = cluster(major, tmp_path, settings, lambda server: _say(server, "CREATE TABLE t (id int PRIMARY KEY, v text)"))
    case = with_slot(major, work, tmp_path, settings, before=before)
    _compare(case)


@pytest.mark.parametrize("major", MAJORS)
def test_wal_level_that_was_lower_where_the_log_begins(major: int, tmp_path: Path) -> None:
    """The log at hand tells of the change to logical only, not what the level was before."""
    with Server(major, {"wal_level": "replica"}) as server:
        server.sql(f"CREATE DATABASE {DBNAME}")
        server.switch_wal()
        server.stop()
        forget_other_segments(server.data_dir)
        server.start()
        _say(server, "CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
        server.stop()
        server.settings["wal_level"] = "logical"
        server.start()
        start = str(server.value(SLOT, dbname=DBNAME))
        _say(server, "INSERT INTO t VALUES (2)")
        expected = print_rows(server.sql(CHANGES, dbname=DBNAME))
        server.stop()
        data = server.copy_to(tmp_path / "data")
    first = Source.open(data).segments.first_lsn
    with pytest.raises(UsageError, match="logical decoding requires wal_level >= logical"):
        open_pipeline(data, DBNAME, runner=LocalRunner(1), start_lsn=Lsn(first))
    assert text_of(open_pipeline(data, DBNAME, runner=LocalRunner(1), start_lsn=Lsn.parse(start)), {}) == expected
    assert text_of(open_pipeline(data, DBNAME, runner=LocalRunner(1)), {}).endswith(expected)


@pytest.mark.parametrize("how", ["open", "new"])
def test_a_server_that_goes_on_while_it_is_read(how: str) -> None:
    """Between the copy of its WAL and the reading of its pages, it commits an ALTER and writes that to its files."""
    with Server(18) as server:
        server.sql(f"CREATE DATABASE {DBNAME}")
        _say(server, "CREATE TABLE t (id int)", "SELECT pg_switch_wal()")
        server.stop()
        forget_other_segments(server.data_dir)
        server.start()
        start = Lsn.parse(server.flush_lsn())
        _say(server, "INSERT INTO t VALUES (1)")
        with server.connect(DBNAME, autocommit=False) as altering:
            if how == "open":
                altering.execute("ALTER TABLE t ADD w int DEFAULT 3")
                server.switch_wal()
            source = Source.open(server.data_dir)
            if how == "new":
                altering.execute("ALTER TABLE t ADD w int DEFAULT 3")
        server.checkpoint()
        if how == "new":
            with pytest.raises(MissingHistory, match="but the WAL at hand ends at"):
                open_pipeline(source, DBNAME, runner=LocalRunner(1), start_lsn=start)
            source = Source.open(server.data_dir)
        text = text_of(open_pipeline(source, DBNAME, runner=LocalRunner(1), start_lsn=start), {"include-xids": "off"})
    assert [line.split("\t")[2] for line in text.splitlines()][:3] == ["BEGIN", "table public.t: INSERT: id[integer]:1", "COMMIT"]


@pytest.mark.parametrize("major", [15, 18])
def test_a_database_that_moves(major: int, tmp_path: Path) -> None:
    """To another tablespace, in the middle. The slot is read before that, since afterwards the server does not find those files."""
    before: list[str] = []

    def work(server: Server) -> None:
        _say(server, "CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t VALUES (1, 'before')")
        server.checkpoint()
        before.append(print_rows(server.sql(CHANGES, dbname=DBNAME)))
        with server.connect() as connection:
            for statement in (b"SET allow_in_place_tablespaces = on", b"CREATE TABLESPACE apart LOCATION ''"):
                connection.execute(statement)
            connection.execute(f"ALTER DATABASE {DBNAME} SET TABLESPACE apart".encode())
        _say(
            server,
            "INSERT INTO t VALUES (2, 'after')",
            "CREATE TABLE u (id int)",
            "INSERT INTO u VALUES (1)",
            "VACUUM FULL pg_class",
        )
        _say(server, "ALTER TABLE t SET TABLESPACE pg_default", "INSERT INTO t VALUES (3, 'back')", "INSERT INTO u VALUES (2)")

    case = with_slot(major, work, tmp_path, wal_segment_mb=1)
    _compare(replace(case, expected=before[0] + case.expected))


# -- numbers that end --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("major", [16, 18])
def test_transaction_ids_begin_again(major: int, tmp_path: Path) -> None:
    """The counter passes 2^32 in the middle: xids of old transactions are larger than those of new ones."""
    with Server(major) as server:
        server.sql(f"CREATE DATABASE {DBNAME}")
        server.sql("ALTER DATABASE template0 ALLOW_CONNECTIONS true")
        _freeze(server)
        # In two leaps: one of more than 2^31 would land in the past of what is frozen.
        for xid in (2_000_000_000, 2**32 - 120):
            server.stop()
            _leap(server, xid)
            server.start()
            _freeze(server)
        server.checkpoint()
        start = str(server.value(SLOT, dbname=DBNAME))
        run_schedule(server, make_schedule(9, 400))
        ((epoch,),) = server.sql("SELECT pg_current_xact_id()::text::numeric >= 4294967296")
        assert epoch, "the counter was to pass its end"
        expected = print_rows(server.sql(CHANGES, dbname=DBNAME))
        server.stop()
        data = server.copy_to(tmp_path / "data")
    case = Case("wraparound", major, "with_slot", data, data, expected, {"dbname": DBNAME, "start_lsn": start})
    check(case, decode(case, LocalRunner(2), captured=False, stretch_bytes=1 << 20))


@pytest.mark.parametrize("major", [16, 18])
def test_file_numbers_begin_again(major: int, tmp_path: Path) -> None:
    """The counter that numbers files comes round, and only files of one tablespace are kept apart: a table gets the number of another table's file,
    and one that of a catalog's."""

    def number_of(name: str) -> int:
        return int(str(server.value(f"SELECT pg_relation_filenode('{name}')", dbname=DBNAME)))

    with Server(major) as server:
        server.sql(f"CREATE DATABASE {DBNAME}")
        with server.connect() as connection:
            for statement in (b"SET allow_in_place_tablespaces = on", b"CREATE TABLESPACE apart LOCATION ''"):
                connection.execute(statement)
        _say(server, "CREATE TABLE a (id int)", *(f"CREATE TABLE {name} (t name) TABLESPACE apart" for name in "bc"))
        _say(server, "VACUUM FULL pg_class")
        first, of_catalog = number_of("a"), number_of("pg_class")
        server.stop()
        server.run_offline("pg_resetwal", "-o", str(first), "-D", str(server.data_dir))
        server.start()
        start = str(server.value(SLOT, dbname=DBNAME))
        _say(server, "TRUNCATE b")
        assert number_of("b") == first
        for _ in range(of_catalog - first):
            if number_of("c") != of_catalog:
                _say(server, "TRUNCATE c")
        assert number_of("c") == of_catalog
        for turn in range(3):
            _say(server, f"INSERT INTO a VALUES ({turn})", "INSERT INTO b VALUES ('b')", "INSERT INTO c VALUES ('c')")
            _say(server, f"ALTER TABLE a ADD column_{turn} int", "UPDATE c SET t = 'changed'")
        expected = print_rows(server.sql(CHANGES, dbname=DBNAME))
        server.stop()
        data = server.copy_to(tmp_path / "data")
    case = Case("file numbers", major, "with_slot", data, data, expected, {"dbname": DBNAME, "start_lsn": start})
    for stretch_bytes in (1 << 17, 64 << 20):
        check(case, decode(case, LocalRunner(1), captured=False, stretch_bytes=stretch_bytes))


@pytest.mark.parametrize("major", MAJORS)
def test_multixacts_of_before_the_log(major: int, tmp_path: Path) -> None:
    """Catalog rows that were updated while others held locks on them, as the data directory has them when the log begins."""
    with Server(major) as server:
        server.sql(f"CREATE DATABASE {DBNAME}")
        _say(
            server,
            "CREATE TABLE t (id int)",
            "CREATE TABLE u (id int)",
            "CREATE TYPE mood AS ENUM ('sad', 'ok')",
            "CREATE TABLE m (m mood)",
        )
        lock = b"SELECT FROM pg_class WHERE relname IN ('t', 'u') FOR KEY SHARE"
        with server.connect(DBNAME, autocommit=False) as one, server.connect(DBNAME, autocommit=False) as other:
            for connection in (one, other):
                connection.execute("SET lock_timeout = '5s'")
                connection.execute(lock)
            other.execute("ALTER TABLE t ADD w int DEFAULT 7")
            one.execute("ALTER TABLE u ADD lost int")
            other.commit()
            one.commit()
        server.checkpoint()
        server.switch_wal()
        server.stop()
        forget_other_segments(server.data_dir)
        server.start()
        start = str(server.value(SLOT, dbname=DBNAME))
        _say(server, "INSERT INTO t VALUES (1)", "INSERT INTO u VALUES (2, 3)")
        _say(
            server,
            "ALTER TABLE t ADD x int",
            "INSERT INTO t VALUES (4, 5, 6)",
            "VACUUM FULL pg_class",
            "INSERT INTO u VALUES (7, 8)",
        )
        expected = print_rows(server.sql(CHANGES, dbname=DBNAME))
        server.stop()
        data = server.copy_to(tmp_path / "data")
    case = Case("multixacts", major, "with_slot", data, data, expected, {"dbname": DBNAME, "start_lsn": start})
    check(case, decode(case, LocalRunner(1), captured=False))
    pipeline = open_pipeline(data, DBNAME, runner=LocalRunner(1))
    assert any((data / "pg_multixact" / "members" / "0000").read_bytes()[:8192])
    assert not (pipeline.catalogs.state.versions.columns.hints & XMAX_MULTI).any()


def test_a_row_of_nearly_a_gigabyte(tmp_path: Path) -> None:
    """PostgreSQL prints what fits a gigabyte; so much we print as well, and the same."""
    with Server(18) as server:
        server.sql(f"CREATE DATABASE {DBNAME}")
        server.checkpoint()
        start = str(server.value(SLOT, dbname=DBNAME))
        _say(server, "CREATE TABLE t (id int, v text)", "INSERT INTO t SELECT 1, repeat('0123456789', 70000000)")
        theirs = server.sql(
            "SELECT length(data), md5(data) FROM pg_logical_slot_get_changes('s', NULL, NULL) WHERE left(data, 6) = 'table '",
            dbname=DBNAME,
        )
        server.stop()
        pipeline = open_pipeline(server.data_dir, DBNAME, runner=LocalRunner(1), start_lsn=Lsn.parse(start))
        ours = text_of(pipeline, {"include-xids": "off", "skip-empty-xacts": "on"}).split("\n")
    (row,) = [line.split("\t", 2)[2] for line in ours if "\ttable " in line[:60]]
    assert [(len(row), _md5(row))] == theirs


def _md5(text: str) -> str:
    return hashlib.md5(text.encode()).hexdigest()


def _leap(server: Server, xid: int) -> None:
    """Let the next transaction id be `xid`. Commit status is kept for 2^20 xids a file; pg_resetwal makes none for the new ones."""
    first = sorted((server.data_dir / "pg_xact").iterdir())[0]
    owner = first.stat()
    for number in (xid >> 20, 0):
        file = first.with_name(f"{number:04X}")
        file.write_bytes(bytes(256 << 10))
        shutil.chown(file, owner.st_uid, owner.st_gid)
    server.run_offline("pg_resetwal", "-x", str(xid), "-D", str(server.data_dir))


def _freeze(server: Server) -> None:
    for database in ("postgres", "template0", "template1", DBNAME):
        server.sql("VACUUM (FREEZE, DISABLE_PAGE_SKIPPING)", dbname=database)
