"""Sessions of workers join the snapshot of others, and copy only what these have kept as it was."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from support.own_database import servers_with_databases
from support.servers import Server
from support.waiting import until
from tailrace.client.copy_sessions import JoiningSessions
from tailrace.client.server_snapshot import ServerSnapshot
from tailrace.errors import PeerError
from tailrace.model import Relation

pytestmark = pytest.mark.postgres
running, server = servers_with_databases({})


@pytest.fixture
def snapshot(server: Server) -> Iterator[ServerSnapshot]:
    server.say("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    with ServerSnapshot.taken(server.dsn(), server.dbname, 2, lambda _: None, lambda: False) as snapshot:
        assert snapshot is not None
        yield snapshot


def _table(server: Server) -> Relation:
    return Relation(int(server.value("SELECT 't'::regclass::oid")), "public", "t", "r", "p", "d", 0, ())


def test_it_sees_what_the_others_see_and_locks_the_table(server: Server, snapshot: ServerSnapshot) -> None:
    server.say("INSERT INTO t VALUES (2)")
    sessions = snapshot.joined_by_workers(server.dbname)
    session = sessions.get()
    sessions.lock(session, _table(server))
    assert session.execute("SELECT * FROM t").fetchall() == [(1,)]
    held = "SELECT count(*) FROM pg_locks WHERE granted AND relation = 't'::regclass AND pid = "
    assert int(server.value(held + str(session.info.backend_pid))) == 1
    sessions.put(session)


def test_who_held_the_lock_is_gone(server: Server, snapshot: ServerSnapshot) -> None:
    """Somebody may have rewritten the table since; the snapshot would see rows in other places than its pages have them."""
    sessions = snapshot.joined_by_workers(server.dbname)
    session = sessions.get()
    server.say(f"SELECT pg_terminate_backend({snapshot.holder}, 10000)")
    with pytest.raises(PeerError, match="the session that holds the snapshot and the tables' locks is gone"):
        sessions.lock(session, _table(server))
    sessions.put(session)
    with pytest.raises(PeerError):
        sessions.get()


def test_who_waits_behind_one_that_waits_for_the_others(server: Server, snapshot: ServerSnapshot) -> None:
    def alter() -> None:
        with suppress(psycopg.errors.LockNotAvailable):
            server.say("SET lock_timeout = '4s'", "ALTER TABLE t ADD v int")

    alters = threading.Thread(target=alter)
    alters.start()
    until(lambda: int(server.value("SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 't'::regclass")) == 1)
    sessions = snapshot.joined_by_workers(server.dbname)
    session = sessions.get()
    with pytest.raises(psycopg.errors.LockNotAvailable):
        sessions.lock(session, _table(server))
    sessions.put(session)
    alters.join()


def test_what_another_machine_has_not(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A password file, a service file, the environment."""
    passwords, services = tmp_path / "pgpass", tmp_path / "services"
    passwords.write_text("*:*:*:*:from the file\n")
    passwords.chmod(0o600)
    services.write_text(f"[there]\nhost=127.0.0.1\nport={server.port}\nuser=postgres\n")
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    monkeypatch.setenv("PGPASSFILE", str(passwords))
    with psycopg.connect(f"service=there dbname={server.dbname}") as session:
        sessions = JoiningSessions.of(session, server.dbname, "", 0)
    for name in ("PGSERVICEFILE", "PGPASSFILE"):
        monkeypatch.delenv(name)
    passwords.unlink()
    services.unlink()
    assert "from the file" in sessions.words
    assert "from the file" not in repr(sessions)
    with psycopg.connect(sessions.words) as session:
        assert session.info.dbname == server.dbname


def test_all_are_on_one_of_several_servers(server: Server) -> None:
    """Whichever of those that a connection string names was asked first."""
    with Server(18, test_decoding=False) as other:
        other.say(f"CREATE DATABASE {server.dbname}")
        ports = f"{server.port},{other.port}"
        dsn = f"host=127.0.0.1,127.0.0.1 port={ports} user=postgres load_balance_hosts=random"
        with ServerSnapshot.taken(dsn, server.dbname, 7, lambda _: None, lambda: False) as snapshot:
            assert snapshot is not None
            sessions = [snapshot.asked, *(snapshot.sessions.get() for _ in range(7))]
            assert len({each.info.port for each in sessions}) == 1
