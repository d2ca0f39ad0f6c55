"""The first pass with a store of indexes: a stretch whose index is stored is not scanned again, whoever of those that share the store scanned it.

In: stretches that follow one another, a store, and a way to scan. Out: their indexes in order. What is new is stored, if it is
whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import takewhile

from tailrace.dataclass import dataclass
from tailrace.model import Lsn, Stretch
from tailrace.storage.index_store import IndexStore
from tailrace.wal.index import Index
from tailrace.wal.pages import LogIdentity
from tailrace.wal.stretch_bytes import Reader

ScanThem = Callable[[Sequence[Stretch]], Iterator[Index]]

_UNSETTLED = 2
"""So many segments at the end of a log are each reader's own. A server syncs a segment when it begins the next, so what lies
before those no crash takes back; and nobody who is at the end waits for one who is far behind."""


@dataclass(frozen=True, slots=True)
class LogIndexes:
    """The stored indexes of one log, which are believed as far as the log still has what they are of."""

    store: IndexStore
    log: LogIdentity
    read: Reader

    def stored_or_new(self, stretches: Sequence[Stretch], scan_them: ScanThem) -> Iterator[Index]:
        """The indexes of these stretches, for a process that nobody shares the store with."""
        is_there = [self.has(stretch) for stretch in stretches]
        new = scan_them([stretch for stretch, there in zip(stretches, is_there, strict=True) if not there])
        for stretch, there in zip(stretches, is_there, strict=True):
            if not there:
                yield self.kept(next(new))
            elif part := self.load(stretch):
                yield part
            else:
                yield self.kept(next(scan_them([stretch])))

    def has(self, stretch: Stretch) -> bool:
        return self.store.has(self.log, stretch)

    def load(self, stretch: Stretch) -> Index | None:
        return self.store.load(self.log, self.read, stretch)

    def kept(self, part: Index) -> Index:
        """What has no records, or lies behind the end of the log, may yet be written."""
        if part.sealed and part.records:
            self.store.save(self.log, self.read, part)
        return part


@dataclass(frozen=True, slots=True)
class SharedIndexes:
    """Indexes of cells of a log, `cell` bytes each, for several who read it. Who needs one that is not there makes some,
    `at_once` at most, while the others wait. A stretch that is no whole cell is its reader's own."""

    indexes: LogIndexes
    cell: int
    at_once: int

    def of(self, stretches: Sequence[Stretch], scan_them: ScanThem) -> Iterator[Index]:
        settled = max(0, len(stretches) - _UNSETTLED * max(1, self.indexes.log.segment_size // self.cell))
        left, own = list(stretches[:settled]), list(stretches[settled:])
        while left:
            if known := self._stored(left[0]):
                parts = iter(known)
            elif self._is_whole(left[0]):
                parts = iter(self._made(left, scan_them))
            else:
                parts = scan_them(left[:1])
            for part in parts:
                yield part
                del left[0]
                if not part.sealed:  # the log ends here, and the rest is what was made ahead
                    own, left = [*left, *own], []
        yield from scan_them(own)

    def _stored(self, stretch: Stretch) -> list[Index] | None:
        """Also of a stretch that begins within a cell, at its first record."""
        start = stretch.start // self.cell * self.cell
        part = self.indexes.load(Stretch(Lsn(start), stretch.stop))
        if part is None or (start < stretch.start and part.first != stretch.start):
            return None
        return [part if start == stretch.start else replace(part, stretch=stretch)]

    def _made(self, stretches: Sequence[Stretch], scan_them: ScanThem) -> list[Index]:
        """Of the first, and of those behind that are not there either."""
        with self.indexes.store.turn(self.indexes.log):
            if self.indexes.has(stretches[0]) and (stored := self._stored(stretches[0])):  # somebody was faster
                return stored
            missing = takewhile(lambda each: self._is_whole(each) and not self.indexes.has(each), stretches[1 : self.at_once])
            return [self.indexes.kept(part) for part in scan_them([stretches[0], *missing])]

    def _is_whole(self, stretch: Stretch) -> bool:
        return stretch.stop - stretch.start == self.cell
