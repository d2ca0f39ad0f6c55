"""Which rows of a batch cannot be made changes of, where some of them cannot.

In: a batch, and what makes changes of it. Out: the changes of those rows that fit, and of each other the error. Rows are found by halving, column by
column: a few among thousands cost a few dozen calls, and many do not cost much more each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tailrace.dataclass import dataclass
from tailrace.decode import Batch
from tailrace.errors import QueryCanceled, TailraceError, UnsupportedWal, UsageError
from tailrace.model import Column
from tailrace.types.registry import ArrowStyle, to_arrow
from tailrace.types.values import Values

OTHER_TYPE = "42804"
"""What `changes.widened` raises of a column, whatever its values are."""
Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Unfit:
    """Why rows do not fit, and in which column, if it is one's value."""

    error: TailraceError
    column: str = ""


def is_of_rows(error: TailraceError) -> bool:
    """Whether an error is that rows do not fit, and not that something is damaged or away."""
    return isinstance(error, UsageError | UnsupportedWal) and not isinstance(error, QueryCanceled)


def fitted(
    batch: Batch, make: Callable[[Batch], pa.RecordBatch], style: ArrowStyle
) -> Iterator[tuple[Rows, pa.RecordBatch | Unfit]]:
    """Rows with what is made of them, in the batch's order, and rows with why nothing is. Raises errors that are not of rows."""
    if not len(batch):
        return
    try:
        yield np.arange(len(batch)), make(batch)
        return
    except TailraceError as error:
        if not is_of_rows(error):
            raise
        if _is_of_all(error):
            yield np.arange(len(batch)), Unfit(error)
            return
    unfit = _without_form(batch, style)
    for row, why in unfit.items():
        yield np.array([row]), why
    rest = np.setdiff1d(np.arange(len(batch)), np.array(list(unfit), np.int64))
    for rows, found in _by_halving(batch.take(rest), make):
        yield rest[rows], found


def _is_of_all(error: TailraceError) -> bool:
    return error.sqlstate == OTHER_TYPE or isinstance(error, UnsupportedWal)


def _by_halving(batch: Batch, make: Callable[[Batch], pa.RecordBatch]) -> Iterator[tuple[Rows, pa.RecordBatch | Unfit]]:
    """The same, whatever it is that does not fit."""
    waiting = [(0, len(batch))]
    while waiting:
        start, stop = waiting.pop()
        rows = np.arange(start, stop)
        if not len(rows):
            continue
        try:
            made = make(batch if len(rows) == len(batch) else batch.take(rows))
        except TailraceError as error:
            if not is_of_rows(error):
                raise
            if stop - start == 1 or _is_of_all(error):
                yield rows, Unfit(error)
            else:
                middle = (start + stop) // 2
                waiting += [(middle, stop), (start, middle)]
            continue
        yield rows, made


def _without_form(batch: Batch, style: ArrowStyle) -> dict[int, Unfit]:
    """Rows with a value that has no form in Arrow, in their order."""
    found: dict[int, Unfit] = {}
    for side in (batch.new, batch.old or []):
        for column, values in zip(batch.columns, side, strict=False):
            for row, error in unfit_values(column, values, style):
                found.setdefault(row, Unfit(error, column.name))
    return dict(sorted(found.items()))


def unfit_values(column: Column, values: Values, style: ArrowStyle) -> Iterator[tuple[int, TailraceError]]:
    """The rows whose value of a column has no form in Arrow, and why. Raises errors that are not of rows."""
    waiting = [(0, len(values))]
    while waiting:
        start, stop = waiting.pop()
        try:
            to_arrow(values.part(start, stop), column.live_type, column.typmod, style)
        except TailraceError as error:
            if not is_of_rows(error):
                raise
            if stop - start == 1:
                yield start, error
            else:
                middle = (start + stop) // 2
                waiting += [(middle, stop), (start, middle)]
