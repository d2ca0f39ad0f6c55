"""Rows of tables whose columns are arrays, and lists of unequal length in one array: those of row i are `values[bounds[i] : bounds[i + 1]]`."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Table = TypeVar("Table")


def taken_of(table: Table, rows: NDArray[np.int64], **others: Any) -> Table:
    """These rows of a dataclass whose fields are arrays, but for `others`, which have no value a row."""
    columns = [field.name for field in fields(table) if field.name not in others]  # type: ignore[arg-type]
    return type(table)(**{name: getattr(table, name)[rows] for name in columns}, **others)


def ranges(starts: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """`starts[i], starts[i] + 1, …`, `counts[i]` of them, one after another."""
    ends = np.cumsum(counts)
    return np.repeat(starts - (ends - counts), counts) + np.arange(ends[-1] if len(ends) else 0)


def bounds_of(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where lists of these lengths begin, and where the last one ends."""
    bounds = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=bounds[1:])
    return bounds


def lists_of(rows: NDArray[np.int64], bounds: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The places in `values` of the lists of these rows, one after another, and their bounds there."""
    counts = bounds[rows + 1] - bounds[rows]
    return ranges(bounds[rows], counts), bounds_of(counts)
