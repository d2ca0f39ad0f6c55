"""Who waits for a log goes on when it grows, however many wait: threads, tasks of an event loop, and a thread that a signal handler wakes."""

from __future__ import annotations

import asyncio
import math
import multiprocessing
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from support.cases import open_case
from support.ways import GrowingArchive, Road
from tailrace.model import PAGE_SIZE
from tailrace.pipeline import LocalRunner
from tailrace.pipeline.following import POLL, FollowedLog, NothingNew, Steps
from tailrace.replication.waiting import AsyncWaiter, Waiter, finish, finish_async
from tailrace.sources.log_growth import LogEnd, Tail
from tailrace.sources.source import Source
from tailrace.storage.wakeup import ReceiverSocket

MANY = 200
LONG = 60.0


@dataclass
class GrowingLog:
    """An archive that ends at a record, and `nothing` that is new there; `looks` counts how often anybody looks at its end."""

    archive: Path
    growing: GrowingArchive
    followed: FollowedLog
    last: int
    looks: int = 0

    @property
    def nothing(self) -> NothingNew:
        assert list(self.followed.look(LocalRunner(1))) == []
        assert self.followed.nothing_new.tail is not None
        return self.followed.nothing_new

    def grow(self) -> None:
        self.growing.upto(self.last)


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GrowingLog:
    """Files and folder are old, so that their time stamps tell something."""
    road = Road(open_case("xact", 16, "with_slot", tmp_path / "case"))
    archive = tmp_path / "archive"
    archive.mkdir()
    growing = GrowingArchive(road.source, archive)
    growing.upto(road.records[len(road.records) // 2])
    for path in (*archive.iterdir(), archive):
        os.utime(path, (0, 0))
    source = Source.open(archive)
    followed = FollowedLog(archive, road.start // PAGE_SIZE * PAGE_SIZE, source.segments.first_lsn, source)
    assert list(followed.look(LocalRunner(1)))
    made = GrowingLog(archive, growing, followed, road.records[-1])
    tail = LogEnd.tail

    def counted(end: LogEnd) -> Tail | None:
        made.looks += 1
        return tail(end)

    monkeypatch.setattr(LogEnd, "tail", counted)
    return made


def test_two_hundred_threads_cost_one_look(log: GrowingLog) -> None:
    nothing = _patient(log.nothing)
    with ThreadPoolExecutor(MANY) as pool:
        waiting = [pool.submit(_waited, nothing) for _ in range(MANY)]
        _check_looks(log, 1.0)
        assert not any(each.done() for each in waiting)
        log.grow()
        assert all(each.result(LONG) for each in waiting)


def test_two_hundred_tasks_cost_one_look(log: GrowingLog) -> None:
    nothing = _patient(log.nothing)

    async def run() -> None:
        waiting = [asyncio.create_task(_waited_async(nothing)) for _ in range(MANY)]
        await asyncio.to_thread(_check_looks, log, 1.0)
        assert not any(each.done() for each in waiting)
        await asyncio.to_thread(log.grow)
        assert all(await asyncio.wait_for(asyncio.gather(*waiting), LONG))

    asyncio.run(run())


def test_who_waits_where_the_log_ended_before_goes_on_at_once(log: GrowingLog) -> None:
    nothing = _patient(log.nothing)
    log.grow()
    assert _waited(nothing)


def test_waits_no_longer_than_asked(log: GrowingLog) -> None:
    nothing = log.nothing
    for until, again_at in ((0.2, math.inf), (math.inf, 0.2)):
        now = time.monotonic()
        Waiter().wait(NothingNew(now + again_at, nothing.end, nothing.tail), now + until)
        assert now + 0.2 <= time.monotonic() < now + LONG
    now = time.monotonic()
    asyncio.run(_wait_once(NothingNew(now + 0.2, nothing.end, nothing.tail)))
    assert now + 0.2 <= time.monotonic() < now + LONG


def test_is_woken_by_others_and_by_a_signal_handler(log: GrowingLog) -> None:
    nothing = _patient(log.nothing)
    waiter = Waiter()
    threading.Timer(0.2, waiter.wake).start()
    waiter.wait(nothing)
    before = signal.signal(signal.SIGUSR1, lambda *_: waiter.wake())
    try:
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        waiter.wait(nothing)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert time.monotonic() < nothing.again_at


def test_who_receives_the_log_wakes_who_waits(log: GrowingLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long before the log would be looked at; also one who has just found something, and knows nothing of the end yet."""
    monkeypatch.setattr("tailrace.replication.waiting.POLL", LONG)
    nothing = _patient(log.nothing)
    with ReceiverSocket(log.archive) as receiver:

        def receive() -> None:
            log.grow()
            receiver.wake_readers()

        began = time.monotonic()
        threading.Timer(0.3, receive).start()
        assert _waited(nothing)
        threading.Timer(0.3, receiver.wake_readers).start()
        assert _waited(NothingNew(began + LONG, path=log.archive, since=time.monotonic()))
        assert time.monotonic() - began < LONG / 2


def test_looks_are_as_far_apart_as_they_cost(log: GrowingLog) -> None:
    """Whatever comes meanwhile, but for who is woken for another reason."""
    nothing = _patient(log.nothing)
    log.grow()
    now = time.monotonic()
    Waiter().wait(replace(nothing, not_before=now + 0.3))
    assert time.monotonic() >= now + 0.3
    waiter = Waiter()
    waiter.wake()
    waiter.wait(replace(nothing, not_before=now + LONG))
    assert time.monotonic() < now + LONG / 2
    began = time.monotonic() - 0.01
    after = NothingNew.after_look(log.archive, began)
    assert began + 0.03 <= after.not_before + 1e-6
    assert after.not_before <= time.monotonic() + POLL
    after = NothingNew.after_look(log.archive, time.monotonic() - 10)
    assert after.not_before <= time.monotonic() + POLL


def test_a_forked_child_waits_for_itself(log: GrowingLog) -> None:
    """Of its parent's watcher it has a copy that never looks."""
    nothing = _patient(log.nothing)
    with ThreadPoolExecutor(1) as pool:
        parents = pool.submit(_waited, nothing)
        time.sleep(0.2)
        child = multiprocessing.get_context("fork").Process(target=_waited_in_child, args=(nothing,))
        child.start()
        time.sleep(0.5)
        log.grow()
        child.join(LONG)
        assert child.exitcode == 0
        assert parents.result(LONG)


def test_steps_are_taken_until_there_is_a_result(log: GrowingLog) -> None:
    """The steps wait for the log to grow; both kinds of waiting do."""

    def steps(nothing: NothingNew) -> Steps[str]:
        yield NothingNew.for_a_moment()
        yield nothing
        return "grown"

    nothing = _patient(log.nothing)
    threading.Timer(0.3, log.grow).start()
    assert finish(steps(nothing)) == "grown"
    assert asyncio.run(finish_async(steps(nothing))) == "grown"


def _patient(nothing: NothingNew) -> NothingNew:
    """Nobody looks again by himself."""
    return NothingNew(time.monotonic() + LONG, nothing.end, nothing.tail)


def _check_looks(log: GrowingLog, seconds: float) -> None:
    """Far fewer than there are who wait, and not none."""
    before = log.looks
    time.sleep(seconds)
    assert 0 < log.looks - before < MANY // 4


def _waited(nothing: NothingNew) -> bool:
    """Whether it was not in vain."""
    Waiter().wait(nothing)
    return time.monotonic() < nothing.again_at


async def _waited_async(nothing: NothingNew) -> bool:
    await _wait_once(nothing)
    return time.monotonic() < nothing.again_at


async def _wait_once(nothing: NothingNew) -> None:
    await AsyncWaiter().wait(nothing)


def _waited_in_child(nothing: NothingNew) -> None:
    os._exit(0 if _waited(nothing) else 1)
