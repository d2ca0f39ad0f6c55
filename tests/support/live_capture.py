"""A catalog state that is captured over a connection while the server is at work, and what is decoded from it, beside what the server's own slot has
of the same.

In: a server, and how it is connected to, or a standby of it. Out: what was told meanwhile; it fails unless both are equal.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg

from support.decoding import check_equal, text_of
from support.servers import Server
from tailrace.client.receiver import Receiver
from tailrace.client.reception import receiving
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner, open_pipeline
from tailrace.pipeline.capture_live import capture_live
from tailrace.sources.source import Source

_PAUSE = 0.02
"""After each table, and each round of rewriting, so that there is not too much to decode."""
GRANT = "GRANT EXECUTE ON FUNCTION pg_read_binary_file(text,bigint,bigint,boolean) TO reader"


def capture_under_ddl(server: Server, dsn: str, directory: Path, rounds: int = 1000) -> list[str]:
    """Captured over `dsn` while tables come, change and go, and catalogs are rewritten, so often at most; one transaction is prepared, and another
    open. What it told, line by line."""
    server.say(
        "CREATE TABLE kept (id int PRIMARY KEY, v text)", "CREATE TYPE mood AS ENUM ('a', 'b')", "CREATE TABLE late (m mood)"
    )
    server.say("SELECT pg_create_logical_replication_slot('theirs', 'test_decoding')")
    archive, said = directory / "wal", list[str]()
    with receiving(Receiver(dsn, archive)) as reception, server.connect(autocommit=False) as still_open:
        reception.wait(Lsn(1))
        # nothing in the catalogs that are rewritten, which would wait for it
        still_open.execute("ALTER TYPE mood ADD VALUE 'c'")
        still_open.execute("INSERT INTO late VALUES ('a')")
        server.say("BEGIN; INSERT INTO kept VALUES (-1, 'prepared'); PREPARE TRANSACTION 'g'")
        server.checkpoint()
        reception.wait(Lsn.parse(server.flush_lsn()))  # a standby may have less
        with at_work(server, rounds):
            begun = time.monotonic()
            captured, _ = capture_live(dsn, server.dbname, archive, LocalRunner(1), said.append)
            seconds = time.monotonic() - begun
            still_open.commit()
            server.say("COMMIT PREPARED 'g'")
        reception.wait(Lsn.parse(server.flush_lsn()))
    # from where every transaction is whole: what was open at the redo pointer may have begun before the log that is needed
    pipeline = open_pipeline(Source.open(archive), server.dbname, catalog=captured)
    server.say(
        f"SELECT pg_replication_slot_advance(slot_name, '{pipeline.plan.start_lsn}') FROM pg_replication_slots "
        f"WHERE slot_name = 'theirs' AND confirmed_flush_lsn < '{pipeline.plan.start_lsn}'"
    )
    rows = server.sql("SELECT * FROM pg_logical_slot_get_changes('theirs', NULL, NULL)")
    expected = "".join(f"{lsn}\t{xid}\t{data}\n" for lsn, xid, data in rows)
    check_equal(text_of(pipeline, {}), expected)
    assert expected.count("INSERT") > 20
    print(f"captured in {seconds:.1f} s; {len(rows)} lines after it are the server's own slot's")
    return said


@contextmanager
def at_work(server: Server, rounds: int) -> Iterator[None]:
    """Within the block, and for a while behind it, two clients make, change and drop tables, and a third rewrites catalogs."""
    ends = threading.Event()
    busy = [threading.Thread(target=_work, args=(server, seed, ends)) for seed in range(2)]
    busy.append(threading.Thread(target=_rewrite, args=(server, ends, rounds)))
    for each in busy:
        each.start()
    try:
        yield
    finally:
        ends.set()
        for each in busy:
            each.join()


def _work(server: Server, seed: int, ends: threading.Event) -> None:
    dice = random.Random(seed)
    with server.connect() as connection:
        number = more = 0
        while more < 20:
            number, more = number + 1, more + ends.is_set()
            with suppress(psycopg.errors.DeadlockDetected):  # with who rewrites catalogs
                for statement in _life_of(f"t{seed}_{number}", dice):
                    connection.execute(statement.encode())
            time.sleep(_PAUSE)


def _life_of(table: str, dice: random.Random) -> list[str]:
    return [
        f"CREATE TABLE {table} (id int PRIMARY KEY, v text, m mood)",
        f"INSERT INTO {table} SELECT i, 'v', 'b' FROM generate_series(1, {dice.randrange(1, 5)}) i",
        f"ALTER TABLE {table} ADD COLUMN extra int DEFAULT 5",
        f"UPDATE {table} SET v = 'w' WHERE id = 1",
        *([f"DROP TABLE {table}"] if dice.random() < 0.5 else []),
    ]


def _rewrite(server: Server, ends: threading.Event, rounds: int) -> None:
    with server.connect() as connection:
        for _ in range(rounds):
            if ends.is_set():
                break
            for statement in (b"VACUUM FULL pg_class", b"CHECKPOINT", b"VACUUM FULL pg_attribute", b"VACUUM pg_type"):
                with suppress(psycopg.errors.DeadlockDetected):
                    connection.execute(statement)
            time.sleep(_PAUSE)
