"""Ranges and multiranges of any subtype. In Arrow they are strings of their text."""

from __future__ import annotations

from tailrace.types.codec import Codec
from tailrace.types.ranges.binary import receive_multiranges, receive_ranges, send_multiranges, send_ranges
from tailrace.types.ranges.text import format_multiranges, format_ranges, parse_multiranges, parse_ranges

RANGE = Codec(format=format_ranges, parse=parse_ranges, send=send_ranges, receive=receive_ranges)
MULTIRANGE = Codec(format=format_multiranges, parse=parse_multiranges, send=send_multiranges, receive=receive_multiranges)
