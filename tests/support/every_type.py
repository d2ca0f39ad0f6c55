"""Tables that have a column of every type that a column may have (docs/types.md), with values and without, and what the server prints of them.

In: a server whose database is empty. Out: for each table its columns and their types. What no Arrow type holds is left out: arrays of several
dimensions, and timestamps after 294247 (docs/types.md, "What the table cannot say").
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from support.servers import Server
from tailrace.model import PgType

sys.path.append(str(Path(__file__).parents[1] / "types"))

from live_types import PREPARE, XML, column_types, full_name, has_xml, is_array, sample  # type: ignore[import-not-found]

_COLUMNS = 60
"""Of a table: a row is to fit into a page."""
_ROWS = 5
_OWN = (
    "CREATE TYPE live.mood AS ENUM ('sad', 'ok', 'very \"happy\"')",
    "CREATE TYPE live.pair AS (n numeric, words text[])",
    "CREATE DOMAIN live.positive AS numeric(8,3) CHECK (VALUE > 0)",
    """CREATE TABLE public.own (id int PRIMARY KEY, mood live.mood, pair live.pair, positive live.positive, fits numeric(10,2), none numeric(3,-2),
        wide numeric(60,20), words varchar(20), moods live.mood[], pairs live.pair[], fit numeric(10,2)[])""",
    """INSERT INTO public.own VALUES (1, 'very "happy"', ROW(1.50, ARRAY['a b', NULL]), 3.125, -12.5, 12345, 1234567890123456789.5, 'žluť',
        ARRAY['sad', NULL]::live.mood[], ARRAY[ROW(NULL, NULL)]::live.pair[], ARRAY[1.25, NULL, -3]),
        (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
        (3, 'sad', ROW('NaN', '{}'), 0.001, 99999999.99, -200, -0.00000000000000000001, '', '{}', '{}', '{}')""",
)


def fill(server: Server) -> Mapping[str, Sequence[tuple[str, PgType]]]:
    """Make them in `public`."""
    tables: dict[str, list[tuple[str, PgType]]] = {}
    with server.connect() as connection:
        types = column_types(connection)
        connection.execute(PREPARE)
        spoken = has_xml(connection)
        for number, first in enumerate(range(0, len(types), _COLUMNS)):
            chosen, name = types[first : first + _COLUMNS], f"types_{number}"
            tables[name] = [(f"c{each.oid}", each) for each in chosen]
            columns = ", ".join(f"c{each.oid} {full_name(each)}" for each in chosen)
            connection.execute(f"CREATE TABLE public.{name} (id int PRIMARY KEY, {columns})".encode())
            for row in range(_ROWS):
                values = ", ".join(_value(each, row, spoken=spoken) for each in chosen)
                connection.execute(f"INSERT INTO public.{name} VALUES ({row}, {values})".encode())
        for statement in _OWN:
            connection.execute(statement.encode())
        connection.execute(f"DROP TABLE {', '.join(f'live.t{each.oid}' for each in types)}".encode())
    tables["own"] = []
    return tables


def printed(server: Server, table: str) -> list[tuple[str | None, ...]]:
    """All rows as the types' output functions have them, in the order of the key."""
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET timezone = 'UTC'")
        with cursor.copy(f"COPY (SELECT * FROM public.{table} ORDER BY id) TO STDOUT".encode()) as copy:
            return list(copy.rows())


def _value(pg_type: PgType, row: int, *, spoken: bool) -> str:
    values = [each for each in sample(pg_type) if not each.startswith("ARRAY[ARRAY[") and "29427" not in each]
    value = values[row] if row < min(len(values), _ROWS - 1) else "NULL"  # the last row has none
    if XML in value and not spoken:
        return "NULL"
    return value if not is_array(pg_type) else f"({value})"


def comparable(rows: pa.Table) -> dict[str, list[str]]:
    """Rows of a table by column, in the order of the key, in whatever of Arrow's types for text, lists and times a reader gives them."""
    order = np.argsort(rows["id"].to_numpy()).tolist()
    columns = {name: _numbers(rows[name].combine_chunks()).to_pylist() for name in rows.schema.names}
    return {name: [repr(values[place]) for place in order] for name, values in columns.items()}


def _numbers(values: pa.Array) -> pa.Array:
    """Times as the numbers that they are: Python has not all of them."""
    return values.cast(_of(values.type, in_microseconds)).cast(_of(values.type, as_number))


def _of(kind: pa.DataType, change: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_of(kind.value_type, change))
    return change(kind)


def in_microseconds(kind: pa.DataType) -> pa.DataType:
    return pa.timestamp("us", kind.tz) if pa.types.is_timestamp(kind) else kind


def as_number(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_date32(kind):
        return pa.int32()
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    return pa.binary() if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind) else kind
