"""A `StretchPlan` is what a worker is sent to decode a stretch: whose rows to decode, and which relation each file held.

Small, and without a byte of WAL: which transactions are wanted, what each file meant when, and what lies in earlier stretches.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.names.name_timeline import NameTimeline
from tailrace.dataclass import dataclass
from tailrace.model import FIRST_UNPINNED_OID, Relation, Stretch
from tailrace.plan.origin_filter import NO_ORIGINS
from tailrace.transactions.commit_or_abort import Transactions
from tailrace.types.encodings.server_encodings import UTF8

# What a span of a file's timeline says instead of a relation's number
UNMAPPED = -1
NOT_DECODED = -2


@dataclass(slots=True)
class FileMap:
    """What each file of a stretch meant: file i (key `database << 32 | number`, and its tablespace) has spans `[bounds[i], bounds[i+1])` of
    `span_start`, `span_relation`.

    Transactions that changed the meaning themselves have timelines of their own: key `i << 32 | ordinal` in `own_key`, in the same spans arrays.
    """

    key: NDArray[np.int64]
    tablespace: NDArray[np.int64]
    bounds: NDArray[np.int64]
    has_own: NDArray[np.bool_]
    own_key: NDArray[np.int64]
    own_bounds: NDArray[np.int64]
    span_start: NDArray[np.int64]
    span_relation: NDArray[np.int64]


@dataclass(slots=True)
class EarlierToastChunks:
    """TOAST chunks in an earlier stretch that serve rows of this one: the LSNs of their records, sorted, and the full xid and
    the checksum of each."""

    stretch: Stretch
    lsn: NDArray[np.int64]
    xid: NDArray[np.int64]
    crc: NDArray[np.uint32]


class Commits(NamedTuple):
    """What is told of the end of transactions, to rows of theirs: the xid that is printed, where the commit record starts, its time in microseconds
    since PG_EPOCH, and the origin."""

    xid: NDArray[np.uint32]
    lsn: NDArray[np.int64]
    time: NDArray[np.int64]
    origin: NDArray[np.uint16]

    def take(self, rows: slice | NDArray[Any]) -> Commits:
        """Those at `rows`, numbers or a mask."""
        return Commits(self.xid[rows], self.lsn[rows], self.time[rows], self.origin[rows])


def commits_of(transactions: Transactions, ordinals: NDArray[np.int64]) -> Commits:
    """The `Commits` of these transactions."""
    return Commits(transactions.xid, transactions.commit_lsn, transactions.time, transactions.origin).take(ordinals)


@dataclass(slots=True)
class StretchPlan:
    """`start` is where the first record begins. `xid` (full, sorted), `ordinal` and `row_bytes` name the wanted transactions and the WAL that their
    rows take here; of each, rows `since` an LSN are wanted, and `stream` is the xid (32 bits) as which it is streamed, or 0; `confirmed` are
    speculative inserts whose confirmation lies elsewhere; `names` what columns of regclass and their kin print, if there are such columns; `codec`
    what the text in values is written in; rows of `unwanted_origins` are left out; `commits` is what is
    told of each transaction's end, if that is asked for."""

    stretch: Stretch
    start: int
    segment_size: int
    major: int
    fingerprint: int
    xid: NDArray[np.int64]
    ordinal: NDArray[np.int64]
    row_bytes: NDArray[np.int64]
    since: NDArray[np.int64]
    stream: NDArray[np.uint32]
    files: FileMap
    relations: tuple[Relation, ...]
    earlier_toast: tuple[EarlierToastChunks, ...]
    confirmed: NDArray[np.int64]
    names: NameTimeline | None = None
    codec: str = UTF8
    unwanted_origins: NDArray[np.uint16] = field(default_factory=lambda: NO_ORIGINS)
    commits: Commits | None = None

    def restricted_to(self, wanted: NDArray[np.bool_]) -> StretchPlan | None:
        """The same with only the transactions whose ordinals are `wanted`; None if none of them is here."""
        keep = wanted[self.ordinal]
        if keep.all():
            return self
        if not keep.any():
            return None
        xids = self.xid[keep]
        mine = [np.isin(part.xid, xids) for part in self.earlier_toast]
        earlier = (
            EarlierToastChunks(part.stretch, part.lsn[of], part.xid[of], part.crc[of])
            for part, of in zip(self.earlier_toast, mine, strict=True)
            if of.any()
        )
        return replace(
            self, xid=xids, ordinal=self.ordinal[keep], row_bytes=self.row_bytes[keep], since=self.since[keep],
            stream=self.stream[keep], earlier_toast=tuple(earlier), commits=None if self.commits is None else self.commits.take(keep),
        )  # fmt: skip


def is_decoded(relation: Relation, *, rewrites: bool = False) -> bool:
    """Whether PostgreSQL's decoding shows rows of this relation: logged, no catalog, no TOAST table, sequence or transient heap."""
    return (
        relation.oid >= FIRST_UNPINNED_OID
        and relation.persistence == "p"
        and relation.kind not in "tS"
        and (rewrites or relation.rewrite_of == 0)
    )
