"""Strings of characters (text, varchar, bpchar, name, "char", xml), of bytes (bytea), and of bits (bit, varbit)."""

from __future__ import annotations

from tailrace.types.codec import Codec
from tailrace.types.codec.binary_forms import receive_bytes, receive_swapped, send_bytes, send_swapped
from tailrace.types.strings.bit import format_bits, parse_bits, receive_bits, send_bits
from tailrace.types.strings.bytea import arrow_byteas, byteas_to_arrow, format_byteas, parse_byteas
from tailrace.types.strings.character import (
    format_chars,
    format_names,
    format_strings,
    parse_chars,
    parse_names,
    parse_strings,
    receive_names,
    send_names,
)
from tailrace.types.strings.xml import format_xmls

TEXT = VARCHAR = BPCHAR = Codec(format=format_strings, parse=parse_strings, send=send_bytes, receive=receive_bytes)
NAME = Codec(format=format_names, parse=parse_names, send=send_names, receive=receive_names)
CHAR = Codec(format=format_chars, parse=parse_chars, send=send_swapped(1), receive=receive_swapped(1))
XML = Codec(format=format_xmls, parse=parse_strings, send=format_xmls, receive=receive_bytes)
BYTEA = Codec(
    format=format_byteas, parse=parse_byteas, send=send_bytes, receive=receive_bytes,
    arrow=arrow_byteas, to_arrow=byteas_to_arrow,
)  # fmt: skip
BIT = VARBIT = Codec(format=format_bits, parse=parse_bits, send=send_bits, receive=receive_bits, quoting="bits")
