"""Rows of a table from the pages of its file, as a snapshot sees them: what a sequential scan gives, made outside of the server.

In: pages, the relation whose they are, and the snapshot. Out: a `Batch` of the rows, each an INSERT without a place in the log; and the ctids of rows
that only the server can tell, as a part of them is in a TOAST table, or as the pages do not say whether the snapshot sees them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.pages.visible_tuples import SEES_ALL, UNSOUND, KnownStatus, MvccSnapshot, VisibleTuples, see_tuples
from tailrace.dataclass import dataclass
from tailrace.decode import INSERT, NO_OLD, Batch, columns_of_tuples
from tailrace.errors import CorruptFile
from tailrace.model import PAGE_SIZE, Relation
from tailrace.tuples.deform import AttributesRoom
from tailrace.tuples.toast import Chunks


class StatusMissing(Exception):
    """The file of pg_xact with this `number` has to be read first."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@dataclass(frozen=True, slots=True)
class RowsOfPages:
    """`asked`: (block, line pointer) of rows that only the server can tell."""

    batch: Batch
    asked: NDArray[np.int64]


def rows_of_pages(
    pages: NDArray[np.uint8], first: int, relation: Relation, snapshot: MvccSnapshot, status: KnownStatus,
    room: AttributesRoom | None = None,
) -> RowsOfPages:  # fmt: skip
    """Of pages that lie one after another; the first is block `first`. Raises StatusMissing, CorruptFile for what is no page of a table, and
    CorruptTuple for a tuple that is none of the relation's."""
    found = VisibleTuples.room(len(pages) // PAGE_SIZE)
    seen, asked, missing = see_tuples(pages, snapshot, status, found)
    if missing == UNSOUND:
        raise CorruptFile(f"invalid page in blocks {first} to {first + len(pages) // PAGE_SIZE - 1}", context=f"table {relation}")
    if missing != SEES_ALL:
        raise StatusMissing(missing)
    at, length = found.at[:seen], found.length[:seen]
    nothing = np.zeros(seen, np.int64)
    new = columns_of_tuples(relation, pages, at, length, nothing, Chunks.none(), room)
    batch = Batch(
        relations=(relation,), published_as=(relation,), number=nothing, columns=relation.live_columns, ordinal=nothing, lsn=nothing,
        sequence=nothing, kind=np.full(seen, INSERT, np.uint8), old_kind=np.full(seen, NO_OLD, np.uint8), new=new, old=None,
    )  # fmt: skip
    left = found.asked[:asked] + np.array([first, 0])
    toasted = np.zeros(seen, np.bool_)
    for values in new:
        if values.unchanged is not None:
            toasted |= values.unchanged
    if not toasted.any():
        return RowsOfPages(batch, left)
    ctids = np.stack([first + at[toasted] // PAGE_SIZE, found.item[:seen][toasted]], axis=1)
    return RowsOfPages(batch.take(np.flatnonzero(~toasted)), np.concatenate([left, ctids]))
