"""The calendar: Julian days as PostgreSQL counts them, there and back, for every date that it has, as a value and in a kernel."""

from __future__ import annotations

from datetime import date, timedelta

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tailrace.kernels import kernel
from tailrace.types.times.calendar import (
    END_DATE,
    POSTGRES_EPOCH_JDATE,
    PYTHON_DATES,
    UNIX_EPOCH_JDATE,
    date2isoweek,
    date2j,
    date2j_kernel,
    days_in_month,
    j2date,
    j2date_kernel,
    j2day,
)


@kernel
def _there_and_back(julians, found):
    for row in range(len(julians)):
        year, month, day = j2date_kernel(julians[row])
        found[row] = date2j_kernel(year, month, day)


def test_days_that_postgres_names() -> None:
    """`to_char(date, 'J')`."""
    assert date2j(-4713, 11, 24) == 0
    assert (date2j(2000, 1, 1), date2j(1970, 1, 1)) == (POSTGRES_EPOCH_JDATE, UNIX_EPOCH_JDATE)
    assert j2date(END_DATE - 1 + POSTGRES_EPOCH_JDATE) == (5874897, 12, 31)


@given(st.integers(PYTHON_DATES[0], PYTHON_DATES[1]))
def test_as_python_counts(days: int) -> None:
    expected = date(1970, 1, 1) + timedelta(days=days)
    year, month, day = j2date(days + UNIX_EPOCH_JDATE)
    assert (year, month, day) == (expected.year, expected.month, expected.day)
    assert j2day(days + UNIX_EPOCH_JDATE) == expected.isoweekday() % 7
    assert date2isoweek(year, month, day) == tuple(expected.isocalendar())[:2]
    assert day <= days_in_month(year, month)


@given(st.lists(st.integers(0, END_DATE + POSTGRES_EPOCH_JDATE)))
def test_there_and_back(julians: list[int]) -> None:
    assert [date2j(*j2date(julian)) for julian in julians] == julians
    found = np.zeros(len(julians), np.int64)
    _there_and_back(np.array(julians, np.int64), found)
    assert found.tolist() == julians
