"""A catalog state taken over a connection: what is decoded from it equals what the server's own slot gives."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import numpy as np
import pytest

from support.command import Run
from support.decoding import text_of
from support.live_capture import GRANT, capture_under_ddl
from support.servers import Server
from support.standbys import caught_up, standby_of
from tailrace.catalog.data_directory.commit_status import IN_PROGRESS
from tailrace.client.base_backup import BaseBackup, WantedFiles, complete_commit_status
from tailrace.client.catalog_files import NotLetIn, ServerFiles
from tailrace.client.receiver import Receiver
from tailrace.client.reception import receiving
from tailrace.client.replication_connection import ReplicationConnection
from tailrace.errors import CorruptFile, PeerError, UsageError
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner, open_pipeline
from tailrace.pipeline.capture_live import capture_live
from tailrace.sources.source import Source
from tailrace.storage.directory import DataDirectory

pytestmark = pytest.mark.postgres
ALL = [18, *(pytest.param(major, marks=pytest.mark.matrix) for major in (14, 15, 16, 17))]
READER = "CREATE ROLE reader LOGIN REPLICATION"
BY_BACKUP = "catalogs are taken from a base backup: "


def _say(text: str) -> None:
    print(text)


def _has_backups(said: list[str]) -> int:
    """How many base backups were taken."""
    return sum(BY_BACKUP in line or "another base backup" in line for line in said)


def _as_reader(server: Server) -> str:
    return f"{server.dsn()} user=reader"


@pytest.mark.parametrize("major", ALL)
def test_by_a_role_with_the_grant(major: int, tmp_path: Path) -> None:
    with Server(major, dbname="app") as server:
        server.say(READER, GRANT)
        assert not _has_backups(capture_under_ddl(server, _as_reader(server), tmp_path))


@pytest.mark.parametrize("major", ALL)
def test_by_a_role_without_it(major: int, tmp_path: Path) -> None:
    """By a base backup, of which SQL says which files are the catalogs'."""
    with Server(major, dbname="app") as server:
        server.say(READER, "VACUUM FULL pg_class", "VACUUM FULL pg_attribute")
        said = capture_under_ddl(server, _as_reader(server), tmp_path)
    assert _has_backups(said) == 1


def test_it_is_said_why(tailrace: Run, tmp_path: Path) -> None:
    """To who captures a state, and to who creates a slot. Who reads a log once is refused."""
    with Server(18, dbname="app") as server:
        server.say(READER, "CREATE TABLE t (a int)")
        dsn = _as_reader(server)
        captured = tailrace("catalog", "capture", dsn, "--database", "app", "-o", tmp_path / "state", "--max-rate", 1 << 20)
        created = tailrace("slot", "create", "s", dsn, "--database", "app", "--state", tmp_path / "slots")
        with pytest.raises(PeerError, match="permission denied for function pg_read_binary_file") as caught:
            Source.open(dsn, database="app")  # a backup begins where the log ends
        assert (caught.value.hint, caught.value.sqlstate) == (f'In database "app": {GRANT};', "42501")
    for done in (captured, created):
        assert done[0] == 0
        assert done[2].splitlines()[:2] == [
            f"tailrace: warning: {BY_BACKUP}permission denied for function pg_read_binary_file",
            f'HINT:  In database "app": {GRANT};',
        ]


@pytest.mark.parametrize("major", ALL)
def test_by_a_role_that_may_not_connect(major: int, tmp_path: Path) -> None:
    """Where SQL says nothing, one backup says of the next one which files are wanted."""
    with Server(major, dbname="app") as server:
        server.say(
            READER, "REVOKE CONNECT ON DATABASE app FROM PUBLIC", "CREATE TABLE read (a int) WITH (user_catalog_table = true)",
            "VACUUM FULL pg_class", "VACUUM FULL pg_namespace", "VACUUM FULL pg_database",
        )  # fmt: skip
        said = capture_under_ddl(server, _as_reader(server), tmp_path)
    assert _has_backups(said) == 3
    assert 'permission denied for database "app"' in said[0]
    assert said[0].endswith("HINT:  GRANT CONNECT ON DATABASE app TO reader;")


def test_how_often_a_backup_is_taken(tmp_path: Path) -> None:
    """Once where nothing was rewritten. Else a backup tells of the map, another of pg_class, and a third one has all."""
    with Server(18, dbname="app") as server:
        server.say(READER, "REVOKE CONNECT ON DATABASE app FROM PUBLIC", "CREATE TABLE t (a int)")
        for statement, backups in (("SELECT", 1), ("VACUUM FULL pg_namespace", 2), ("VACUUM FULL", 3)):
            server.say(statement)
            said: list[str] = []
            state, _ = capture_live(_as_reader(server), "app", None, LocalRunner(1), said.append)
            assert _has_backups(said) == backups
            assert state.files[(state.database, server.value("SELECT pg_relation_filenode('pg_namespace')"))] == 2615


@pytest.mark.parametrize("has_grant", [True, False])
def test_of_a_standby(has_grant: bool, tmp_path: Path) -> None:
    with Server(18, dbname="app") as primary:
        primary.say(READER, *([GRANT] if has_grant else []))
        with standby_of(primary, tmp_path) as standby:
            caught_up(standby, primary)
            said = capture_under_ddl(primary, _as_reader(standby), tmp_path)
    assert _has_backups(said) == (not has_grant)


@pytest.mark.parametrize("has_grant", [True, False])
def test_of_a_database_in_a_tablespace(has_grant: bool, tmp_path: Path) -> None:
    with Server(18, dbname="app") as server:
        place = server.home / "place"
        place.mkdir()
        server._give_away()
        server.sql(f"CREATE TABLESPACE place LOCATION '{place}'", dbname="postgres")
        server.sql("ALTER DATABASE app SET TABLESPACE place", dbname="postgres")
        server.say(READER, *([GRANT] if has_grant else []), "VACUUM FULL pg_class")
        capture_under_ddl(server, _as_reader(server), tmp_path)


def test_while_full_page_writes_is_off(tmp_path: Path) -> None:
    """Pages have images while a base backup is taken, and else none."""
    with Server(18, {"full_page_writes": "off"}, dbname="app") as server:
        server.say(READER, GRANT)
        said = capture_under_ddl(server, _as_reader(server), tmp_path)
    assert "while full_page_writes is off" in said[0]


def test_a_transaction_that_is_rewriting_a_catalog(tmp_path: Path) -> None:
    """It has written its file before the state is captured, and tells of it afterwards; what changes there then is logged as a change alone."""
    with Server(18, dbname="app") as server, server.connect(autocommit=False) as rewriting:
        server.say("CREATE TABLE t (a int DEFAULT 1, b int DEFAULT 2)")
        server.checkpoint()
        with receiving(Receiver(server.dsn(), tmp_path)) as reception:
            reception.wait(Lsn(1))
            rewriting.execute("CLUSTER pg_attrdef USING pg_attrdef_oid_index")
            server.say("CREATE TABLE other (a int)")  # so that it is flushed
            state, _ = capture_live(server.dsn(), "app", tmp_path, LocalRunner(1), _say)
            rewriting.commit()
            server.say("UPDATE pg_attrdef SET adnum = adnum", "INSERT INTO t DEFAULT VALUES")
            reception.wait(Lsn.parse(server.flush_lsn()))
        text = text_of(open_pipeline(Source.open(tmp_path), "app", catalog=state), {})
    assert "table public.t: INSERT: a[integer]:1 b[integer]:2" in text


def test_a_catalog_that_is_just_being_rewritten() -> None:
    """No name leads to its new file yet, of which pages may be older than the log at hand, and are not logged whole when they are changed."""
    with Server(18, {"full_page_writes": "off"}, dbname="app") as server, server.connect(autocommit=False) as rewriting:
        server.say("CREATE TABLE t (a int DEFAULT 1)")
        rewriting.execute("CLUSTER pg_attrdef USING pg_attrdef_oid_index")
        ends = threading.Timer(0.3, rewriting.commit)
        with ServerFiles.connected(server.dsn(), "app") as files:
            ends.start()
            database, found = files.catalog_files()
        ends.join()
        assert (database, server.value("SELECT pg_relation_filenode('pg_attrdef')::bigint")) in found


def test_without_a_receiver(tmp_path: Path) -> None:
    with Server(18, dbname="app") as server:
        server.say("CREATE TABLE t (id int)")
        state, _ = capture_live(server.dsn(), "app", None, LocalRunner(1), _say)
        assert state.database_name == "app"
        assert state.complete


def test_a_wal_level_below_logical_is_warned_of(tailrace: Run, tmp_path: Path) -> None:
    with Server(18, {"wal_level": "replica"}, dbname="app") as server:
        done = tailrace("catalog", "capture", server.dsn(), "--database", "app", "-o", tmp_path / "state")
    assert (done[0], "wal_level is below logical" in done[2]) == (0, True)


def test_what_is_missing_of_rights_is_named() -> None:
    """Whoever may not have the log gets no state, whatever else he may."""
    with Server(18, dbname="app") as server:
        server.say("CREATE ROLE reader LOGIN", "CREATE ROLE nobody LOGIN", GRANT)
        for role in ("reader", "nobody"):
            with pytest.raises(PeerError, match="permission denied to start WAL sender") as caught:
                capture_live(f"{server.dsn()} user={role}", "app", None, LocalRunner(1), _say)
            assert "Only roles with the REPLICATION attribute may start a WAL sender process." in str(caught.value)
        with pytest.raises(UsageError, match='database "absent" does not exist'):
            capture_live(server.dsn(), "absent", None, LocalRunner(1), _say)
        server.say("ALTER ROLE nobody REPLICATION", "CREATE DATABASE other")
        rules = server.data_dir / "pg_hba.conf"
        rules.write_text("host app,other,absent nobody 127.0.0.1/32 reject\n" + rules.read_text())
        server.say("SELECT pg_reload_conf()", "SELECT pg_sleep(0.2)")
        state, _ = capture_live(f"{server.dsn()} user=nobody", "other", None, LocalRunner(1), _say)
        assert state.database_name == "other"
        with pytest.raises(UsageError, match='database "absent" does not exist') as caught_here:
            capture_live(f"{server.dsn()} user=nobody", "absent", None, LocalRunner(1), _say)
        assert caught_here.value.sqlstate == "3D000"


def test_who_connects_in_plain_text_is_told_to_encrypt() -> None:
    """Where a database lets nobody in otherwise."""
    with Server(18, dbname="app") as server:
        rules = server.data_dir / "pg_hba.conf"
        rules.write_text("hostssl app reader all trust\nlocal all postgres trust\nhost all postgres 127.0.0.1/32 trust\n")
        server.say("CREATE ROLE reader LOGIN", "SELECT pg_reload_conf()", "SELECT pg_sleep(0.2)")
        with (
            pytest.raises(NotLetIn, match=r"no pg_hba\.conf entry .* no encryption") as caught,
            ServerFiles.connected(f"{server.dsn()} user=reader sslmode=disable", "app"),
        ):
            pass
        assert caught.value.hint.startswith("sslmode=require")


def test_transactions_that_began_after_pg_xact_was_copied(tmp_path: Path) -> None:
    """pg_control comes last, and knows of transactions that stand in no file that came before."""
    with Server(18, dbname="app") as server, ReplicationConnection(server.dsn()) as connection:
        BaseBackup.begun(connection).take(tmp_path / "data", WantedFiles(), lambda _: None)
        server.say(
            "CREATE TEMP TABLE t (a int); DO $$ BEGIN FOR i IN 1..33000 LOOP "
            "BEGIN INSERT INTO t VALUES (i); EXCEPTION WHEN division_by_zero THEN NULL; END; END LOOP; END $$",
            "CHECKPOINT",
        )
        shutil.copy(server.data_dir / "global/pg_control", tmp_path / "data/global/pg_control")
    directory = DataDirectory(tmp_path / "data")
    last = np.array([directory.control().next_xid - 1])
    with pytest.raises(CorruptFile, match="could not access status of transaction"):
        directory.commit_status().of(last)
    complete_commit_status(directory)
    assert directory.commit_status().of(last) == [IN_PROGRESS]
