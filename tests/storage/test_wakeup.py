"""Who receives a log and who waits for it wake each other, in one process and in several, and neither needs the other."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import threading
import time
from pathlib import Path

from tailrace.storage.wakeup import ReaderSocket, ReceiverSocket, force_reply

LONG = 20.0
READER = """
import sys, time
from pathlib import Path
from tailrace.storage.wakeup import ReaderSocket, force_reply
with ReaderSocket(Path(sys.argv[1])) as reader:
    reader.wait(0)
    print("asked", flush=True)
    print(reader.wait(20), flush=True)
    force_reply(Path(sys.argv[1]))
    sys.stdin.read()
"""


def test_a_reader_is_woken_once_for_what_came(tmp_path: Path) -> None:
    with ReceiverSocket(tmp_path) as receiver, ReaderSocket(tmp_path) as reader, ReaderSocket(tmp_path) as other:
        assert not reader.wait(0)
        assert not other.wait(0)
        for _ in range(1000):  # who does not take them has no more than its socket holds, and holds up nobody
            receiver.wake_readers()
        assert reader.wait(LONG)
        threading.Timer(0.2, receiver.wake_readers).start()
        while other.wait(0):
            pass
        assert other.wait(LONG)


def test_who_knows_that_the_server_can_be_reached(tmp_path: Path) -> None:
    with ReceiverSocket(tmp_path) as receiver, ReaderSocket(tmp_path) as reader, ReaderSocket(tmp_path, has_more=True) as other:
        assert not receiver.wait_to_connect(0)
        reader.wait(0)
        force_reply(tmp_path)
        assert not receiver.wait_to_connect(LONG)
        other.wait(0)
        assert receiver.wait_to_connect(LONG)
        assert not receiver.wait_to_connect(0)
        receiver.wake_readers()
        assert reader.wait(LONG)
        assert other.wait(LONG)


def test_another_process_and_one_that_is_killed(tmp_path: Path) -> None:
    with ReceiverSocket(tmp_path) as receiver:
        words = [sys.executable, "-c", READER, str(tmp_path)]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "asked\n"
            receiver.wake_readers()
            assert process.stdout.readline() == "True\n"
            process.kill()
        receiver.wake_readers()
        with ReaderSocket(tmp_path) as reader:
            reader.wait(0)
            receiver.wake_readers()
            assert reader.wait(LONG)


def test_a_receiver_that_comes_later_and_another_after_it(tmp_path: Path) -> None:
    with ReaderSocket(tmp_path) as reader:
        for _ in range(2):
            assert not reader.wait(0.06)
            with ReceiverSocket(tmp_path) as receiver:
                ended = time.monotonic() + LONG
                while not reader.wait(0.05):
                    receiver.wake_readers()
                    assert time.monotonic() < ended


def test_nobody_is_there(tmp_path: Path) -> None:
    force_reply(tmp_path)
    force_reply(tmp_path / "absent")
    with ReaderSocket(tmp_path / "absent") as reader:
        began = time.monotonic()
        assert not reader.wait(0.1)
        assert time.monotonic() - began >= 0.1
    with ReceiverSocket(tmp_path), ReceiverSocket(tmp_path) as second:  # only one can have the name
        assert second.fileno() < 0
        second.wake_readers()


def test_a_forked_child_keeps_no_name(tmp_path: Path) -> None:
    fork = multiprocessing.get_context("fork")
    begun, go_on = fork.Event(), fork.Event()
    with ReceiverSocket(tmp_path):
        child = fork.Process(target=lambda: (begun.set(), go_on.wait()))
        child.start()
        assert begun.wait(LONG)
    with ReceiverSocket(tmp_path) as again:
        assert again.fileno() >= 0
    go_on.set()
    child.join(LONG)
