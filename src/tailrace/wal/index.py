"""The index of one stretch of WAL: the facts that planning needs, so that it never reads WAL itself (rule 2).

:mod:`tailrace.wal.scan` makes it, :mod:`tailrace.wal.indexfile` writes and reads it, docs/index_format.md describes it. What is kept:
ends of transactions; per xid the first LSN, the top-level xid, whether it changed anything, how many rows it has here, TOAST chunks whose
row has not come yet, and a speculative insert or verdict whose other half lies elsewhere; and, whole, the records of the kinds below. Rows of user
tables are not kept: decoding reads them again from the WAL, which costs less than carrying them.

Catalog files: those numbered below 16384 carry the catalog's own oid and are kept for TRACKED_CATALOGS; a file named by a NEW_CID
in this stretch is some catalog that has moved, and is kept too. Every other heap file is listed with its first LSN, so that the plan, once it learns
that a catalog moved there, can ask for the records on it: `scan(…, also=…)` gives that supplement.
"""

from __future__ import annotations

from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from tailrace.dataclass import dataclass
from tailrace.model import Locator, Lsn, Stretch
from tailrace.ragged import bounds_of, ranges, taken_of
from tailrace.wal.xact import Ends

FORMAT_VERSION = 13


TRACKED_CATALOGS: dict[int, str] = {
    1247: "pg_type", 1249: "pg_attribute", 1255: "pg_proc", 1259: "pg_class", 1260: "pg_authid", 1262: "pg_database", 2604: "pg_attrdef",
    2609: "pg_description", 2610: "pg_index", 2611: "pg_inherits", 2615: "pg_namespace", 2617: "pg_operator", 2830: "pg_toast_2604",
    2834: "pg_toast_2609", 3456: "pg_collation", 3501: "pg_enum", 3541: "pg_range", 3600: "pg_ts_dict", 3602: "pg_ts_config",
    6000: "pg_replication_origin", 6104: "pg_publication", 6106: "pg_publication_rel", 6228: "pg_toast_6106",
    6237: "pg_publication_namespace",
}  # fmt: skip

# Kinds of kept records
KEPT_CATALOG_CHANGE = 1  # HEAP, HEAP2 or XLOG page images on a catalog's file
KEPT_MESSAGE = 2
KEPT_TRUNCATE = 3
KEPT_RUNNING_XACTS = 4
KEPT_CHECKPOINT = 5  # shutdown or online
KEPT_WAL_SETTINGS = 6  # PARAMETER_CHANGE, FPW_CHANGE
KEPT_TIMELINE_END = 7  # END_OF_RECOVERY, OVERWRITE_CONTRECORD
KEPT_RELATION_MAP = 8
KEPT_STORAGE = 9  # SMGR on a catalog's file, DBASE
KEPT_ALIEN = 10  # first record of a custom resource manager
KEPT_INVALIDATIONS = 11  # XACT_INVALIDATIONS: what a command invalidated in caches

KEPT_OF_TRANSACTIONS = (KEPT_MESSAGE, KEPT_TRUNCATE, KEPT_INVALIDATIONS)
"""What is asked for when its transaction ends. While that is open, it is carried from window to window (`transactions/indexes_of_unfinished.py`)."""
KEPT_OF_LOG = (
    KEPT_CATALOG_CHANGE, KEPT_RUNNING_XACTS, KEPT_CHECKPOINT, KEPT_WAL_SETTINGS, KEPT_TIMELINE_END, KEPT_RELATION_MAP, KEPT_STORAGE,
)  # fmt: skip
"""What is known of a whole log before its first window is planned (`transactions/outline.py`)."""
KEPT_KINDS = (*KEPT_OF_TRANSACTIONS, *KEPT_OF_LOG, KEPT_ALIEN)

UNKNOWN_XID = 0xFFFFFFFF
"""Of the record behind a message, where that is in the next stretch."""

# Flags of an xid in a stretch
HAS_CHANGE = 1
HAS_ROWS = 2
CHANGES_CATALOG = 4
CLOSED_TOAST = 8  # a row consumed the chunks that were open when the stretch began
SPECULATION_OPEN = 16  # a speculative insert still waits at the end
STARTS_WITH_CONFIRM = 32
STARTS_WITH_CANCEL = 64
HAS_SPECULATED = 128  # made a speculative insert here, be it decided here as well
SPECULATES = STARTS_WITH_CONFIRM | STARTS_WITH_CANCEL | HAS_SPECULATED
"""Of an xid's entries the last one with any of these says whether a speculative insert waits."""


@dataclass(slots=True)
class KeptRecords:
    """Records kept whole, in WAL order: row i is `data[at[i] : at[i] + length[i]]`, starting 8-aligned. `followed_by` is, for messages, the xid of
    the record that begins where it ends; 0 if none does or it has none, UNKNOWN_XID if that lies beyond the stretch."""

    kind: NDArray[np.uint8]
    lsn: NDArray[np.int64]
    end_lsn: NDArray[np.int64]
    followed_by: NDArray[np.uint32]
    at: NDArray[np.int64]
    length: NDArray[np.int64]
    data: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.kind)

    def rows_of(self, *kinds: int) -> NDArray[np.int64]:
        """Which rows are of these kinds."""
        return np.flatnonzero(np.isin(self.kind, kinds))

    def record(self, row: int) -> bytes:
        return self.data[self.at[row] : self.at[row] + self.length[row]].tobytes()

    def taken(self, rows: NDArray[np.int64]) -> KeptRecords:
        """These records alone, in memory of their own."""
        bounds = bounds_of(self.length[rows] + 7 & ~7)
        data = np.zeros(bounds[-1], np.uint8)
        data[ranges(bounds[:-1], self.length[rows])] = self.data[ranges(self.at[rows], self.length[rows])]
        return taken_of(self, rows, at=bounds[:-1], data=data)


@dataclass(slots=True)
class Xids:
    """What each xid seen in the stretch did there; of xids 32 bits, or all (:mod:`tailrace.transactions.epochs`). `speculative` is the LSN of a
    speculative insert still waiting at the end, or 0. `queued_lsn` is that of its first record that the server's decoding queues as a change, or 0:
    of a row, TRUNCATE or transactional message (of that where it ends), of a change of catalogs, or of what a command invalidated; `origin` is the
    replication origin that the change has there, which it has of a row or TRUNCATE alone (`replication/logical/decode.c`)."""

    xid: NDArray[np.integer]
    top: NDArray[np.integer]
    first_lsn: NDArray[np.int64]
    flags: NDArray[np.uint8]
    rows: NDArray[np.int64]
    bytes: NDArray[np.int64]
    speculative: NDArray[np.int64]
    queued_lsn: NDArray[np.int64]
    origin: NDArray[np.uint16]

    def __len__(self) -> int:
        return len(self.xid)

    def taken(self, rows: NDArray[np.int64]) -> Xids:
        """These rows alone."""
        return taken_of(self, rows)


@dataclass(slots=True)
class Files:
    """Every heap file with records in the stretch; `tracked` ones have theirs among the kept."""

    tablespace: NDArray[np.uint32]
    database: NDArray[np.uint32]
    number: NDArray[np.uint32]
    first_lsn: NDArray[np.int64]
    records: NDArray[np.int64]
    tracked: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.number)


@dataclass(slots=True)
class Index:
    """The facts of one stretch. `next_lsn` is where the first record after it starts (or would), `previous` what its first record names as
    its predecessor, `last` its last record: neighbours must fit. `first_xid` is the first record's, 32 bits wide, which a message before it does not
    know. Unsealed: the log ended inside, and the stretch will be scanned again; `reason` says why it ended, `place` which page or record that is
    about, and `torn` that there is something, but no whole record. Of a sealed one that begins with zeros, `place` is where they do."""

    stretch: Stretch
    sealed: bool
    system: int
    timeline: int
    major: int
    records: int
    first: Lsn
    previous: Lsn
    last: Lsn
    next_lsn: Lsn
    fingerprint: int
    reason: str
    xids: Xids
    files: Files
    ends: Ends
    kept: KeptRecords
    waiting_xid: NDArray[np.integer]
    waiting_lsn: NDArray[np.int64]
    waiting_crc: NDArray[np.uint32]
    also: tuple[Locator, ...] = field(default=())
    place: Lsn = Lsn(0)
    torn: bool = False
    first_xid: int = 0
