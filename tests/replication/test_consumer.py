"""A slot of ours beside one of the server's: what is taken in pieces from a log that grows is what PostgreSQL gives, each change once."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from support.acquired import acquired
from support.decoding import check_equal
from support.segments import NAME
from support.servers import Server
from support.slots import create_both, ours, theirs
from support.threads import run_threads
from tailrace.cli.verbs.slot import create
from tailrace.errors import UsageError
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner
from tailrace.plan.demand import OF_TABLES
from tailrace.replication.get_changes import new_windows
from tailrace.replication.slot_location import SlotLocation
from tailrace.storage.segment import segment_name
from tailrace.window import WindowSize

pytestmark = pytest.mark.postgres
SEVERAL = WindowSize(wal_bytes=1 << 16)


@pytest.mark.parametrize(
    "major", [pytest.param(14, marks=pytest.mark.matrix), 16, pytest.param(17, marks=pytest.mark.matrix), 18]
)
def test_takes_what_the_server_gives(major: int, tmp_path: Path) -> None:
    dice = random.Random(major)
    with Server(major) as server:
        create_both(server, "mine", tmp_path / "state")
        location = SlotLocation.open(tmp_path / "state")
        expected = taken = ""
        for number in range(6):
            run_threads(server, dice.randrange(10**6), transactions=40, ddl=False) if number == 0 else _more(server, dice)
            upto = server.flush_lsn() if dice.random() < 0.5 else None
            _more(server, dice)
            expected += theirs(server, upto)
            with acquired(location, "mine", LocalRunner(1), dice.choice([None, SEVERAL])) as consumer:
                taken += ours(consumer, Lsn.parse(upto) if upto else None)
                if dice.random() < 0.5:  # a consumer that goes on
                    _more(server, dice)
                    expected += theirs(server)
                    taken += ours(consumer)
        check_equal(taken, expected)


def _more(server: Server, dice: random.Random) -> None:
    """Some transactions, one of which rolls back, one of which changes a table, one of which is left open for a while."""
    with server.connect() as connection, server.connect(autocommit=False) as slow:
        connection.execute("CREATE TABLE IF NOT EXISTS more (id serial PRIMARY KEY, v text)")
        connection.execute("CREATE TABLE IF NOT EXISTS altered (v text)")
        slow.execute("INSERT INTO more (v) VALUES ('begun early')")
        for number in range(dice.randrange(1, 8)):
            connection.execute("INSERT INTO more (v) SELECT repeat('x', 3000 * g) FROM generate_series(1, %s) g", [number])
        connection.execute(f"ALTER TABLE altered ADD c{dice.randrange(10**9)} int DEFAULT {dice.randrange(100)}".encode())
        connection.execute("INSERT INTO altered (v) VALUES ('after')")
        slow.execute("INSERT INTO more (v) VALUES ('ends late')")
        slow.commit() if dice.random() < 0.7 else slow.rollback()


def test_an_open_transaction_outlives_the_server_s_wal(tmp_path: Path) -> None:
    """The server recycles what a consumer still needs: its copies serve, also after a restart of the consumer."""
    with Server(16, {"wal_keep_size": 0, "max_wal_size": "2MB", "min_wal_size": "2MB"}) as server:
        server.say("CREATE TABLE t (id int, v text)")
        create(name="mine", source=server.data_dir, database=server.dbname, state=tmp_path / "state")
        location = SlotLocation.open(tmp_path / "state")
        taken = ""
        with server.connect(autocommit=False) as open_one:
            open_one.execute("INSERT INTO t VALUES (0, 'early')")
            with acquired(location, "mine", LocalRunner(1)) as consumer:
                for number in range(1, 8):
                    server.say(f"INSERT INTO t VALUES ({number}, repeat('x', 1000))")
                    server.switch_wal()
                    taken += ours(consumer)
                    server.checkpoint()
                first = min(path.name for path in server.wal_dir.glob(NAME))
                assert first[8:] > segment_name(1, consumer.slot.restart_lsn >> 20, 1 << 20)[8:]
            with acquired(location, "mine", LocalRunner(1)) as consumer:
                server.say("INSERT INTO t VALUES (8, 'y')")
                taken += ours(consumer)
                open_one.commit()
                taken += ours(consumer)
    ids = [int(line.split("id[integer]:")[1].split()[0]) for line in taken.splitlines() if "INSERT" in line]
    assert ids == [*range(1, 9), 0]


def test_a_log_that_was_written_anew_is_refused(tmp_path: Path) -> None:
    """As a server does that crashed before what it wrote was on disk: the slot's consumer has what never was."""
    with Server(16) as server:
        server.say("CREATE TABLE t (id int, v text)")
        create("mine", server.data_dir, tmp_path / "state", server.dbname)
        location = SlotLocation.open(tmp_path / "state")
        server.stop()
        copy = server.copy_to(tmp_path / "copy")
        server.start()
        server.say("INSERT INTO t SELECT g, repeat('x', 100) FROM generate_series(1, 20000) g")
        with acquired(location, "mine", LocalRunner(1)) as consumer:
            assert ours(consumer).count("INSERT") == 20_000
    with Server(16, data=copy) as other:
        other.say("INSERT INTO t SELECT g, repeat('another', 10) FROM generate_series(1, 60000) g")
        with location.owned("mine") as slot:
            location.save(replace(slot, source=str(other.data_dir)))
        with (
            pytest.raises(
                UsageError, match=r'"mine" has confirmed \S+, but its log has another record at \S+ than was read there'
            ) as caught,
            acquired(location, "mine", LocalRunner(1)) as consumer,
        ):
            list(new_windows(consumer, OF_TABLES))
        assert "is of a history that is gone" in caught.value.hint
