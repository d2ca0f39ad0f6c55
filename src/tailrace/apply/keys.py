"""Rows by value: what identifies a row of a table, and numbers for equal ones.

In: relations, and key columns as Arrow arrays. Out: the names of the key's columns; for each row a code, the same for equal rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tailrace.model import Relation


def key_of(relation: Relation) -> tuple[str, ...]:
    """The columns that tell a row from all others: the replica identity's, or, if that is FULL, the primary key's. Empty:
    whole rows do."""
    numbers = relation.identity or (relation.primary_key if relation.replica_identity == "f" else ())
    names = {column.number: column.name for column in relation.live_columns}
    return tuple(names[number] for number in numbers if number in names)


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


def _codes(column: pa.Array) -> NDArray[np.int64]:
    encoded = pc.dictionary_encode(comparable(column), null_encoding="encode")
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)


def joined(one: pa.Array | pa.ChunkedArray, other: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Concatenate the arrays."""
    return pa.concat_arrays([_flat(one), _flat(other)])


def _flat(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
