"""Dates and times: date, time, timetz, timestamp, timestamptz, interval, and the time zones in which they are printed."""

from __future__ import annotations

from tailrace.types.codec import Codec
from tailrace.types.codec.binary_forms import receive_swapped, send_swapped
from tailrace.types.times.arrow import arrow_times, dates_to_arrow, timestamps_to_arrow
from tailrace.types.times.interval import format_intervals, parse_intervals
from tailrace.types.times.text import (
    format_dates,
    format_times,
    format_timestamps,
    format_timetzs,
    parse_dates,
    parse_times,
    parse_timestamps,
)

DATE = Codec(
    format=format_dates, parse=parse_dates, send=send_swapped(4), receive=receive_swapped(4),
    arrow=arrow_times, to_arrow=dates_to_arrow,
)  # fmt: skip
TIMESTAMP = TIMESTAMPTZ = Codec(
    format=format_timestamps, parse=parse_timestamps, send=send_swapped(8), receive=receive_swapped(8),
    arrow=arrow_times, to_arrow=timestamps_to_arrow,
)  # fmt: skip
TIME = Codec(format=format_times, parse=parse_times, send=send_swapped(8), receive=receive_swapped(8))
TIMETZ = Codec(format=format_timetzs, parse=parse_times, send=send_swapped(8, 4), receive=receive_swapped(8, 4))
INTERVAL = Codec(format=format_intervals, parse=parse_intervals, send=send_swapped(8, 4, 4), receive=receive_swapped(8, 4, 4))
