"""Where to cut a log into windows: each is planned and decoded at once, so what it costs in memory is bounded.

In: stretches, and what each costs. Out: runs of them. Bytes alone do not bound a window, since a commit may take no more than 200 of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

from tailrace.dataclass import dataclass
from tailrace.errors import UsageError

if TYPE_CHECKING:
    from tailrace.wal.index import Index  # which brings kernels along

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Weight:
    """What a stretch costs a window: its bytes, the ends in it, and the bytes of records that its index keeps whole."""

    wal_bytes: int
    ends: int
    kept_bytes: int

    @classmethod
    def of(cls, part: Index) -> Weight:
        return cls(part.stretch.stop - part.stretch.start, len(part.ends), len(part.kept.data))

    def __add__(self, other: Weight) -> Weight:
        return Weight(self.wal_bytes + other.wal_bytes, self.ends + other.ends, self.kept_bytes + other.kept_bytes)


@dataclass(frozen=True, slots=True)
class WindowSize:
    """A window is cut before the stretch with which it would pass any of these; of one stretch it is at least."""

    wal_bytes: int = 256 << 20
    ends: int = 500_000
    kept_bytes: int = 128 << 20

    def holds(self, weight: Weight) -> bool:
        return weight.wal_bytes <= self.wal_bytes and weight.ends <= self.ends and weight.kept_bytes <= self.kept_bytes


def windows(stretches: Iterable[Item], weigh: Callable[[Item], Weight], size: WindowSize) -> Iterator[list[Item]]:
    """The stretches of each window, as soon as the one behind it is there."""
    window: list[Item] = []
    total = Weight(0, 0, 0)
    for each in stretches:
        weight = weigh(each)
        if window and not size.holds(total + weight):
            yield window
            window, total = [], Weight(0, 0, 0)
        window.append(each)
        total += weight
    if window:
        yield window


_SIZE = re.compile(r"\s*(\d+)\s*(B|kB|MB|GB|TB)?\s*\Z")
UNITS = {"B": 1, "kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}


def parse_size(text: str) -> int:
    """A size in bytes, with PostgreSQL's units. Raises UsageError for anything else, and for 0."""
    match = _SIZE.match(text)
    size = int(match[1]) * UNITS[match[2] or "B"] if match else 0
    if not size:
        raise UsageError(
            f'invalid size: "{text}"',
            hint='Give a whole number of 1 or more. Valid units are "B", "kB", "MB", "GB", and "TB".',
        )
    return size
