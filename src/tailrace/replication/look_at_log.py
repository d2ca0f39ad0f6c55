"""A look at what is new of a slot's log, poll by poll: its windows one after the other, of which the next may be read ahead."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TypeAlias

from tailrace.dataclass import dataclass
from tailrace.replication.next_window import Limit
from tailrace.sources.source import Source
from tailrace.threads import Threads
from tailrace.wal.index import Index

Stretches: TypeAlias = list[tuple[Source, Index]]
"""That make a window."""
Windows = Generator[Stretches, None, None]


@dataclass(slots=True)
class LookAtLog:
    """As far as `limit`. State: what is read `ahead`."""

    limit: Limit
    windows: Windows
    ahead: Future[Stretches | None] | None = None

    def rest(self) -> Iterator[Stretches]:
        """What was not given yet."""
        while (found := self._next()) is not None:
            yield found

    def _next(self) -> Stretches | None:
        ahead, self.ahead = self.ahead, None
        return ahead.result() if ahead is not None else next(self.windows, None)

    @contextmanager
    def reading_ahead(self) -> Iterator[None]:
        """Within the block a thread reads the next window. What is wrong there is raised when that is asked for."""
        with Threads(1) as thread:
            self.ahead = thread.submit(next, self.windows, None)
            yield
