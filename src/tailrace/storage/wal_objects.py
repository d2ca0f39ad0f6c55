"""Segment files that are the objects of a store: an archive of WAL in a bucket (`storage/wal_files.py` is the door).

In: a store, below whose prefix the segments lie, not deeper. Out: their names, and their bytes, which whoever works on them asks the store for. A
range of a plain segment is read as a range; one that is compressed comes whole, once for whoever reads on in it (`storage/fetched_objects.py`).

A store lists by name, a thousand at a time, and an archive of a year has hundreds of thousands. Names begin with the timeline, then comes the place
in the log; so of each timeline only what is wanted is listed, once it is known which timelines there are.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tailrace.dataclass import dataclass
from tailrace.storage.fetched_objects import FetchedObjects
from tailrace.storage.store import Store, StoredObject
from tailrace.storage.wal_files import PARTIAL, SEGMENT_NAME, WalFile

_HEAD = 1 << 18
"""Bytes of a compressed segment in which its first page surely is, but for blocks of LZ4 that are larger."""
_BEHIND_ALL = "~"
"""What stands behind a name of a timeline's, and behind all that may follow a segment's name."""
_LAST = "G"
"""No name of a segment begins so, or with what is behind it."""
_OF_THE_FIRST = "00000001.history"
"""The first timeline has no past, and nobody writes this file."""
_FETCHED = FetchedObjects()
_EARLIER = 16 << 24
"""Bytes of WAL before the LSN that is wanted, which are listed as well: who looks for the record before it finds that, too."""


@dataclass(frozen=True, slots=True)
class WalObjects:
    """The store goes along to workers, its credentials included."""

    store: Store

    @property
    def where(self) -> str:
        return self.store.url

    def named(self, name: str) -> str:
        return f"{self.store.url}/{name}"

    def segments(self, since: int | None = None) -> Iterator[WalFile]:
        listed = self._listed("") if since is None else self._listed_since(since)
        for each in listed:
            yield WalFile(each.name, each.size)

    def behind(self, name: str) -> list[StoredObject]:
        """What lies behind this segment, or is the same one with another ending: later ones, and later timelines with their history files."""
        return [each for each in self._objects(name) if "/" not in each.name]

    def read_into(self, name: str, offset: int, target: NDArray[np.uint8], *, is_partial: bool) -> int:
        if not len(target):
            return 0
        data = self.store.read_range(name, offset, len(target))
        target[: len(data)] = np.frombuffer(data, np.uint8)
        return len(data)

    def head(self, name: str, most: int) -> bytes:
        return self.store.read(name) if most < 0 else self.store.read_range(name, 0, most)

    def packed(self, name: str, most: int) -> bytes:
        if most >= 0:
            return self.store.read_range(name, 0, _HEAD)
        if PARTIAL in name:  # another one may take its place at any moment
            return self.store.read(name)
        return _FETCHED.get(self.named(name), lambda: self.store.read(name))

    def history(self, name: str) -> str | None:
        if name == _OF_THE_FIRST:
            return None
        try:
            return self.store.read(name).decode("utf-8", "surrogateescape")
        except FileNotFoundError:
            return None

    def sync(self, name: str) -> None:
        """An object is durable once it can be read."""

    def _listed_since(self, since: int) -> Iterator[StoredObject]:
        """Of each timeline what lies there or behind, and a little before. The middle of a name is the upper half of the LSN, however large segments
        are, and that is as exact as need be: 4 GB of WAL are listed with one request."""
        place = f"{max(0, since - _EARLIER) >> 32:08X}"
        for timeline in self._timelines():
            for each in self._listed(timeline + place):
                if not each.name.startswith(timeline):
                    break
                yield each

    def _timelines(self) -> Iterator[str]:
        """Each that has segments, as names have it: asked for is the first name behind each."""
        after = ""
        while (first := next(self._listed(after), None)) is not None:
            yield first.name[:8]
            after = first.name[:8] + _BEHIND_ALL

    def _listed(self, after: str) -> Iterator[StoredObject]:
        """Segments behind a name."""
        return (each for each in self._objects(after) if SEGMENT_NAME.match(each.name))

    def _objects(self, after: str) -> Iterator[StoredObject]:
        """All objects behind a name, as far as there may be segments among them."""
        for each in self.store.list(after=after):
            if each.name >= _LAST:
                return
            yield each
