"""What must be kept of a log for as long as transactions with records in it are open: their part of its indexes.

In: the indexes of a log, with full xids, and what is open where it ends. Out: indexes with nothing but what is theirs. All heap files stay, since an
index does not say whose records they have; whether a file was tracked is not asked of them.

A log can be cut anywhere, but what is kept of it must not depend on that. So its cells count, STRETCH_BYTES long: stretches in one cell are joined,
and go, or stay, together. Of the cell in which the log ends the index stays anyway, as records that are yet to come may make it one to be kept. No
stretch may reach from one cell into the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from tailrace.model import PAGE_SIZE, STRETCH_BYTES, Lsn, Stretch
from tailrace.transactions.epochs import LOW_WORD
from tailrace.transactions.unfinished import Unfinished
from tailrace.wal import xact
from tailrace.wal.index import KEPT_OF_TRANSACTIONS, Index, KeptRecords
from tailrace.wal.merge import ended_here, merged
from tailrace.wal.record_header import RecordHeader
from tailrace.wal.xact import Ends


def indexes_of_unfinished(parts: Sequence[Index], still: Unfinished, cell: int = STRETCH_BYTES) -> tuple[Index, ...]:
    """What is left of consecutive stretches, one index a cell; cells between them that have nothing to keep may be gone already."""
    # Where a standby was promoted, what was read on the timeline before belongs to the new one as well.
    stretches = [replace(ended_here(part), timeline=parts[-1].timeline) for part in parts]
    stretches = _meeting([part for part in stretches if part.stretch.start < part.stretch.stop], cell)
    end = stretches[-1].stretch.stop if stretches else 0
    cells = groupby(stretches, lambda part: part.stretch.start // cell)
    whole = (reduce(merged, (_of_unfinished(part, still) for part in of_cell)) for _, of_cell in cells)
    return tuple(left for left in whole if len(left.xids) or len(left.ends) or left.stretch.stop == end)


def _meeting(parts: Sequence[Index], cell: int) -> list[Index]:
    """The same. A stretch that was read from its first record on, because a record before ran into it, over whole cells perhaps, begins where it
    would have otherwise: with its cell, or where the one before stops. Others begin with a page, or where the one before stops."""
    meeting: list[Index] = []
    for part in parts:
        start = part.stretch.start
        if meeting and meeting[-1].stretch.stop < start and start % PAGE_SIZE:
            start = Lsn(max(meeting[-1].stretch.stop, start // cell * cell))
        meeting.append(replace(part, stretch=Stretch(start, part.stretch.stop)))
    return meeting


def _of_unfinished(part: Index, still: Unfinished) -> Index:
    theirs = np.union1d(still.xid, still.rolled_back)
    xids = np.flatnonzero(np.isin(part.xids.xid, theirs))
    ends = np.flatnonzero(_matters(part.ends, still))
    waiting = np.flatnonzero(np.isin(part.waiting_xid, still.xid))
    files = replace(part.files, tracked=np.zeros(len(part.files), np.bool_))
    kept = part.kept.taken(_records_of(part.kept, part.major, theirs))
    return replace(
        part, xids=part.xids.taken(xids), files=files, ends=part.ends.taken(ends), kept=kept, place=Lsn(0),
        waiting_xid=part.waiting_xid[waiting], waiting_lsn=part.waiting_lsn[waiting], waiting_crc=part.waiting_crc[waiting],
    )  # fmt: skip


def _matters(ends: Ends, still: Unfinished) -> NDArray[np.bool_]:
    """Which ends: PREPAREs of those that are open, and what rolled subtransactions back, which would seem to be open without it."""
    prepares = (ends.kind == xact.PREPARE) & np.isin(ends.xid, still.xid)
    of_sub = np.repeat(np.arange(len(ends)), np.diff(ends.subxact_bounds))
    rolls_back = np.isin(ends.xid, still.rolled_back)
    rolls_back[of_sub[np.isin(ends.subxids, still.rolled_back)]] = True
    return prepares | (rolls_back & (ends.kind == xact.ABORT))


def _records_of(kept: KeptRecords, major: int, xids: NDArray[np.int64]) -> NDArray[np.int64]:
    """The kept records that are of these transactions. A stretch has no xid twice, so that 32 bits tell."""
    rows = kept.rows_of(*KEPT_OF_TRANSACTIONS)
    low = set((xids & LOW_WORD).tolist()) - {0}
    theirs = [row for row in rows.tolist() if RecordHeader.read(kept.record(row), major).xid in low]
    return np.array(theirs, np.int64)
