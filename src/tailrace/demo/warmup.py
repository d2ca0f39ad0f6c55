"""What is slow the first time, done aside while the shop is busy: Spark's start, and the loading of kernels, here and in its processes."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any

from tailrace.pipeline.runner import Runner


class Warmup:
    """A runner on its way, and first work for it, one piece after the other in a thread. State: at work, or over.

    What is left is dropped when the `with` ends; the piece at hand is waited for. Where a piece fails, `check` and `runner` raise its error.
    """

    def __init__(self, start: Callable[[], Runner]) -> None:
        self._aside = ThreadPoolExecutor(1)
        self._runner = self._aside.submit(start)
        self._pieces: list[Future[Any]] = [self._runner]

    def __enter__(self) -> Warmup:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._aside.shutdown(cancel_futures=True)

    def do(self, work: Callable[[Runner], object]) -> None:
        """Have this done next."""
        self._pieces.append(self._aside.submit(lambda: work(self._runner.result())))

    def check(self) -> None:
        """Raise if something has failed."""
        for piece in self._pieces:
            if piece.done():
                piece.result()

    def runner(self) -> Runner:
        """The runner, once all is done."""
        for piece in self._pieces:
            piece.result()
        return self._runner.result()


def copy_of(data: Path, place: Path) -> Path:
    """A copy of a server's data directory right after a CHECKPOINT, while nobody writes. It reads as one that no server owns."""
    return Path(shutil.copytree(data, place, ignore=shutil.ignore_patterns("postmaster.pid", "pg_replslot")))
