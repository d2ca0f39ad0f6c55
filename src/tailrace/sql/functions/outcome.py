"""What a call of the interface gives, and what is left to do once the statement has its result.

A statement that fails must not have moved anything, so a function that moves something only finds out what it will say; `settle` is called when the
engine has the statement's result, `confirm` when its rows have been printed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tailrace.model import Lsn
from tailrace.sql.functions.signatures import Columns, Function
from tailrace.sql.sql_types import ARROW


@dataclass(slots=True)
class Outcome:
    """`rows` have the function's columns; `told` is where a slot stands once `confirm` was called."""

    rows: pa.Table
    settle: Callable[[], None] | None = None
    confirm: Callable[[], None] | None = None
    told: Lsn = Lsn(0)  # noqa: RUF009 - immutable


def table_of(columns: Columns, rows: Sequence[Sequence[Any]]) -> pa.Table:
    """Rows as Arrow, in the types that the columns have."""
    values = list(zip(*rows, strict=True)) if rows else [()] * len(columns)
    arrays = [pa.array(list(each), ARROW[kind]) for each, (_, kind) in zip(values, columns, strict=True)]
    return pa.Table.from_arrays(arrays, names=[name for name, _ in columns])


def one_row(function: Function, *values: Any) -> pa.Table:
    return table_of(function.columns, [values])


def nulls(function: Function) -> pa.Table:
    """What a strict function gives for a NULL argument."""
    return table_of(function.columns, [[None] * len(function.columns)])
