"""Literals without a type of their own, read by the input function of the type that they turn out to have (coerce_type's string constants).

In: a literal's text, and a type. Out: the stored form. What PostgreSQL's input function takes and ours does not is refused, not guessed: a date that is
not in ISO form, the name behind a regclass.
"""

from __future__ import annotations

import json
import re
import struct
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np

from tailrace.errors import TailraceError, UsageError
from tailrace.expressions.analysis.literal_intervals import read_interval
from tailrace.expressions.analysis.literal_times import read_date, read_time, read_timestamp
from tailrace.model import FIRST_NORMAL_OID
from tailrace.types.codec import range_error, syntax_error
from tailrace.types.registry import parse_texts
from tailrace.types.values import Texts

if TYPE_CHECKING:
    from tailrace.expressions.analysis.state import ParseState

_SPACE = " \t\n\r\f\v"
_INTEGER = re.compile(r"[ \t\n\r\f\v]*([+-]?)(?:(\d+)|0[xX]([0-9a-fA-F]+)|0[oO]([0-7]+)|0[bB]([01]+))[ \t\n\r\f\v]*", re.ASCII)
_UNDERSCORES = re.compile(r"(?<=[0-9a-fA-FxXoObB])_(?=[0-9a-fA-F])")
_INTEGERS = {21: ("smallint", 2), 23: ("integer", 4), 20: ("bigint", 8)}
_FLOAT = re.compile(r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|inf(?:inity)?|nan)", re.ASCII | re.IGNORECASE)
_FLOATS = {700: ("real", "<f"), 701: ("double precision", "<d")}
_NEW_INTEGERS = 16
"""Since this major the input functions of integers read what the grammar reads."""
_UNREADABLE = frozenset({2276, 2249, 2275, 2278, 705, 2277, 2283})
_CONFIGURATIONS = {3734: 3748, 3769: 3765}
"""regconfig and regdictionary, and the oid of their "simple", the only one that is the same everywhere."""
_BITS = (1560, 1562)
NUMERIC = 1700
_BOUNDS = re.compile(r"\s*[\[(]([^,\s]+),([^,\s]+)[\])]\s*")
_ZONED = frozenset({1184, 1185, 3910, 3911, 4534})
"""timestamptz, and what is made of it."""


def read_literal(state: ParseState, text: str, oid: int, typmod: int, location: int) -> bytes:
    """The stored form (of `Values`: without a length word). Raises UsageError with the position of the literal."""
    try:
        return _read(state, text, oid, typmod)
    except UsageError as error:
        raise state.error(error.message, error.sqlstate, location, detail=error.detail, hint=error.hint) from None
    except TailraceError as error:
        raise state.error(error.message, "0A000", location, hint=error.hint) from None


def _read(state: ParseState, text: str, oid: int, typmod: int) -> bytes:
    if oid in _INTEGERS:
        return _read_integer(text, oid, state.catalog.major)
    if oid in _FLOATS:
        return _read_float(text, oid)
    if oid in (1082, 1114, 1184):
        return (read_date if oid == 1082 else read_timestamp)(text, oid, state.style)
    if oid in (1083, 1266):
        return read_time(text, oid, state.style)
    if oid == 1186:
        return read_interval(text, typmod)
    if oid == 114:
        return _read_json(text)
    if oid in _CONFIGURATIONS and text == "simple":
        return _CONFIGURATIONS[oid].to_bytes(4, "little")
    if oid >= FIRST_NORMAL_OID:
        return text.encode("utf-8", "surrogateescape")  # whatever it is: a filter with a user's type is refused
    if oid in _BITS:
        return read_bits(text)
    if oid == 3802:
        _read_json(text)
    if oid == 17 and text.startswith("\\x"):
        _check_hexadecimal(text)
    if state.catalog.element_type(oid) and not text.lstrip(_SPACE).startswith(("{", "[")):
        detail = 'Array value must start with "{" or dimension information.'
        raise UsageError(f'malformed array literal: "{text}"', detail=detail, sqlstate="22P02")
    if state.catalog.range_subtype(oid):
        _check_range(state, text, state.catalog.range_subtype(oid))
    if oid == 2206:
        return _read_type(state, text)
    return _by_codec(state, text, oid)


def _by_codec(state: ParseState, text: str, oid: int) -> bytes:
    pg_type = state.catalog.pg_type(oid)
    if pg_type is None or oid in _UNREADABLE:
        raise UsageError(f"cannot read a literal of type {state.label(oid)}", sqlstate="0A000")
    if oid in _ZONED and not state.style.is_utc:
        raise UsageError(
            f"cannot read a literal of type {pg_type.label} in time zone {state.style.time_zone}", sqlstate="0A000",
            hint="Set TimeZone to UTC, and write the zone into the literal.",
        )  # fmt: skip
    return parse_texts(Texts.of([text]), np.ones(1, np.bool_), pg_type).payload_list()[0]


def _check_hexadecimal(text: str) -> None:
    """As hex_decode says it."""
    digits = [letter for letter in text[2:] if letter not in " \n\t\r"]
    bad = next((letter for letter in digits if letter not in "0123456789abcdefABCDEF"), None)
    if bad is not None:
        raise UsageError(f'invalid hexadecimal digit: "{bad}"')
    if len(digits) % 2:
        raise UsageError("invalid hexadecimal data: odd number of digits")


def read_bits(text: str) -> bytes:
    """bit_in and varbit_in: how many bits, then the bits, of digits behind b, x or nothing."""
    digits = text[1:] if text[:1] in tuple("bBxX") else text
    if text[:1] in ("x", "X"):
        bad = next((letter for letter in digits if letter not in "0123456789abcdefABCDEF"), None)
        if bad is not None:
            raise UsageError(f'"{bad}" is not a valid hexadecimal digit', sqlstate="22P02")
        digits = "".join(f"{int(letter, 16):04b}" for letter in digits)
    bad = next((letter for letter in digits if letter not in "01"), None)
    if bad is not None:
        raise UsageError(f'"{bad}" is not a valid binary digit', sqlstate="22P02")
    padded = digits.ljust(-(-len(digits) // 8) * 8, "0")
    return len(digits).to_bytes(4, "little") + bytes(int(padded[at : at + 8], 2) for at in range(0, len(padded), 8))


def _check_range(state: ParseState, text: str, subtype: int) -> None:
    """That the bounds do not stand the wrong way round, which our reader of ranges takes on trust."""
    bounds = _BOUNDS.fullmatch(text)
    if not text.lstrip(_SPACE).startswith(("[", "(")) and text.strip(_SPACE).lower() != "empty":
        detail = "Missing left parenthesis or bracket."
        raise UsageError(f'malformed range literal: "{text}"', detail=detail, sqlstate="22P02")
    if bounds is None:
        return
    low, high = (_read(state, bound.strip('"'), subtype, -1) for bound in bounds.groups())
    if subtype == NUMERIC:
        turned = Decimal(bounds[1].strip('"')) > Decimal(bounds[2].strip('"'))
    else:
        turned = int.from_bytes(low, "little", signed=True) > int.from_bytes(high, "little", signed=True)
    if turned:
        raise UsageError("range lower bound must be less than or equal to range upper bound", sqlstate="22000")


def _read_integer(text: str, oid: int, major: int) -> bytes:
    name, width = _INTEGERS[oid]
    digits = _UNDERSCORES.sub("", text) if major >= _NEW_INTEGERS else text
    match = _INTEGER.fullmatch(digits)
    if match is None or (match[2] is None and major < _NEW_INTEGERS):
        raise syntax_error(name, text)
    number = next(int(match[group], radix) for group, radix in ((2, 10), (3, 16), (4, 8), (5, 2)) if match[group])
    number = -number if match[1] == "-" else number
    if not -(1 << 8 * width - 1) <= number < 1 << 8 * width - 1:
        raise range_error(name, text)
    return number.to_bytes(width, "little", signed=True)


def _read_float(text: str, oid: int) -> bytes:
    name, layout = _FLOATS[oid]
    word = text.strip(_SPACE)
    if not _FLOAT.fullmatch(word):
        raise syntax_error(name, text)
    number = float(word)
    finite = "n" not in word.lower()
    try:
        raw = struct.pack(layout, number)
    except OverflowError:
        raw = b""
    stored = struct.unpack(layout, raw)[0] if raw else float("inf")
    vanished = stored == 0 and re.search("[1-9]", re.split("[eE]", word)[0])
    if finite and (abs(stored) == float("inf") or vanished):
        raise UsageError(f'"{word}" is out of range for type {name}', sqlstate="22003")
    return raw


def _read_json(text: str) -> bytes:
    def refuse(word: str) -> None:
        raise ValueError(word)

    try:
        json.loads(text, parse_constant=refuse)
    except ValueError:
        raise UsageError("invalid input syntax for type json", sqlstate="22P02") from None
    return text.encode("utf-8", "surrogateescape")


def _read_type(state: ParseState, text: str) -> bytes:
    """regtypein, of plain names of built-in types and their arrays."""
    from tailrace.expressions.analysis.parsing import parse_type_name  # noqa: PLC0415 - parsing knows nothing of literals

    if text.isdecimal():
        return int(text).to_bytes(4, "little")
    from tailrace.expressions.analysis.type_names import type_of_name  # noqa: PLC0415

    oid, _ = type_of_name(state, parse_type_name(text))
    return oid.to_bytes(4, "little")


