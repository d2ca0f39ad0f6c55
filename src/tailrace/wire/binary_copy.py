"""Rows as COPY gives them in binary form (the manual's page on COPY, "Binary Format").

In: what came of a COPY … TO STDOUT (FORMAT binary), from its beginning or from the beginning of a row on, whole rows. Out: for each column which rows
have a value, and the values in the order of the rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailrace.errors import PeerError
from tailrace.kernels import kernel
from tailrace.memcpy import memcpy
from tailrace.types.values import Mask, Texts

SIGNATURE = b"PGCOPY\n\xff\r\n\0"
_HEADER = len(SIGNATURE) + 8
_BAD = {-1: "a row has another number of columns", -2: "a row ends early"}


def rows_behind_header(data: bytes) -> int:
    """Where the rows begin in what came first. Raises PeerError for what is no such COPY."""
    if not data.startswith(SIGNATURE) or len(data) < _HEADER:
        raise PeerError("COPY file signature not recognized", sqlstate="22P04")
    return _HEADER + int.from_bytes(data[_HEADER - 4 : _HEADER], "big")


def columns_of(data: NDArray[np.uint8], columns: int) -> list[tuple[Mask, Texts]]:
    """The values of these rows, which have so many columns; of a NULL the value is empty. Raises PeerError for what are no such rows."""
    count = int(_count(data, columns))
    if count < 0:
        raise PeerError(f"unexpected data in COPY: {_BAD[count]}", sqlstate="22P04")
    starts, bounds = np.zeros((columns, count), np.int64), np.zeros((columns, count + 1), np.int64)
    valid = np.zeros((columns, count), np.bool_)
    _locate(data, starts, bounds, valid)
    np.cumsum(bounds, axis=1, out=bounds)
    found = []
    for number in range(columns):
        out = np.empty(int(bounds[number, -1]), np.uint8)
        _gather(data, starts[number], bounds[number], out)
        found.append((valid[number], Texts(bounds[number], out)))
    return found


@kernel
def _count(data: Any, columns: Any) -> Any:
    """How many rows there are; -1 and -2 say what is wrong. The trailer is no row."""
    at, rows = 0, 0
    while at + 2 <= len(data):
        fields = (np.int64(data[at]) << 8) | np.int64(data[at + 1])
        at += 2
        if fields == 0xFFFF:
            return rows if at == len(data) else -2
        if fields != columns:
            return -1
        for _ in range(columns):
            if at + 4 > len(data):
                return -2
            size = _length(data, at)
            at += 4
            if size > 0:
                at += size
            elif size < -1:
                return -2
        if at > len(data):
            return -2
        rows += 1
    return rows if at == len(data) else -2


@kernel
def _locate(data: Any, starts: Any, sizes: Any, valid: Any) -> None:
    """Of column c and row i where its value begins, and its length, the latter in sizes[c, i + 1]."""
    at = 0
    for row in range(starts.shape[1]):
        at += 2
        for column in range(len(starts)):
            size = _length(data, at)
            at += 4
            if size >= 0:
                starts[column, row] = at
                sizes[column, row + 1] = size
                valid[column, row] = True
                at += size


@kernel
def _length(data: Any, at: Any) -> Any:
    """The length of a field; -1: it is NULL."""
    size = (np.int64(data[at]) << 24) | (np.int64(data[at + 1]) << 16) | (np.int64(data[at + 2]) << 8) | np.int64(data[at + 3])
    return size - 0x1_0000_0000 if size >= 0x8000_0000 else size


@kernel
def _gather(data: Any, starts: Any, bounds: Any, out: Any) -> None:
    for row in range(len(starts)):
        memcpy(out, bounds[row], data, starts[row], bounds[row + 1] - bounds[row])
