"""A subscriber whose server crashes after its worker has begun anew: what PostgreSQL itself loses with synchronous_commit = off, and not with on.

A worker that begins anew says of what it has applied before that it is flushed, whether or not it is (`get_flush_position` in
`replication/logical/worker.c`, which knows of the transactions of its own process only). So the publisher does not give it again."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.proxies import proxy
from support.served import Served
from support.servers import Server
from support.waiting import until

pytestmark = pytest.mark.postgres
SELDOM_FLUSHED: dict[str, str | int] = {"wal_writer_delay": "10s", "wal_retrieve_retry_interval": "200ms"}


@contextmanager
def _published_by(what: str, source: Server, home: Path) -> Iterator[Served | None]:
    if what == "a server":
        yield None
    else:
        with Served(source.dsn(), home / "state") as served:
            yield served


@pytest.mark.parametrize("publisher", ["a server", "tailrace"])
@pytest.mark.parametrize("commit", ["off", "on"])
@pytest.mark.marathon
def test_what_was_not_flushed(publisher: str, commit: str, tmp_path: Path) -> None:
    with Server(18, {"wal_level": "logical"}) as source, Server(18, SELDOM_FLUSHED) as there:
        for side in (source, there):
            side.say("CREATE TABLE t (id int PRIMARY KEY)")
        source.say("CREATE PUBLICATION p FOR ALL TABLES")
        with _published_by(publisher, source, tmp_path) as served:
            dsn = source.dsn() if served is None else served.dsn()
            there.say(f"CREATE SUBSCRIPTION s CONNECTION '{dsn}' PUBLICATION p WITH (synchronous_commit = {commit})")
            until(lambda: bool(there.value("SELECT bool_and(srsubstate = 'r') FROM pg_subscription_rel")))
            there.checkpoint()  # else the copy is lost, too, and made anew
            for row in range(1, 10):
                _applied(source, there, row)
                written = there.value("SELECT pg_current_wal_insert_lsn()")
                _begin_anew(source, there, served)
                if commit == "on" or not there.value(f"SELECT pg_current_wal_flush_lsn() >= '{written}'"):
                    break  # else the WAL writer has just been at work
            else:
                pytest.skip("the WAL writer was quicker each time: this machine is too busy to show the gap")
            there.crash()
            there.start()
            _applied(source, there, 0)
            assert there.value(f"SELECT count(*) FROM t WHERE id = {row}") == (0 if commit == "off" else 1)


@pytest.mark.marathon
@pytest.mark.timeout(900)
def test_what_was_skipped_while_a_table_was_copied(tmp_path: Path) -> None:
    """The apply worker confirms what it skips until a table is copied, and nothing says so where it has crashed: begun anew it hands the table over
    where it was before, unless it has heard where the stream begins. Of a server it loses rows, too."""
    with Server(18, {"wal_level": "logical"}) as source, Server(18, {"wal_retrieve_retry_interval": "200ms"}) as there:
        source.say("CREATE TABLE t (id int PRIMARY KEY)", "CREATE PUBLICATION p FOR ALL TABLES", "INSERT INTO t VALUES (-1)")
        there.say(
            "CREATE TABLE t (id int PRIMARY KEY)",
            "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN PERFORM pg_sleep(2); RETURN NEW; END$$",
            "CREATE TRIGGER slow BEFORE INSERT ON t FOR EACH ROW WHEN (NEW.id = -1) EXECUTE FUNCTION slow()",
            "ALTER TABLE t ENABLE ALWAYS TRIGGER slow",
        )
        with Served(source.dsn(), tmp_path / "state") as served:
            for number in range(14):
                create = f"CREATE SUBSCRIPTION s CONNECTION '{served.dsn()}' PUBLICATION p WITH (synchronous_commit = on)"
                there.say("DROP SUBSCRIPTION IF EXISTS s", "TRUNCATE t", create)
                until(lambda: there.value("SELECT count(*) FROM pg_stat_progress_copy") == 1)
                source.say(f"INSERT INTO t SELECT {number} * 1000 + g FROM generate_series(1, 500) g")
                end = source.flush_lsn()
                heard = f"SELECT latest_end_lsn >= '{end}' FROM pg_stat_subscription WHERE worker_type = 'apply'"
                until(lambda heard=heard: bool(there.value(heard)))
                time.sleep(0.3)  # by now that is confirmed
                os.kill(_worker(there), signal.SIGSTOP)
                deadline = time.monotonic() + 5
                while _state(there) != "f" and time.monotonic() < deadline:  # one that is stopped may hold what the other needs
                    time.sleep(0.05)
                there.crash()
                there.start()
                until(lambda: _state(there) == "r")
                count = source.value("SELECT count(*) FROM t")
                until(lambda count=count: there.value("SELECT count(*) FROM t") == count)


@pytest.mark.soak
@pytest.mark.parametrize("publisher", ["a server", "tailrace"])
def test_what_crashes_behind_the_drop_of_a_slot(publisher: str, tmp_path: Path) -> None:
    """A worker drops its table's slot before it commits that it has (`process_syncing_tables_for_sync` in `logical/tablesync.c`): a subscriber that
    crashes in between asks for that slot for ever, of a server, too. What the guide says to do then is done."""
    made = "CREATE TABLE t (id int PRIMARY KEY)"
    with Server(18, {"wal_level": "logical"}) as source, Server(18, {"wal_retrieve_retry_interval": "200ms"}) as there:
        there.say(made)
        source.say(made, "INSERT INTO t VALUES (1)", "CREATE PUBLICATION p FOR TABLE t")
        with _published_by(publisher, source, tmp_path) as served:
            by = source if served is None else served
            with proxy(by.port, unanswered_from=b"DROP_REPLICATION_SLOT") as port:
                dsn = by.dsn().replace(f"port={by.port}", f"port={port}")
                there.say(f"CREATE SUBSCRIPTION s CONNECTION '{dsn}' PUBLICATION p WITH (synchronous_commit = on)")
                until(lambda: _state(there) == "f")
                until(lambda: _sync_slots(by) == 0)
                there.crash()
            there.start()
            asked = len(_asked_in_vain(there))
            there.say(f"ALTER SUBSCRIPTION s CONNECTION '{by.dsn()}'")
            until(lambda: len(_asked_in_vain(there)) > asked + 2)
            assert _state(there) == "f"
            source.say("INSERT INTO t VALUES (2)", "ALTER PUBLICATION p DROP TABLE t")
            there.say("ALTER SUBSCRIPTION s REFRESH PUBLICATION", "TRUNCATE t")
            source.say("ALTER PUBLICATION p ADD TABLE t")
            there.say("ALTER SUBSCRIPTION s REFRESH PUBLICATION")
            until(lambda: _state(there) == "r")
            source.say("INSERT INTO t VALUES (3)")
            until(lambda: there.sql("SELECT id FROM t ORDER BY id") == [(1,), (2,), (3,)])
            there.say("DROP SUBSCRIPTION s")


def _sync_slots(by: Server | Served) -> int:
    with by.connect() as connection:
        query = "SELECT count(*) FROM pg_replication_slots WHERE slot_name LIKE 'pg_%'"
        return int(connection.execute(query.encode()).fetchall()[0][0])


def _asked_in_vain(there: Server) -> list[str]:
    return [line for line in there.log().splitlines() if "_sync_" in line and "does not exist" in line]


def _state(there: Server) -> str:
    return str(there.value("SELECT srsubstate FROM pg_subscription_rel"))


def _begin_anew(source: Server, there: Server, served: Served | None) -> None:
    """The subscriber's worker ends, and another says how far it is."""
    before = _worker(there)
    if served is None:
        source.say("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = 's'")
    else:
        served.kill()
        served.start()
    until(lambda: _worker(there) not in (0, before))
    time.sleep(2)


def _worker(there: Server) -> int:
    return int(there.value("SELECT coalesce(max(pid), 0) FROM pg_stat_subscription WHERE relid IS NULL"))


def _applied(source: Server, there: Server, row: int) -> None:
    source.say(f"INSERT INTO t VALUES ({row})")
    until(lambda: there.value(f"SELECT count(*) FROM t WHERE id = {row}") == 1)
