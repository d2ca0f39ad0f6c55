"""What of an index must be known of a whole log before its first window is planned: what tells of catalogs, of settings, and of who ran at the start.

In: the index of a stretch. Out: an index of the same stretch, without what is only of the transactions in it, so that its size follows the changes
of catalogs and not the number of commits.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tailrace.transactions.epochs import LOW_WORD
from tailrace.wal import index, xact
from tailrace.wal.index import Index

_IN_TWO_PHASES = (xact.PREPARE, xact.COMMIT_PREPARED, xact.ABORT_PREPARED)


def outline(part: Index, xids: NDArray[np.int64]) -> Index:
    """Of ends it keeps those of transactions that changed catalogs, that are prepared, or that are among these `xids` (32 bits count)."""
    ends = part.ends
    changing = part.xids.xid[(part.xids.flags & index.CHANGES_CATALOG) != 0]
    named = np.union1d(changing.astype(np.int64) & LOW_WORD, xids & LOW_WORD)
    keep = np.isin(ends.kind, _IN_TWO_PHASES) | (np.diff(ends.invalidation_bounds) > 0)
    keep |= np.isin(ends.xid.astype(np.int64) & LOW_WORD, named)
    with_named = np.isin(ends.subxids.astype(np.int64) & LOW_WORD, named)
    keep[np.repeat(np.arange(len(ends)), np.diff(ends.subxact_bounds))[with_named]] = True
    # A commit that names no database tells that wal_level was low (`plan/decodable.py`); one tells it of the stretch.
    bare = np.flatnonzero((ends.kind == xact.COMMIT) & (ends.database == 0))
    keep[bare[:1]] = True
    return replace(
        part, xids=part.xids.taken(np.zeros(0, np.int64)), ends=ends.taken(np.flatnonzero(keep)),
        kept=part.kept.taken(part.kept.rows_of(*index.KEPT_OF_LOG)),
        waiting_xid=part.waiting_xid[:0], waiting_lsn=part.waiting_lsn[:0], waiting_crc=part.waiting_crc[:0],
    )  # fmt: skip
