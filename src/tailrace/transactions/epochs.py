"""Transaction ids with their epochs: 64 bits wide, so that one that comes again, four billion later, is another (`access/transam.h`).

In: indexes with xids as the log has them, 32 bits wide, and one full xid that was the next at some LSN (a control file's, a captured state's). Out:
`XidClock`, the next full xid at any LSN, and the indexes with full xids. An xid in a record lies within 2^31 of the one that was next there, since a
server stops before it would not; so the nearest known next xid before the record tells its epoch. Checkpoints know it with its epoch, RUNNING_XACTS
without, which is enough beside a neighbour.

Numbers below 3 stand for no transaction, and for initdb's and frozen ones: they have no epoch. A stretch never holds an xid twice: the log of 2^32
transactions is longer than any stretch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tailrace.dataclass import dataclass
from tailrace.errors import CorruptWal
from tailrace.kernels import kernel
from tailrace.wal.index import Index
from tailrace.wal.kept_records import server_states
from tailrace.wal.standby import RunningXacts
from tailrace.wal.xlog import Checkpoint

FIRST_NORMAL_XID = 3
LOW_WORD = 0xFFFFFFFF
_HALF = 1 << 31
_ALWAYS_FREE = 1 << 21
"""No server assigns the last three million xids before those of its oldest transactions come again (`SetTransactionIdLimit`)."""


@kernel
def with_epoch(xid, near):  # type: ignore[no-untyped-def]
    """The full xid whose low word is `xid`, nearest to the full xid `near`; numbers that stand for no transaction as they are. What would have been
    before the first epoch, as only a frozen tuple's can, is of the first."""
    if xid < FIRST_NORMAL_XID:
        return np.int64(xid)
    full = near - _HALF + ((xid - near + _HALF) & LOW_WORD)
    return full if full >= 0 else np.int64(xid)


@dataclass(frozen=True, slots=True)
class XidClock:
    """`next_xid[i]`, full, was the next at `lsn[i]`, ascending."""

    lsn: NDArray[np.int64]
    next_xid: NDArray[np.int64]

    @classmethod
    def of(cls, indexes: Sequence[Index], known: tuple[int, int]) -> XidClock:
        """What the log says, beside what is `known`: an LSN, and the full xid that was next there. Raises CorruptWal for a checkpoint of an xid that
        cannot be."""
        told = [known]
        partly: list[tuple[int, int]] = []
        for state in server_states(indexes):
            if isinstance(state.record, Checkpoint):
                if state.record.next_xid >> 63:
                    raise CorruptWal(f"invalid next transaction ID in checkpoint record: {state.record.next_xid}").at(state.lsn)
                told.append((state.lsn, state.record.next_xid))
            elif isinstance(state.record, RunningXacts):
                partly.append((state.lsn, state.record.next_xid))
        told.sort()
        at = np.searchsorted([lsn for lsn, _ in told], [lsn for lsn, _ in partly])
        full: list[tuple[int, int]] = []
        place = 0
        for (lsn, xid), before in zip(partly, at.tolist(), strict=True):
            full += told[place:before]
            place = max(place, before)
            full.append((lsn, _near(xid, full[-1][1] if full else told[0][1])))
        full += told[place:]
        return cls(np.array([lsn for lsn, _ in full], np.int64), np.array([xid for _, xid in full], np.int64))

    def next_at(self, lsn: NDArray[np.int64]) -> NDArray[np.int64]:
        """The full xid that was next at the last moment before each LSN where it is known; before the first of them, there."""
        return self.next_xid[np.maximum(np.searchsorted(self.lsn, lsn, "right") - 1, 0)]

    @property
    def next_at_end(self) -> int:
        """The last next xid that a record named."""
        return int(self.next_xid[-1])

    def full(self, xid: int, lsn: int) -> int:
        """What `xid`, 32 bits of a record at `lsn`, stands for."""
        return _near(xid, int(self.next_at(np.array([lsn], np.int64))[0]))

    def all_full(self, xids: NDArray[np.integer], lsn: NDArray[np.int64]) -> NDArray[np.int64]:
        """The same for many, whose LSNs ascend."""
        near = self.next_at(lsn[[0, -1]]) if len(lsn) else np.zeros(2, np.int64)
        # Within a stretch the next xid moves by less than what a server keeps free, and then one number tells the epochs of all.
        return _all_near(xids, near[0] if abs(near[1] - near[0]) < _ALWAYS_FREE else self.next_at(lsn))

    def widened(self, part: Index) -> Index:
        """The index with full xids in place of those of the log."""
        ends, xids = part.ends, part.xids
        counts = np.diff(ends.subxact_bounds)
        return replace(
            part,
            xids=replace(xids, xid=self.all_full(xids.xid, xids.first_lsn), top=self.all_full(xids.top, xids.first_lsn)),
            ends=replace(
                ends, xid=self.all_full(ends.xid, ends.lsn), subxids=self.all_full(ends.subxids, np.repeat(ends.lsn, counts))
            ),
            waiting_xid=self.all_full(part.waiting_xid, part.waiting_lsn),
        )


def _near(xid: int, near: int) -> int:
    full = near - _HALF + ((xid - near + _HALF) & LOW_WORD)
    return xid if xid < FIRST_NORMAL_XID or full < 0 else full


def _all_near(xids: NDArray[np.integer], near: NDArray[np.int64] | np.int64) -> NDArray[np.int64]:
    full = xids.astype(np.int64)
    least = near - _HALF
    full -= least
    full &= LOW_WORD
    full += least
    as_they_are = (xids < FIRST_NORMAL_XID) | (full < 0)
    if as_they_are.any():
        full[as_they_are] = xids[as_they_are]
    return full
