"""Every version that a row of a catalog ever had, and where on disk each stands: what replaying catalog records comes to, and all questions are
asked of (decisions/002-catalog-row-versions.md)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailrace.dataclass import dataclass

# Hint bits of a version: what its tuple says of the transactions that made and unmade it.
XMIN_COMMITTED = 1
XMIN_ABORTED = 2
XMAX_COMMITTED = 4
XMAX_MULTI = 8  # xmax is a multixact with an updater, which only pg_multixact can name
XMIN_FROZEN = 16  # committed so long ago that its xid may be another transaction's by now: the epoch of xmin means nothing


class VersionColumns(NamedTuple):
    """One entry a version, each array int64. Xids are full.

    `catalog` is the oid of the catalog. `xmax` is 0 if nobody deleted or updated the row, or only locked it. `added` and `deleted` are the LSNs of
    the records that put the version there and ended it, 0 where that was before the WAL at hand. Its tuple is `length` bytes from `at`: an
    xl_heap_header and what follows it (`access/heapam_xlog.h`).
    """

    catalog: NDArray[np.int64]
    xmin: NDArray[np.int64]
    xmax: NDArray[np.int64]
    added: NDArray[np.int64]
    deleted: NDArray[np.int64]
    at: NDArray[np.int64]
    length: NDArray[np.int64]
    hints: NDArray[np.int64]

    @classmethod
    def zeros(cls, count: int) -> VersionColumns:
        return cls(*(np.zeros(count, np.int64) for _ in cls._fields))


@dataclass(slots=True)
class Versions:
    """All versions of catalog rows seen so far, their tuples' bytes, and which of them stands where: `version_at[i]` is the last that was put at
    `tids[i]` (`catalog.pages.tids`), or -1 if that names a page whose content is known. It is -1 - xid for a row that is forgotten
    (`catalog.state.forget`): that xid deleted it, or made it and was rolled back."""

    columns: VersionColumns
    tuples: NDArray[np.uint8]
    tids: NDArray[np.int64]
    version_at: NDArray[np.int64]

    @classmethod
    def none(cls) -> Versions:
        return cls(VersionColumns.zeros(0), np.zeros(0, np.uint8), np.zeros(0, np.int64), np.zeros(0, np.int64))

    def __len__(self) -> int:
        return len(self.columns.xmin)
