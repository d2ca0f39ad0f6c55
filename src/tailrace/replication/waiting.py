"""Waiting for a log to grow: the one place that sleeps, for threads and for asyncio.

In: `NothingNew`, which says where a log ended and what stood there. Out: nothing; who waits goes on once the log has grown, or
the time to look again has come, or somebody woke it. A log has one watcher, a thread that looks at its ends for everybody: two
hundred who wait at the same end cost one look at it, a few system calls. It lives as long as somebody waits. It looks every so
often, and at once when whoever receives the log says that there is more (`storage.wakeup`).

A server asks its slots from an event loop so: what reads and decodes runs in threads (`asyncio.to_thread(acquired.poll, …)`), in
which kernels let go of the GIL, and in between each connection awaits its `AsyncWaiter`.
"""

from __future__ import annotations

import asyncio
import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TypeVar

from tailrace.pipeline.following import POLL, NothingNew, Steps
from tailrace.sources.log_growth import LogEnd
from tailrace.storage.wakeup import ReaderSocket

Result = TypeVar("Result")


class Waiter:
    """Waits in one thread."""

    def __init__(self) -> None:
        self._woken: SimpleQueue[None] = SimpleQueue()

    def wait(self, nothing: NothingNew, until: float = math.inf) -> None:
        """At the latest until `until` (of time.monotonic)."""
        with _watched(nothing, self.wake):
            self.sleep(min(until, nothing.again_at))

    def sleep(self, until: float) -> None:
        """Whatever the log does."""
        with suppress(Empty):
            self._woken.get(timeout=_seconds_to(until))
            while True:  # who was woken twice does not wake up twice
                self._woken.get_nowait()

    def wake(self) -> None:
        """From anywhere: another thread, or a signal handler, which may interrupt the waiter itself."""
        self._woken.put(None)


class AsyncWaiter:
    """For one task. It is made in its event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()

    async def wait(self, nothing: NothingNew, until: float = math.inf) -> None:
        """As `Waiter.wait`."""
        with _watched(nothing, self.wake):
            await self.sleep(min(until, nothing.again_at))

    async def sleep(self, until: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._woken.wait(), _seconds_to(until))
        self._woken.clear()

    def wake(self) -> None:
        """From any thread."""
        with suppress(RuntimeError):  # the loop was closed
            self._loop.call_soon_threadsafe(self._woken.set)


def _seconds_to(until: float) -> float:
    return min(max(0.0, until - time.monotonic()), _LONGEST)


_LONGEST = 3600.0
"""What waits for ever looks again after so many seconds."""


def finish(steps: Steps[Result], waiter: Waiter | None = None, check: Callable[[], None] = lambda: None) -> Result:
    """Take all steps in this thread, and wait between them. Whoever wakes the `waiter` has `check` asked whether to go on, which raises if not."""
    waiter = waiter or Waiter()
    while isinstance(taken := _step(steps), NothingNew):
        waiter.wait(taken)
        check()
    return taken[0]


async def finish_async(steps: Steps[Result], executor: Executor | None = None) -> Result:
    """Take each step in a thread, and await the next."""
    loop, waiter = asyncio.get_running_loop(), AsyncWaiter()
    while isinstance(taken := await loop.run_in_executor(executor, _step, steps), NothingNew):
        await waiter.wait(taken)
    return taken[0]


def _step(steps: Steps[Result]) -> NothingNew | tuple[Result]:
    try:
        return next(steps)
    except StopIteration as end:
        return (end.value,)


class _Watcher:
    """Looks at the ends of one log, as long as somebody waits there. State: who does, and when a receiver had more."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._waiting: dict[object, tuple[NothingNew, Callable[[], None]]] = {}
        self._thread: threading.Thread | None = None
        self._woken = -math.inf

    def add(self, key: object, nothing: NothingNew, wake: Callable[[], None]) -> None:
        with self._lock:
            self._waiting[key] = nothing, wake
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="tailrace log watcher", daemon=True)
                self._thread.start()
            is_late = nothing.since <= self._woken
        if is_late:
            self._look()

    def remove(self, key: object) -> None:
        with self._lock:
            self._waiting.pop(key, None)

    def _watch(self) -> None:
        idle, pause = 0, 0.0
        with ReaderSocket(self._path) as socket:
            while True:
                if socket.wait(pause):
                    self._woken = time.monotonic()
                with self._lock:
                    idle = 0 if self._waiting else idle + 1
                    if idle > _IDLE:
                        self._thread = None
                        return
                pause = self._look()

    def _look(self) -> float:
        """Wake who may go on; for how long there is no need to look again."""
        with self._lock:
            waiting = list(self._waiting.items())
        now = time.monotonic()
        due = [(key, nothing, wake) for key, (nothing, wake) in waiting if nothing.not_before <= now]
        tails = {end: end.tail() for end in {nothing.end for _, nothing, _ in due} if end is not None}
        for key, nothing, wake in due:
            if nothing.since <= self._woken if nothing.end is None else tails[nothing.end] != nothing.tail:
                self.remove(key)
                wake()
        return min([POLL, *(nothing.not_before - now for _, (nothing, _) in waiting if nothing.not_before > now)])


_IDLE = 20
"""After so many looks for nobody a watcher ends: who waits again in a moment need not start another thread."""
_WATCHERS: dict[Path, _Watcher] = {}


@contextmanager
def _watched(nothing: NothingNew, wake: Callable[[], None]) -> Iterator[None]:
    """While the block runs, `wake` is called when the log grows."""
    path = nothing.end.path if isinstance(nothing.end, LogEnd) else nothing.path
    if path is None:
        yield
        return
    watcher, key = _WATCHERS.setdefault(path, _Watcher(path)), object()
    watcher.add(key, nothing, wake)
    try:
        yield
    finally:
        watcher.remove(key)


os.register_at_fork(after_in_child=_WATCHERS.clear)  # a child has none of its parent's threads
