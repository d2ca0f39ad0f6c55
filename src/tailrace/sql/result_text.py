"""A result's columns as PostgreSQL's output functions print them, under the parameters of the session.

In: Arrow columns, of the types in `kinds.ARROW`. Out: texts, None for NULL.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

import pyarrow as pa

from tailrace.errors import UnsupportedWal
from tailrace.expressions.evaluate.numbers.numeric_arithmetic import divide, parse, text_of
from tailrace.sql.query.expression_types import ResultColumn
from tailrace.sql.result import TextColumn
from tailrace.types.codec.arrow_to_text import texts_of as printed
from tailrace.types.codec.inner_values import quoted
from tailrace.types.oid_aliases import OID_ALIASES
from tailrace.types.style import TextStyle


def text_columns(
    table: pa.Table, columns: Sequence[ResultColumn], style: TextStyle, averages: Container[int] = ()
) -> list[TextColumn]:
    """All columns of a result, under these names and types. `averages` are the places of those that have sums and counts."""
    cells = [
        [_average(each) for each in values.to_pylist()] if place in averages else texts_of(values.combine_chunks(), style)
        for place, values in enumerate(table.columns)
    ]
    return [
        TextColumn(each.name, _named(texts, each.type, style) if each.type in OID_ALIASES else texts, each.type, each.typmod)
        for each, texts in zip(columns, cells, strict=True)
    ]


def _named(texts: list[str | None], reg_type: int, style: TextStyle) -> list[str | None]:
    """Oids as regclass and its kin print them."""
    return [None if text is None else "-" if text == "0" else style.name_of(reg_type, int(text)) or text for text in texts]


def _average(parts: list[str | None]) -> str | None:
    """The average of so many that have this sum (`int8_avg`, `numeric_avg`); NULL of none."""
    total, count = parts
    return None if total is None or count is None else text_of(divide(parse(total), parse(count)))


def texts_of(array: pa.Array, style: TextStyle) -> list[str | None]:
    """A column's values. Raises UnsupportedWal for a type that nothing here gives."""
    if isinstance(array, pa.ChunkedArray):
        return [text for chunk in array.chunks for text in texts_of(chunk, style)]
    try:
        return printed(array, style)
    except NotImplementedError as error:
        raise UnsupportedWal(f"a result of type {error} cannot be printed") from None


def record_text(values: list[str | None]) -> str:
    """A row as record_out prints it."""
    return "(" + ",".join("" if value is None else quoted(value, "(),") for value in values) + ")"
