"""Types of the catalogs' own columns that a user's table may have too: statistics, node trees, summaries of indexes.

Extended statistics (`statistics/statistics.h`) are packed: u32 magic, u32 kind, u32 how many; of each a float8 and the attribute
numbers, for distinct values after an i32, for dependencies after an i16 count. The input functions of all these types refuse
every text, so values come only from CREATE TABLE AS and the like; of some no value ever leaves its index.
"""

from __future__ import annotations

import struct

from tailrace.errors import UnsupportedWal, UsageError
from tailrace.model import PgType
from tailrace.types.codec import format_each
from tailrace.types.style import TextStyle
from tailrace.types.values import Mask, Texts, Values

HEADER = struct.Struct("<III")
DISTINCT, DEPENDENCY = struct.Struct("<di"), struct.Struct("<dh")


def format_distincts(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As pg_ndistinct_out: {"1, 2": 11, "1, 3": 12}."""

    def text_of(payload: bytes) -> str:
        items, at = [], HEADER.size
        for _ in range(HEADER.unpack_from(payload)[2]):
            number, count = DISTINCT.unpack_from(payload, at)
            attributes = struct.unpack_from(f"<{count}h", payload, at + DISTINCT.size)
            items.append(f'"{", ".join(map(str, attributes))}": {int(number)}')
            at += DISTINCT.size + 2 * count
        return "{" + ", ".join(items) + "}"

    return format_each(values, text_of)


def format_dependencies(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As pg_dependencies_out: {"1 => 2": 1.000000}."""

    def text_of(payload: bytes) -> str:
        items, at = [], HEADER.size
        for _ in range(HEADER.unpack_from(payload)[2]):
            degree, count = DEPENDENCY.unpack_from(payload, at)
            *given, implied = struct.unpack_from(f"<{count}h", payload, at + DEPENDENCY.size)
            items.append(f'"{", ".join(map(str, given))} => {implied}": {degree:f}')
            at += DEPENDENCY.size + 2 * count
        return "{" + ", ".join(items) + "}"

    return format_each(values, text_of)


def format_nothing(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """Of these types a column can only hold NULL: gtsvector, summaries of BRIN."""
    if values.valid.any():
        raise UnsupportedWal(f'cannot decode a value of type "{pg_type.label}"', hint="Set unknown_types=hex.")
    return Texts.of([""] * len(values))


def refuse_texts(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As the input functions of these types."""
    if valid.any():
        raise UsageError(f"cannot accept a value of type {pg_type.name}", sqlstate="0A000")
    return Values.of_payloads([None] * len(texts), pg_type.length)
