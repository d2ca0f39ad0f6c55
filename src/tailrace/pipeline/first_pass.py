"""The first pass over a whole log: its outline, which planning keeps, and its indexes, piled up for the windows."""

from __future__ import annotations

from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.state.catalog_state import CatalogState
from tailrace.dataclass import dataclass
from tailrace.errors import MissingHistory
from tailrace.model import Lsn
from tailrace.pipeline.catalogs import with_full_xids
from tailrace.pipeline.runner import Runner
from tailrace.pipeline.scanning import Scanning, scanned
from tailrace.plan.consistency import at_start
from tailrace.sources.source import Source
from tailrace.storage.allocator import give_back
from tailrace.storage.index_pile import IndexPile
from tailrace.transactions.outline import outline
from tailrace.wal import index
from tailrace.wal.index import Index


@dataclass(slots=True)
class FirstPass:
    """`outlines[i]` is of the index that lies in the pile as the i-th."""

    outlines: list[Index] = field(default_factory=list)
    pile: IndexPile = field(default_factory=IndexPile)


def read_through(
    source: Source, runner: Runner, start: Lsn | None, how: Scanning, captured: CatalogState | None
) -> FirstPass:  # fmt: skip
    """Scan everything from `start` to the end of the log. Raises as `scan_log` does."""
    read = FirstPass()
    # Until it is known who ran at the start, any end may be one of theirs.
    running: NDArray[np.int64] | None = None
    for part in scanned(source.segments, runner, start, how):
        read.pile.put(part)
        read.outlines.append(part if running is None else outline(part, _also_ended(part, running, captured)))
        if running is None and (running := _running(source, read.outlines, captured)) is not None:
            read.outlines = [outline(each, _also_ended(each, running, captured)) for each in read.outlines]
    give_back()
    return read


def _also_ended(part: Index, running: NDArray[np.int64], captured: CatalogState | None) -> NDArray[np.int64]:
    """With those that ended before the state was captured, which does not tell when they began."""
    if captured is None or part.stretch.start >= captured.lsn:
        return running
    return np.union1d(running, part.ends.xid[part.ends.lsn < captured.lsn].astype(np.int64))


def _running(source: Source, parts: list[Index], captured: CatalogState | None) -> NDArray[np.int64] | None:
    """Who may have run at the start, once the log has said so."""
    if captured is not None:
        return np.array(sorted(captured.xids_open), np.int64)
    if not len(parts[-1].kept.rows_of(index.KEPT_RUNNING_XACTS, index.KEPT_CHECKPOINT)):
        return None
    try:
        unread, running, _ = at_start(with_full_xids(source, parts))
    except MissingHistory:
        return None
    return np.array(sorted(unread | running), np.int64)
