"""Names of types, with their modifiers (`parser/parse_type.c`, and the modifier input functions of the types).

In: a parsed TypeName. Out: the type's oid and its modifier, -1 for none.
"""

from __future__ import annotations

from typing import Any

from tailrace.errors import UsageError
from tailrace.expressions.analysis.catalog.names import in_path, name_list, words
from tailrace.expressions.analysis.state import ParseState
from tailrace.types import oids
from tailrace.types.typmods import INTERVAL_FULL_PRECISION, INTERVAL_FULL_RANGE, VARHDRSZ, make_numeric_typmod

LONGEST_STRING = 10 * 1024 * 1024
LONGEST_BITS = 83886080
_LENGTHS = {oids.BPCHAR: "char", oids.VARCHAR: "varchar"}
_BITS = {oids.BIT: "bit", oids.VARBIT: "varbit"}
_SECONDS = {oids.TIME: "TIME", oids.TIMETZ: "TIME", oids.TIMESTAMP: "TIMESTAMP", oids.TIMESTAMPTZ: "TIMESTAMP"}
_WITH_ZONE = frozenset({oids.TIMETZ, oids.TIMESTAMPTZ})
MOST_DIGITS, MOST_SCALE = 1000, 1000
FINEST = 6


def type_of_name(state: ParseState, raw: Any) -> tuple[int, int]:
    """typenameTypeIdAndMod. Raises UsageError for a name that is no type's, or a modifier that the type does not take."""
    location = state.place(raw)
    names = words(raw.names)
    rows = in_path(state, state.catalog.types_named.get(names[-1], []), names, location, lambda row: row.name)
    if not rows or raw.pct_type:
        shown = name_list(names) + ("%TYPE" if raw.pct_type else "") + ("[]" if raw.arrayBounds else "")
        raise state.error(f'type "{shown}" does not exist', "42704", location)
    oid = rows[0].oid
    typmod = _modifier(state, oid, raw, location)
    if raw.arrayBounds:
        array = state.catalog.array_type(oid)
        if not array:
            raise state.error(f'type "{name_list(names)}[]" does not exist', "42704", location)
        oid = array
    return oid, typmod


def _modifier(state: ParseState, oid: int, raw: Any, location: int) -> int:
    if not raw.typmods:
        return -1 if raw.typemod is None else int(raw.typemod)
    if oid not in state.catalog.types or not state.catalog.types[oid].has_modifier:
        raise state.error(f'type modifier is not allowed for type "{name_list(words(raw.names))}"', "42601", location)
    given: list[int] = []
    for each in raw.typmods:
        value: Any = getattr(each, "val", None)
        if not hasattr(value, "ival"):
            raise state.error("type modifiers must be simple constants or identifiers", "42601", location)
        given.append(int(value.ival or 0))
    try:
        return _read_modifier(oid, given)
    except UsageError as error:
        raise state.error(error.message, error.sqlstate, location) from None


def _read_modifier(oid: int, given: list[int]) -> int:
    """The type's typmodin."""
    if oid in _LENGTHS:
        return _length(_LENGTHS[oid], given, LONGEST_STRING) + VARHDRSZ
    if oid in _BITS:
        return _length(_BITS[oid], given, LONGEST_BITS)
    if oid == oids.NUMERIC:
        return _digits(given)
    if oid in _SECONDS:
        return _precision(oid, given)
    if oid == oids.INTERVAL:
        return _interval(given)
    raise UsageError("invalid type modifier")


def _length(name: str, given: list[int], most: int) -> int:
    if len(given) != 1:
        raise UsageError("invalid type modifier")
    if given[0] < 1:
        raise UsageError(f"length for type {name} must be at least 1")
    if given[0] > most:
        raise UsageError(f"length for type {name} cannot exceed {most}")
    return given[0]


def _digits(given: list[int]) -> int:
    """numerictypmodin, since 15 with negative scales."""
    if len(given) > 2:
        raise UsageError("invalid NUMERIC type modifier")
    precision, scale = given[0], given[1] if len(given) == 2 else 0
    if not 1 <= precision <= MOST_DIGITS:
        raise UsageError(f"NUMERIC precision {precision} must be between 1 and {MOST_DIGITS}")
    if not -MOST_SCALE <= scale <= MOST_SCALE:
        raise UsageError(f"NUMERIC scale {scale} must be between -{MOST_SCALE} and {MOST_SCALE}")
    return make_numeric_typmod(precision, scale)


def _precision(oid: int, given: list[int]) -> int:
    if len(given) != 1:
        raise UsageError("invalid type modifier")
    if given[0] < 0:
        zone = " WITH TIME ZONE" if oid in _WITH_ZONE else ""
        raise UsageError(f"{_SECONDS[oid]}({given[0]}){zone} precision must not be negative")
    return min(given[0], FINEST)


def _interval(given: list[int]) -> int:
    """intervaltypmodin: which fields, and the digits of the seconds."""
    fields, precision = (
        (given[0] & INTERVAL_FULL_RANGE, INTERVAL_FULL_PRECISION)
        if len(given) == 1
        else (given[0] & INTERVAL_FULL_RANGE, given[1])
    )
    if fields == INTERVAL_FULL_RANGE and precision == INTERVAL_FULL_PRECISION:
        return -1
    if precision != INTERVAL_FULL_PRECISION:
        if precision < 0:
            raise UsageError(f"INTERVAL({precision}) precision must not be negative")
        precision = min(precision, FINEST)
    return fields << 16 | precision
