"""A generator with threads that nobody has closed is closed by the garbage collector, and holds up nobody."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from typing import Any

from tailrace.threads import Threads


def _ahead(started: threading.Event, goes_on: threading.Event) -> Iterator[int]:
    def work() -> None:
        started.set()
        goes_on.wait(60)

    with Threads(1) as threads:
        threads.submit(work)
        yield 1


def _left(started: threading.Event, goes_on: threading.Event) -> None:
    """In a cycle, so that nobody but the collector ends it."""
    cycle: dict[str, Any] = {"numbers": _ahead(started, goes_on)}
    cycle["itself"] = cycle
    assert next(cycle["numbers"]) == 1
    assert started.wait(60)


def test_the_collector_waits_for_no_thread() -> None:
    started, goes_on, collected = threading.Event(), threading.Event(), threading.Event()
    gc.disable()
    try:
        _left(started, goes_on)

        def collect() -> None:  # as in a thread that holds a lock which Thread.join takes
            with getattr(threading, "_shutdown_locks_lock", threading.Lock()):  # which 3.13 has no more
                gc.collect()
            collected.set()

        thread = threading.Thread(target=collect, daemon=True)
        thread.start()
        assert collected.wait(10)
    finally:
        goes_on.set()
        gc.enable()


def test_who_closes_it_waits() -> None:
    started, goes_on = threading.Event(), threading.Event()
    numbers = _ahead(started, goes_on)
    assert next(numbers) == 1
    assert started.wait(60)
    done = threading.Event()

    def close() -> None:
        numbers.close()  # type: ignore[attr-defined]
        done.set()

    thread = threading.Thread(target=close)
    thread.start()
    assert not done.wait(0.2)
    goes_on.set()
    assert done.wait(60)
    thread.join()
