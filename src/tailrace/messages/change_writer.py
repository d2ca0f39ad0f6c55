"""Insert, Update and Delete messages of a whole batch at once, byte for byte what `formats.write_message` writes of each.

In: by row what happened, to which relation, in which streamed transaction if in any, and whether there is an old tuple; new and old tuples as
`Side`s. Out: the messages one after another, as `Texts`. The sizes are counted first, so that nothing is written beyond them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailrace.decode import DELETE, INSERT
from tailrace.errors import UsageError
from tailrace.kernels import inner_kernel, kernel
from tailrace.memcpy import memcpy
from tailrace.messages.big_endian import put_be16, put_be32
from tailrace.messages.message import KEY, NEW, OLD
from tailrace.messages.tuple_columns import BINARY_BYTE, NULL_BYTE, TEXT_BYTE, UNCHANGED_BYTE, Side
from tailrace.types.values import Mask, Texts, as_writable
from tailrace.wal.heap import NO_OLD, OLD_KEY

_TYPE_BYTES = np.frombuffer(b"IUD", np.uint8)  # by kind, which counts from 1
_KEY_BYTE, _OLD_BYTE, _NEW_BYTE = (np.uint8(ord(marker)) for marker in (KEY, OLD, NEW))
NO_XID: NDArray[np.uint32] = np.zeros(0, np.uint32)
"""Instead of xids, where the rows are not in a stream."""


class Changes(NamedTuple):
    """By row: INSERT, UPDATE or DELETE (`tailrace.decode`), the oid of its relation, NO_OLD, OLD_KEY or OLD_ROW (`tailrace.wal.heap`), and the xid
    that it has in a stream: none at all (NO_XID) outside."""

    kind: NDArray[np.uint8]
    relation_oid: NDArray[np.uint32]
    old_kind: NDArray[np.uint8]
    xid: NDArray[np.uint32] = NO_XID


def write_changes(changes: Changes, new: Side, old: Side, in_key: Mask) -> Texts:
    """The messages of all rows. `in_key`, by column, says what a key tuple has; its other columns are NULL. Raises UsageError for a Delete without
    an old tuple, which no message can tell, and for unchanged values in old tuples."""
    if ((changes.kind == DELETE) & (changes.old_kind == NO_OLD)).any():
        raise UsageError("a DELETE message needs a key or an old tuple", sqlstate="55000")
    if (old.kind == UNCHANGED_BYTE).any():
        raise UsageError("an old tuple must not have an unchanged TOAST value", sqlstate="55000")
    changes = Changes(*(as_writable(array) for array in changes))
    new, old = (Side(*(as_writable(array) for array in side)) for side in (new, old))
    key = as_writable(np.asarray(in_key, np.bool_))
    offsets = np.zeros(len(changes.kind) + 1, np.int64)
    _count(changes, new, old, key, offsets)
    np.cumsum(offsets, out=offsets)
    out = np.empty(offsets[-1], np.uint8)
    _write(changes, new, old, key, offsets, out)
    return Texts(offsets, out)


@kernel
def _count(changes: Any, new: Any, old: Any, in_key: Any, sizes: Any) -> None:
    """sizes[i + 1] becomes the length of row i's message. Column by column, as they lie."""
    head = 5 + (4 if len(changes.xid) else 0)
    columns = len(in_key)
    for row in range(len(changes.kind)):
        tuples = (1 if changes.kind[row] != DELETE else 0) + (1 if _has_old(changes, row) else 0)
        sizes[row + 1] = head + tuples * (3 + columns)
    for column in range(columns):
        for row in range(len(changes.kind)):
            if changes.kind[row] != DELETE:
                sizes[row + 1] += _value_size(new, column, row)
            if _has_old(changes, row) and (changes.old_kind[row] != OLD_KEY or in_key[column]):
                sizes[row + 1] += _value_size(old, column, row)


@inner_kernel
def _has_old(changes: Any, row: Any) -> Any:
    return changes.old_kind[row] != NO_OLD and changes.kind[row] != INSERT


@inner_kernel
def _value_size(side: Any, column: Any, row: Any) -> Any:
    """Beyond the byte that says what it is."""
    kind = side.kind[column, row]
    if kind in (TEXT_BYTE, BINARY_BYTE):
        return 4 + side.bounds[column, row + 1] - side.bounds[column, row]
    return 0


@kernel
def _write(changes: Any, new: Any, old: Any, in_key: Any, offsets: Any, out: Any) -> None:
    """The messages, each at its offset."""
    for row in range(len(changes.kind)):
        to = offsets[row]
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
