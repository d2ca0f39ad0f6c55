"""What intervals and times with a zone are made of, as numbers (`utils/timestamp.h`, `utils/date.h`)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tailrace.types.times.calendar import USECS_PER_DAY, USECS_PER_SEC
from tailrace.types.values import Values


def interval_parts(values: Values) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Microseconds, days and months, each with its sign; zeros for NULL."""
    assert values.fixed is not None
    return _number(values.fixed, 0, 8), _number(values.fixed, 8, 4), _number(values.fixed, 12, 4)


def times_in_utc(values: Values) -> Values:
    """Times with a zone as times of day in UTC, in stored form."""
    assert values.fixed is not None
    west = _number(values.fixed, 8, 4)
    micros = (_number(values.fixed, 0, 8) + west * USECS_PER_SEC) % USECS_PER_DAY
    return Values(values.valid, fixed=micros.view(np.uint8).reshape(-1, 8), unchanged=values.unchanged)


def _number(rows: NDArray[np.uint8], at: int, width: int) -> NDArray[np.int64]:
    """The signed integer of `width` bytes at `at` in each row."""
    return np.ascontiguousarray(rows[:, at : at + width]).view(f"<i{width}")[:, 0].astype(np.int64)
