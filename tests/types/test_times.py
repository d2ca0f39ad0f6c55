"""Dates and times: zones, infinities, and the two epochs."""

from __future__ import annotations

import datetime as dt
import time
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from types_vectors import column, pg_type, recorded, with_nulls

from tailrace.errors import UsageError
from tailrace.types.registry import ArrowStyle, TextStyle, arrow_type, format_values, parse_texts, to_arrow
from tailrace.types.values import Texts, Values

DATE, STAMP, STAMPTZ, TIME = (pg_type(name) for name in ("date", "timestamp", "timestamptz", "time"))
FIRST, LAST = -211813488000000000, 9223371331200000000 - 1
"""The bounds of timestamp (`datatype/timestamp.h`)."""


def of(dtype: str, *numbers: int) -> Values:
    array = np.array(numbers, dtype)
    return Values(np.ones(len(array), np.bool_), fixed=array.view(np.uint8).reshape(len(array), array.itemsize))


@pytest.mark.parametrize("zone", list(recorded()["zones"]))
def test_prints_in_the_zone_of_the_session(zone: str) -> None:
    _, values = column("timestamptz")
    expected = with_nulls(recorded()["zones"][zone]["timestamptz"], "")
    assert format_values(values, STAMPTZ, TextStyle(time_zone=zone)).to_list() == expected


def test_an_unknown_zone_is_refused() -> None:
    with pytest.raises(UsageError, match="Mars/Olympus"):
        format_values(of("<i8", 0), STAMPTZ, TextStyle(time_zone="Mars/Olympus"))


def test_names_of_zones_are_read_in_any_case() -> None:
    for zone in ("america/new_york", "AMERICA/NEW_YORK"):
        assert format_values(of("<i8", 0), STAMPTZ, TextStyle(time_zone=zone)).to_list() == ["1999-12-31 19:00:00-05"]


@pytest.mark.parametrize(
    ("zone", "winter", "summer"),
    [
        ("CET-1CEST", "Sat Jan 01 01:00:00 2000 CET", "Sat Jul 01 02:00:00 2000 CEST"),
        ("foo3", "Fri Dec 31 21:00:00 1999 FOO", "Fri Jun 30 21:00:00 2000 FOO"),
        ("5:30", "Fri Dec 31 18:30:00 1999 ", "Fri Jun 30 18:30:00 2000 "),
        ("5.5", "Sat Jan 01 05:30:00 2000 +05:30", "Sat Jul 01 05:30:00 2000 +05:30"),
        ("interval '-100 hours'", "Mon Dec 27 20:00:00 1999 -100", "Mon Jun 26 20:00:00 2000 -100"),
        ("AEST-10AEDT,M10.1.0,M4.1.0/3", "Sat Jan 01 11:00:00 2000 AEDT", "Sat Jul 01 10:00:00 2000 AEST"),
    ],
)
def test_zones_without_a_name(zone: str, winter: str, summer: str) -> None:
    """As a server prints them (`tests/oracle/test_zones.py` has more)."""
    style = TextStyle(time_zone=zone, date_style="Postgres")
    assert format_values(of("<i8", 0, 182 * 86_400_000_000), STAMPTZ, style).to_list() == [winter, summer]


@pytest.mark.parametrize("zone", ["168", "FOO3:60", "FOO3BAR,M3.2.0", "interval '1 mon'", "-05:30:15", "Z"])
def test_what_is_no_zone_is_refused(zone: str) -> None:
    with pytest.raises(UsageError, match=r"TimeZone|leap seconds"):
        format_values(of("<i8", 0), STAMPTZ, TextStyle(time_zone=zone))


def test_arrow_counts_from_1970() -> None:
    assert to_arrow(of("<i4", 0, 366, -10957), DATE).to_pylist() == [
        dt.date(2000, 1, 1),
        dt.date(2001, 1, 1),
        dt.date(1970, 1, 1),
    ]
    assert to_arrow(of("<i8", 1, -1), STAMP).to_pylist() == [
        dt.datetime(2000, 1, 1, 0, 0, 0, 1),
        dt.datetime(1999, 12, 31, 23, 59, 59, 999999),
    ]
    assert to_arrow(of("<i8", 0), STAMPTZ).type == pa.timestamp("us", "UTC")
    assert to_arrow(of("<i8", 0), TIME).to_pylist() == ["00:00:00"]


def test_infinities_stay_the_extremes() -> None:
    low, high = -(2**63), 2**63 - 1
    assert to_arrow(of("<i8", low, high), STAMPTZ).cast(pa.int64()).to_pylist() == [low, high]
    assert to_arrow(of("<i4", -(2**31), 2**31 - 1), DATE).cast(pa.int32()).to_pylist() == [-(2**31), 2**31 - 1]


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "XXX+15:59", "XXX-15:59"])
def test_bounded_infinities_are_of_years_that_python_holds(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark makes a moment a datetime of the machine's zone, by `fromtimestamp`."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    bounded = ArrowStyle(times="bounded")
    low, high = -(2**63), 2**63 - 1
    days = to_arrow(of("<i4", -(2**31), 2**31 - 1), DATE, style=bounded)
    assert days.to_pylist() == [dt.date.min, dt.date.max]
    assert to_arrow(of("<i8", low, high), STAMP, style=bounded).to_pylist() == [dt.datetime.min, dt.datetime.max]
    first, last = to_arrow(of("<i8", low, high), STAMPTZ, style=bounded).cast(pa.int64()).to_pylist()
    assert dt.datetime.fromtimestamp(first // 1_000_000).year == 1
    assert dt.datetime.fromtimestamp(last // 1_000_000).year == 9999
    monkeypatch.undo()
    time.tzset()


def test_finite_times_that_python_does_not_hold_are_refused() -> None:
    bounded = ArrowStyle(times="bounded")
    with pytest.raises(UsageError, match=r'date out of range: "4713-01-01 BC"'):
        to_arrow(of("<i4", 0, -2451507), DATE, style=bounded)
    with pytest.raises(UsageError, match=r'timestamp out of range: "10000-01-01 00:00:00"'):
        to_arrow(of("<i8", 252_455_616_000_000_000), STAMP, style=bounded)
    assert to_arrow(of("<i4", 0), DATE, style=bounded).to_pylist() == [dt.date(2000, 1, 1)]


def test_what_overflows_the_epoch_of_1970_is_refused() -> None:
    with pytest.raises(UsageError, match=r"timestamp out of range: 294276-12-31 23:59:59.999999(.|\n)*times=text"):
        to_arrow(of("<i8", 0, LAST), STAMP)
    as_text = ArrowStyle(times="text")
    assert to_arrow(of("<i8", 0, LAST), STAMP, style=as_text).to_pylist() == [
        "2000-01-01 00:00:00",
        "294276-12-31 23:59:59.999999",
    ]
    assert to_arrow(of("<i4", 2**31 - 1), DATE, style=as_text).to_pylist() == ["infinity"]
    assert arrow_type(STAMPTZ, style=as_text) == arrow_type(DATE, style=as_text) == pa.string()


@given(st.lists(st.integers(FIRST, LAST), min_size=1))
def test_timestamps_round_trip(stamps: list[int]) -> None:
    for pg_type_ in (STAMP, STAMPTZ):
        texts = format_values(of("<i8", *stamps), pg_type_)
        again = parse_texts(texts, np.ones(len(stamps), np.bool_), pg_type_)
        assert again.as_dtype("<i8").tolist() == stamps


@given(st.lists(st.integers(FIRST, LAST), min_size=1), st.sampled_from(["America/New_York", "Asia/Kathmandu", "Pacific/Apia"]))
def test_timestamps_round_trip_in_zones(stamps: list[int], zone: str) -> None:
    texts = format_values(of("<i8", *stamps), STAMPTZ, TextStyle(time_zone=zone))
    assert parse_texts(texts, np.ones(len(stamps), np.bool_), STAMPTZ).as_dtype("<i8").tolist() == stamps


@given(
    st.datetimes(dt.datetime(1, 1, 3), dt.datetime(9998, 12, 31)),
    st.sampled_from(["America/New_York", "Pacific/Apia", "Europe/Dublin"]),
)
def test_zones_agree_with_zoneinfo(moment: dt.datetime, zone: str) -> None:
    stamp = (moment - dt.datetime(2000, 1, 1)) // dt.timedelta(microseconds=1)
    there = moment.replace(tzinfo=dt.UTC).astimezone(ZoneInfo(zone))
    text = format_values(of("<i8", stamp), STAMPTZ, TextStyle(time_zone=zone)).to_list()[0]
    assert text.startswith(f"{there:%Y-%m-%d %H:%M:%S}".rjust(19, "0"))


@given(st.lists(st.integers(-2451545, 2145031948), min_size=1))
def test_dates_round_trip(days: list[int]) -> None:
    texts = format_values(of("<i4", *days), DATE)
    assert parse_texts(texts, np.ones(len(days), np.bool_), DATE).as_dtype("<i4").tolist() == days


@pytest.mark.parametrize("text", ["2024-13-01", "2024-02-30", "yesterday", "", "2024-1-1"])
def test_refuses_what_is_no_date(text: str) -> None:
    with pytest.raises(UsageError):
        parse_texts(Texts.of([text]), np.ones(1, np.bool_), DATE)
