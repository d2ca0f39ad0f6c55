"""Blocks of transactions in progress: their rows, given before it is known what becomes of them (manual, "Streaming of Large Transactions for Logical
Decoding").

In: a window of a log, and what has been given of transactions that were open where it begins. Out: the same log, telling of more: at its end, a
BLOCK of each open transaction of which rows that take more WAL than `limit` have not been given; where a transaction is rolled back of which there
were blocks, or a subtransaction of one, a STREAM_ABORT. Where blocks end is not the server's choice, nor the same from one run to another: it
depends on windows. Put together they are what the transaction did.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailrace.dataclass import dataclass
from tailrace.model import Lsn
from tailrace.transactions.commit_or_abort import BLOCK, NO_END, STREAM_ABORT, TwoPhase, outcomes_of
from tailrace.transactions.scanned_log import ScannedLog
from tailrace.transactions.subtrans import named_everywhere
from tailrace.transactions.unfinished import Unfinished
from tailrace.wal import index, xact
from tailrace.wal.xact import Ends


@dataclass(frozen=True, slots=True)
class Streamed:
    """What has been given of a transaction in progress: rows before `upto`, its own and those of `subxids`, which take `bytes` of WAL."""

    upto: Lsn
    bytes: int
    subxids: frozenset[int] = frozenset()


_NOTHING = Streamed(Lsn(0), 0)
StreamedByXid = Mapping[int, Streamed]
"""By the full xid of the top-level transaction."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """What is streamed in a window. By top-level transaction (full xid), what was given `before` and what `after` it; those that are open or end
    there of which more than `limit` has not been given."""

    before: StreamedByXid = field(default_factory=dict)
    after: StreamedByXid = field(default_factory=dict)
    limit: int | None = None

    def since(self, full_xid: NDArray[np.int64]) -> NDArray[np.int64]:
        """From where on rows of these transactions are to be given."""
        return np.array([self.before[xid].upto if xid in self.before else 0 for xid in full_xid.tolist()], np.int64)

    @property
    def tops(self) -> dict[int, int]:
        """Of each transaction of which there were blocks, and of their subtransactions, the top-level one."""
        return {xid: top for top, given in self.before.items() for xid in (top, *given.subxids)}


NO_BLOCKS = Blocks()
"""Where transactions come when they end."""


@dataclass(frozen=True, slots=True)
class InProgress:
    """What of transactions in progress is to be given: of those of which there are blocks from `before`, the rest; of others that began at
    `known_from` or later, as much as waits, if that is more than `limit`. If not `at_end` of the log, nothing of what is open there."""

    before: StreamedByXid
    limit: int
    known_from: int
    at_end: bool


def with_blocks(
    log: ScannedLog, still: Unfinished, asked: InProgress, database: int, two_phase: TwoPhase | None
) -> tuple[ScannedLog, Blocks]:
    """`still` is what is open where `log` ends."""
    before = asked.before
    open_now = _open(log, still, asked)
    blocks = {
        top: given for top, given in open_now.items() if asked.at_end and _is_due(given, before.get(top, _NOTHING), asked.limit)
    }
    lost = list(_rolled_back(log, before))
    gone = {top for top in before if top not in open_now}
    ended = {each.xid for each in lost} | set(_ended(log, gone))
    # A crash writes no end: such a transaction is just not open any more.
    lost += [_Lost(int(log.end), 0, 0, top) for top in sorted(gone - ended)]
    told = Ends.bare(
        kind=[STREAM_ABORT] * len(lost) + [BLOCK] * len(blocks),
        xid=[*(each.xid for each in lost), *blocks],
        lsn=[*(each.lsn for each in lost), *(int(log.end) for _ in blocks)],
        end_lsn=[*(each.end_lsn for each in lost), *(int(log.end) for _ in blocks)],
        time=[*(each.time for each in lost), *(0 for _ in blocks)],
        database=database,
        subxids=[*(() for _ in lost), *(sorted(given.subxids) for given in blocks.values())],
    )
    after = {top: blocks.get(top) or before[top] for top in open_now if top in blocks or top in before}
    outcomes = outcomes_of([*(part.ends for part in log.indexes), told], two_phase, log.earlier.ended)
    return replace(log, outcomes=outcomes), Blocks(before, after, asked.limit)


def _is_due(now: Streamed, before: Streamed, limit: int) -> bool:
    return now.bytes - before.bytes > limit and now.upto > before.upto


def _open(log: ScannedLog, still: Unfinished, asked: InProgress) -> dict[int, Streamed]:
    """All that could be given of open transactions that are not told anyway, as far as they are larger than the limit, or were streamed before."""
    parts = log.indexes
    xid, top, lsn, size, flags, waits = (
        np.concatenate([getattr(part.xids, name) for part in parts])
        for name in ("xid", "top", "first_lsn", "bytes", "flags", "speculative")
    )
    top = named_everywhere(xid, top)
    top = np.where(top == 0, xid, top)
    mine = (
        np.isin(top, still.xid[still.first_lsn >= asked.known_from])
        & np.isin(xid, still.xid)
        & (log.outcomes.ordinals_of(xid) == NO_END)
    )
    speculates = np.flatnonzero(flags & index.SPECULATES)[::-1]
    last = np.zeros(len(xid), np.bool_)
    last[speculates[np.unique(xid[speculates], return_index=True)[1]]] = True
    tops, which = np.unique(top[mine], return_inverse=True)
    in_question = (np.bincount(which, size[mine], len(tops)) > asked.limit) | np.isin(
        tops, np.array(sorted(asked.before), np.int64)
    )
    found: dict[int, Streamed] = {}
    for number in tops[in_question].tolist():
        of = mine & (top == number)
        if lsn[of].min() < asked.known_from:
            continue
        waiting = waits[of & last & (waits > 0)]
        subxids = frozenset(xid[of & (xid != number)].tolist())
        found[number] = Streamed(Lsn(int(waiting.min(initial=int(log.end)))), int(size[of].sum()), subxids)
    return found


class _Lost(NamedTuple):
    """What was rolled back: the record's LSN and end, its time, and the xid."""

    lsn: int
    end_lsn: int
    time: int
    xid: int


def _rolled_back(log: ScannedLog, before: StreamedByXid) -> Iterator[_Lost]:
    """What of `before` is rolled back in the window: subtransactions first, as the record lists them."""
    given = {xid for top, streamed in before.items() for xid in (top, *streamed.subxids)}
    known = np.array(sorted(given), np.int64)
    for part in log.scanned:
        ends = part.ends
        of_sub = np.repeat(np.arange(len(ends)), np.diff(ends.subxact_bounds))[np.isin(ends.subxids, known)]
        rows = np.union1d(np.flatnonzero(np.isin(ends.xid, known)), of_sub)
        for row in rows[np.isin(ends.kind[rows], (xact.ABORT, xact.ABORT_PREPARED))].tolist():
            subxids = ends.subxids[ends.subxact_bounds[row] : ends.subxact_bounds[row + 1]].tolist()
            for xid in (*subxids, int(ends.xid[row])):
                if xid in given:
                    yield _Lost(int(ends.lsn[row]), int(ends.end_lsn[row]), int(ends.time[row]), xid)


def _ended(log: ScannedLog, tops: set[int]) -> list[int]:
    """Those of `tops` that the log says have ended, or been told as prepared."""
    wanted = np.array(sorted(tops), np.int64)
    return wanted[log.outcomes.ordinals_of(wanted) != NO_END].tolist()
