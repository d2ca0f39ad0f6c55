"""Dates and times in Arrow: the two epochs, infinities, and what does not fit."""

from __future__ import annotations

import datetime as dt
import time

import pyarrow as pa
import pytest
from types_vectors import pg_type, values_of

from tailrace.errors import UsageError
from tailrace.types.registry import ArrowStyle, arrow_type, to_arrow

DATE, STAMP, STAMPTZ, TIME = (pg_type(name) for name in ("date", "timestamp", "timestamptz", "time"))
LAST = 9223371331200000000 - 1
"""Of timestamp (`datatype/timestamp.h`)."""


def test_arrow_counts_from_1970() -> None:
    assert to_arrow(values_of("<i4", 0, 366, -10957), DATE).to_pylist() == [
        dt.date(2000, 1, 1),
        dt.date(2001, 1, 1),
        dt.date(1970, 1, 1),
    ]
    assert to_arrow(values_of("<i8", 1, -1), STAMP).to_pylist() == [
        dt.datetime(2000, 1, 1, 0, 0, 0, 1),
        dt.datetime(1999, 12, 31, 23, 59, 59, 999999),
    ]
    assert to_arrow(values_of("<i8", 0), STAMPTZ).type == pa.timestamp("us", "UTC")
    assert to_arrow(values_of("<i8", 0), TIME).to_pylist() == ["00:00:00"]


def test_infinities_stay_the_extremes() -> None:
    low, high = -(2**63), 2**63 - 1
    assert to_arrow(values_of("<i8", low, high), STAMPTZ).cast(pa.int64()).to_pylist() == [low, high]
    assert to_arrow(values_of("<i4", -(2**31), 2**31 - 1), DATE).cast(pa.int32()).to_pylist() == [-(2**31), 2**31 - 1]


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "XXX+15:59", "XXX-15:59"])
def test_bounded_infinities_are_of_years_that_python_holds(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark makes a moment a datetime of the machine's zone, by `fromtimestamp`."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    bounded = ArrowStyle(times="bounded")
    low, high = -(2**63), 2**63 - 1
    days = to_arrow(values_of("<i4", -(2**31), 2**31 - 1), DATE, style=bounded)
    assert days.to_pylist() == [dt.date.min, dt.date.max]
    assert to_arrow(values_of("<i8", low, high), STAMP, style=bounded).to_pylist() == [dt.datetime.min, dt.datetime.max]
    first, last = to_arrow(values_of("<i8", low, high), STAMPTZ, style=bounded).cast(pa.int64()).to_pylist()
    assert dt.datetime.fromtimestamp(first // 1_000_000).year == 1
    assert dt.datetime.fromtimestamp(last // 1_000_000).year == 9999
    monkeypatch.undo()
    time.tzset()


def test_finite_times_that_python_does_not_hold_are_refused() -> None:
    bounded = ArrowStyle(times="bounded")
    with pytest.raises(UsageError, match=r'date out of range: "4713-01-01 BC"'):
        to_arrow(values_of("<i4", 0, -2451507), DATE, style=bounded)
    with pytest.raises(UsageError, match=r'timestamp out of range: "10000-01-01 00:00:00"'):
        to_arrow(values_of("<i8", 252_455_616_000_000_000), STAMP, style=bounded)
    assert to_arrow(values_of("<i4", 0), DATE, style=bounded).to_pylist() == [dt.date(2000, 1, 1)]


def test_what_overflows_the_epoch_of_1970_is_refused() -> None:
    with pytest.raises(UsageError, match=r"timestamp out of range: 294276-12-31 23:59:59.999999(.|\n)*times=text"):
        to_arrow(values_of("<i8", 0, LAST), STAMP)
    as_text = ArrowStyle(times="text")
    assert to_arrow(values_of("<i8", 0, LAST), STAMP, style=as_text).to_pylist() == [
        "2000-01-01 00:00:00",
        "294276-12-31 23:59:59.999999",
    ]
    assert to_arrow(values_of("<i4", 2**31 - 1), DATE, style=as_text).to_pylist() == ["infinity"]
    assert arrow_type(STAMPTZ, style=as_text) == arrow_type(DATE, style=as_text) == pa.string()
