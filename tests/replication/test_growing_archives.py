"""Slots on an archive into which segments come: pg_receivewal's, of a running server whose slot says what is right."""

from __future__ import annotations

import gzip
import random
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.acquired import acquired
from support.archives import create_on_archive, ours_upto, place_of, receiving, switch_until_whole
from support.command import Run
from support.decoding import check_equal
from support.servers import Server
from support.slots import TAILRACE, ours, theirs
from support.threads import run_threads
from support.waiting import until
from tailrace.errors import CorruptWal, MissingHistory
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner
from tailrace.replication.acquired_slot import AcquiredSlot
from tailrace.replication.slot_location import SlotLocation
from tailrace.replication.slot_wal import status_of
from tailrace.replication.waiting import finish

pytestmark = pytest.mark.postgres
MAJORS = [pytest.param(14, marks=pytest.mark.matrix), 16, pytest.param(18, marks=pytest.mark.matrix)]


@pytest.mark.parametrize("options", [(), ("--compress=1",)], ids=["plain", "gzip"])
@pytest.mark.parametrize("major", MAJORS)
def test_takes_what_the_server_gives(major: int, options: tuple[str, ...], tmp_path: Path) -> None:
    """At several moments, before and after segments are switched; by one consumer that goes on, and others that come and go."""
    dice = random.Random(major)
    with Server(major) as server, receiving(server, tmp_path / "archive", *options):
        server.say("CREATE TABLE t (id serial PRIMARY KEY, v text)")
        create_on_archive(server, tmp_path / "archive", tmp_path / "state")
        location = SlotLocation.open(tmp_path / "state")
        expected = taken = ""
        run_threads(server, dice.randrange(10**6), transactions=30, ddl=False)
        for turn in range(4):
            with acquired(location, "mine", LocalRunner(1)) as consumer:
                for number in range(3):
                    server.say(
                        f"INSERT INTO t (v) SELECT repeat('{turn}', 300 * g) FROM generate_series(1, {dice.randrange(1, 200)}) g"
                    )
                    if dice.random() < 0.5 or options:
                        server.switch_wal()
                    if dice.random() < 0.3 and number:
                        server.say(f"ALTER TABLE t ADD c{turn}_{number} int DEFAULT {number}")
                    upto = server.flush_lsn() if not options else server.switch_wal()
                    expected += theirs(server, upto)
                    taken += ours_upto(consumer, upto)
        check_equal(taken, expected)
        assert expected.count("INSERT") > 500


@pytest.mark.soak
def test_a_segment_that_is_being_copied_is_waited_for(tmp_path: Path) -> None:
    """It is short, and not called partial. If it stays so, it is damaged."""
    with Server(16) as server:
        with receiving(server, tmp_path / "from"):
            server.say("CREATE TABLE t (id int)")
            create_on_archive(server, tmp_path / "from", tmp_path / "state")
            server.say("INSERT INTO t VALUES (1)")
            server.switch_wal()
            server.say("INSERT INTO t VALUES (2)")
            switch_until_whole(server, tmp_path / "from")
            expected = theirs(server)
        location = SlotLocation.open(tmp_path / "state")
        archive = tmp_path / "from"
        for path in archive.glob("*.partial"):
            path.unlink()
        last = _whole(archive)[-1]
        content = last.read_bytes()
        last.write_bytes(content[:300_000])
        timer = threading.Timer(1, lambda: last.write_bytes(content))
        timer.start()
        with acquired(location, "mine", LocalRunner(1)) as consumer:
            timer.join()
            assert ours(consumer) == expected
            last.write_bytes(content[:400_000])
            assert ours(consumer) == ""
            with pytest.raises(CorruptWal, match="has 400000 bytes, expected 1048576"):
                _look_for(consumer, 10)
        began = time.monotonic()
        with pytest.raises(CorruptWal, match="has 400000 bytes"), acquired(location, "mine", LocalRunner(1)):
            pass
        assert time.monotonic() - began > 2


@pytest.mark.parametrize(
    "compressed",
    [pytest.param(False, id="plain", marks=pytest.mark.soak), pytest.param(True, id="gzip", marks=pytest.mark.marathon)],
)
def test_receive_waits_for_a_copy_that_stalls(compressed: bool, tailrace: Run, tmp_path: Path) -> None:
    """For longer than what looks like damage must stay so, at its start and while it follows; it says so once. Without following it is an error."""
    archive, file, state = tmp_path / "from", tmp_path / "out", ("--state", tmp_path / "state")
    with Server(16) as server:
        with receiving(server, archive):
            server.say("CREATE TABLE t (id int)")
            create_on_archive(server, archive, tmp_path / "state")
            for number in (1, 2):
                server.say(f"INSERT INTO t VALUES ({number})")
                end = switch_until_whole(server, archive)
        expected = "".join(row.split("\t", 2)[2] + "\n" for row in theirs(server).splitlines())
    for path in archive.glob("*.partial"):
        path.unlink()
    last = _whole(archive)[-1]
    content = gzip.compress(last.read_bytes()) if compressed else last.read_bytes()
    stalled = last.with_name(f"{last.name}.gz") if compressed else last
    last.unlink()
    stalled.write_bytes(content[: len(content) // 3])
    words = ("slot", "receive", "mine", *state, "-f", file, "--endpos", end)
    in_words = f'WAL segment "{stalled}"'
    for once in (("slot", "get", "mine", *state), (*words, "--no-loop")):
        status, _, err = tailrace(*once)
        assert (status, in_words in err) == (1, True), err
    receiver = [TAILRACE, *words]
    with subprocess.Popen(receiver, stderr=subprocess.PIPE, text=True) as process, _ended(process):
        assert process.stderr is not None
        said = process.stderr.readline()
        assert said.startswith("tailrace: warning: ")
        assert in_words in said
        time.sleep(5)
        assert process.poll() is None
        stalled.write_bytes(content)
        assert (process.wait(60), process.stderr.read()) == (0, "")
    check_equal(file.read_text(), expected)


@contextmanager
def _ended(process: subprocess.Popen[str]) -> Iterator[None]:
    try:
        yield
    finally:
        process.kill()


def test_what_it_needs_is_removed(tmp_path: Path) -> None:
    """A slot is lost while it is consumed, and for good. Where the whole archive is away, it is only waited for."""
    with Server(16) as server, receiving(server, archive := tmp_path / "archive"):
        server.say("CREATE TABLE t (id int)")
        create_on_archive(server, archive, tmp_path / "state")
        location = SlotLocation.open(tmp_path / "state")
        with server.connect(autocommit=False) as open_one:
            open_one.execute("INSERT INTO t VALUES (1)")
            with acquired(location, "mine", LocalRunner(1)) as consumer:
                server.say("INSERT INTO t VALUES (2)")
                for _ in range(3):
                    end = server.switch_wal()
                    server.say("INSERT INTO t VALUES (3)")
                assert ours_upto(consumer, end).count("INSERT") == 3
                # Before pg_receivewal has begun the next segment, it would end where it finds no folder.
                until(lambda: any(place_of(path) > Lsn.parse(end) >> 20 for path in archive.glob("*.partial")))
                archive.rename(tmp_path / "away")
                assert ours(consumer) == ""
                with pytest.raises(MissingHistory) as away:
                    _look_for(consumer, 10)
                assert away.value.sqlstate != "55000"
                (tmp_path / "away").rename(archive)
                until(lambda: ours(consumer).count("INSERT") == 1)
                for path in _whole(archive)[:-1]:
                    path.rename(tmp_path / path.name)
                with pytest.raises(MissingHistory, match='can no longer access replication slot "mine"') as caught:
                    _look_for(consumer, 10)
            assert caught.value.sqlstate == "55000"
            assert location.slot("mine").invalidation_reason == "wal_removed"
            for path in tmp_path.glob("0*"):
                path.rename(archive / path.name)
            with pytest.raises(MissingHistory, match="can no longer access"), acquired(location, "mine", LocalRunner(1)):
                pass


def test_is_lost_while_nobody_consumes(tmp_path: Path) -> None:
    with Server(16) as server, receiving(server, archive := tmp_path / "archive"):
        create_on_archive(server, archive, tmp_path / "state")
        location = SlotLocation.open(tmp_path / "state")
        server.say("CREATE TABLE t (id int)")
        server.switch_wal()
        switch_until_whole(server, archive)
        for path in _whole(archive):
            path.unlink()
        server.say("INSERT INTO t VALUES (1)")
        for _ in range(2):
            with (
                pytest.raises(MissingHistory, match="can no longer access") as caught,
                acquired(location, "mine", LocalRunner(1)),
            ):
                pass
            assert caught.value.sqlstate == "55000"
            assert location.slot("mine").invalidation_reason == "wal_removed"


def test_is_not_lost_to_others_while_its_consumer_is_further(tmp_path: Path) -> None:
    """WAL goes that the slot's file says it needs, and its consumer does not any more."""
    with Server(16) as server, receiving(server, archive := tmp_path / "archive"):
        server.say("CREATE TABLE t (id int)")
        create_on_archive(server, archive, tmp_path / "state")
        location = SlotLocation.open(tmp_path / "state")

        def status() -> str:
            return finish(status_of(location, location.slot("mine"), -1)).wal_status

        with acquired(location, "mine", LocalRunner(1)) as consumer:
            for _ in range(3):
                server.say("INSERT INTO t VALUES (1)")
                end = server.switch_wal()
            assert ours_upto(consumer, end).count("INSERT") == 3
            assert status() == "reserved"
            for path in _whole(archive)[:-2]:
                path.unlink()
            assert status() == "unreserved"
            assert not location.slot("mine").invalidation_reason
        assert status() == "lost"


def _look_for(consumer: AcquiredSlot, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert ours(consumer) == ""
        time.sleep(0.05)


def _whole(archive: Path) -> list[Path]:
    return sorted(path for path in archive.iterdir() if len(path.name) == 24)
