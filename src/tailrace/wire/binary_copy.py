"""Rows as COPY gives them in binary form (the manual's page on COPY, "Binary Format"), each in a CopyData message of its own.

In: what came from a server, messages with their headers, from the beginning of one on; the last may be cut off. Out: `CopiedFields`, which says where
the fields of the rows lie, and gives a column's values in the order of the rows; and how much of it these rows are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailrace.dataclass import dataclass
from tailrace.errors import PeerError
from tailrace.kernels import inner_kernel, kernel
from tailrace.memcpy import memcpy
from tailrace.types.values import Mask, Texts, Values
from tailrace.wal.unaligned import u16, u32

SIGNATURE = b"PGCOPY\n\xff\r\n\0"
_HEADER = len(SIGNATURE) + 8
MESSAGE = 5
"""Bytes before what a message holds: its type, and its length, which counts itself."""
_DATA = ord("d")
_BAD = {-1: "a row has another number of columns", -2: "a row ends early"}


def header_size(data: bytes) -> int:
    """How long the header of a COPY is, which begins there. Raises PeerError for what is no such COPY."""
    if not data.startswith(SIGNATURE) or len(data) < _HEADER:
        raise PeerError("COPY file signature not recognized", sqlstate="22P04")
    return _HEADER + int.from_bytes(data[_HEADER - 4 : _HEADER], "big")


def message_size(data: NDArray[np.uint8]) -> int:
    """How long the message is that begins there, or what says so."""
    return MESSAGE if len(data) < MESSAGE else 1 + int.from_bytes(data[1:MESSAGE].tobytes(), "big")


@dataclass(frozen=True, slots=True)
class CopiedFields:
    """Of row i and column c, the value lies in `data` from `at[i, c]` on, and has a length of `sizes[i, c]`; -1 is that of a NULL. The rows are the
    first `used` bytes."""

    data: NDArray[np.uint8]
    at: NDArray[np.int32]
    sizes: NDArray[np.int32]
    used: int

    @classmethod
    def of(cls, data: NDArray[np.uint8], columns: int, *, header: int = 0) -> CopiedFields:
        """Of the rows of so many columns that begin there, up to what is no row, or not all there. The first has a COPY's header before it, if that
        has a length. Raises PeerError for rows that are none."""
        most = len(data) // (MESSAGE + 2 + 4 * columns) + 1
        at, sizes = np.empty((most, columns), np.int32), np.empty((most, columns), np.int32)
        rows, used = _locate(data, header, at, sizes)
        if rows < 0:
            raise PeerError(f"unexpected data in COPY: {_BAD[rows]}", sqlstate="22P04")
        return cls(data, at[:rows], sizes[:rows], int(used))

    def __len__(self) -> int:
        return len(self.at)

    def take(self, rows: NDArray[np.int64]) -> CopiedFields:
        return CopiedFields(self.data, self.at[rows], self.sizes[rows], self.used)

    def behind(self, column: int) -> CopiedFields:
        """The fields without those before this column."""
        at, sizes = (np.ascontiguousarray(each[:, column:]) for each in (self.at, self.sizes))
        return CopiedFields(self.data, at, sizes, self.used)

    def texts(self, column: int) -> tuple[Mask, Texts]:
        """Which rows have a value, and the values; that of a NULL is empty."""
        valid, bounds = np.empty(len(self), np.bool_), np.zeros(len(self) + 1, np.int64)
        _sum(self.sizes, column, valid, bounds)
        out = np.empty(int(bounds[-1]), np.uint8)
        _gather(self.data, self.at, column, bounds, out)
        return valid, Texts(bounds, out)

    def numbers(self, column: int, width: int) -> Values | None:
        """Of a column of numbers that wide, as they are stored; None if one has another width."""
        out, valid = np.zeros((len(self), width), np.uint8), np.empty(len(self), np.bool_)
        fits = _numbers(self.data, self.at, self.sizes, column, out, valid)
        return Values(valid, fixed=out) if fits else None


@inner_kernel
def _be32(data: Any, at: Any) -> Any:
    number = u32(data, at)
    return ((number & 0xFF) << 24) | ((number & 0xFF00) << 8) | ((number >> 8) & 0xFF00) | (number >> 24)


@kernel
def _locate(data: Any, header: Any, at: Any, sizes: Any) -> Any:
    """How many rows there are, and where they end; -1 and -2 instead of the number say what is wrong. The trailer is no row, and is passed over."""
    columns = at.shape[1]
    here, rows, first = 0, 0, header
    while here + MESSAGE <= len(data) and data[here] == _DATA:
        end = here + 1 + _be32(data, here + 1)
        if end > len(data):
            break
        place = here + MESSAGE + first
        first = 0
        if place + 2 > end:
            return -2, here
        fields = u16(data, place)
        fields = ((fields & 0xFF) << 8) | (fields >> 8)
        place += 2
        if fields == 0xFFFF:
            if place != end:
                return -2, here
            here = end
            continue
        if fields != columns:
            return -1, here
        for column in range(columns):
            if place + 4 > end:
                return -2, here
            size = _be32(data, place)
            place += 4
            if size == 0xFFFF_FFFF:
                size = -1
            elif size > end - place:
                return -2, here
            at[rows, column] = place
            sizes[rows, column] = size
            place += max(0, size)
        if place != end:
            return -2, here
        rows += 1
        here = end
    return rows, here


@kernel
def _sum(sizes: Any, column: Any, valid: Any, bounds: Any) -> None:
    total = np.int64(0)
    for row in range(len(sizes)):
        size = np.int64(sizes[row, column])
        valid[row] = size >= 0
        if size > 0:
            total += size
        bounds[row + 1] = total


@kernel
def _gather(data: Any, at: Any, column: Any, bounds: Any, out: Any) -> None:
    for row in range(len(at)):
        memcpy(out, bounds[row], data, np.int64(at[row, column]), bounds[row + 1] - bounds[row])


@kernel
def _numbers(data: Any, at: Any, sizes: Any, column: Any, out: Any, valid: Any) -> Any:
    """Whether all have the width of `out`, where they come to stand in the other byte order."""
    width = out.shape[1]
    for row in range(len(at)):
        size = sizes[row, column]
        valid[row] = size >= 0
        if size < 0:
            continue
        if size != width:
            return False
        last = np.int64(at[row, column]) + width - 1
        for byte in range(width):
            out[row, byte] = data[last - byte]
    return True
