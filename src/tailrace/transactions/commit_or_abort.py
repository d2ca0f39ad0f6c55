"""Assign each transaction id its outcome: committed, prepared, rolled back or still open (rule 3); and put the committed ones in order (rule 4).

In: the ends that indexes collected, in WAL order. Out: `Outcomes`, a sorted map from full xid to what became of it, and `Transactions`, columns
with one row for each thing that is told of a top-level transaction, in the order of the records that tell it: nearly always that it
committed.

In two phases (manual, "Two-phase Commit Support for Logical Decoding")
a prepared transaction is told with its rows at PREPARE, and its COMMIT PREPARED or ROLLBACK PREPARED is told
by itself. For others its catalog changes count from COMMIT PREPARED on; that is why an outcome says apart whose rows they are and from when
they can be seen.

Where transactions in progress are streamed (manual, "Streaming of Large Transactions for Logical Decoding") a block of one is told like a PREPARE,
and that it was rolled back after all like a ROLLBACK PREPARED (`transactions/blocks.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace

import numpy as np
from numpy.typing import NDArray

from tailrace.dataclass import dataclass
from tailrace.model import Lsn, Transaction
from tailrace.ragged import bounds_of, lists_of, taken_of
from tailrace.transactions.epochs import LOW_WORD
from tailrace.wal import xact
from tailrace.wal.xact import Ends

NEVER = np.int64(2**63 - 1)
"""Later than every LSN: an end that did not come."""

# Instead of an ordinal
ROLLED_BACK = -1
NO_END = -2  # none is known
COMMITTED_ELSEWHERE = -3

# What is told of transactions in progress, beside the kinds of `wal.xact`
BLOCK = 0x80
STREAM_ABORT = 0x81
BARE_PREPARE = 0x82  # of a transaction that never began


_WITH_ROWS = (xact.COMMIT, xact.PREPARE, BLOCK)


@dataclass(slots=True)
class Transactions:
    """Top-level transactions by ordinal. `kind` is COMMIT, or in two phases PREPARE, COMMIT_PREPARED or ABORT_PREPARED (of `wal.xact`); or else it is
    a BLOCK of one in progress, or STREAM_ABORT, of one or of a subtransaction of one, or BARE_PREPARE. Those that end what was told before
    have no rows, and `prepared` is the ordinal of their PREPARE (-1: it lies before the WAL at hand); where that ended, and when it was, say
    `prepared_end` and `prepared_time` (0: not known). `xid` is what is printed, 32
    bits of `full_xid`, which names the transaction. `first_lsn` is NEVER where no record of
    the transaction itself is known. `subxact_bounds` and `subxids` as in `Ends`, full as well."""

    kind: NDArray[np.uint8]
    prepared: NDArray[np.int64]
    xid: NDArray[np.uint32]
    full_xid: NDArray[np.int64]
    commit_lsn: NDArray[np.int64]
    end_lsn: NDArray[np.int64]
    first_lsn: NDArray[np.int64]
    time: NDArray[np.int64]
    database: NDArray[np.uint32]
    origin: NDArray[np.uint16]
    origin_lsn: NDArray[np.int64]
    prepared_end: NDArray[np.int64]
    prepared_time: NDArray[np.int64]
    gids: list[str]
    subxact_bounds: NDArray[np.int64]
    subxids: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.xid)

    def __getitem__(self, ordinal: int) -> Transaction:
        return Transaction(
            ordinal=ordinal,
            xid=int(self.xid[ordinal]),
            commit_lsn=Lsn(int(self.commit_lsn[ordinal])),
            end_lsn=Lsn(int(self.end_lsn[ordinal])),
            first_lsn=Lsn(int(self.first_lsn[ordinal])),
            commit_time=int(self.time[ordinal]),
            database=int(self.database[ordinal]),
            subxids=tuple(self.subxids_of(ordinal).astype(np.uint32).tolist()),
            origin=int(self.origin[ordinal]),
            origin_lsn=Lsn(int(self.origin_lsn[ordinal])),
            gid=self.gids[ordinal] if self.gids else "",
        )

    def __iter__(self) -> Iterator[Transaction]:
        return (self[ordinal] for ordinal in range(len(self)))

    def beginning_at(self, first_lsn: NDArray[np.int64]) -> Transactions:
        """The same, knowing where each begins."""
        return replace(self, first_lsn=first_lsn)

    def subset(self, ordinals: NDArray[np.int64]) -> Transactions:
        """The facts of these transactions, in that order, without subtransactions; ordinals count anew."""
        return taken_of(
            self, ordinals, prepared=np.full(len(ordinals), -1, np.int64), subxact_bounds=np.zeros(len(ordinals) + 1, np.int64),
            subxids=self.subxids[:0], gids=[self.gids[ordinal] for ordinal in ordinals.tolist()] if self.gids else [],
        )  # fmt: skip

    @property
    def has_rows(self) -> NDArray[np.bool_]:
        """Which are told with their rows, and so begin."""
        return np.isin(self.kind, _WITH_ROWS)

    def subxids_of(self, ordinal: int) -> NDArray[np.int64]:
        return self.subxids[self.subxact_bounds[ordinal] : self.subxact_bounds[ordinal + 1]]


@dataclass(frozen=True, slots=True)
class EndedElsewhere:
    """Transactions that ended outside of the WAL at hand: by full xid, sorted, from when others see their work (NEVER: they were rolled back)."""

    xid: NDArray[np.int64]
    seen_from: NDArray[np.int64]

    @classmethod
    def none(cls) -> EndedElsewhere:
        return cls(np.zeros(0, np.int64), np.zeros(0, np.int64))


@dataclass(slots=True)
class Outcomes:
    """By full xid, sorted: the ordinal of the transaction that its rows belong to (or ROLLED_BACK), and from when others see them (an LSN or NEVER).
    Of those `elsewhere` no rows are at hand."""

    xid: NDArray[np.int64]
    ordinal: NDArray[np.int64]
    seen_from: NDArray[np.int64]
    transactions: Transactions
    elsewhere: EndedElsewhere

    def ordinals_of(self, xids: NDArray[np.integer]) -> NDArray[np.int64]:
        """Ordinal of the transaction each xid belongs to, or ROLLED_BACK, NO_END, COMMITTED_ELSEWHERE."""
        return self.seen_of(xids)[1]

    def seen_of(self, xids: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(LSN from which others see its work or NEVER, ordinal) for each xid."""
        seen, ordinal = np.full(len(xids), NEVER, np.int64), np.full(len(xids), NO_END, np.int64)
        if len(self.elsewhere.xid):
            at, known = _places_of(self.elsewhere.xid, xids)
            seen[known] = self.elsewhere.seen_from[at[known]]
            ordinal[known] = np.where(seen[known] == NEVER, ROLLED_BACK, COMMITTED_ELSEWHERE)
        if len(self.xid):
            at, known = _places_of(self.xid, xids)
            seen, ordinal = np.where(known, self.seen_from[at], seen), np.where(known, self.ordinal[at], ordinal)
        return seen, ordinal


def _places_of(sorted_xids: NDArray[np.int64], xids: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Where each xid is among the sorted ones, of which there are some, and whether it is there."""
    at = np.minimum(np.searchsorted(sorted_xids, xids), len(sorted_xids) - 1)
    return at, sorted_xids[at] == xids


@dataclass(frozen=True, slots=True)
class TwoPhase:
    """Tell prepared transactions at PREPARE, but for those that `is_plain(xid, gid)`, which wait for their commit like all others. What was
    prepared before `since` is told whole, PREPARE included, when it is committed."""

    since: int = 0
    is_plain: Callable[[int, str], bool] = field(default=lambda xid, gid: False)


def outcomes_of(all_ends: Sequence[Ends], two_phase: TwoPhase | None = None, elsewhere: EndedElsewhere | None = None) -> Outcomes:
    """Put the ends of consecutive stretches together. Without `two_phase`, PREPARE decides nothing; its COMMIT or ROLLBACK PREPARED does."""
    ends = _Ends(all_ends)
    told = _committed(ends) if two_phase is None else _in_two_phases(ends, two_phase)
    row = told.row
    has_rows = np.isin(told.kind, _WITH_ROWS)
    ordinal_of_end = np.full(len(ends.kind), -1, np.int64)
    ordinal_of_end[row[has_rows]] = np.flatnonzero(has_rows)
    subxid_rows, bounds = lists_of(row, bounds_of(ends.counts))
    at_origin = (ends.origin != 0) & ((ends.kind != xact.PREPARE) | (ends.origin_time != 0))
    times = np.where(at_origin, ends.origin_time, ends.time)
    transactions = Transactions(
        kind=told.kind,
        prepared=np.where(told.prepared >= 0, ordinal_of_end[told.prepared], -1),
        xid=ends.xid[row].astype(np.uint32),
        full_xid=ends.xid[row],
        commit_lsn=told.lsn,
        end_lsn=ends.end_lsn[row],
        first_lsn=np.full(len(row), NEVER, np.int64),
        time=times[row],
        database=ends.database[row],
        origin=ends.origin[row],
        origin_lsn=ends.origin_lsn[row],
        prepared_end=np.where(told.prepared >= 0, ends.end_lsn[told.prepared], 0) if len(ends.kind) else told.prepared,
        prepared_time=np.where(told.prepared >= 0, times[told.prepared], 0) if len(ends.kind) else told.prepared,
        gids=[ends.gid(each) for each in row.tolist()] if np.isin(ends.kind, (xact.PREPARE, xact.COMMIT_PREPARED)).any() else [],
        subxact_bounds=bounds,
        subxids=ends.subxids[subxid_rows],
    )
    decides = np.isin(ends.kind, (xact.ABORT, xact.ABORT_PREPARED))
    decides[row[has_rows | (told.prepared < 0)]] = True
    sub_decides = decides[ends.end_of_subxid]
    which = np.concatenate([np.flatnonzero(decides), ends.end_of_subxid[sub_decides]])
    keys = np.concatenate([ends.xid[decides], ends.subxids[sub_decides]])
    # Rolled-back subtransactions end before their parents, and PREPARE comes before what ends it: the first word on an xid stands.
    order = np.argsort(keys, kind="stable")
    keys, which = keys[order], which[order]
    first = np.ones(len(keys), np.bool_)
    first[1:] = keys[1:] != keys[:-1]
    which = which[first]
    return Outcomes(keys[first], ordinal_of_end[which], told.seen[which], transactions, elsewhere or EndedElsewhere.none())


@dataclass(slots=True)
class _Told:
    """What is told, in order: of which end, as what, where in the order; the end that prepared it (-1: none at hand). And by end, from
    when its work is seen by others."""

    row: NDArray[np.int64]
    kind: NDArray[np.uint8]
    lsn: NDArray[np.int64]
    prepared: NDArray[np.int64]
    seen: NDArray[np.int64]


def _committed(ends: _Ends) -> _Told:
    committed = np.isin(ends.kind, (xact.COMMIT, xact.COMMIT_PREPARED))
    in_progress = np.isin(ends.kind, (BLOCK, STREAM_ABORT))
    row = np.flatnonzero(committed | in_progress)
    row = row[np.argsort(ends.lsn[row], kind="stable")] if in_progress.any() else row
    kind = np.where(in_progress[row], ends.kind[row], xact.COMMIT).astype(np.uint8)
    return _Told(row, kind, ends.lsn[row], np.full(len(row), -1, np.int64), np.where(committed, ends.lsn, NEVER))


def _in_two_phases(ends: _Ends, two_phase: TwoPhase) -> _Told:
    plain = _committed(ends)
    events: list[tuple[int, int, int, int]] = []  # lsn, row, kind, row of the PREPARE
    taken: set[int] = set()
    waiting: dict[int, int] = {}
    for row in np.flatnonzero(np.isin(ends.kind, (xact.PREPARE, xact.COMMIT_PREPARED, xact.ABORT_PREPARED))).tolist():
        kind, xid, lsn = int(ends.kind[row]), int(ends.xid[row]), int(ends.lsn[row])
        if two_phase.is_plain(xid & LOW_WORD, ends.gid(row)):
            continue
        if kind == xact.PREPARE:
            waiting[xid] = row
            if lsn >= two_phase.since:
                events.append((lsn, row, kind, -1))
            continue
        prepared = waiting.pop(xid, -1)
        if kind == xact.COMMIT_PREPARED and prepared >= 0:
            plain.seen[prepared] = lsn
            if ends.lsn[prepared] < two_phase.since:
                events.append((lsn, prepared, xact.PREPARE, -1))
        events.append((lsn, row, kind, prepared))
        taken.add(row)
    keep = ~np.isin(plain.row, np.array(sorted(taken), np.int64))
    more = np.array(events, np.int64).reshape(-1, 4)
    lsns = np.concatenate([plain.lsn[keep], more[:, 0]])
    rows = np.concatenate([plain.row[keep], more[:, 1]])
    kinds = np.concatenate([plain.kind[keep], more[:, 2].astype(np.uint8)])
    prepared_by = np.concatenate([plain.prepared[keep], more[:, 3]])
    order = np.argsort(lsns, kind="stable")
    return _Told(rows[order], kinds[order], lsns[order], prepared_by[order], plain.seen)


class _Ends:
    """The ends of all stretches as one."""

    def __init__(self, parts: Sequence[Ends]) -> None:
        self._parts = parts
        self._bounds = np.cumsum([0, *(len(part) for part in parts)])
        self.kind = _joined([part.kind for part in parts], np.uint8)
        self.xid = _joined([part.xid for part in parts], np.int64)
        self.lsn = _joined([part.lsn for part in parts], np.int64)
        self.end_lsn = _joined([part.end_lsn for part in parts], np.int64)
        self.time = _joined([part.time for part in parts], np.int64)
        self.database = _joined([part.database for part in parts], np.uint32)
        self.origin = _joined([part.origin for part in parts], np.uint16)
        self.origin_lsn = _joined([part.origin_lsn for part in parts], np.int64)
        self.origin_time = _joined([part.origin_time for part in parts], np.int64)
        self.counts = _joined([np.diff(part.subxact_bounds) for part in parts], np.int64)
        self.subxids = _joined([part.subxids for part in parts], np.int64)
        self.end_of_subxid = np.repeat(np.arange(len(self.xid)), self.counts)

    def gid(self, row: int) -> str:
        part = int(np.searchsorted(self._bounds, row, "right")) - 1
        return self._parts[part].gid(row - int(self._bounds[part]))


def _joined(parts: Sequence[NDArray], dtype: type) -> NDArray:
    return np.concatenate(parts) if parts else np.zeros(0, dtype)
