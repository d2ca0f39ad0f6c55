"""Where the large steps of an edit are carried out: by the workers of a feed, or by a few threads of this process.

In: a function and items, all of which can be pickled: names of files in a store, positions, columns, and never rows. Out: results as small, in the
order of the items. What is small is not given to workers: a task of Spark's costs more than it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

from tailrace.dataclass import dataclass
from tailrace.feed import Feed
from tailrace.threads import Threads

Item = TypeVar("Item")
Result = TypeVar("Result")

_THREADS = min(2, os.cpu_count() or 1)
"""Each has a chunk of changes in its hands, and this process is to stay small whatever the machine has."""


class Run(Protocol):
    def __call__(self, work: Callable[[Item], Result], items: Sequence[Item], /) -> Iterator[Result]: ...


def run_here(work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """In threads. An error waits for what the others are at, so that nothing is written after it was told."""
    if len(items) <= 1 or _THREADS <= 1:
        yield from map(work, items)
        return
    with Threads(_THREADS) as pool:
        yield from pool.map(work, items)  # which takes back what has not begun, where it is left


@dataclass(frozen=True, slots=True)
class Workers:
    """`run` has work done. Changes of `large_bytes` in memory and more are theirs, in chunks of `chunk_bytes`. Files that are to be written anew are
    theirs where they `are_elsewhere`, and these have `large_files` bytes and more together; or else where none has more."""

    run: Run = run_here
    are_elsewhere: bool = False
    large_bytes: int = 96 << 20
    chunk_bytes: int = 64 << 20
    large_files: int = 32 << 20

    @classmethod
    def of(cls, feed: Feed) -> Workers:
        return cls(feed.run, are_elsewhere=True) if feed.works_elsewhere else HERE

    def should_rewrite(self, sizes: Sequence[int]) -> bool:
        """Whether to give them files of so many bytes. Threads of this process hold one each, so none may be large."""
        if self.are_elsewhere:
            return sum(sizes) >= self.large_files
        return len(sizes) > 1 and max(sizes) <= self.large_files


HERE = Workers()
