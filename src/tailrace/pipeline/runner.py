"""A `Runner` runs a stage over its stretches: `LocalRunner` in threads of this process, `spark.jobs.SparkRunner` as a Spark job."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import field
from itertools import islice
from typing import Protocol, TypeVar

from tailrace.dataclass import dataclass
from tailrace.window import WindowSize

Item = TypeVar("Item")
Result = TypeVar("Result")

HEAVY_WORKERS = 8
"""Lines are put in order by one thread, which takes a sixth of what formatting them takes or more: further threads would wait
for it, with results as large as a stretch in their hands."""


_LEAST_STRETCH, _MOST_STRETCH = 4 << 20, 32 << 20
_STRETCHES_PER_WORKER = 4


class Runner(Protocol):
    """Runs a stage: a pure function over items, results in the order of the items."""

    @property
    def window(self) -> WindowSize:
        """How large windows should be."""
        ...

    @property
    def workers(self) -> int:
        """How many items are worked on at a time, for now."""
        ...

    @property
    def works_elsewhere(self) -> bool:
        """Whether items are worked on in other processes, so that their memory is not this one's."""
        ...

    def stretch_bytes(self, size: int) -> int:
        """How large stretches should be, for a log of `size` bytes that is read once."""
        ...

    def run(self, work: Callable[[Item], Result], items: Sequence[Item], *, heavy: bool = False) -> Iterator[Result]:
        """`heavy` says that results are about as large as a stretch, so that few may be at hand at once."""
        ...


@dataclass(slots=True)
class LocalRunner:
    """Threads of this process; kernels release the GIL. Never more results in flight than workers, heavy ones than
    HEAVY_WORKERS, so memory stays flat, on many cores as well."""

    workers: int = field(default_factory=lambda: os.cpu_count() or 1)
    window: WindowSize = field(default_factory=WindowSize)

    @property
    def works_elsewhere(self) -> bool:
        return False

    def stretch_bytes(self, size: int) -> int:
        """Small enough that each thread has some, as threads start for nothing; and so that what the threads have in their
        hands is no burden."""
        share = size // (self.workers * _STRETCHES_PER_WORKER)
        return min(max(1 << share.bit_length() - 1 if share else 0, _LEAST_STRETCH), _MOST_STRETCH)

    def run(self, work: Callable[[Item], Result], items: Sequence[Item], *, heavy: bool = False) -> Iterator[Result]:
        workers = min(self.workers, HEAVY_WORKERS) if heavy else self.workers
        if len(items) <= 1 or workers <= 1:
            yield from map(work, items)
            return
        pool = ThreadPoolExecutor(workers)
        try:
            waiting = iter(items)
            flying: list[Future[Result]] = [pool.submit(work, item) for item in islice(waiting, workers + 1)]
            while flying:
                yield flying.pop(0).result()
                flying += [pool.submit(work, item) for item in islice(waiting, 1)]
        finally:
            # An error, or Ctrl-C, does not wait for what the other threads are at.
            pool.shutdown(wait=False, cancel_futures=True)
