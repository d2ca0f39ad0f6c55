"""DuckDB, which joins, filters, sorts and groups the rows of calls and views (docs/decisions/012-duckdb.md).

It is given small Arrow tables and SQL that `sql.query.translation` made; it reads no file, loads no extension, and knows of no table but these.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Mapping
from inspect import Parameter, Signature
from typing import Any

import duckdb
import pyarrow as pa

from tailrace.errors import UsageError
from tailrace.sql.interrupt import Interrupt
from tailrace.sql.query.engine_function import EngineFunction
from tailrace.sql.query.json_fields import FUNCTIONS
from tailrace.types.quoting import quote_literal

_KEPT = 4
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


class _Connection:
    """One that was set up for a time zone. State: the functions that it knows by their names, and those of the query that runs."""

    def __init__(self, time_zone: str) -> None:
        self.time_zone = time_zone
        self.duckdb = duckdb.connect(config=_SAFE)
        self._known: set[str] = set()
        self._functions: Mapping[str, EngineFunction] = {}
        self.duckdb.execute("SET TimeZone = " + quote_literal(time_zone))
        for statement in _FUNCTIONS:
            self.duckdb.execute(statement)
        self.duckdb.execute("SET lock_configuration = true")

    def run(self, sql: str, tables: Mapping[str, pa.Table], functions: Mapping[str, EngineFunction]) -> pa.Table:
        self._functions = {**FUNCTIONS, **functions}
        for name, each in self._functions.items():
            if name not in self._known and f"{name}(" in sql:
                called = self._called(name, len(each.arguments))
                self.duckdb.create_function(name, called, list(each.arguments), each.result, null_handling="special")
                self._known.add(name)
        for name, table in tables.items():
            self.duckdb.register(name, table)
        result = self.duckdb.sql(sql).to_arrow_table()
        for name in tables:
            self.duckdb.unregister(name)
        self._functions = {}
        return result

    def _called(self, name: str, count: int) -> Callable[..., Any]:
        """The query's function of this name. NULL of NULL, if it is strict; and it may be NULL of others, which the engine's own default does not
        let it be."""

        def called(*given: object) -> Any:
            function = self._functions[name]
            return None if function.is_strict and None in given else function.function(*given)

        arguments = [Parameter(f"argument{number}", Parameter.POSITIONAL_ONLY) for number in range(count)]
        setattr(called, "__signature__", Signature(arguments))  # noqa: B010 - the engine looks for it; mypy knows of none
        return called


class DuckDbEngine:
    """Connections that are idle are kept, since to set one up takes longer than most queries; one whose query failed is not. Several threads may
    ask. A name of a function stands for functions of the same types in all queries."""

    def __init__(self) -> None:
        self._idle: deque[_Connection] = deque(maxlen=_KEPT)

    def run(
        self, sql: str, tables: Mapping[str, pa.Table], time_zone: str, functions: Mapping[str, EngineFunction], interrupt: Interrupt
    ) -> pa.Table:  # fmt: skip
        """The result of a query over these tables, which may call these functions. Raises UsageError where it fails, or is interrupted."""
        connection = self._taken(time_zone)
        with interrupt.telling(connection.duckdb.interrupt):
            try:
                result = connection.run(sql, tables, functions)
            except duckdb.Error as error:
                connection.duckdb.close()
                raise _as_usage_error(error) from error
        self._idle.append(connection)
        return result

    def _taken(self, time_zone: str) -> _Connection:
        """One of this time zone, which nobody else has now."""
        for _ in range(len(self._idle)):
            try:
                connection = self._idle.popleft()
            except IndexError:  # another thread was faster
                break
            if connection.time_zone == time_zone:
                return connection
            self._idle.append(connection)
        return _Connection(time_zone)


def _as_usage_error(error: duckdb.Error) -> UsageError:
    """What PostgreSQL would say."""
    first = str(error).split("\n\n", 1)[0].splitlines()[0]
    for pattern, message, sqlstate in _AS_THE_SERVER_SAYS:
        if found := pattern.search(first):
            types = {name: _TYPES[text] for name, text in found.groupdict().items() if name == "type"}
            return UsageError(message.format(**{**found.groupdict(), **types}), sqlstate=sqlstate)
    state = next((state for kind, state in _STATES.items() if isinstance(error, kind)), "XX000")
    return UsageError(first.split(": ", 1)[-1], sqlstate=state)
