"""Insert, Update and Delete messages of a whole batch at once, and Begin and Commit of many transactions, byte for byte what
`formats.write_message` writes of each.

In: by row what happened, to which relation, in which streamed transaction if in any, and whether there is an old tuple; new and
old tuples as `TupleColumns`s. Out: the messages one after another, as `Texts`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailrace.decode import DELETE, INSERT
from tailrace.errors import UsageError
from tailrace.kernels import inner_kernel, kernel
from tailrace.logicalproto.big_endian import put_be16, put_be32
from tailrace.logicalproto.message import KEY, NEW, OLD
from tailrace.logicalproto.tuple_columns import BINARY_BYTE, NULL_BYTE, TEXT_BYTE, UNCHANGED_BYTE, TupleColumns
from tailrace.memcpy import memcpy
from tailrace.types.values import Mask, Texts, as_writable
from tailrace.wal.heap import NO_OLD, OLD_KEY

_TYPE_BYTES = np.frombuffer(b"IUD", np.uint8)  # by kind, which counts from 1
_KEY_BYTE, _OLD_BYTE, _NEW_BYTE = (np.uint8(ord(marker)) for marker in (KEY, OLD, NEW))
_HEAD, _TUPLE_HEAD, _COLUMN_HEAD = 9, 3, 5
"""Bytes of a message's type, xid and relation; of a tuple's marker and number of columns; of a value's kind and length."""
NO_XID: NDArray[np.uint32] = np.zeros(0, np.uint32)
"""Instead of xids, where the rows are not in a stream."""


class ChangeHeads(NamedTuple):
    """By row: INSERT, UPDATE or DELETE (`tailrace.decode`), the oid of its relation, NO_OLD, OLD_KEY or OLD_ROW
    (`tailrace.wal.heap`), and the xid that it has in a stream: none at all (NO_XID) outside."""

    kind: NDArray[np.uint8]
    relation_oid: NDArray[np.uint32]
    old_kind: NDArray[np.uint8]
    xid: NDArray[np.uint32] = NO_XID


def write_changes(changes: ChangeHeads, new: TupleColumns, old: TupleColumns, in_key: Mask) -> Texts:
    """The messages of all rows. `in_key`, by column, says what a key tuple has; its other columns are NULL. Raises UsageError for
    a Delete without an old tuple, which no message can tell, and for unchanged values in old tuples."""
    if ((changes.kind == DELETE) & (changes.old_kind == NO_OLD)).any():
        raise UsageError("a DELETE message needs a key or an old tuple", sqlstate="55000")
    if (old.kind == UNCHANGED_BYTE).any():
        raise UsageError("an old tuple must not have an unchanged TOAST value", sqlstate="55000")
    changes = ChangeHeads(*(as_writable(array) for array in changes))
    new, old = (TupleColumns(*(as_writable(array) for array in side)) for side in (new, old))
    key = as_writable(np.asarray(in_key, np.bool_))
    rows = len(changes.kind)
    # Room for the longest that they could be; pages that stay untouched cost nothing, and counting first would cost a second pass.
    values = sum(int((side.bounds[:, -1] - side.bounds[:, 0]).sum()) for side in (new, old))
    out = np.empty(rows * (_HEAD + 2 * (_TUPLE_HEAD + len(key) * _COLUMN_HEAD)) + values, np.uint8)
    offsets = np.zeros(rows + 1, np.int64)
    _write(changes, new, old, key, offsets, out)
    return Texts(offsets, out[: offsets[-1]])


def fixed_length_messages(head: bytes, *fields: NDArray[Any]) -> Texts:
    """A message per row, of `head` and the row's numbers in network byte order: Begin and Commit, of which there may be a
    million."""
    rows = len(fields[0])
    kinds = [("head", f"V{len(head)}"), *((f"f{i}", f">i{field.itemsize}") for i, field in enumerate(fields))]
    made = np.zeros(rows, np.dtype(kinds))
    made["head"] = np.void(head)
    for i, field in enumerate(fields):
        made[f"f{i}"] = field.view(f"i{field.itemsize}")
    return Texts(np.arange(rows + 1, dtype=np.int64) * made.itemsize, made.view(np.uint8))


@inner_kernel
def _has_old(changes: Any, row: Any) -> Any:
    return changes.old_kind[row] != NO_OLD and changes.kind[row] != INSERT


@kernel
def _write(changes: Any, new: Any, old: Any, in_key: Any, offsets: Any, out: Any) -> None:
    """The messages, one after another; offsets[i + 1] becomes the end of row i's."""
    to = np.int64(0)
    for row in range(len(changes.kind)):
        kind = changes.kind[row]
        out[to] = _TYPE_BYTES[kind - 1]
        to += 1
        if len(changes.xid):
            to = put_be32(out, to, changes.xid[row])
        to = put_be32(out, to, changes.relation_oid[row])
        if _has_old(changes, row):
            only_key = changes.old_kind[row] == OLD_KEY
            out[to] = _KEY_BYTE if only_key else _OLD_BYTE
            to = _put_tuple(out, to + 1, old, row, in_key, only_key)
        if kind != DELETE:
            out[to] = _NEW_BYTE
            to = _put_tuple(out, to + 1, new, row, in_key, False)
        offsets[row + 1] = to


@inner_kernel
def _put_tuple(out: Any, to: Any, side: Any, row: Any, in_key: Any, only_key: Any) -> Any:
    """TupleData: how many columns, and each behind its kind."""
    columns = len(in_key)
    to = put_be16(out, to, columns)
    for column in range(columns):
        kind = side.kind[column, row]
        if only_key and not in_key[column]:
            kind = NULL_BYTE
        out[to] = kind
        to += 1
        if kind in (TEXT_BYTE, BINARY_BYTE):
            start = side.bounds[column, row]
            size = side.bounds[column, row + 1] - start
            to = put_be32(out, to, size)
            memcpy(out, to, side.data, start, size)
            to += size
    return to
