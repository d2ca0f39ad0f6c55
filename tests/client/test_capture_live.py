"""A catalog state taken over a connection: what is decoded from it equals what the server's own slot gives."""

from __future__ import annotations

import random
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from support.command import Run
from support.decoding import check_equal, text_of
from support.servers import Server
from support.slots import TAILRACE
from support.waiting import until
from tailrace.catalog.state.state_file import read_state
from tailrace.client.receiver import received_upto
from tailrace.errors import PeerError, UsageError
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner, open_pipeline
from tailrace.pipeline.capture_live import capture_live
from tailrace.sources.source import Source

pytestmark = pytest.mark.postgres
ALL = [18, *(pytest.param(major, marks=pytest.mark.matrix) for major in (14, 15, 16, 17))]
ROLE = (
    "CREATE ROLE reader LOGIN REPLICATION",
    "GRANT EXECUTE ON FUNCTION pg_read_binary_file(text,bigint,bigint,boolean) TO reader",
)


def _say(text: str) -> None:
    print(text)


@pytest.mark.parametrize("major", ALL)
def test_under_ddl(major: int, tmp_path: Path) -> None:
    """Captured by a plain role while tables come, change and go, and catalogs are rewritten; a transaction is prepared, another open."""
    with Server(major, dbname="app") as server:
        server.say(*ROLE, "CREATE TABLE kept (id int PRIMARY KEY, v text)", "CREATE TYPE mood AS ENUM ('a', 'b')")
        server.say("SELECT pg_create_logical_replication_slot('theirs', 'test_decoding')")
        dsn = f"{server.dsn()} user=reader"
        archive = tmp_path / "wal"
        words = [TAILRACE, "wal", "receive", dsn, "--to", str(archive)]
        with started(words) as receiver, server.connect(autocommit=False) as still_open:
            until(lambda: bool(received_upto(archive)))
            still_open.execute("CREATE TABLE late (m mood)")
            still_open.execute("INSERT INTO late VALUES ('a')")
            server.say("BEGIN; INSERT INTO kept VALUES (-1, 'prepared'); PREPARE TRANSACTION 'g'")
            server.checkpoint()
            ends = threading.Event()
            busy = [threading.Thread(target=_work, args=(server, seed, ends)) for seed in range(2)]
            busy.append(threading.Thread(target=_rewrite, args=(server, ends)))
            for each in busy:
                each.start()
            state = tmp_path / "app.state"
            done = subprocess.run(
                [TAILRACE, "catalog", "capture", dsn, "--database", "app", "-o", str(state), "--wal", str(archive)],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            captured = read_state(state.read_bytes(), str(state))
            still_open.commit()
            server.say("COMMIT PREPARED 'g'")
            ends.set()
            for each in busy:
                each.join()
            end = Lsn.parse(server.flush_lsn())
            until(lambda: (received_upto(archive) or Lsn(0)) >= end)
            receiver.terminate()
            assert receiver.wait(30) == 0
            # from where every transaction is whole: what was open at the redo pointer may have begun before the log that is needed
            pipeline = open_pipeline(Source.open(archive), "app", catalog=captured)
            server.say(f"SELECT pg_replication_slot_advance('theirs', '{pipeline.plan.start_lsn}')")
            rows = server.sql("SELECT * FROM pg_logical_slot_get_changes('theirs', NULL, NULL)")
        expected = "".join(f"{lsn}\t{xid}\t{data}\n" for lsn, xid, data in rows)
        check_equal(text_of(pipeline, {}), expected)
        assert expected.count("INSERT") > 20


@contextmanager
def started(words: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A command, which ends with the block."""
    process = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _work(server: Server, seed: int, ends: threading.Event) -> None:
    dice = random.Random(seed)
    with server.connect() as connection:
        number = more = 0
        while more < 20:
            number, more = number + 1, more + ends.is_set()
            table = f"t{seed}_{number}"
            connection.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, v text, m mood)".encode())
            connection.execute(
                f"INSERT INTO {table} SELECT i, 'v', 'b' FROM generate_series(1, {dice.randrange(1, 5)}) i".encode()
            )
            connection.execute(f"ALTER TABLE {table} ADD COLUMN extra{number} int DEFAULT {number}".encode())
            connection.execute(f"UPDATE {table} SET v = 'w' WHERE id = 1".encode())
            if dice.random() < 0.5:
                connection.execute(f"DROP TABLE {table}".encode())


def _rewrite(server: Server, ends: threading.Event) -> None:
    with server.connect() as connection:
        while not ends.is_set():
            for statement in (b"VACUUM FULL pg_class", b"CHECKPOINT", b"VACUUM FULL pg_attribute", b"VACUUM pg_type"):
                try:
                    connection.execute(statement)
                except psycopg.errors.DeadlockDetected:
                    continue


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


def test_what_is_missing_of_rights_is_named(tmp_path: Path) -> None:
    with Server(18, dbname="app") as server:
        server.say("CREATE ROLE reader LOGIN REPLICATION", "CREATE ROLE nobody LOGIN")
        with pytest.raises(PeerError, match="permission denied for function pg_read_binary_file") as caught:
            capture_live(f"{server.dsn()} user=reader", "app", None, LocalRunner(1), _say)
        assert "GRANT EXECUTE ON FUNCTION pg_read_binary_file" in caught.value.hint
        assert caught.value.sqlstate == "42501"
        server.say("GRANT EXECUTE ON FUNCTION pg_read_binary_file(text,bigint,bigint,boolean) TO nobody")
        with pytest.raises(PeerError, match="permission denied to start WAL sender"):
            capture_live(f"{server.dsn()} user=nobody", "app", None, LocalRunner(1), _say)
        with pytest.raises(UsageError, match='database "absent" does not exist'):
            capture_live(server.dsn(), "absent", None, LocalRunner(1), _say)
        server.say("ALTER SYSTEM SET full_page_writes = off", "SELECT pg_reload_conf()", "SELECT pg_sleep(0.2)", "CHECKPOINT")
        with pytest.raises(UsageError, match="full_page_writes is off"):
            capture_live(server.dsn(), "app", None, LocalRunner(1), _say)
