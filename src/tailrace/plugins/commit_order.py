"""The order of the stream, as keys: where transactions, rows and events stand among each other (rule 4).

A key is (rank of the transaction, what kind of row it is, LSN, sequence). Transactions rank by commit LSN, and messages outside
of them by their own.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tailrace.dataclass import dataclass
from tailrace.kernels import kernel
from tailrace.plan.events import LogicalMessage, Truncation
from tailrace.plugins.formatted_changes import FormattedChanges

CHANGE, STOP, COMMIT = 0, 1, 2
BEFORE, BEHIND = -1, 2**62
"""Where a BEGIN stands among the rows of the record that it comes before, and a message among those that the server prints before
it."""


@dataclass(frozen=True, slots=True)
class TransactionGroup:
    """Transactions that are put in order together (ordinals, ascending), their rows, and the events `inside` of them; messages
    `due` before the last of them commits. Of one that comes in parts, `begins` and `ends` say whether its first and its last part
    is here."""

    ordinals: NDArray[np.int64]
    rows: list[FormattedChanges]
    inside: list[LogicalMessage | Truncation]
    due: list[LogicalMessage]
    begins: bool = True
    ends: bool = True


def sorted_order(group: TransactionGroup, extra: NDArray[np.int64]) -> NDArray[np.int64]:
    """The order in which rows stand, as numbers into: rows as they come, then singles, end to end.

    Not the rows are sorted but runs of them: a stretch's rows of one transaction are in order already, and stretches come in
    WAL order. Only a transaction with a message or TRUNCATE inside has runs of single rows, where those must find their
    place.
    """
    split = np.array(sorted({item.ordinal for item in group.inside}), np.int64)
    starts: list[NDArray[np.int64]] = []
    keys: list[NDArray[np.int64]] = []
    base = 0
    for part in group.rows:
        first = np.ones(len(part.ordinal), np.bool_)
        first[1:] = part.ordinal[1:] != part.ordinal[:-1]
        if len(split):
            first |= np.isin(part.ordinal, split)
        at = np.flatnonzero(first)
        starts.append(at + base)
        keys.append(np.stack([rank(part.ordinal[at]), np.full(len(at), CHANGE), part.lsn[at], part.sequence[at]]))
        base += len(part.ordinal)
    rows = base + extra.shape[1]
    start = np.concatenate([*starts, np.arange(base, rows)]).astype(np.int64)
    stop = np.append(start[1:], rows)
    key = np.concatenate([*keys, extra], axis=1).astype(np.int64)
    order = np.lexsort((key[3], key[2], key[1], key[0]))
    return expanded(start[order], (stop - start)[order], rows)


@kernel
def expanded(start, length, total):  # type: ignore[no-untyped-def]
    """start[0], start[0] + 1, … for each run."""
    out = np.empty(total, np.int64)
    to = 0
    for run in range(len(start)):
        for i in range(length[run]):
            out[to] = start[run] + i
            to += 1
    return out


Ordinal = TypeVar("Ordinal", int, NDArray[np.int64])


def rank(ordinal: Ordinal) -> Ordinal:
    """Where transactions stand among each other, with room before each for messages outside of them. Ordinals are in the order of
    commits; blocks that end together have one LSN."""
    return 2 * ordinal + 1


def place_of(item: LogicalMessage | Truncation) -> tuple[int, int]:
    """Where it stands among the rows of its transaction: (LSN, sequence)."""
    if isinstance(item, LogicalMessage) and item.behind:
        return item.end_lsn, BEHIND
    return item.lsn, 0
