"""Timestamps in time zones: named, spelled out, and none at all."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from types_vectors import column, pg_type, recorded, values_of, with_nulls

from tailrace.errors import UsageError
from tailrace.types.registry import TextStyle, format_values, parse_texts

STAMPTZ = pg_type("timestamptz")
FIRST, LAST = -211813488000000000, 9223371331200000000 - 1
"""The bounds of timestamp (`datatype/timestamp.h`)."""


@pytest.mark.parametrize("zone", list(recorded()["zones"]))
def test_prints_in_the_zone_of_the_session(zone: str) -> None:
    _, values = column("timestamptz")
    expected = with_nulls(recorded()["zones"][zone]["timestamptz"], "")
    assert format_values(values, STAMPTZ, TextStyle(time_zone=zone)).to_list() == expected


def test_an_unknown_zone_is_refused() -> None:
    with pytest.raises(UsageError, match="Mars/Olympus"):
        format_values(values_of("<i8", 0), STAMPTZ, TextStyle(time_zone="Mars/Olympus"))


def test_names_of_zones_are_read_in_any_case() -> None:
    for zone in ("america/new_york", "AMERICA/NEW_YORK"):
        assert format_values(values_of("<i8", 0), STAMPTZ, TextStyle(time_zone=zone)).to_list() == ["1999-12-31 19:00:00-05"]


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
    assert format_values(values_of("<i8", 0, 182 * 86_400_000_000), STAMPTZ, style).to_list() == [winter, summer]


@pytest.mark.parametrize("zone", ["168", "FOO3:60", "FOO3BAR,M3.2.0", "interval '1 mon'", "-05:30:15", "Z"])
def test_what_is_no_zone_is_refused(zone: str) -> None:
    with pytest.raises(UsageError, match=r"TimeZone|leap seconds"):
        format_values(values_of("<i8", 0), STAMPTZ, TextStyle(time_zone=zone))


@given(st.lists(st.integers(FIRST, LAST), min_size=1), st.sampled_from(["America/New_York", "Asia/Kathmandu", "Pacific/Apia"]))
def test_timestamps_round_trip_in_zones(stamps: list[int], zone: str) -> None:
    texts = format_values(values_of("<i8", *stamps), STAMPTZ, TextStyle(time_zone=zone))
    assert parse_texts(texts, np.ones(len(stamps), np.bool_), STAMPTZ).as_dtype("<i8").tolist() == stamps


@given(
    st.datetimes(dt.datetime(1, 1, 3), dt.datetime(9998, 12, 31)),
    st.sampled_from(["America/New_York", "Pacific/Apia", "Europe/Dublin"]),
)
def test_zones_agree_with_zoneinfo(moment: dt.datetime, zone: str) -> None:
    stamp = (moment - dt.datetime(2000, 1, 1)) // dt.timedelta(microseconds=1)
    there = moment.replace(tzinfo=dt.UTC).astimezone(ZoneInfo(zone))
    text = format_values(values_of("<i8", stamp), STAMPTZ, TextStyle(time_zone=zone)).to_list()[0]
    assert text.startswith(f"{there:%Y-%m-%d %H:%M:%S}".rjust(19, "0"))
