"""PostgreSQL's own programs, and drivers: the manual's sessions with pg_recvlogical, side by side with the server's."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import psycopg
import pytest

from support.builds import find_build
from support.fetched_programs import made, needed, run
from support.sampling import some_of
from support.served import Served
from support.servers import Server

pytestmark = pytest.mark.postgres
MAJORS = [pytest.param(18), *(pytest.param(each, marks=pytest.mark.matrix) for each in (15, 16, 17))]
Side = Server | Served


@pytest.fixture(params=MAJORS)
def both(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Server, Served]]:
    with (
        Server(request.param, {"max_prepared_transactions": 10, "logical_decoding_work_mem": "64kB"}) as server,
        Served(server.data_dir, tmp_path / "state", "--max-wal-senders", "20") as served,
    ):
        server.say("CREATE TABLE data (id serial PRIMARY KEY, data text)", "CREATE PUBLICATION p FOR ALL TABLES")
        yield server, served


def _run(server: Server, side: Side, *words: str, program: str = "pg_recvlogical") -> subprocess.CompletedProcess[str]:
    command = [str(find_build(server.major, test_decoding=False).bin(program)), "-d", side.dsn(), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def _start(server: Server, side: Side, file: Path, *words: str) -> subprocess.Popen[bytes]:
    program = str(find_build(server.major, test_decoding=False).bin("pg_recvlogical"))
    return subprocess.Popen([program, "-d", side.dsn(), "--start", "-f", str(file), "-F", "1", *words], stderr=subprocess.PIPE)


def _until(is_so: Any) -> None:
    until = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.05)


def _sessions(
    server: Server, served: Served, tmp_path: Path, create: Sequence[str], statements: Sequence[str], last: str
) -> list[str]:
    """What both write of these statements, until both have a line that ends so; Ctrl-C ends them."""
    files, running = [tmp_path / "theirs", tmp_path / "ours"], []
    for side, file in zip((server, served), files, strict=True):
        done = _run(server, side, "--slot=test", "--create-slot", *create)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        running.append(_start(server, side, file, "--slot=test"))
    for statement in statements:
        server.say(statement)
    for file in files:
        _until(lambda file=file: file.exists() and file.read_text().rstrip("\n").endswith(last))
    for process in running:
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    for side in (server, served):
        done = _run(server, side, "--slot=test", "--drop-slot")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return [file.read_text() for file in files]


def test_the_manuals_session(both: tuple[Server, Served], tmp_path: Path) -> None:
    server, served = both
    insert = "INSERT INTO data(data) VALUES('4')"
    theirs, ours = _sessions(server, served, tmp_path, (), [insert], "COMMIT " + str(_next_xid(server)))
    assert "table public.data: INSERT: id[integer]:1 data[text]:'4'" in ours
    assert ours == theirs


def _next_xid(server: Server) -> int:
    return int(server.value("SELECT txid_snapshot_xmax(txid_current_snapshot())"))


def test_the_manuals_session_in_two_phases(both: tuple[Server, Served], tmp_path: Path) -> None:
    server, served = both
    statements = [
        "BEGIN; INSERT INTO data(data) VALUES('5'); PREPARE TRANSACTION 'test'", "COMMIT PREPARED 'test'",
        "BEGIN; INSERT INTO data(data) VALUES('6'); PREPARE TRANSACTION 'test'", "ROLLBACK PREPARED 'test'",
    ]  # fmt: skip
    last = f"ROLLBACK PREPARED 'test', txid {_next_xid(server) + 1}"
    theirs, ours = _sessions(server, served, tmp_path, ("--two-phase",), statements, last)
    assert "PREPARE TRANSACTION 'test'" in ours
    assert ours == theirs


OPTIONS = {
    "from a position": ("test_decoding", ("-o", "include-xids=0", "-o", "skip-empty-xacts"), True),
    "in blocks": ("test_decoding", ("-o", "include-xids=0", "-o", "stream-changes=1"), False),
    "as messages": ("pgoutput", ("-o", "proto_version=1", "-o", "publication_names=p"), False),
}
"""A plugin, its options, and whether to begin behind the first transaction."""


@pytest.mark.parametrize("name", some_of([pytest.param(each, id=each) for each in OPTIONS], 2))
def test_positions_and_options(name: str, both: tuple[Server, Served], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGOPTIONS", "-c logical_decoding_work_mem=64kB")
    server, plugin, words, skips = both[0], *OPTIONS[name]
    for side in both:
        assert _run(server, side, "--slot=a", "--create-slot", "-P", plugin).returncode == 0
    server.say("INSERT INTO data(data) VALUES ('one')")
    first = server.flush_lsn()
    server.say(
        "INSERT INTO data(data) VALUES ('two')", "INSERT INTO data(data) SELECT repeat('x', 100) FROM generate_series(1, 2000)"
    )
    end = server.flush_lsn()
    server.say("INSERT INTO data(data) VALUES ('three')")
    found = []
    for side in both:
        file = tmp_path / type(side).__name__
        more = ("--startpos", first) if skips else ()
        process = _start(server, side, file, "--slot=a", "--no-loop", "--endpos", end, *words, *more)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        found.append(file.read_bytes())
    theirs, ours = found
    if name == "in blocks":  # where these end, nobody promises
        assert b"opening a streamed block" in ours
        ours, theirs = (b"".join(line for line in each.splitlines(True) if b"streamed block" not in line) for each in found)
    assert ours == theirs
    assert (b"'one'" in ours) == (plugin == "test_decoding" and not skips)
    assert b"three" not in ours


def test_what_is_physical_is_refused_by_name(both: tuple[Server, Served], tmp_path: Path) -> None:
    server, served = both
    done = _run(server, served, "-D", str(tmp_path), "--no-loop", program="pg_receivewal")
    assert done.returncode != 0
    assert "START_REPLICATION … PHYSICAL is not supported by this server" in done.stderr
    done = _run(server, served, "-D", str(tmp_path / "backup"), program="pg_basebackup")
    assert "BASE_BACKUP is not supported by this server" in done.stderr
    ready = subprocess.run(
        [server.bin("pg_isready"), "-h", "127.0.0.1", "-p", str(served.port)], capture_output=True, text=True, check=True
    )
    assert "accepting connections" in ready.stdout


def test_psycopg_prepares_statements(both: tuple[Server, Served]) -> None:
    server, served = both
    with served.connect() as client:
        client.execute("SELECT * FROM pg_create_logical_replication_slot(%s, %s)", ["s", "test_decoding"])
        server.say("INSERT INTO data(data) VALUES ('one')")
        peek = "SELECT data FROM pg_logical_slot_peek_changes(%s, NULL, %s) WHERE data LIKE %s"
        for _ in range(8):  # from the sixth on it is prepared
            assert client.execute(peek, ["s", None, "table%"]).fetchall() == [
                ("table public.data: INSERT: id[integer]:1 data[text]:'one'",)
            ]
        for binary in (False, True):
            row = client.execute(
                "SELECT slot_name, active, temporary, datoid FROM pg_replication_slots", binary=binary
            ).fetchone()
            assert row == ("s", False, False, server.value("SELECT oid FROM pg_database WHERE datname = 'postgres'"))
        with pytest.raises(psycopg.errors.UndefinedColumn), client.transaction():
            client.execute("SELECT nope FROM pg_replication_slots WHERE slot_name = %s", ["s"])
        assert client.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        with client.pipeline():
            cursors = [
                client.execute("SELECT count(*) FROM pg_replication_slots WHERE plugin = %s", [name])
                for name in ("test_decoding", "x")
            ]
        assert [cursor.fetchone() for cursor in cursors] == [(1,), (0,)]
        assert len(client.execute("SELECT * FROM pg_logical_slot_get_changes(%s, NULL, NULL)", ["s"]).fetchall()) == 3
        assert client.execute("SELECT * FROM pg_logical_slot_get_changes(%s, NULL, NULL)", ["s"]).fetchall() == []


@cache
def _fetched(*packages: str) -> Path:
    """Drivers that the tests' environment does not have."""
    folder = Path(__file__).parents[2] / ".cache" / "drivers"
    if not folder.exists():
        words = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder), *packages]
        subprocess.run(words, check=True, timeout=300)
    return folder


OF_ASYNCPG = """
import asyncio, asyncpg, sys
async def main():
    c = await asyncpg.connect(host="127.0.0.1", port=int(sys.argv[1]), user="postgres", database="postgres")
    await c.fetch("SELECT * FROM pg_create_logical_replication_slot($1, $2)", "s", "test_decoding")
    row = await c.fetchrow("SELECT slot_name, temporary, confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = $1", "s")
    statement = await c.prepare("SELECT count(*) FROM pg_publication WHERE pubname = $1")
    found = [await statement.fetchval(name) for name in ("p", "q")]
    async with c.transaction():
        seen = [each["relname"] async for each in c.cursor("SELECT relname FROM pg_class ORDER BY relname", prefetch=10)]
    assert seen == sorted(seen) and "data" in seen
    await c.close()
    print(row["slot_name"], row["temporary"], row["confirmed_flush_lsn"] > 0, *found)
asyncio.run(main())
"""
OF_PSYCOPG2 = """
import sys, psycopg2, psycopg2.extras
c = psycopg2.connect(sys.argv[1], connection_factory=psycopg2.extras.LogicalReplicationConnection)
cur = c.cursor()
cur.execute("IDENTIFY_SYSTEM"); print(cur.fetchone()[3])
cur.create_replication_slot("two", output_plugin="test_decoding")
print("warned" if any("no snapshot is exported" in each for each in c.notices) else c.notices)
import psycopg; psycopg.connect(sys.argv[2], autocommit=True).execute("INSERT INTO data(data) VALUES ('two')")
cur.start_replication(slot_name="two", decode=True)
class Enough(Exception): pass
def take(message):
    print(message.payload)
    message.cursor.send_feedback(flush_lsn=message.data_start)
    if message.payload.startswith("COMMIT"): raise Enough
try: cur.consume_stream(take)
except Enough: pass
c.close()
"""


@pytest.mark.matrix
def test_other_drivers(tmp_path: Path) -> None:
    folder = _fetched("asyncpg==0.32.0", "psycopg2-binary==2.9.11")
    with Server(18) as server, Served(server.data_dir, tmp_path / "state") as served:
        server.say("CREATE TABLE data (id serial PRIMARY KEY, data text)", "CREATE PUBLICATION p FOR ALL TABLES")

        def driven(code: str, *words: str) -> str:
            path = {"PYTHONPATH": str(folder), "PATH": "/usr/bin:/bin"}
            return subprocess.run(
                [sys.executable, "-c", code, *words], env=path, capture_output=True, text=True, check=True, timeout=60
            ).stdout

        assert driven(OF_ASYNCPG, str(served.port)) == "s False True 1 0\n"
        told = driven(OF_PSYCOPG2, served.dsn(), server.dsn()).splitlines()
        assert told[:2] == ["postgres", "warned"]
        assert told[2].startswith("BEGIN ")
        assert told[3] == "table public.data: INSERT: id[integer]:1 data[text]:'two'"


@pytest.mark.marathon
@pytest.mark.matrix
def test_pglogrepl_streams(tmp_path: Path) -> None:
    sources = Path(__file__).parents[1] / "parsers" / "go_client"
    home = made(sources, lambda folder: run(folder, needed("go", "a client of jackc/pglogrepl"), "build", "-o", "client", "."))
    with Server(18) as server, Served(server.data_dir, tmp_path / "state") as served:
        server.say("CREATE TABLE data (id serial PRIMARY KEY, data text)", "CREATE PUBLICATION p FOR ALL TABLES")
        dsn = f"postgres://postgres@127.0.0.1:{served.port}/postgres?replication=database&sslmode=disable"
        with subprocess.Popen([home / "client", dsn, "2"], stdout=subprocess.PIPE, text=True) as client:
            assert client.stdout is not None
            for line in client.stdout:
                if line == "started\n":
                    break
            server.say("INSERT INTO data(data) VALUES ('one')", "UPDATE data SET data = 'two'")
            told, _ = client.communicate(timeout=60)
        assert told.split() == "Begin Relation Insert Commit Begin Update Commit done".split()
        assert client.returncode == 0
