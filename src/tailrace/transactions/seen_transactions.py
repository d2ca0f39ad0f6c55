"""Which transactions a snapshot has seen, under which tables were copied: their changes are in the copy, and are not applied again.

In: what `pg_current_snapshot` printed. Out: for rows of changes, whether they are to be applied. It is decided by the xid of the top-level
transaction, and not by LSN: the commit record of one may be in the log while it is invisible still.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tailrace.checksummed_file import fact
from tailrace.dataclass import dataclass
from tailrace.model import Lsn

_DIGITS = 32


@dataclass(frozen=True, slots=True)
class SeenTransactions:
    """What `pg_current_snapshot` says: transactions before `xmin` are over, those from `xmax` on had not begun to end, and of those in between
    `running` were at work. All of them 64 bits wide. Their commit records lie before `end`."""

    xmin: int
    xmax: int
    running: tuple[int, ...]
    end: Lsn

    @classmethod
    def parse(cls, text: str, end: Lsn) -> SeenTransactions:
        xmin, xmax, running = text.split(":")
        return cls(int(xmin), int(xmax), tuple(map(int, filter(None, running.split(",")))), end)

    def saw(self, xids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Of each of these top-level transactions, whether its changes were seen. Their lower 32 bits are enough."""
        near = self.xmax & ~0xFFFF_FFFF
        whole = near | (xids & 0xFFFF_FFFF)
        whole = np.where(whole > self.xmax + 0x8000_0000, whole - 0x1_0000_0000, whole)
        whole = np.where(whole < self.xmax - 0x8000_0000, whole + 0x1_0000_0000, whole)
        return (whole < self.xmax) & ~np.isin(whole, np.array(self.running, np.int64))

    def with_end_behind(self, xids: NDArray[np.int64], commits: NDArray[np.int64], ends: NDArray[np.int64]) -> SeenTransactions:
        """With the end behind those of these commits that were seen, whose records begin and end there: a standby shows a transaction before it says
        that it has replayed the commit record."""
        late = (commits >= self.end) & self.saw(xids)
        return replace(self, end=Lsn(int(ends[late].max(initial=self.end))))

    def without(self, changes: pa.RecordBatch) -> pa.RecordBatch:
        """Those of a batch of changes that are not in the copy."""
        commits = changes["commit_lsn"].to_numpy()
        if not len(commits) or commits.min() >= self.end:
            return changes
        stays = self.lack(commits, changes["xid"].to_numpy().astype(np.int64))
        return changes if stays.all() else changes.filter(pa.array(stays))

    def lack(self, commits: NDArray[np.int64], xids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Of each of these top-level transactions, which commit there, whether its changes were not seen."""
        return (commits >= self.end) | ~self.saw(xids)

    def within(self, changes: pa.RecordBatch) -> pa.RecordBatch:
        """Those of a batch of changes that were seen."""
        stays = self._saw_changes(changes)
        return changes if stays.all() else changes.filter(pa.array(stays))

    def _saw_changes(self, changes: pa.RecordBatch) -> NDArray[np.bool_]:
        return self.saw(changes["xid"].to_numpy().astype(np.int64))

    @property
    def digest(self) -> str:
        """By which a snapshot is known again."""
        return hashlib.sha256(json.dumps(self.facts()).encode()).hexdigest()[:_DIGITS]

    def facts(self) -> list[Any]:
        """In what JSON can hold."""
        return [str(self.xmin), str(self.xmax), list(map(str, self.running)), str(self.end)]

    @classmethod
    def of(cls, facts: Any) -> SeenTransactions | None:
        """Raises ValueError or TypeError for what `facts` does not give."""
        if facts is None:
            return None
        xmin, xmax, running, end = fact(facts, list)
        return cls(int(xmin), int(xmax), tuple(map(int, running)), Lsn.parse(end))
