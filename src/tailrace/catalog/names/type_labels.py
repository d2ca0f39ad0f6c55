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
