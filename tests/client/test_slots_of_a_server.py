"""Slots on a server that is reached by its connection string alone: what they give equals what the server's own slot gives."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

import pytest

from support.command import Run, ran
from support.decoding import check_equal
from support.forked import forked
from support.load import loaded
from support.servers import Server
from support.slots import is_confirmed, peeked_text
from support.waiting import until
from tailrace.replication.slot_location import SlotLocation
from tailrace.sources import received_log as received

pytestmark = pytest.mark.postgres
ALL = [18, *(pytest.param(major, marks=pytest.mark.matrix) for major in (14, 15, 16, 17))]
KEEPS = {"wal_keep_size": "200MB"}


@pytest.mark.parametrize("major", ALL)
def test_it_receives_what_the_servers_slot_gives(major: int, tmp_path: Path) -> None:
    """With DDL, and the server restarted under way."""
    state, file = tmp_path / "state", tmp_path / "out"
    with Server(major, KEEPS, dbname="app") as server:
        server.say(
            "CREATE TABLE before (id int PRIMARY KEY)", "SELECT pg_create_logical_replication_slot('theirs', 'test_decoding')"
        )
        done = ran("slot", "create", "ours", server.dsn(), "--database", "app", "--state", state)
        assert done.returncode == 0, done.stderr
        receive = ["slot", "receive", "ours", "--state", str(state), "-f", str(file), "-F", "0.1"]
        with forked(receive) as consumer:
            try:
                for turn in range(3):
                    server.say(
                        f"CREATE TABLE t{turn} (id int PRIMARY KEY, v text)",
                        f"INSERT INTO t{turn} SELECT i, repeat('x', 50) FROM generate_series(1, 1000) i",
                        f"ALTER TABLE t{turn} ADD COLUMN more int DEFAULT 7",
                        f"UPDATE t{turn} SET v = 'y' WHERE id < 10",
                        "INSERT INTO before SELECT coalesce(max(id), 0) + 1 FROM before",
                    )
                    server.restart()
                last = peeked_text(server)
                until(lambda: is_confirmed(file, last))
            finally:
                consumer.terminate()
                assert consumer.wait(30) == 128 + 15
        check_equal(file.read_text(), last)


def test_get_has_what_was_committed_before_it_was_asked(tailrace: Run, tmp_path: Path) -> None:
    state = ("--state", tmp_path / "state")
    with Server(18, KEEPS, dbname="app") as server:
        server.say("CREATE TABLE t (id int PRIMARY KEY)", "SELECT pg_create_logical_replication_slot('theirs', 'test_decoding')")
        code, out, err = tailrace("slot", "create", "ours", f"{server.dsn()} password=secret", "--database", "app", *state)
        assert code == 0, err
        assert out.startswith("ours\t")
        for number in range(3):
            server.say(f"INSERT INTO t VALUES ({number})")
            code, out, err = tailrace("slot", "get", "ours", *state)
            assert code == 0, err
            assert f"INSERT: id[integer]:{number}\n" in out
        assert b"secret" not in b"".join(path.read_bytes() for path in (tmp_path / "state/received").iterdir())
        server.say("INSERT INTO t VALUES (7)")
        code, out, err = tailrace("slot", "peek", "ours", *state)
        assert "id[integer]:7" in out
        server.stop()
        code, out, err = tailrace("slot", "peek", "ours", *state)
        assert "id[integer]:7" in out
        assert "there is what was received before" in err


def test_receive_makes_one(tailrace: Run, tmp_path: Path) -> None:
    """Of the database that the connection string names."""
    state, file = tmp_path / "state", tmp_path / "out"
    with Server(18, KEEPS, dbname="app") as server:
        server.say("CREATE TABLE t (id int PRIMARY KEY)")
        words = ("slot", "receive", "ours", "--state", state, "-f", file, "--endpos")
        code, _, err = tailrace(*words, server.flush_lsn(), "--create-slot", server.dsn())
        assert code == 0, err
        server.say("INSERT INTO t VALUES (7)", "INSERT INTO t VALUES (8)")
        code, _, err = tailrace(*words, server.flush_lsn(), "--create-slot", server.dsn(), "--if-not-exists")
        assert code == 0, err
        assert "id[integer]:7" in file.read_text()
    assert "database\tapp\n" in tailrace("slot", "show", "ours", "--state", state)[1]


def test_what_cannot_be_made(tailrace: Run, tmp_path: Path) -> None:
    state = ("--state", tmp_path / "state")
    with Server(18, dbname="app") as server:
        server.say("CREATE ROLE nobody LOGIN")
        code, _, err = tailrace("slot", "create", "ours", f"{server.dsn()} user=nobody", "--database", "app", *state)
        assert (code, "ALTER ROLE nobody REPLICATION" in err) == (1, True), err
        assert not (tmp_path / "state").exists()
        code, _, err = tailrace("slot", "create", "ours", server.dsn(), "--database", "absent", *state)
        assert (code, 'database "absent" does not exist' in err) == (1, True)
        code, _, err = tailrace("slot", "create", "ours", server.dsn(), "--database", "app", "--at", "0/1", *state)
        assert (code, "begins now" in err) == (1, True)
    code, _, err = tailrace("slot", "create", "ours", server.dsn(), "--database", "app", *state)
    assert (code, "Connection refused" in err) == (1, True)


def test_a_role_without_a_database_of_its_name(tailrace: Run, tmp_path: Path) -> None:
    """libpq would connect it there, where nobody can be asked for the last checkpoint: the slot is made though the log goes on behind that."""
    with Server(18, KEEPS, dbname="app") as server:
        server.say(
            "CREATE ROLE tailrace LOGIN REPLICATION",
            "GRANT EXECUTE ON FUNCTION pg_read_binary_file(text, bigint, bigint, boolean) TO tailrace",
            "CREATE TABLE t (id int PRIMARY KEY)",
            "CHECKPOINT",
            "INSERT INTO t SELECT generate_series(1, 50000)",
        )
        dsn = f"host=127.0.0.1 port={server.port} user=tailrace"
        code, _, err = tailrace("slot", "create", "ours", dsn, "--database", "app", "--state", tmp_path / "state")
        assert code == 0, err


def test_wal_level_is_asked_of_the_server(tailrace: Run, tmp_path: Path) -> None:
    """A slot that begins where wal_level is too low would lose what is written before it is raised."""
    with Server(18, {"wal_level": "replica"}, dbname="app") as server:
        code, _, err = tailrace("slot", "create", "ours", server.dsn(), "--database", "app", "--state", tmp_path / "state")
        assert (code, "logical decoding requires wal_level >= logical" in err, 'wal_level is "replica"' in err) == (
            1,
            True,
            True,
        ), err


def test_who_is_refused_is_not_told_that_nothing_is_new(tailrace: Run, tmp_path: Path) -> None:
    """Unlike who finds the server away. The password is not kept, which is said."""
    state = ("--state", tmp_path / "state")
    with Server(18, KEEPS, dbname="app") as server:
        server.say("CREATE ROLE other SUPERUSER LOGIN REPLICATION PASSWORD 'secret'")
        dsn = server.dsn().replace("user=postgres", "user=other")
        code, _, err = tailrace("slot", "create", "ours", f"{dsn} password=secret", "--database", "app", *state)
        assert (code, "is used now, and not kept" in err) == (0, True), err
        hba = server.data_dir / "pg_hba.conf"
        hba.write_text("host all other all scram-sha-256\nhost replication other all scram-sha-256\n" + hba.read_text())
        server.say("SELECT pg_reload_conf()", "SELECT pg_sleep(0.2)")
        received._GIVEN.clear()
        code, out, err = tailrace("slot", "get", "ours", *state)
        assert (code, out, "no password supplied" in err, ".pgpass" in err) == (1, "", True, True), err


@pytest.mark.parametrize(
    ("kills", "seconds"), [pytest.param(12, 1.5, id="a-few", marks=pytest.mark.soak), pytest.param(100, 4.0, id="many", marks=pytest.mark.marathon)]
)  # fmt: skip
def test_every_line_once_whatever_is_killed(kills: int, seconds: float, tmp_path: Path) -> None:
    """The consumer with its receiver, and the server, at any moment; then every whole segment is the server's, too."""
    dice = random.Random(kills)
    state, file = tmp_path / "state", tmp_path / "out"
    with Server(18, {"wal_keep_size": "2GB"}, dbname="app") as server:
        server.say(
            "CREATE TABLE t (id serial PRIMARY KEY, v text)",
            "SELECT pg_create_logical_replication_slot('theirs', 'test_decoding')",
        )
        ran("slot", "create", "ours", server.dsn(), "--database", "app", "--state", state).check_returncode()
        receive = ["slot", "receive", "ours", "--state", str(state), "-f", str(file)]
        with loaded(server):
            for number in range(kills):
                with forked(receive) as process:
                    time.sleep(dice.uniform(0, seconds))
                    process.kill()
                if number % 4 == 3:
                    server.crash()
                    server.start()
        end = server.flush_lsn()
        ran(*receive, "--endpos", end).check_returncode()
        check_equal(file.read_text(), peeked_text(server))
        whole = sorted((state / "received").glob("0*[0-9A-F]"))
        assert len(whole) > kills // 2
        for path in whole:
            assert path.read_bytes() == (server.wal_dir / path.name).read_bytes(), path.name


@pytest.mark.soak
def test_two_consumers_share_a_receiver(tmp_path: Path) -> None:
    """And one goes on where the one that received ends."""
    state = tmp_path / "state"
    with Server(18, KEEPS, dbname="app") as server:
        server.say("CREATE TABLE t (id int PRIMARY KEY)")
        for name in ("a", "b"):
            ran("slot", "create", name, server.dsn(), "--database", "app", "--state", state).check_returncode()
        files = {name: tmp_path / name for name in ("a", "b")}
        consumers = {
            name: forked(["slot", "receive", name, "--state", state, "-f", file, "-F", "0.1"]) for name, file in files.items()
        }
        try:
            server.say("INSERT INTO t VALUES (1)")
            until(lambda: all(file.exists() and "id[integer]:1" in file.read_text() for file in files.values()))
            consumers["a"].terminate()
            consumers["a"].wait(30)
            server.say("INSERT INTO t VALUES (2)")
            until(lambda: "id[integer]:2" in files["b"].read_text())
        finally:
            for each in consumers.values():
                each.terminate()
                each.wait(30)
        assert {slot.name for slot in SlotLocation.open(state).slots()} == {"a", "b"}
        assert threading.active_count() < 20
