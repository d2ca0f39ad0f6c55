"""`tailrace slot receive` is killed at any moment, and its server as well: the file is what PostgreSQL's own slot gives, to the byte."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.command import Run
from support.decoding import check_equal
from support.load import loaded
from support.servers import Server
from support.slots import TAILRACE, create_both, theirs
from support.waiting import until
from tailrace.replication.slot_location import SlotLocation

pytestmark = pytest.mark.postgres
_LONGEST_LIFE = 4.0
"""Seconds from the start to the kill: a consumer is at work after one or two."""


@pytest.mark.parametrize(
    "kills", [pytest.param(6, id="a-few", marks=pytest.mark.soak), pytest.param(300, id="many", marks=pytest.mark.marathon)]
)  # fmt: skip
def test_every_line_once_whatever_is_killed(kills: int, tmp_path: Path) -> None:
    dice = random.Random(kills)
    file = tmp_path / "out"
    with Server(16) as server:
        server.sql("CREATE TABLE t (id serial PRIMARY KEY, v text)")
        create_both(server, "mine", tmp_path / "state")
        with loaded(server):
            for number in range(kills):
                with _receiver(file, tmp_path / "state") as process:
                    time.sleep(dice.uniform(0, _LONGEST_LIFE))
                    process.kill()
                if number % 10 == 3:
                    server.crash()
                    server.start()
                if number % 4 == 1 and file.exists():
                    file.rename(file.with_name(f"out.{number}"))
        end = server.flush_lsn()
        with _receiver(file, tmp_path / "state", "--endpos", end) as process:
            process.wait(120)
        assert process.returncode == 0
        expected = "".join(row.split("\t", 2)[2] + "\n" for row in theirs(server).splitlines())
    rotated = sorted(tmp_path.glob("out.[0-9]*"), key=lambda path: int(path.name.partition(".")[2]))
    check_equal("".join(path.read_text() for path in [*rotated, file]), expected)


def test_rotation_and_ending(tmp_path: Path) -> None:
    file, moved = tmp_path / "out", tmp_path / "out.1"
    with Server(16) as server, server.connect() as connection:
        connection.execute("CREATE TABLE t (id serial PRIMARY KEY, v text)")
        create_both(server, "mine", tmp_path / "state")
        with _receiver(file, tmp_path / "state") as process:
            connection.execute("INSERT INTO t (v) VALUES ('before')")
            until(lambda: file.exists() and "before" in file.read_text())
            file.rename(moved)
            process.send_signal(signal.SIGHUP)
            until(file.exists)
            connection.execute("INSERT INTO t (v) VALUES ('behind')")
            until(lambda: "behind" in file.read_text())
            process.terminate()
            assert process.wait(30) == 128 + signal.SIGTERM
        expected = "".join(row.split("\t", 2)[2] + "\n" for row in theirs(server).splitlines())
    assert "before" in moved.read_text()
    assert "before" not in file.read_text()
    check_equal(moved.read_text() + file.read_text(), expected)


@pytest.mark.soak
def test_streamed_changes_come_once_too(tmp_path: Path) -> None:
    """What was given of a transaction in progress is known beside the position, so that the next consumer goes on behind it."""
    file, rows = tmp_path / "out", 6000
    options = ("-o", "stream-changes", "--set", "logical_decoding_work_mem=64kB")
    with Server(16) as server, server.connect(autocommit=False) as writer:
        server.sql("CREATE TABLE t (id int, v text)")
        create_both(server, "mine", tmp_path / "state")
        for start in range(0, rows, 1000):
            writer.execute("INSERT INTO t SELECT i, repeat('x', 100) FROM generate_series(1, 1000) i")
            server.say("SELECT pg_logical_emit_message(false, 'p', 'flush')", "SELECT pg_switch_wal()")
            with _receiver(file, tmp_path / "state", *options) as process:
                until(lambda start=start: file.exists() and file.read_text().count("streaming change") >= start + 1000)
                time.sleep(start % 2000 / 2000)
                process.kill()
        writer.commit()
        with _receiver(file, tmp_path / "state", "--endpos", server.flush_lsn(), *options) as process:
            assert process.wait(120) == 0
    told = file.read_text().splitlines()
    assert sum(line.startswith("streaming change") for line in told) == rows
    assert sum(line.startswith("committing streamed") for line in told) == 1
    assert sum(line.startswith("opening") for line in told) == sum(line.startswith("closing") for line in told) > 1


def test_the_file_is_the_slot_s_whatever_its_name(tailrace: Run, tmp_path: Path) -> None:
    """It goes on after a rename. Another slot of that name is another, and so is a copy."""
    state, file = ("--state", tmp_path / "state"), tmp_path / "out"

    def received(name: str, *words: str) -> tuple[int, str]:
        server.say("INSERT INTO t DEFAULT VALUES")
        status, _, err = tailrace("slot", "receive", name, *state, "-f", file, "--endpos", server.flush_lsn(), *words)
        return status, err.removeprefix("tailrace: error: ").split("\n", 1)[0]

    with Server(16) as server:
        server.sql("CREATE TABLE t (id serial PRIMARY KEY)")
        create_both(server, "mine", tmp_path / "state")
        assert received("mine") == (0, "")
        assert tailrace("slot", "rename", "mine", "yours", *state)[0] == 0
        assert received("yours") == (0, "")
        check_equal(file.read_text(), "".join(row.split("\t", 2)[2] + "\n" for row in theirs(server).splitlines()))
        system = SlotLocation.open(tmp_path / "state").settings.system
        assert tailrace("slot", "copy", "yours", "mine", *state)[0] == 0
        assert received("mine") == (1, f'"{file}" is written from replication slot "yours" of system {system}')
        assert tailrace("slot", "drop", "yours", *state)[0] == 0
        assert tailrace("slot", "rename", "mine", "yours", *state)[0] == 0
        assert received("yours") == (1, f'"{file}" is written from another replication slot "yours" of system {system}')
        assert received("yours", "--resume-at-end") == (0, "")
        assert received("yours") == (0, "")


@pytest.mark.soak
def test_a_temporary_slot_lives_as_long_as_its_command(tailrace: Run, tmp_path: Path) -> None:
    """Ended or killed: then it is gone, and its name is free."""
    state, file = tmp_path / "state", tmp_path / "out"
    with Server(16) as server:
        server.sql("CREATE TABLE t (id serial PRIMARY KEY)")
        new = ("--create-slot", server.data_dir, "--database", server.dbname)
        for end in (signal.SIGTERM, signal.SIGKILL):
            for each in (file, file.with_name("out.position")):
                each.unlink(missing_ok=True)
            with _receiver(file, state, *new, "--temporary") as process:
                until(lambda: "mine\t" in _listed(tailrace, state) or process.poll() is not None)
                server.sql("INSERT INTO t DEFAULT VALUES")
                until(lambda: file.exists() and "INSERT: id[integer]" in file.read_text())
                status, out, _ = tailrace("slot", "show", "mine", "--state", state, "--json")
                assert (status, json.loads(out)["temporary"], json.loads(out)["active_pid"]) == (0, True, process.pid)
                assert tailrace("slot", "drop", "mine", "--state", state)[0] == 1
                process.send_signal(end)
                process.wait(30)
            status, _, err = tailrace("slot", "show", "mine", "--state", state)
            assert (status, 'replication slot "mine" does not exist' in err) == (1, True)
            assert not list((state / "slots").iterdir())


def test_a_slot_is_created_and_received_in_one(tailrace: Run, tmp_path: Path) -> None:
    """Without --temporary it stays; --if-not-exists then takes it, and without that its name is taken."""
    state = ("--state", tmp_path / "state")
    with Server(16) as server:
        server.sql("CREATE TABLE t (id serial PRIMARY KEY)")
        receive = ("slot", "receive", "mine", *state, "-f", tmp_path / "out")
        new = ("--create-slot", server.data_dir, "--database", server.dbname)
        assert tailrace(*receive, *new, "--endpos", server.flush_lsn())[0] == 0
        server.say("INSERT INTO t DEFAULT VALUES")
        status, _, err = tailrace(*receive, *new)
        assert (status, 'replication slot "mine" already exists' in err) == (1, True)
        assert tailrace(*receive, *new, "--if-not-exists", "--endpos", server.flush_lsn())[0] == 0
        assert "id[integer]:1" in (tmp_path / "out").read_text()
        status, _, err = tailrace(*receive, "--temporary")
        assert (status, "options of a new slot need --create-slot" in err) == (1, True)


def _listed(tailrace: Run, state: Path) -> str:
    return tailrace("slot", "ls", "--state", state)[1] if (state / "location").exists() else ""


@contextmanager
def _receiver(file: Path, state: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    words = [TAILRACE, "slot", "receive", "mine", "--state", state, "-f", file, "--fsync-interval", "0.2", *options]
    process = subprocess.Popen(words, stderr=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        _, said = process.communicate()
    assert process.returncode in (0, -signal.SIGKILL, 128 + signal.SIGTERM), said.decode()
