"""What a call of the interface gives: its rows, and what is left to do for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tailrace.dataclass import dataclass
from tailrace.sql.functions.settlement import Settlement
from tailrace.sql.functions.signatures import Columns, SqlFunction
from tailrace.sql.sql_types import ARROW


@dataclass(frozen=True, slots=True)
class Outcome:
    """`rows` have the function's columns. `settles` is done when the engine has the statement's result, `confirms` when its rows
    have been sent."""

    rows: pa.Table
    settles: Settlement | None = None
    confirms: Settlement | None = None


def table_of(columns: Columns, rows: Sequence[Sequence[Any]]) -> pa.Table:
    """Rows as Arrow, in the types that the columns have."""
    values = list(zip(*rows, strict=True)) if rows else [()] * len(columns)
    arrays = [pa.array(list(each), ARROW[kind]) for each, (_, kind) in zip(values, columns, strict=True)]
    return pa.Table.from_arrays(arrays, names=[name for name, _ in columns])


def one_row(function: SqlFunction, *values: Any) -> pa.Table:
    return table_of(function.columns, [values])


def nulls(function: SqlFunction) -> pa.Table:
    """What a strict function gives for a NULL argument."""
    return table_of(function.columns, [[None] * len(function.columns)])
