"""How PostgreSQL writes the names of types: format_type() (`utils/adt/format_type.c`)."""

from __future__ import annotations

from tailrace.catalog.names.quoting import quote_identifier
from tailrace.model import PgType

# format_type_be() spells these in the standard's words (`utils/adt/format_type.c`)
_STANDARD_NAMES = {
    16: "boolean", 21: "smallint", 23: "integer", 20: "bigint", 700: "real", 701: "double precision", 1042: "character",
    1043: "character varying", 1083: "time without time zone", 1266: "time with time zone", 1114: "timestamp without time zone",
    1184: "timestamp with time zone", 1560: "bit", 1562: "bit varying", 1186: "interval", 1700: "numeric", 114: "json",
}  # fmt: skip

ARRAY_SUBSCRIPT_HANDLER = 6179
"""What makes a type a true array (`catalog/pg_proc.dat`)."""
VECTORS = (22, 30)
"""int2vector and oidvector are subscripted as arrays are, but keep their names."""


def type_label(oid: int, schema: str, name: str, element: PgType | None, *, visible: bool, major: int) -> str:
    """format_type(oid, NULL)."""
    if element is not None:
        return f"{element.label}[]"
    if oid in _STANDARD_NAMES:
        return _STANDARD_NAMES[oid]
    if oid == 18:
        return '"char"'
    quoted = quote_identifier(name, major)
    return quoted if visible else f"{quote_identifier(schema, major)}.{quoted}"


_BARE = {1042: "bpchar", 1560: '"bit"'}
_PRECISE_TIMES = frozenset({1083, 1266, 1114, 1184})
_FIELDS = {
    1 << 2: " year", 1 << 1: " month", 1 << 3: " day", 1 << 10: " hour", 1 << 11: " minute", 1 << 12: " second",
    6: " year to month", 8 | 1 << 10: " day to hour", 8 | 3 << 10: " day to minute", 8 | 7 << 10: " day to second",
    3 << 10: " hour to minute", 7 << 10: " hour to second", 3 << 11: " minute to second",
}  # fmt: skip
"""Of an interval's modifier (`utils/timestamp.h`, INTERVAL_MASK): bits of the fields -> what is printed behind the type."""
_ALL_FIELDS, _FULL_PRECISION = 0x7FFF, 0xFFFF


def modified_label(pg_type: PgType, typmod: int) -> str:
    """format_type(oid, typmod), for a column's modifier, -1 if it has none: where the standard's word alone would mean another one, PostgreSQL's."""
    if pg_type.kind == "a" and pg_type.element is not None and pg_type.oid not in VECTORS:
        return f"{modified_label(pg_type.element, typmod)}[]"
    if typmod < 0:
        return _BARE.get(pg_type.oid, pg_type.label)
    if pg_type.oid in (1042, 1043):
        return f"{pg_type.label}({typmod - 4})"
    if pg_type.oid == 1700:
        return f"numeric({typmod - 4 >> 16 & 0xFFFF},{(typmod - 4 & 0x7FF ^ 1024) - 1024})"
    if pg_type.oid in _PRECISE_TIMES:
        word, _, zone = pg_type.label.partition(" ")
        return f"{word}({typmod}) {zone}"
    if pg_type.oid == 1186:
        fields, precision = typmod >> 16 & _ALL_FIELDS, typmod & 0xFFFF
        named = "" if fields == _ALL_FIELDS else _FIELDS.get(fields, "")
        return f"interval{named}" + ("" if precision == _FULL_PRECISION else f"({precision})")
    return f"{pg_type.label}({typmod})"
