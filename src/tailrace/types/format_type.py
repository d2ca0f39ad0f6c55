"""How PostgreSQL writes the names of types: format_type() (`utils/adt/format_type.c`)."""

from __future__ import annotations

from tailrace.model import PgType
from tailrace.types import oids
from tailrace.types.quoting import quote_identifier
from tailrace.types.typmods import (
    INTERVAL_FULL_PRECISION,
    INTERVAL_FULL_RANGE,
    INTERVAL_MASK,
    VARHDRSZ,
    interval_typmod,
    numeric_typmod,
)

_STANDARD_NAMES = {
    oids.BOOL: "boolean", oids.INT2: "smallint", oids.INT4: "integer", oids.INT8: "bigint", oids.FLOAT4: "real",
    oids.FLOAT8: "double precision", oids.BPCHAR: "character", oids.VARCHAR: "character varying",
    oids.TIME: "time without time zone", oids.TIMETZ: "time with time zone", oids.TIMESTAMP: "timestamp without time zone",
    oids.TIMESTAMPTZ: "timestamp with time zone", oids.BIT: "bit", oids.VARBIT: "bit varying", oids.INTERVAL: "interval",
    oids.NUMERIC: "numeric", oids.JSON: "json",
}  # fmt: skip
"""format_type_be() spells these in the standard's words."""

ARRAY_SUBSCRIPT_HANDLER = 6179
"""What makes a type a true array (`catalog/pg_proc.dat`)."""
VECTORS = (oids.INT2VECTOR, oids.OIDVECTOR)
"""int2vector and oidvector are subscripted as arrays are, but keep their names."""
_WITHOUT_LENGTH = {oids.BIT: '"bit"', oids.BPCHAR: "bpchar"}
"""The names that mean bit and character of any length, where the standard's mean one of length 1."""


def format_type(oid: int, schema: str, name: str, element: PgType | None, *, visible: bool, major: int) -> str:
    """format_type(oid, NULL)."""
    if element is not None:
        return f"{element.label}[]"
    if oid in _STANDARD_NAMES:
        return _STANDARD_NAMES[oid]
    if oid == oids.CHAR:
        return '"char"'
    quoted = quote_identifier(name, major)
    return quoted if visible else f"{quote_identifier(schema, major)}.{quoted}"


def format_type_with_typemod(pg_type: PgType, typmod: int) -> str:
    """format_type(oid, typmod)."""
    if pg_type.kind == "a" and pg_type.element is not None and pg_type.oid not in VECTORS:
        return f"{format_type_with_typemod(pg_type.element, typmod)}[]"
    return with_typemod(pg_type.oid, pg_type.label, typmod)


def with_typemod(oid: int, label: str, typmod: int) -> str:
    """The same of a type that is no array: `label` is what format_type(oid, NULL) says."""
    if typmod < 0:
        return _WITHOUT_LENGTH.get(oid, label)
    if oid in (oids.TIME, oids.TIMESTAMP, oids.TIMETZ, oids.TIMESTAMPTZ):
        word, zone = label.split(" ", 1)
        return f"{word}({typmod}) {zone}"
    return label + _typmodout(oid, typmod)


def _typmodout(oid: int, typmod: int) -> str:
    """What the type's typmodout function prints."""
    if oid == oids.NUMERIC and (declared := numeric_typmod(typmod)):
        return f"({declared[0]},{declared[1]})"
    if oid in (oids.BPCHAR, oids.VARCHAR):
        return f"({typmod - VARHDRSZ})" if typmod > VARHDRSZ else ""
    if oid == oids.INTERVAL:
        fields, precision = interval_typmod(typmod)
        named = [name for name in _LARGEST_FIRST if fields & INTERVAL_MASK[name] and fields != INTERVAL_FULL_RANGE]
        shown = " to ".join(dict.fromkeys((named[0], named[-1]))) if named else ""
        return f"{' ' if shown else ''}{shown}" + (f"({precision})" if precision != INTERVAL_FULL_PRECISION else "")
    return f"({typmod})"


_LARGEST_FIRST = ("year", "month", "day", "hour", "minute", "second")
