"""Rows by value: what identifies a row of a table, and numbers for equal ones.

In: relations, and key columns as Arrow arrays. Out: the names of the key's columns; for each row a code, the same for equal rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tailrace.kernels import kernel
from tailrace.model import Relation
from tailrace.wal.hashing import find, new_table


def key_of(relation: Relation) -> tuple[str, ...]:
    """The columns that tell a row from all others: the replica identity's, or, if that is FULL, the primary key's. Empty:
    whole rows do."""
    names = {column.number: column.name for column in relation.live_columns}
    return tuple(names[number] for number in relation.row_key if number in names)


def row_codes(columns: Sequence[pa.Array]) -> NDArray[np.int64]:
    """A number per row; rows have the same number exactly if all columns are equal. NULL equals NULL here, as in a replica
    identity."""
    codes = np.zeros(len(columns[0]), np.int64)
    for position, column in enumerate(columns):
        of_column = _codes(column)
        if position == 0:
            codes = of_column
        else:
            _, codes = np.unique(codes * (int(of_column.max(initial=0)) + 1) + of_column, return_inverse=True)
    return codes.astype(np.int64)


def comparable(column: pa.Array) -> pa.Array:
    """The column in a type that Arrow can number the values of. It numbers no lists; tables identified by one are rare."""
    if pa.types.is_nested(column.type):
        return pa.array([None if value is None else repr(value) for value in column.to_pylist()], pa.string())
    return column


def whole_numbers(column: pa.Array) -> NDArray[np.int64] | None:
    """Integers and their like (dates, timestamps) without NULLs, as integers; None for all else."""
    return None if column.null_count or not _is_whole_number(column.type) else _as_int64(column).to_numpy()


def _as_int64(column: pa.Array) -> pa.Array:
    return (column.cast(pa.int32()) if pa.types.is_date32(column.type) else column).cast(pa.int64())


def is_ascending(column: pa.Array) -> bool:
    """Whether each row is known to have more in this column than the one before."""
    values = whole_numbers(column)
    return values is not None and bool((values[1:] > values[:-1]).all())


def _is_whole_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_signed_integer(kind) or pa.types.is_date32(kind) or pa.types.is_timestamp(kind))


def _codes(column: pa.Array) -> NDArray[np.int64]:
    if _is_whole_number(column.type):
        numbers: NDArray[np.int64] = number_values(
            _as_int64(column).fill_null(0).to_numpy(), column.is_valid().to_numpy(zero_copy_only=False)
        )
        return numbers
    encoded = pc.dictionary_encode(comparable(column), null_encoding="encode")
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)


@kernel
def number_values(values, is_valid):  # type: ignore[no-untyped-def]
    """For each row the number of its value, in the order in which these first come. NULL is one of them."""
    table, different = new_table(len(values)), np.empty(len(values), np.int64)
    numbers = np.empty(len(values), np.int64)
    count = np.int64(0)
    null = np.int64(-1)
    for row in range(len(values)):
        if not is_valid[row]:
            if null < 0:
                null = count
                count += 1
            numbers[row] = null
            continue
        number = np.int64(find(table, different, values[row]))
        if number < 0:
            table[-1 - number] = count
            different[count] = values[row]
            number = count
            count += 1
        numbers[row] = number
    return numbers


def joined(one: pa.Array | pa.ChunkedArray, other: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Concatenate the arrays."""
    return pa.concat_arrays([_flat(one), _flat(other)])


def _flat(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
