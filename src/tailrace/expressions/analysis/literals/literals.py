"""Literals without a type of their own, read by the input function of the type that they turn out to have (coerce_type's string constants).

In: a literal's text, and a type. Out: the stored form. What PostgreSQL's input function takes and ours does not is refused, not guessed: a date
that is not in ISO form, the name behind a regclass.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from tailrace.errors import TailraceError, UsageError
from tailrace.expressions.analysis.literals.intervals import read_interval
from tailrace.expressions.analysis.literals.ranges import canonical_multirange, canonical_range
from tailrace.expressions.analysis.literals.times import read_date, read_time, read_timestamp
from tailrace.majors import NUMBERS_IN_OTHER_BASES, WRONG_ELEMENT, said_by, supports
from tailrace.model import FIRST_NORMAL_OID
from tailrace.types import oids
from tailrace.types.arrays.stored import stored_arrays
from tailrace.types.arrays.text import read_array_literal
from tailrace.types.codec import range_error, syntax_error
from tailrace.types.format_type import VECTORS
from tailrace.types.registry import parse_texts
from tailrace.types.values import Texts, Values

if TYPE_CHECKING:
    from tailrace.expressions.analysis.state import ParseState

_SPACE = " \t\n\r\f\v"
_INTEGER = re.compile(r"[ \t\n\r\f\v]*([+-]?)(?:(\d+)|0[xX]([0-9a-fA-F]+)|0[oO]([0-7]+)|0[bB]([01]+))[ \t\n\r\f\v]*", re.ASCII)
_UNDERSCORES = re.compile(r"(?<=[0-9a-fA-FxXoObB])_(?=[0-9a-fA-F])")
_INTEGERS = {oids.INT2: ("smallint", 2), oids.INT4: ("integer", 4), oids.INT8: ("bigint", 8)}
_FLOAT = re.compile(r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|inf(?:inity)?|nan)", re.ASCII | re.IGNORECASE)
_FLOATS = {oids.FLOAT4: ("real", "<f"), oids.FLOAT8: ("double precision", "<d")}
_CONFIGURATIONS = {oids.REGCONFIG: 3748, oids.REGDICTIONARY: 3765}
"""regconfig and regdictionary, and the oid of their "simple", the only one that is the same everywhere."""
_BITS = (oids.BIT, oids.VARBIT)
_SHAPES = (oids.POINT, oids.LSEG, oids.PATH, oids.BOX, oids.POLYGON, oids.LINE, oids.CIRCLE)
"""int2vector and oidvector, whose text has no braces."""
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_BESIDE_QUOTED = re.compile(r"\x00\s*[^\x00,}\s]|[^\x00{,\s]\s*\x00|\x00\s+\x00")
_MISSING_ELEMENT = re.compile(r"[{,]\s*[,}]")
_DIMENSION = re.compile(r"\[(?:([+-]?\d+):)?([+-]?\d+)\]")
_POINT = re.compile(r"\s*\(?[^,()\[\]]+,[^,()\[\]]+\)?\s*")
_SHAPE = re.compile(r"[\s0-9.,()\[\]<>{}+\-a-zA-Z]+")
_TSVECTOR = re.compile(
    r"(?:\s*(?:'(?:[^'\\]|''|\\.)+'|(?:[^\s':\\]|\\.)+)(?::0*[1-9]\d*[A-Da-d]?(?:,0*[1-9]\d*[A-Da-d]?)*)?(?=\s|$))*\s*", re.DOTALL
)
_ZONED = frozenset({oids.TIMESTAMPTZ, oids.TIMESTAMPTZARRAY, oids.TSTZRANGE, oids.TSTZRANGEARRAY, oids.TSTZMULTIRANGE})
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
    reader = _READERS.get(oid)
    if reader is not None:
        return reader(state, text, oid, typmod)
    if state.catalog.kind(oid) == "p":
        return _read_pseudo(state, text, oid)
    element, subtype = state.catalog.element_type(oid), state.catalog.range_subtype(oid)
    if element and oid not in VECTORS:
        return _read_array(state, text, oid, element)
    if oid >= FIRST_NORMAL_OID:
        _check_label(state, text, oid)
        return text.encode("utf-8", "surrogateescape")  # whatever it is: a filter with a user's type is refused
    if subtype:
        text = canonical_range(text, subtype, lambda bound: _read(state, bound, subtype, -1))
    ranges = state.catalog.range_of_multirange(oid) if state.catalog.kind(oid) == "m" else 0
    if ranges:
        inner = state.catalog.range_subtype(ranges)
        text = canonical_multirange(text, inner, lambda bound: _read(state, bound, inner, -1))
    return _by_codec(state, text, oid)


def _by_codec(state: ParseState, text: str, oid: int) -> bytes:
    pg_type = state.catalog.pg_type(oid)
    if pg_type is None:
        raise UsageError(f"cannot read a literal of type {state.label(oid)}", sqlstate="0A000")
    if oid in _ZONED and not state.style.is_utc:
        raise UsageError(
            f"cannot read a literal of type {pg_type.label} in time zone {state.style.time_zone}", sqlstate="0A000",
            hint="Set TimeZone to UTC, and write the zone into the literal.",
        )  # fmt: skip
    return parse_texts(Texts.of([text]), np.ones(1, np.bool_), pg_type).payload_list()[0]


def _read_char(text: str) -> bytes:
    """charin: the first byte, or the one that an escape stands for."""
    if len(text) == 4 and text[0] == "\\" and set(text[1:]) <= set("01234567"):
        return bytes([int(text[1:], 8) & 0xFF])
    return text.encode("utf-8", "surrogateescape")[:1] or b"\0"


def _read_pseudo(state: ParseState, text: str, oid: int) -> bytes:
    if oid == oids.CSTRING:
        return text.encode("utf-8", "surrogateescape")
    if oid == oids.RECORD:
        raise UsageError("input of anonymous composite types is not implemented", sqlstate="0A000")
    raise UsageError(f"cannot accept a value of type {state.label(oid)}", sqlstate="0A000")


def _check_label(state: ParseState, text: str, oid: int) -> None:
    row = state.catalog.types[oid]
    if row.labels and text not in row.labels:
        raise UsageError(f'invalid input value for enum {row.label}: "{text}"', sqlstate="22P02")


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


def _read_array(state: ParseState, text: str, oid: int, element: int) -> bytes:
    """array_in: each element as a literal of its own."""
    pg_type = state.catalog.pg_type(oid)
    if not text.lstrip(_SPACE).startswith(("{", "[")):
        detail = 'Array value must start with "{" or dimension information.'
        raise UsageError(f'malformed array literal: "{text}"', detail=detail, sqlstate="22P02")
    if pg_type is None or pg_type.element is None:
        return text.encode("utf-8", "surrogateescape")  # a user's type: the filter is refused for it
    shape, words = read_array_literal(text, pg_type)
    bare = _QUOTED.sub("\0", text)
    if _BESIDE_QUOTED.search(bare):
        detail = said_by(state.catalog.major, WRONG_ELEMENT)
        raise UsageError(f'malformed array literal: "{text}"', detail=detail, sqlstate="22P02")
    if _MISSING_ELEMENT.search(bare) and bare.strip(_SPACE) != "{}":
        raise UsageError(f'malformed array literal: "{text}"', detail='Unexpected "," or "}" character.', sqlstate="22P02")
    declared = [int(high) - int(low or 1) + 1 for low, high in _DIMENSION.findall(bare.partition("{")[0])]
    if declared and declared != list(shape.lengths):
        detail = "Specified array dimensions do not match array contents."
        raise UsageError(f'malformed array literal: "{text}"', detail=detail, sqlstate="22P02")
    elements = [None if word is None else _read(state, word, element, -1) for word in words]
    values = Values.of_payloads(elements, pg_type.element.length)
    return stored_arrays([shape], values, pg_type).payload_list()[0]


def _read_integer(text: str, oid: int, major: int) -> bytes:
    name, width = _INTEGERS[oid]
    other_bases = supports(major, NUMBERS_IN_OTHER_BASES)
    digits = _UNDERSCORES.sub("", text) if other_bases else text
    match = _INTEGER.fullmatch(digits)
    if match is None or (match[2] is None and not other_bases):
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


def read_json(text: str) -> bytes:
    """As json_in."""

    def refuse(word: str) -> None:
        raise ValueError(word)

    try:
        json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError):
        raise UsageError("invalid input syntax for type json", sqlstate="22P02") from None
    return text.encode("utf-8", "surrogateescape")


def _read_type(state: ParseState, text: str) -> bytes:
    """regtypein, of plain names of built-in types and their arrays."""
    from tailrace.expressions.analysis.parsing import parse_type_name  # noqa: PLC0415 - parsing knows nothing of literals

    if text.isdecimal():
        return int(text).to_bytes(4, "little")
    from tailrace.expressions.analysis.catalog.type_names import type_of_name  # noqa: PLC0415

    oid, _ = type_of_name(state, parse_type_name(text))
    return oid.to_bytes(4, "little")


def _read_configuration(state: ParseState, text: str, oid: int) -> bytes:
    """regconfigin and regdictionaryin, of the one name that every database has."""
    if text == "simple":
        return _CONFIGURATIONS[oid].to_bytes(4, "little")
    return _by_codec(state, text, oid)


def _read_jsonb(state: ParseState, text: str, oid: int) -> bytes:
    read_json(text)
    return _by_codec(state, text, oid)


def _read_bytea(state: ParseState, text: str, oid: int) -> bytes:
    if text.startswith("\\x"):
        _check_hexadecimal(text)
    return _by_codec(state, text, oid)


def _read_tsvector(state: ParseState, text: str, oid: int) -> bytes:
    if not _TSVECTOR.fullmatch(text):
        raise UsageError(f'syntax error in tsvector: "{text}"', sqlstate="42601")
    return _by_codec(state, text, oid)


def _read_shape(state: ParseState, text: str, oid: int) -> bytes:
    """point and its kin: numbers, commas and brackets, and nothing else."""
    if not (_POINT if oid == oids.POINT else _SHAPE).fullmatch(text) or any(
        text.count(a) != text.count(b) for a, b in ("()", "[]", "<>", "{}")
    ):
        raise syntax_error(state.label(oid), text)
    return _by_codec(state, text, oid)


def _read_interval(state: ParseState, text: str, typmod: int) -> bytes:
    """interval_in. Under IntervalStyle sql_standard a sign at the beginning is of all fields."""
    if state.style.interval_style.lower() == "sql_standard" and text.lstrip(_SPACE).startswith("-"):
        hint = "Write the sign of each field, or set IntervalStyle to postgres."
        raise UsageError(f'cannot read "{text}" as interval', sqlstate="0A000", hint=hint)
    return read_interval(text, typmod)


def _read_tsquery(state: ParseState, text: str, oid: int) -> bytes:
    try:
        return _by_codec(state, text, oid)
    except UsageError:
        raise UsageError(f'syntax error in tsquery: "{text}"', sqlstate="42601") from None


_READERS: dict[int, Callable[[ParseState, str, int, int], bytes]] = {
    **dict.fromkeys(_INTEGERS, lambda state, text, oid, typmod: _read_integer(text, oid, state.catalog.major)),
    **dict.fromkeys(_FLOATS, lambda state, text, oid, typmod: _read_float(text, oid)),
    **dict.fromkeys((oids.TIMESTAMP, oids.TIMESTAMPTZ), lambda state, text, oid, typmod: read_timestamp(text, oid, state.style)),
    **dict.fromkeys((oids.TIME, oids.TIMETZ), lambda state, text, oid, typmod: read_time(text, oid, state.style)),
    **dict.fromkeys(_CONFIGURATIONS, lambda state, text, oid, typmod: _read_configuration(state, text, oid)),
    **dict.fromkeys(_BITS, lambda state, text, oid, typmod: read_bits(text)),
    oids.DATE: lambda state, text, oid, typmod: read_date(text, oid, state.style),
    oids.INTERVAL: lambda state, text, oid, typmod: _read_interval(state, text, typmod),
    oids.JSON: lambda state, text, oid, typmod: read_json(text),
    oids.JSONB: lambda state, text, oid, typmod: _read_jsonb(state, text, oid),
    oids.CHAR: lambda state, text, oid, typmod: _read_char(text),
    oids.BYTEA: lambda state, text, oid, typmod: _read_bytea(state, text, oid),
    oids.TSVECTOR: lambda state, text, oid, typmod: _read_tsvector(state, text, oid),
    **dict.fromkeys(_SHAPES, lambda state, text, oid, typmod: _read_shape(state, text, oid)),
    oids.TSQUERY: lambda state, text, oid, typmod: _read_tsquery(state, text, oid),
    oids.REGTYPE: lambda state, text, oid, typmod: _read_type(state, text),
}
"""Types whose literals are read here, or looked at first."""
