"""How the columns of a data file are written: with a dictionary, packed, compressed, or as they are; by what some rows of them show, as to find out
for all rows that it was of no use takes longer than to write them.

In: rows. Out: options of `pyarrow.parquet.ParquetWriter`. Integers that follow one another, as keys and times do, are packed: each takes as many
bits as its distance from the one before (Parquet's DELTA_BINARY_PACKED). That is smaller than compression makes them, and takes less time. Decimals
of up to 18 digits are integers, too, as Spark itself writes them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_SAMPLED, _FEW, _SMALL, _PACKED = 2048, 0.75, 0.85, 0.5
"""Rows of a file that are looked at before it is written; which share of a column's bytes its different values may be for a dictionary to be made of
them; and which share must be left of a column that is compressed, or packed."""
_BLOCK, _MINIBLOCK = 128, 32
"""Values that are packed with one least distance, and with one number of bits (Parquet's Encodings.md, "Delta Encoding")."""
_NONE = "none"
_DIGITS_OF = {32: 9, 64: 18}
"""Of decimals that are written as integers of so many bits (Parquet's LogicalTypes.md, "DECIMAL")."""


def column_encodings(rows: pa.Table, *, packs_integers: bool) -> dict[str, Any]:
    how: dict[str, Any] = {"store_decimal_as_integer": packs_integers}
    if len(rows) < _SAMPLED:
        return how | {"compression": "snappy", "use_dictionary": True}
    chunk = max(rows.to_batches(), key=len)
    sample = chunk.take(pa.array(np.arange(0, len(chunk), max(1, len(chunk) // _SAMPLED))))
    together = chunk.take(pa.array(np.arange(0, min(_SAMPLED, len(chunk)))))
    few, packed, compression = list[str](), dict[str, str](), dict[str, str]()
    for field, column, neighbours in zip(rows.schema, sample.columns, together.columns, strict=True):
        if pa.types.is_nested(field.type):
            few.append(f"{field.name}.list.element" if pa.types.is_list(field.type) else field.name)
        elif column.dictionary_encode().dictionary.nbytes < column.nbytes * _FEW:
            few.append(field.name)
        elif (integers := _stored_integers(neighbours) if packs_integers else None) is not None and _are_packed_small(integers):
            packed[field.name], compression[field.name] = "DELTA_BINARY_PACKED", _NONE
        elif not _is_compressible(_bytes_of(neighbours) if integers is None else integers.tobytes()):
            compression[field.name] = _NONE
    whole = {field.name: compression.get(field.name, "snappy") for field in rows.schema} if compression else "snappy"
    return how | {"compression": whole, "use_dictionary": few, "column_encoding": packed or None}


def _stored_integers(column: pa.Array) -> NDArray[np.int32] | NDArray[np.int64] | None:
    """The values of a column that is stored as integers, null ones left out."""
    kind, bits = column.type, _stored_bits(column.type)
    if not bits:
        return None
    values = column.drop_null()
    if pa.types.is_decimal(kind):
        values = pa.Array.from_buffers(pa.decimal128(kind.precision, 0), len(values), values.buffers(), offset=values.offset)
    found: NDArray[np.int32] | NDArray[np.int64] = values.cast(pa.int64() if bits == 64 else pa.int32()).to_numpy()
    return found


def _stored_bits(kind: pa.DataType) -> int:
    """Of the integers as which values of the type are stored; 0 where they are stored otherwise, or in more bits than they have."""
    if pa.types.is_decimal128(kind):
        return next((bits for bits, digits in _DIGITS_OF.items() if kind.precision <= digits), 0)
    is_integer = pa.types.is_signed_integer(kind) or pa.types.is_date32(kind) or pa.types.is_timestamp(kind)
    return kind.bit_width if is_integer and kind.bit_width >= min(_DIGITS_OF) else 0


def _bytes_of(column: pa.Array) -> bytes:
    return b"".join(bytes(each) for each in column.buffers()[1:] if each is not None)


def _is_compressible(data: bytes) -> bool:
    return len(pa.compress(data, codec="snappy", asbytes=True)) < len(data) * _SMALL


def _are_packed_small(stored: NDArray[np.int32] | NDArray[np.int64]) -> bool:
    values = stored.astype(np.int64)
    distances = np.diff(values)[: (len(values) - 1) // _BLOCK * _BLOCK].reshape(-1, _BLOCK)
    if not distances.size:
        return False
    above_least = (distances - distances.min(axis=1, keepdims=True)).astype(np.uint64).reshape(-1, _MINIBLOCK)
    bits = np.ceil(np.log2(above_least.max(axis=1) + 1.0))
    return float(bits.sum()) * _MINIBLOCK < distances.size * 8 * stored.itemsize * _PACKED
