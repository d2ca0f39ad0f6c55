"""`tailrace sql` that Ctrl-C ends, wherever it then is, has moved no slot; nor has one whose output nobody takes."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from support.servers import Server
from support.slots import create_both, theirs
from tailrace.model import Lsn
from tailrace.replication.slot_location import SlotLocation

pytestmark = pytest.mark.postgres
GET = "pg_logical_slot_get_changes('mine', NULL, NULL)"
ENDLESS = f"SELECT sum(length(a.data || b.data || c.data || d.data)) FROM {GET} a, GETS b, GETS c, GETS d".replace(
    "GETS", "pg_logical_slot_peek_changes('other', NULL, NULL)"
)
"""Thousands of rows to the fourth power: nobody waits for the end of it."""
FULL = 1 << 16
"""What a pipe holds."""


@dataclass
class Place:
    server: Server
    state: Path

    def words(self, text: str) -> list[str]:
        source = str(self.server.data_dir)
        return [
            sys.executable,
            "-m",
            "tailrace",
            "sql",
            source,
            "-d",
            self.server.dbname,
            "--state",
            str(self.state),
            "-At",
            "-c",
            text,
        ]

    def confirmed(self) -> Lsn:
        return SlotLocation.open(self.state).slot("mine").confirmed_flush_lsn

    def is_active(self) -> bool:
        return SlotLocation.open(self.state).active_pid("mine") is not None


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with Server(16) as server:
        server.say("CREATE TABLE t (id int PRIMARY KEY, v text)")
        create_both(server, "mine", tmp_path / "state")
        made = Place(server, tmp_path / "state")
        other = made.words("SELECT pg_create_logical_replication_slot('other', 'test_decoding')")
        subprocess.run(other, check=True, capture_output=True)
        server.say("INSERT INTO t SELECT i, repeat('v', 20) FROM generate_series(1, 3000) i")
        yield made


def _until(condition: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    while not condition():
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


def _unread(pipe: int) -> int:
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4), sys.byteorder)


def _ended(process: subprocess.Popen[bytes]) -> str:
    """What a command says that Ctrl-C ends."""
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode != 0
    return said.decode()


def _has_it_all_again(place: Place) -> None:
    done = subprocess.run(place.words(f"SELECT * FROM {GET}"), check=True, capture_output=True, text=True)
    assert done.stdout.splitlines() == [row.replace("\t", "|", 2) for row in theirs(place.server).splitlines()]
    assert not place.is_active()


@pytest.mark.marathon
def test_while_it_prints(place: Place) -> None:
    before = place.confirmed()
    with subprocess.Popen(place.words(f"SELECT * FROM {GET}"), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        pipe = process.stdout.fileno()
        _until(lambda: _unread(pipe) == FULL, process)
        assert place.is_active()
        said = _ended(process)
    assert "Traceback" not in said
    assert place.confirmed() == before
    _has_it_all_again(place)


@pytest.mark.soak
def test_while_it_computes(place: Place) -> None:
    before = place.confirmed()
    with subprocess.Popen(place.words(ENDLESS), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        _until(place.is_active, process)
        of_system = psutil.Process(process.pid)
        begun = sum(of_system.cpu_times()[:2])
        _until(lambda: sum(of_system.cpu_times()[:2]) > begun + 2, process)  # decoding so little takes less
        said = _ended(process)
    assert "Traceback" not in said
    assert place.confirmed() == before
    _has_it_all_again(place)


@pytest.mark.marathon
def test_nobody_reads(place: Place) -> None:
    """As in `tailrace sql … | head -1`."""
    before = place.confirmed()
    with subprocess.Popen(place.words(f"SELECT * FROM {GET}"), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        os.read(process.stdout.fileno(), 1)
        process.stdout.close()
        assert process.wait(120) != 0
    assert place.confirmed() == before
    _has_it_all_again(place)
