"""Names and literals as SQL: quoted where they must be; types with their modifiers (`adt/ruleutils.c` quote_identifier, `adt/format_type.c`).

In: a name, a text, a type's oid and modifier. Out: SQL.
"""

from __future__ import annotations

import re

from pglast.keywords import COL_NAME_KEYWORDS, RESERVED_KEYWORDS, TYPE_FUNC_NAME_KEYWORDS

from tailrace.expressions.analysis.catalog import Catalog
from tailrace.expressions.analysis.literal_intervals import (
    DAY_FIELD,
    FULL_PRECISION,
    FULL_RANGE,
    HOUR,
    MINUTE,
    MONTH,
    SECOND_FIELD,
    YEAR,
)
from tailrace.types import oids

_PLAIN = re.compile(r"[a-z_][a-z0-9_]*", re.ASCII)
_KEYWORDS = frozenset({*COL_NAME_KEYWORDS, *RESERVED_KEYWORDS, *TYPE_FUNC_NAME_KEYWORDS})
_VECTORS = (oids.INT2VECTOR, oids.OIDVECTOR)
"""int2vector and oidvector, which have names of their own."""
_STRINGS = {oids.BPCHAR: "character", oids.VARCHAR: "character varying"}
_BITS = {oids.BIT: "bit", oids.VARBIT: "bit varying"}
_MOMENTS = {oids.TIME: "time", oids.TIMESTAMP: "timestamp", oids.TIMETZ: "time", oids.TIMESTAMPTZ: "timestamp"}
_ZONED = frozenset({oids.TIMETZ, oids.TIMESTAMPTZ})
_FIELDS = {
    YEAR: " year", MONTH: " month", DAY_FIELD: " day", HOUR: " hour", MINUTE: " minute", SECOND_FIELD: " second",
    YEAR | MONTH: " year to month", DAY_FIELD | HOUR: " day to hour", DAY_FIELD | HOUR | MINUTE: " day to minute",
    DAY_FIELD | HOUR | MINUTE | SECOND_FIELD: " day to second", HOUR | MINUTE: " hour to minute",
    HOUR | MINUTE | SECOND_FIELD: " hour to second", MINUTE | SECOND_FIELD: " minute to second",
}  # fmt: skip


def quoted_identifier(name: str) -> str:
    """quote_identifier: keywords that are not free to use are quoted as well."""
    if _PLAIN.fullmatch(name) and name not in _KEYWORDS:
        return name
    return '"' + name.replace('"', '""') + '"'


def quoted_literal(text: str) -> str:
    """simple_quote_literal, where strings conform to the standard."""
    return "'" + text.replace("'", "''") + "'"


def type_label(catalog: Catalog, oid: int, typmod: int = -1) -> str:
    """format_type_with_typmod."""
    element = catalog.element_type(oid)
    if element and oid not in _VECTORS:
        return f"{type_label(catalog, element, typmod)}[]"
    if typmod < 0:
        return {oids.BIT: '"bit"', oids.BPCHAR: "bpchar"}.get(oid, catalog.label(oid))
    if oid in _STRINGS:
        return f"{_STRINGS[oid]}({typmod - 4})"
    if oid in _BITS:
        return f"{_BITS[oid]}({typmod})"
    if oid == oids.NUMERIC:
        scale = (typmod - 4) & 0x7FF
        return f"numeric({typmod - 4 >> 16 & 0xFFFF},{scale - 0x800 if scale & 0x400 else scale})"
    if oid in _MOMENTS:
        return f"{_MOMENTS[oid]}({typmod}) {'with' if oid in _ZONED else 'without'} time zone"
    if oid == oids.INTERVAL:
        fields, precision = typmod >> 16 & FULL_RANGE, typmod & FULL_PRECISION
        digits = "" if precision == FULL_PRECISION else f"({precision})"
        return f"interval{'' if fields == FULL_RANGE else _FIELDS[fields]}{digits}"
    return catalog.label(oid)
