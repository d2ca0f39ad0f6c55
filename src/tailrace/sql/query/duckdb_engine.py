"""DuckDB, which joins, filters, sorts and groups the rows of calls and views (docs/decisions/012-duckdb.md).

It is given small Arrow tables and SQL that `sql.translation` made; it reads no file, loads no extension, and knows of no table but these.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

import duckdb
import pyarrow as pa

from tailrace.errors import UsageError
from tailrace.sql.query.engine_function import EngineFunction
from tailrace.sql.query.json_fields import FUNCTIONS
from tailrace.types.quoting import quote_literal

_SAFE = {
    "enable_external_access": "false", "autoinstall_known_extensions": "false", "autoload_known_extensions": "false",
    "allow_community_extensions": "false", "integer_division": "true", "default_null_order": "nulls_last_on_asc_first_on_desc",
    "threads": "1",
}  # fmt: skip
_FUNCTIONS = (
    "CREATE MACRO _pg_lsn_out(lsn) AS printf('%X/%X', (lsn >> 32)::BIGINT, (lsn & 4294967295)::BIGINT)",
    "CREATE MACRO _substring2(s, first) AS substr(s, greatest(first, 1))",
    "CREATE MACRO _substring3(s, first, most) AS CASE WHEN most < 0 THEN error('negative substring length not allowed')"
    " ELSE substr(s, greatest(first, 1), greatest(first::BIGINT + most - greatest(first, 1), 0)) END",
)
_STATES = {
    duckdb.ConversionException: "22P02", duckdb.OutOfRangeException: "22003", duckdb.BinderException: "42804",
    duckdb.InterruptException: "57014", duckdb.OutOfMemoryException: "53200",
}  # fmt: skip


_TYPES = {
    "INT16": "smallint", "INT32": "integer", "INT64": "bigint", "DOUBLE": "double precision", "BOOL": "boolean", "UINT32": "oid",
}  # fmt: skip
_TYPE = f"(?P<type>{'|'.join(_TYPES)})"
_AS_THE_SERVER_SAYS = (
    (re.compile("Division by zero"), "division by zero", "22012"),
    (re.compile("invalid input syntax for type json"), "invalid input syntax for type json", "22P02"),
    (re.compile("unsupported Unicode escape sequence"), "unsupported Unicode escape sequence", "22P05"),
    (re.compile('UsageError: (?P<text>relation ".*" does not exist)'), "{text}", "42P01"),
    (re.compile("UsageError: (?P<text>invalid name syntax)"), "{text}", "42602"),
    (re.compile('UsageError: (?P<text>(publication|type) ".*" does not exist)'), "{text}", "42704"),
    (re.compile("negative substring length not allowed"), "negative substring length not allowed", "22011"),
    (re.compile(rf"Overflow in \w+ of {_TYPE} "), "{type} out of range", "22003"),
    (re.compile(rf"out of range for the destination type {_TYPE}\b"), "{type} out of range", "22003"),
    (
        re.compile(rf"Could not convert string '(?P<text>.*)' to {_TYPE}$"),
        'invalid input syntax for type {type}: "{text}"',
        "22P02",
    ),
)
"""What the engine says -> what PostgreSQL would."""


def _strict(function: Callable[..., Any]) -> Callable[..., Any]:
    """NULL of NULL; and it may be NULL of others, which the engine's own default does not let it be."""

    @wraps(function)
    def called(*given: object) -> Any:
        return None if None in given else function(*given)

    return called


def run(sql: str, tables: Mapping[str, pa.Table], time_zone: str, functions: Mapping[str, EngineFunction]) -> pa.Table:
    """The result of a query over these tables, which may call these functions. Raises UsageError where it fails."""
    with duckdb.connect(config=_SAFE) as connection:
        try:
            connection.execute("SET TimeZone = " + quote_literal(time_zone))
            for statement in _FUNCTIONS:
                connection.execute(statement)
            for name, each in {**FUNCTIONS, **functions}.items():
                if f"{name}(" in sql:
                    called = _strict(each.function) if each.is_strict else each.function
                    connection.create_function(name, called, list(each.arguments), each.result, null_handling="special")
            connection.execute("SET lock_configuration = true")
            for name, table in tables.items():
                connection.register(name, table)
            result = connection.sql(sql)
            return result.to_arrow_table()
        except duckdb.Error as error:
            first = str(error).split("\n\n", 1)[0].splitlines()[0]
            for pattern, message, sqlstate in _AS_THE_SERVER_SAYS:
                if found := pattern.search(first):
                    types = {name: _TYPES[text] for name, text in found.groupdict().items() if name == "type"}
                    raise UsageError(message.format(**{**found.groupdict(), **types}), sqlstate=sqlstate) from error
            state = next((state for kind, state in _STATES.items() if isinstance(error, kind)), "XX000")
            raise UsageError(first.split(": ", 1)[-1], sqlstate=state) from error
