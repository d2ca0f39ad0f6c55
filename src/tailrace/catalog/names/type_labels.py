"""How PostgreSQL writes the names of types: format_type() (`utils/adt/format_type.c`)."""

from __future__ import annotations

from tailrace.catalog.names.quoting import quote_identifier
from tailrace.model import PgType
from tailrace.types import oids

# format_type_be() spells these in the standard's words (`utils/adt/format_type.c`)
_STANDARD_NAMES = {
    oids.BOOL: "boolean", oids.INT2: "smallint", oids.INT4: "integer", oids.INT8: "bigint", oids.FLOAT4: "real",
    oids.FLOAT8: "double precision", oids.BPCHAR: "character", oids.VARCHAR: "character varying",
    oids.TIME: "time without time zone", oids.TIMETZ: "time with time zone", oids.TIMESTAMP: "timestamp without time zone",
    oids.TIMESTAMPTZ: "timestamp with time zone", oids.BIT: "bit", oids.VARBIT: "bit varying", oids.INTERVAL: "interval",
    oids.NUMERIC: "numeric", oids.JSON: "json",
}  # fmt: skip

ARRAY_SUBSCRIPT_HANDLER = 6179
"""What makes a type a true array (`catalog/pg_proc.dat`)."""
VECTORS = (oids.INT2VECTOR, oids.OIDVECTOR)
"""int2vector and oidvector are subscripted as arrays are, but keep their names."""


def type_label(oid: int, schema: str, name: str, element: PgType | None, *, visible: bool, major: int) -> str:
    """format_type(oid, NULL)."""
    if element is not None:
        return f"{element.label}[]"
    if oid in _STANDARD_NAMES:
        return _STANDARD_NAMES[oid]
    if oid == oids.CHAR:
        return '"char"'
    quoted = quote_identifier(name, major)
    return quoted if visible else f"{quote_identifier(schema, major)}.{quoted}"


def label_with_modifier(pg_type: PgType, typmod: int, major: int) -> str:
    """format_type_with_typemod(): of bit and character without a modifier the names that mean just that, which are not the standard's."""
    if pg_type.kind == "a" and pg_type.element is not None and pg_type.oid not in VECTORS:
        return f"{label_with_modifier(pg_type.element, typmod, major)}[]"
    if typmod < 0:
        return _WITHOUT_LENGTH.get(pg_type.oid, pg_type.label)
    if pg_type.oid in (oids.TIME, oids.TIMESTAMP, oids.TIMETZ, oids.TIMESTAMPTZ):
        word, zone = pg_type.label.split(" ", 1)
        return f"{word}({typmod}) {zone}"
    return pg_type.label + _modifier(pg_type.oid, typmod)


def _modifier(oid: int, typmod: int) -> str:
    """What the type's typmodout function prints."""
    if oid == oids.NUMERIC:
        scale = (((typmod - _HEADER) & 0x7FF) ^ 0x400) - 0x400
        return f"({((typmod - _HEADER) >> 16) & 0xFFFF},{scale})"
    if oid in (oids.BPCHAR, oids.VARCHAR):
        return f"({typmod - _HEADER})" if typmod > _HEADER else ""
    if oid == oids.INTERVAL:
        fields, precision = (typmod >> 16) & 0x7FFF, typmod & 0xFFFF
        return _interval_fields(fields) + (f"({precision})" if precision != _FULL_PRECISION else "")
    return f"({typmod})"


def _interval_fields(mask: int) -> str:
    """` year to month` and so on; nothing if all may be there (`utils/timestamp.h`, INTERVAL_MASK)."""
    present = [name for bit, name in _INTERVAL_FIELDS if mask >> bit & 1]
    if len(present) in (0, len(_INTERVAL_FIELDS)):
        return ""
    return f" {present[0]}" if len(present) == 1 else f" {present[0]} to {present[-1]}"


_WITHOUT_LENGTH = {oids.BIT: '"bit"', oids.BPCHAR: "bpchar"}
_HEADER = 4
"""VARHDRSZ, which lengths in modifiers include."""
_FULL_PRECISION = 0xFFFF
_INTERVAL_FIELDS = ((2, "year"), (1, "month"), (3, "day"), (10, "hour"), (11, "minute"), (12, "second"))
