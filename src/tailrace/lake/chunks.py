"""The changes of a table, in as many chunks as memory allows, each behind the one before in the order of commits.

In: the files that workers wrote of one table (`lake/staging.py`), and how much may be in memory at once. Out: chunks, their
rows, and what these come to. A chunk may end amid a transaction: they are all part of one commit of the lake.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tailrace.apply.keys import key_of
from tailrace.apply.net_change import NET_COLUMNS, NetChange, net_change
from tailrace.changes import change_schema
from tailrace.dataclass import dataclass
from tailrace.feed import OrderKey
from tailrace.lake.files.changes_file import read_changes_file
from tailrace.lake.staging import FileWritten
from tailrace.model import Relation
from tailrace.storage.store import Store
from tailrace.types.registry import ArrowStyle

Read = Callable[[FileWritten, list[str] | None], pa.Table]
"""Reads a file, all columns or these."""
_ORDER = ["commit_lsn", "lsn"]
_SAMPLES = 256
"""Places in a file from which it is estimated how its rows are spread over the order of commits."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Behind all changes of records that come before this one, in the order of commits."""

    commit_lsn: int
    lsn: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """Changes of these files from one cut (None: their first) up to another (None: their last)."""

    files: tuple[FileWritten, ...]
    begin: Cut | None = None
    end: Cut | None = None

    def rows(self, read: Read) -> pa.Table | None:
        """None where there are none."""
        parts = [part for file in self.files if len(part := self._of(read(file, None)))]
        return pa.concat_tables(parts) if parts else None

    def _of(self, table: pa.Table) -> pa.Table:
        keep = None
        if self.begin is not None:
            keep = _behind(table, self.begin)
        if self.end is not None:
            before = pc.invert(_behind(table, self.end))
            keep = before if keep is None else pc.and_(keep, before)
        return table if keep is None else table.filter(keep)


def _behind(table: pa.Table, cut: Cut) -> pa.ChunkedArray:
    later = pc.greater(table["commit_lsn"], cut.commit_lsn)
    within = pc.and_(pc.equal(table["commit_lsn"], cut.commit_lsn), pc.greater_equal(table["lsn"], cut.lsn))
    return pc.or_(later, within)


@dataclass(frozen=True, slots=True)
class StagedChanges:
    """Changes of a table that wait in `store`. Of those before `last`, where all rows were replaced, nothing counts."""

    store: Store
    relation: Relation
    style: ArrowStyle
    last: OrderKey | None

    @property
    def key(self) -> tuple[str, ...]:
        return key_of(self.relation)

    def read(self, file: FileWritten, names: list[str] | None) -> pa.Table:
        schema = change_schema(self.relation, style=self.style)
        return read_changes_file(self.store, file.path, schema, names or NET_COLUMNS)

    def net(self, chunk: Chunk) -> NetChange | None:
        """None where there are no changes."""
        if (changes := chunk.rows(self.read)) is None:
            return None
        return net_change(changes, self.relation, () if self.last is None else [self.last])


def chunks_of(files: Sequence[FileWritten], most_bytes: int, read: Read) -> Iterator[Chunk]:
    """Chunks of at most about so many bytes of memory. Files whose transactions overlap are read together, or, where that is too much, in slices."""
    together: list[FileWritten] = []
    for cluster in _clusters(files):
        if together and _memory([*together, *cluster]) > most_bytes:
            yield Chunk(tuple(together))
            together = []
        if _memory(cluster) > most_bytes:
            yield from _sliced(cluster, most_bytes, read)
        else:
            together += cluster
    if together:
        yield Chunk(tuple(together))


def _memory(files: Sequence[FileWritten]) -> int:
    return sum(file.memory for file in files)


def _clusters(files: Sequence[FileWritten]) -> Iterator[list[FileWritten]]:
    """Files that have no transaction in common with those of other clusters, in the order of commits."""
    cluster: list[FileWritten] = []
    last = 0
    for file in sorted(files, key=lambda each: each.first_commit):
        if cluster and file.first_commit > last:
            yield cluster
            cluster = []
        cluster.append(file)
        last = max(last, file.last_commit)
    if cluster:
        yield cluster


def _sliced(files: Sequence[FileWritten], most_bytes: int, read: Read) -> Iterator[Chunk]:
    samples = [_sample(read(file, _ORDER)) for file in files]
    weights = [np.full(len(sample), file.memory / len(sample)) for file, sample in zip(files, samples, strict=True)]
    places, weight = np.concatenate(samples), np.concatenate(weights)
    order = np.lexsort((places[:, 1], places[:, 0]))
    places, filled = places[order], np.cumsum(weight[order])
    cuts: list[Cut] = []
    at = float(most_bytes)
    while (place := int(np.searchsorted(filled, at))) < len(places):
        cut = Cut(int(places[place, 0]), int(places[place, 1]))
        if not cuts or cuts[-1] != cut:
            cuts.append(cut)
        at = filled[place] + most_bytes
    for begin, end in zip([None, *cuts], [*cuts, None], strict=True):
        inside = tuple(file for file, sample in zip(files, samples, strict=True) if _may_have(sample, begin, end))
        yield Chunk(inside, begin, end)


def _sample(order: pa.Table) -> NDArray[np.int64]:
    """Places in the order of commits, among them the first and the last."""
    commit, lsn = (order[name].to_numpy() for name in _ORDER)
    by_order = np.lexsort((lsn, commit))
    chosen = by_order[np.linspace(0, len(by_order) - 1, min(_SAMPLES, len(by_order))).astype(np.int64)]
    return np.stack([commit[chosen], lsn[chosen]], axis=1)


def _may_have(sample: NDArray[np.int64], begin: Cut | None, end: Cut | None) -> bool:
    first, last = tuple(sample[0]), tuple(sample[-1])
    return (begin is None or last >= (begin.commit_lsn, begin.lsn)) and (end is None or first < (end.commit_lsn, end.lsn))
