"""libpq called by ctypes, and psycopg's module `pq`, which takes its place where its library is not found: one says what the other says."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.servers import Server
from tailrace.client import conninfo, libpq, replication_connection
from tailrace.client.libpq import Libpq
from tailrace.client.receiver import Receiver
from tailrace.client.replication_connection import ReplicationConnection
from tailrace.errors import PeerError, UsageError
from tailrace.model import Lsn
from tailrace.wire.stream import wal_in

BOTH = [libpq.libpq, libpq._psycopgs]
Used = Callable[[], Libpq]


@pytest.fixture(params=BOTH, ids=["ctypes", "psycopg"])
def used(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Used:
    chosen: Used = request.param
    for module in (conninfo, replication_connection):
        monkeypatch.setattr(module, "libpq", chosen)
    return chosen


def test_it_is_found_in_the_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    assert libpq.libpq().connection is libpq.PGconn
    for name in ("python", "c"):
        monkeypatch.setenv("PSYCOPG_IMPL", name)
        assert libpq.libpq_file() is None


def test_a_file_that_is_no_libpq(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = tmp_path / "libpq.so"
    wrong.write_bytes(b"not a library")
    monkeypatch.setattr(libpq, "libpq_file", lambda: str(wrong))
    assert libpq.libpq.__wrapped__().connection is not libpq.PGconn


STRINGS = {
    "": {},
    r"host=a user='two words' password='it\'s \\ here' dbname=''": {
        "host": "a",
        "user": "two words",
        "password": r"it's \ here",
        "dbname": "",
    },
    "postgresql://u%20s@h:1/d?sslmode=require": {"user": "u s", "host": "h", "port": "1", "dbname": "d", "sslmode": "require"},
    "host=ä": {"host": "ä"},
}


@pytest.mark.parametrize("dsn", STRINGS)
def test_connection_strings(used: Used, dsn: str) -> None:
    assert conninfo.parameters_of(dsn) == STRINGS[dsn]
    assert conninfo.parameters_of(conninfo.conninfo_of(dsn, dbname="new one", port=None)) == STRINGS[dsn] | {"dbname": "new one"}


WRONG = {"host": 'missing "=" after "host" in connection info string', "nix=1": 'invalid connection option "nix"'}


@pytest.mark.parametrize(("dsn", "said"), list(WRONG.items()))
def test_strings_that_are_wrong(used: Used, dsn: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        conninfo.parameters_of(dsn)
    assert caught.value.message == said
    with pytest.raises(UsageError, match='invalid connection option "nix"'):
        conninfo.conninfo_of("host=a", nix=1)


def test_who_is_not_let_in(used: Used) -> None:
    with pytest.raises(PeerError) as caught:
        ReplicationConnection("host=127.0.0.1 port=1 user=u")
    assert caught.value.sqlstate == "08001"
    assert caught.value.message.startswith('connection to server at "127.0.0.1", port 1 failed: Connection refused')
    raw = used().connection.connect(b"host=127.0.0.1 port=1 user=u")
    assert {each.keyword: each.val for each in raw.info if each.keyword in (b"user", b"port")} == {b"user": b"u", b"port": b"1"}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(18, {"wal_keep_size": "200MB"}) as server:
        server.say("CREATE TABLE t (id int, v text)")
        yield server


@pytest.mark.postgres
def test_rows_and_errors(used: Used, server: Server) -> None:
    with ReplicationConnection(server.dsn()) as connection:
        rows = connection._rows("IDENTIFY_SYSTEM")
        assert [len(row) for row in rows] == [4]
        assert rows[0][3] == ""  # NULL: no database
        with pytest.raises(PeerError) as caught:
            connection.drop_slot("nix")
        assert (caught.value.message, caught.value.sqlstate) == ('replication slot "nix" does not exist', "42704")
        with pytest.raises(PeerError) as caught:
            connection.show("nix")
        assert caught.value.sqlstate == "42704"


@pytest.mark.postgres
def test_the_same_log(used: Used, server: Server, tmp_path: Path) -> None:
    _check_same_log(server, server.dsn(), tmp_path)


def _check_same_log(server: Server, dsn: str, tmp_path: Path) -> None:
    begin = server.flush_lsn()
    server.say("INSERT INTO t SELECT i, repeat('x', 1000) FROM generate_series(1, 5000) i")
    end = Lsn.parse(server.flush_lsn())
    assert Receiver(dsn, tmp_path, begin=Lsn.parse(begin), upto=end, retries=False).run() >= end
    whole = sorted(tmp_path.glob("0*[0-9A-F]"))
    assert len(whole) > 3
    assert [path.name for path in whole if path.read_bytes() != (server.wal_dir / path.name).read_bytes()] == []


@pytest.fixture(scope="module")
def encrypted(server: Server) -> str:
    """How to connect to the server with TLS."""
    key, certificate = server.data_dir / "server.key", server.data_dir / "server.crt"
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    subprocess.run([*words, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    owner = server.data_dir.stat()
    for path in (key, certificate):
        path.chmod(0o600)
        os.chown(path, owner.st_uid, owner.st_gid)
    server.say("ALTER SYSTEM SET ssl = on", "ALTER SYSTEM SET wal_sender_timeout = 0", "SELECT pg_reload_conf()")
    until = time.monotonic() + 30
    while server.sql("SHOW ssl") != [("on",)] and time.monotonic() < until:
        time.sleep(0.05)
    return f"{server.dsn('postgres')} sslmode=require"


@pytest.mark.postgres
def test_what_openssl_has_read_is_not_waited_for(used: Used, server: Server, encrypted: str) -> None:
    """A message of a little more than 16 kB takes two records of TLS. Who reads ahead has the second with the first, and the socket says no
    more."""
    with ReplicationConnection(encrypted) as connection:
        connection.start(Lsn.parse(server.flush_lsn()), 1)
        messages, end = connection.messages(), 0
        for size in (*range(15_900, 16_500, 25), *range(1000, 40_000, 3000)):
            server.say(f"SELECT pg_logical_emit_message(true, '', repeat('x', {size}))")
            wanted, began = Lsn.parse(server.flush_lsn()), time.monotonic()
            while end < wanted:
                data = next(messages)
                if data is None:
                    connection.wait(10.0)
                elif (wal := wal_in(data)) is not None:
                    end = wal[0] + len(wal[2])
            assert time.monotonic() - began < 5, size


@pytest.mark.postgres
def test_the_same_log_over_tls(used: Used, server: Server, encrypted: str, tmp_path: Path) -> None:
    _check_same_log(server, encrypted, tmp_path)


def _streamed(connection: ReplicationConnection) -> None:
    """To its end."""
    for data in connection.messages():
        if data is None:
            connection.wait(1.0)
    connection.end_of_stream()


@pytest.mark.postgres
@pytest.mark.parametrize("way", ["plain", "TLS"])
def test_a_connection_that_is_lost(used: Used, server: Server, encrypted: str, way: str) -> None:
    with ReplicationConnection(encrypted if way == "TLS" else server.dsn()) as connection:
        connection.start(Lsn.parse(server.flush_lsn()), 1)
        server.say("SELECT pg_terminate_backend(pid) FROM pg_stat_replication")
        with pytest.raises(PeerError) as caught:
            _streamed(connection)
        assert caught.value.sqlstate in ("57P01", "08006")
        with pytest.raises(PeerError):
            connection.identify()


@pytest.mark.postgres
def test_a_fork_leaves_its_parents_connection_alone(used: Used, server: Server) -> None:
    """A child that has a copy of it and ends as Python does would end the session."""
    kept: list[Any] = [ReplicationConnection(server.dsn())]
    child = os.fork()
    if not child:
        kept.clear()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    with kept[0] as connection:
        assert connection.identify().timeline == 1
