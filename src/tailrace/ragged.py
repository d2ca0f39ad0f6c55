"""Lists of unequal length in one array: those of row i are `values[bounds[i] : bounds[i + 1]]`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


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
