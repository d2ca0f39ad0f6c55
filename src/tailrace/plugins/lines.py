"""What a plugin writes, in the order of the stream: rows, and where among them something ends."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tailrace.dataclass import dataclass
from tailrace.model import Lsn
from tailrace.types.values import Texts


@dataclass(slots=True)
class Lines:
    """Rows as pg_logical_slot_get_changes returns them: LSN, xid and text of each, in order. `ordering.in_order` makes it.

    Behind row `ends[i] - 1` something has ended: a transaction, or a message outside of one; behind row `stops[i] - 1`, a block
    of a transaction that may go on. `ended[i]` is the LSN of that end, of which a plugin need not have written anything."""

    lsn: NDArray[np.int64]
    xid: NDArray[np.uint32]
    texts: Texts
    ends: NDArray[np.int64]
    stops: NDArray[np.int64]
    ended: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.lsn)

    def position_behind(self, before: Lsn) -> Lsn:
        """Where a consumer stands that has these rows: behind the last transaction that ends among them, or else where it was
        before."""
        return Lsn(max(before, int(self.ended.max(initial=0))))

    def part(self, start: int, stop: int) -> Lines:
        """Rows `[start, stop)`, sharing memory."""
        mine, stops = ((places > start) & (places <= stop) for places in (self.ends, self.stops))
        return Lines(
            self.lsn[start:stop],
            self.xid[start:stop],
            self.texts.part(start, stop),
            self.ends[mine] - start,
            self.stops[stops] - start,
            self.ended[mine],
        )

    def without_silence(self) -> Lines:
        """Without rows that have no text. What ended behind such a row has ended behind the one before it."""
        said = np.diff(self.texts.offsets) > 0
        if said.all():
            return self
        before = np.append(0, np.cumsum(said))
        texts = Texts(np.append(self.texts.offsets[:-1][said], self.texts.offsets[-1]), self.texts.data)
        return Lines(self.lsn[said], self.xid[said], texts, before[self.ends], before[self.stops], self.ended)
