"""Sessions on a server that is reached by its connection string: what they leave there and here, and what is in their way."""

from __future__ import annotations

import os
import threading
from itertools import cycle
from pathlib import Path

import pytest

from support.command import Run
from support.servers import Server
from tailrace.client import reception
from tailrace.client.receiver import LOCK
from tailrace.client.replication_connection import server_identity
from tailrace.errors import PeerError
from tailrace.model import Lsn
from tailrace.replication.retention import retention_of
from tailrace.replication.slot_location import SlotLocation
from tailrace.sources import received_log as received
from tailrace.sources.received_log import ReceivedLog
from tailrace.storage.file_lock import FileLock

pytestmark = pytest.mark.postgres
KEEPS = {"wal_keep_size": "200MB"}
TABLES = "SELECT relname FROM pg_class WHERE relname LIKE 't_'"


def _whole(state: Path) -> list[str]:
    return sorted(path.name for path in (state / "received").glob("0*[0-9A-F]"))


def test_they_alone_keep_no_log(tailrace: Run, tmp_path: Path) -> None:
    """What a session has not seen yet it asks the server for."""
    state = tmp_path / "state"
    with Server(18, KEEPS, dbname="app") as server:

        def session() -> str:
            code, out, err = tailrace("sql", server.dsn(), "--database", "app", "--state", state, "-At", "-c", TABLES)
            assert code == 0, err
            return out

        server.say("CREATE TABLE t1 (id int)")
        code, out, err = tailrace("history", server.dsn(), "t1")  # of the database that the connection string names
        assert (code, "create" in out.lower()) == (0, True), err
        assert session() == "t1\n"
        for number in range(2, 6):
            server.say(f"CREATE TABLE t{number} (id int)")
            server.switch_wal()
        server.say("CREATE TABLE t6 (id int)")
        assert session().split() == [f"t{number}" for number in range(1, 7)]
        assert len(_whole(state)) == 1
        log = ReceivedLog(state / "received")
        with log.receiving(lambda _: None) as coming:  # as `serve` does
            for _ in range(4):
                server.say("INSERT INTO t1 VALUES (1)")
                server.switch_wal()
            coming.wait(Lsn.parse(server.flush_lsn()))
            retention_of(log, lambda _: None).clean_up()
            assert len(_whole(state)) == 1


def test_the_last_slot_takes_the_servers_with_it(tailrace: Run, tmp_path: Path) -> None:
    """Though it is dropped over SQL, by a session that receives with it."""
    state = tmp_path / "state"
    with Server(18, KEEPS, dbname="app") as server:
        code, _, err = tailrace(
            "slot", "create", "s", server.dsn(), "--database", "app", "--state", state, "--physical-slot", "kept"
        )
        assert code == 0, err
        assert server.sql("SELECT slot_name FROM pg_replication_slots") == [("kept",)]
        drop = "SELECT pg_drop_replication_slot('s')"
        code, _, err = tailrace("sql", server.dsn(), "--database", "app", "--state", state, "-c", drop)
        assert (code, 'replication slot "kept" is active' in err) == (0, True), err
        assert server.sql("SELECT slot_name FROM pg_replication_slots") == []


def test_who_is_refused_hears_it(tailrace: Run, tmp_path: Path) -> None:
    """Where the server is only away, what was received before has to do."""
    state = ("--state", tmp_path / "state")
    with Server(18, KEEPS, dbname="app") as server:
        server.say("CREATE ROLE other SUPERUSER LOGIN REPLICATION")
        dsn = server.dsn().replace("user=postgres", "user=other")
        code, _, err = tailrace("slot", "create", "s", dsn, "--database", "app", *state)
        assert code == 0, err
        server.say("ALTER ROLE other NOSUPERUSER NOREPLICATION")
        words = ("sql", dsn, "--database", "app", *state, "-c", "SELECT slot_name FROM pg_replication_slots")
        code, out, err = tailrace(*words)
        assert (code, out, "ALTER ROLE other REPLICATION;" in err, "received before" in err) == (1, "", True, False), err
        said: list[str] = []
        at_two = f"host=127.0.0.1,127.0.0.1 port=1,{server.port} user=other"
        with pytest.raises(PeerError, match="permission denied to start WAL sender"):
            received.identity_unless_away(at_two, tmp_path / "state/received", said.append)
        server.stop()
        assert received.identity_unless_away(dsn, tmp_path / "state/received", said.append) is None
        assert "there is what was received before, up to 0/" in said[0]
        with pytest.raises(PeerError, match="Connection refused"):
            received.identity_unless_away(dsn, tmp_path / "nothing", said.append)


def test_a_receiver_that_was_killed_before_its_first_byte(tailrace: Run, tmp_path: Path) -> None:
    """It leaves an empty segment, which may be of WAL that the server has removed by now."""
    state = tmp_path / "state"
    with Server(18, {"wal_keep_size": 0, "max_wal_size": "2MB", "min_wal_size": "2MB"}, dbname="app") as server:
        SlotLocation.open_or_create(state, server_identity(server.dsn()).system)
        log = ReceivedLog.made(state, server.dsn())
        empty = log.directory / "000000010000000000000001.partial"
        empty.touch()
        os.truncate(empty, 1 << 20)
        code, _, err = tailrace("slot", "create", "s", server.dsn(), "--database", "app", "--state", state)
        assert code == 0, err
        assert not empty.exists()


def test_who_comes_no_nearer_is_not_waited_for_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a receiver on a full disk, which begins again and again at its segment's beginning."""
    monkeypatch.setattr(reception, "_PATIENCE", 0.5)
    lock = FileLock.take(tmp_path / LOCK)
    assert lock is not None
    ends = threading.Event()

    def begin_again_and_again() -> None:
        for lsn in cycle(("0/800000", "0/801000")):
            lock.write(f"{lsn}\n")
            if ends.wait(0.02):
                return

    thread = threading.Thread(target=begin_again_and_again)
    thread.start()
    try:
        with pytest.raises(PeerError, match="did not come up to 0/900000"):
            reception.Reception(tmp_path).wait(Lsn(0x900000))
    finally:
        ends.set()
        thread.join()
        lock.release()
