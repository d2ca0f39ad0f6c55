"""Find the record that holds a damaged value. A codec reads a whole column and does not know the records of its rows, so the row is found by
bisection."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tailrace.decode import Batch
from tailrace.errors import CorruptWal
from tailrace.model import Lsn


def of_a_row(error: CorruptWal, batch: Batch, read: Callable[[NDArray[np.int64]], object]) -> CorruptWal:
    """The error, which reading all rows of the batch raised, with the first record that has such a value. `read` reads the rows
    that it is given."""
    if error.lsn is not None or not len(batch):
        return error

    def fails(some: slice) -> bool:
        try:
            read(np.arange(some.start, some.stop))
        except CorruptWal:
            return True
        return False

    row = first_that_fails(len(batch), fails)
    lsn = Lsn(int(batch.lsn[row]))
    error.context = error.context or f"table {batch.relations[batch.number[row]]}, WAL record at {lsn}"
    return error.at(lsn)


def first_that_fails(count: int, fails: Callable[[slice], bool]) -> int:
    """The first of `count`, of which one at least fails. `fails` says whether some of them do, which must be each by itself."""
    passing, failing = 0, count
    while failing - passing > 1:
        middle = (passing + failing) // 2
        if fails(slice(passing, middle)):
            failing = middle
        else:
            passing = middle
    return passing
