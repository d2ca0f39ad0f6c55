"""DuckDB, which joins, filters, sorts and groups the rows of calls and views (docs/decisions/012-duckdb.md).

It is given small Arrow tables and SQL that `sql.translation` made; it reads no file, loads no extension, and knows of no table but these.
"""

from __future__ import annotations

from collections.abc import Mapping

import duckdb
import pyarrow as pa

from tailrace.catalog.names.quoting import quote_literal
from tailrace.errors import UsageError

_SAFE = {
    "enable_external_access": "false", "autoinstall_known_extensions": "false", "autoload_known_extensions": "false",
    "allow_community_extensions": "false", "integer_division": "true", "default_null_order": "nulls_last_on_asc_first_on_desc",
    "threads": "1",
}  # fmt: skip
_FUNCTIONS = (
    "CREATE MACRO _pg_lsn_out(lsn) AS printf('%X/%X', (lsn >> 32)::BIGINT, (lsn & 4294967295)::BIGINT)",
    "SET lock_configuration = true",
)
_STATES = {
    duckdb.ConversionException: "22P02", duckdb.OutOfRangeException: "22003", duckdb.BinderException: "42804",
    duckdb.InterruptException: "57014",
}  # fmt: skip


def run(sql: str, tables: Mapping[str, pa.Table], time_zone: str) -> pa.Table:
    """The result of a query over these tables. Raises UsageError where it fails."""
    with duckdb.connect(config=_SAFE) as connection:
        try:
            connection.execute("SET TimeZone = " + quote_literal(time_zone))
            for statement in _FUNCTIONS:
                connection.execute(statement)
            for name, table in tables.items():
                connection.register(name, table)
            result = connection.sql(sql)
            return result.to_arrow_table()
        except duckdb.Error as error:
            first = str(error).split("\n\n", 1)[0].splitlines()[0]
            state = next((state for kind, state in _STATES.items() if isinstance(error, kind)), "XX000")
            raise UsageError(first.split(": ", 1)[-1], sqlstate=state) from error
