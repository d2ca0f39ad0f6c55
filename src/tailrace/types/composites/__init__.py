"""Composite types: rows inside a value. In Arrow they are strings of their text."""

from __future__ import annotations

from tailrace.types.codec import Codec
from tailrace.types.composites.binary import receive_composites, send_composites
from tailrace.types.composites.text import format_composites, parse_composites

COMPOSITE = Codec(format=format_composites, parse=parse_composites, send=send_composites, receive=receive_composites)
