"""Columns that were Arrow and become PostgreSQL's text: for tables written before a value came that Arrow's form cannot hold.

In: an Arrow array as `to_arrow` makes it of a type, and the type. Out: what the type's output function prints. It is rarely needed, so the
elements of lists may be handled one by one.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tailrace.model import PgType
from tailrace.types.numbers.floats import print_floats
from tailrace.types.style import TextStyle
from tailrace.types.times.calendar import UNIX_TO_POSTGRES_DAYS, UNIX_TO_POSTGRES_USECS
from tailrace.types.times.text import format_dates, format_timestamps
from tailrace.types.values import Values

_STYLE = TextStyle()
_QUOTED = '"\\{} \t\n\r\v\f'


def as_text(array: pa.Array, pg_type: PgType) -> pa.Array:
    """`array`, whose values are of `pg_type`, as text. Raises NotImplementedError for what never becomes text."""
    return pa.array(_texts(array, pg_type), pa.string())


def _texts(array: pa.Array, pg_type: PgType) -> list[str | None]:
    kind = array.type
    if pg_type.kind == "d" and pg_type.element is not None:
        return _texts(array, pg_type.element)
    if pa.types.is_list(kind) and pg_type.element is not None:
        return _lists(array, pg_type.element)
    if pa.types.is_string(kind):
        return list(array.to_pylist())
    if pa.types.is_decimal(kind):
        return [None if value is None else format(value, "f") for value in array.to_pylist()]
    if pa.types.is_integer(kind):
        return [None if value is None else str(value) for value in array.to_pylist()]
    if pa.types.is_boolean(kind):
        return [None if value is None else "ft"[value] for value in array.to_pylist()]
    if pa.types.is_binary(kind):
        return [None if value is None else f"\\x{value.hex()}" for value in array.to_pylist()]
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    if pa.types.is_floating(kind):
        numbers = array.fill_null(0).to_numpy(zero_copy_only=False)
        texts = print_floats(numbers, valid, _STYLE)
    elif pa.types.is_date32(kind):
        texts = format_dates(Values.of_numbers(_since_2000(array, pa.int32(), UNIX_TO_POSTGRES_DAYS), valid), pg_type, _STYLE)
    elif pa.types.is_timestamp(kind):
        texts = format_timestamps(
            Values.of_numbers(_since_2000(array, pa.int64(), UNIX_TO_POSTGRES_USECS), valid), pg_type, _STYLE
        )
    else:
        raise NotImplementedError(kind)
    return [text if is_there else None for text, is_there in zip(texts.to_list(), valid.tolist(), strict=True)]


def _lists(array: pa.Array, element: PgType) -> list[str | None]:
    """As array_out() prints one dimension that begins at 1."""
    texts = ["NULL" if text is None else _element(text, element.delimiter) for text in _texts(array.flatten(), element)]
    starts = np.concatenate([[0], np.cumsum(array.value_lengths().fill_null(0).to_numpy(zero_copy_only=False))]).tolist()
    there = array.is_valid().to_pylist()
    return [
        "{" + element.delimiter.join(texts[starts[row] : starts[row + 1]]) + "}" if is_there else None
        for row, is_there in enumerate(there)
    ]


def _element(text: str, delimiter: str) -> str:
    needs = not text or text.upper() == "NULL" or any(letter in _QUOTED or letter == delimiter for letter in text)
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"' if needs else text


def _since_2000(array: pa.Array, whole: pa.DataType, unix: int) -> NDArray:
    """Days or microseconds as PostgreSQL counts them; the infinities are the extremes on both sides."""
    numbers = array.cast(whole).fill_null(0).to_numpy(zero_copy_only=False)
    bounds = np.iinfo(numbers.dtype)
    endless = (numbers == bounds.min) | (numbers == bounds.max)
    return np.where(endless, numbers, np.where(endless, 0, numbers) - numbers.dtype.type(unix))
