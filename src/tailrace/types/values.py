"""The two shapes in which a column travels: as PostgreSQL stores it, and as PostgreSQL prints it.

`Values` come out of `tuples.deform` (detoasted, headers removed); `Texts` are what the output functions would print.
Both are a handful of arrays for a whole run of rows, so that kernels and Arrow can work on them without a Python object per row.
What is to be done with runs of bytes of any length (to pick some, to cut, to put end to end), `Texts` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow._compute import CastOptions, JoinOptions, call_function  # pyarrow.compute wraps and describes them all first: 30 ms

from tailrace.dataclass import dataclass
from tailrace.kernels import kernel
from tailrace.memcpy import memcpy

Bytes = NDArray[np.uint8]
Offsets = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(slots=True)
class Values:
    """`n` values of one type in stored form.

    A fixed-length type has `fixed`, uint8 of shape (n, typlen). A varlena has its payloads (without length word,
    decompressed) one after another in `data`, row i at `[offsets[i], offsets[i+1])`. `valid` is False for NULL; such rows
    hold zeros or nothing. `unchanged`, where present, marks TOASTed values that the record did not carry: neither a value
    nor NULL (`valid` is False there).
    """

    valid: Mask
    fixed: Bytes | None = None
    offsets: Offsets | None = None
    data: Bytes | None = None
    unchanged: Mask | None = None

    @classmethod
    def of_numbers(cls, numbers: NDArray, valid: Mask | None = None) -> Values:
        """Numbers as a fixed-length type of their width stores them; all are there unless `valid` says otherwise."""
        stored = np.ascontiguousarray(numbers).view(np.uint8).reshape(len(numbers), numbers.itemsize)
        return cls(np.ones(len(numbers), np.bool_) if valid is None else valid, fixed=stored.copy())

    def __len__(self) -> int:
        return len(self.valid)

    def as_dtype(self, dtype: str) -> NDArray:
        """A fixed-length column as a NumPy array of `dtype` (same width), without copying."""
        assert self.fixed is not None
        return np.ascontiguousarray(self.fixed).view(dtype)[:, 0]

    @property
    def payloads(self) -> tuple[Offsets, Bytes]:
        """A varlena column's offsets and bytes, as kernels want them."""
        assert self.offsets is not None
        assert self.data is not None
        return as_writable(self.offsets), as_writable(self.data)

    def payload_list(self) -> list[bytes]:
        """The stored bytes of each row (nothing or zeros for NULL). For types so rare that a loop is fine."""
        if self.fixed is not None:
            width, raw = self.fixed.shape[1], self.fixed.tobytes()
            return [raw[at : at + width] for at in range(0, len(raw), width)]
        offsets, data = self.payloads
        raw = data.tobytes()
        return [raw[start:stop] for start, stop in pairwise(offsets.tolist())]

    def take(self, rows: NDArray[np.int64]) -> Values:
        """The values at `rows`, in that order."""
        unchanged = None if self.unchanged is None else self.unchanged[rows]
        if self.fixed is not None:
            # An index of numbers copies a byte at a time; take, a row.
            return Values(self.valid[rows], fixed=self.fixed.take(rows, axis=0), unchanged=unchanged)
        picked = Texts(*self.payloads).take(rows)
        return Values(self.valid[rows], offsets=picked.offsets, data=picked.data, unchanged=unchanged)

    def part(self, start: int, stop: int) -> Values:
        """The values `[start, stop)`, sharing memory."""
        unchanged = None if self.unchanged is None else self.unchanged[start:stop]
        if self.fixed is not None:
            return Values(self.valid[start:stop], fixed=self.fixed[start:stop], unchanged=unchanged)
        mine = Texts(*self.payloads).part(start, stop)
        return Values(self.valid[start:stop], offsets=mine.offsets, data=mine.data, unchanged=unchanged)

    @classmethod
    def of_payloads(cls, payloads: Sequence[bytes | None], length: int) -> Values:
        """Build from one bytes (or None for NULL) per row; `length` is typlen (-1 for a varlena). For tests and small things."""
        valid = np.array([payload is not None for payload in payloads], dtype=np.bool_)
        if length > 0:
            rows = b"".join(payload if payload is not None else bytes(length) for payload in payloads)
            return cls(valid, fixed=np.frombuffer(rows, np.uint8).reshape(len(payloads), length).copy())
        sizes = np.array([len(payload or b"") for payload in payloads], dtype=np.int64)
        offsets = np.zeros(len(payloads) + 1, np.int64)
        np.cumsum(sizes, out=offsets[1:])
        data = np.frombuffer(b"".join(payload or b"" for payload in payloads), np.uint8).copy()
        return cls(valid, offsets=offsets, data=data)


@dataclass(slots=True)
class Texts:
    """`n` texts in the database's encoding: row i is `data[offsets[i]:offsets[i+1]]`.

    NULL rows are empty; who prints knows which.
    """

    offsets: Offsets
    data: Bytes

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @classmethod
    def of(cls, texts: Sequence[str | bytes]) -> Texts:
        """Build from Python strings. For tests, and for values so rare that a loop is fine."""
        encoded = [text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text for text in texts]
        offsets = np.zeros(len(encoded) + 1, np.int64)
        np.cumsum([len(text) for text in encoded], out=offsets[1:])
        return cls(offsets, np.frombuffer(b"".join(encoded), np.uint8))

    @classmethod
    def of_choices(cls, words: Sequence[str], choices: NDArray[np.int64], valid: Mask) -> Texts:
        """Build from a few words: row i is `words[choices[i]]`."""
        return cls.of([*words, b""]).take(np.where(valid, choices, len(words)))

    @classmethod
    def joined(cls, *parts: str | NDArray[np.integer] | Texts, rows: int) -> Texts:
        """Build from parts that follow each other in every row: the same word, a number in decimal, a text."""
        arrays = []
        for part in (cls.of([b""] * rows), *parts) if all(isinstance(part, str) for part in parts) else parts:
            if isinstance(part, str):
                arrays.append(_scalar(part.encode()))
            else:
                text = part if isinstance(part, Texts) else cls.of_numbers(part)
                arrays.append(text.to_arrow().view(pa.large_binary()))
        return cls(*binary_buffers(call_function("binary_join_element_wise", [*arrays, _scalar(b"")], JoinOptions())))

    @classmethod
    def of_numbers(cls, numbers: NDArray[Any]) -> Texts:
        """Numbers in decimal, as Arrow prints them."""
        return cls(*binary_buffers(call_function("cast", [numbers_to_arrow(numbers)], CastOptions.safe(pa.large_string()))))

    @classmethod
    def of_grid(cls, grid: Bytes, lengths: NDArray[np.int64]) -> Texts:
        """Build from texts that lie left-aligned in the rows of a rectangle; row i is the first `lengths[i]` bytes of its row."""
        rows, width = grid.shape
        offsets = np.zeros(rows + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        if offsets[-1] == rows * width:
            return cls(offsets, np.ascontiguousarray(grid).reshape(-1))
        return cls(offsets, grid[np.arange(width) < lengths[:, None]])

    @classmethod
    def of_arrow(cls, array: pa.Array) -> Texts:
        """From a string or binary array of any offset width; NULL becomes the empty text."""
        wide = array.cast(pa.large_binary())
        if wide.null_count:
            wide = wide.fill_null(_scalar(b""))
        return cls(*binary_buffers(wide))

    def part(self, start: int, stop: int) -> Texts:
        """Rows `[start, stop)`, sharing memory."""
        offsets = self.offsets[start : stop + 1]
        return Texts(offsets - offsets[0], self.data[offsets[0] : offsets[-1]])

    def take(self, rows: NDArray[np.int64]) -> Texts:
        """The rows at these numbers, in that order."""
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum((self.offsets[1:] - self.offsets[:-1])[rows], out=offsets[1:])
        out = np.empty(offsets[-1], np.uint8)
        copy_rows(self.data, self.offsets, rows, offsets, out)
        return Texts(offsets, out)

    @classmethod
    def merged(cls, parts: Sequence[Texts], order: NDArray[np.int64]) -> Texts:
        """All rows of the parts, each once, in the given order; row numbers count them end to end."""
        parts = [part for part in parts if len(part)]
        if len(parts) == 1 and bool((np.diff(order) == 1).all()):
            return parts[0]
        lengths = np.concatenate([np.diff(part.offsets) for part in parts]) if parts else np.zeros(0, np.int64)
        offsets = np.zeros(len(order) + 1, np.int64)
        np.cumsum(lengths[order], out=offsets[1:])
        out = np.empty(offsets[-1], np.uint8)
        place = np.empty(len(order), np.int64)
        place[order] = offsets[:-1]
        base = 0
        for part in parts:
            copy_to_places(part.data, part.offsets, place[base : base + len(part)], out)
            base += len(part)
        return Texts(offsets, out)

    @classmethod
    def concatenated(cls, parts: Iterable[Texts], room: int) -> Texts:
        """All of them end to end, each let go before the next is asked for. More than they are likely to take is a good `room`: what is not written
        to costs nothing, and NumPy asks for large pages, which an array that grows would not have."""
        waiting = iter(parts)
        first = next(waiting, None)
        if first is None:
            return Texts.of([])
        second = next(waiting, None)
        if second is None:
            return first
        whole, used = np.empty(room, np.uint8), 0
        offsets = [np.zeros(1, np.int64)]
        parts = chain((first, second), waiting)
        del first, second
        while (part := next(parts, None)) is not None:
            offsets.append(part.offsets[1:] + used)
            stop = used + len(part.data)
            if stop > len(whole):
                before, whole = whole[:used], np.empty(2 * stop, np.uint8)
                whole[:used] = before
                del before
            whole[used:stop] = part.data
            used = stop
            del part
        return Texts(np.concatenate(offsets), whole[:used])

    @staticmethod
    def columns_in_one(columns: Sequence[Texts], rows: int) -> tuple[Bytes, Offsets]:
        """Columns of as many rows each, one after another, as kernels want them: of column c and row i `data[bounds[c, i] : bounds[c, i + 1]]`."""
        bounds, used = np.zeros((len(columns), rows + 1), np.int64), 0
        for c, column in enumerate(columns):
            np.add(column.offsets, used, out=bounds[c])
            used += len(column.data)
        parts = [column.data for column in columns]
        return as_writable(parts[0] if len(parts) == 1 else np.concatenate([*parts, np.zeros(0, np.uint8)])), bounds

    def to_list(self) -> list[str]:
        """As Python strings, which `of` turns back into the same bytes. For values so rare that a loop is fine."""
        return [as_string(text) for text in self.to_bytes()]

    def to_bytes(self) -> list[bytes]:
        """As Python bytes: for binary forms, and for values so rare that a loop is fine."""
        raw = self.data.tobytes()
        return [raw[start:stop] for start, stop in pairwise(self.offsets.tolist())]

    def to_arrow(self, valid: Mask | None = None) -> pa.LargeStringArray:
        """As an Arrow array, without copying the text."""
        mask = None if valid is None or valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
        buffers = [mask, pa.py_buffer(self.offsets), pa.py_buffer(self.data)]
        return pa.Array.from_buffers(pa.large_string(), len(self), buffers)


@kernel
def copy_rows(data, offsets, rows, to, out):  # type: ignore[no-untyped-def]
    """Text rows[i] to out[to[i]]."""
    for i in range(len(rows)):
        start = offsets[rows[i]]
        memcpy(out, to[i], data, start, offsets[rows[i] + 1] - start)


@kernel
def copy_to_places(data, offsets, place, out):  # type: ignore[no-untyped-def]
    """Text i to out[place[i]]."""
    for i in range(len(place)):
        memcpy(out, place[i], data, offsets[i], offsets[i + 1] - offsets[i])


def as_string(raw: bytes) -> str:
    """Bytes as a string that `Texts.of` turns back into them. They are in the database's encoding, so what is not UTF-8 must pass too; everything
    that output functions look for is ASCII, which is the same in all."""
    return raw.decode("utf-8", "surrogateescape")


def as_writable(array: NDArray[Any]) -> NDArray[Any]:
    """The same memory, contiguous and with the write flag set.

    Numba compiles a second copy of a kernel for read-only arrays; views of mapped files and of Arrow buffers are read-only.
    Kernels do not write to their inputs, so we lift the flag instead of paying the compilation twice.
    """
    array = np.ascontiguousarray(array)
    return array if array.flags.writeable else np.asarray(_Lifted(array))


class _Lifted:
    """Shows an array's memory as writable and keeps its owner alive."""

    def __init__(self, array: NDArray[Any]) -> None:
        self.owner = array
        seen = array.__array_interface__
        self.__array_interface__ = {**seen, "data": (seen["data"][0], False)}


# `pa.array` and `pa.scalar` ask first whether what they get is of pandas, and import that where it is installed: a third of what a small log takes.


def numbers_to_arrow(numbers: NDArray[Any]) -> pa.Array:
    """As an Arrow array, without copying."""
    buffers = [None, pa.py_buffer(np.ascontiguousarray(numbers))]
    return pa.Array.from_buffers(pa.from_numpy_dtype(numbers.dtype), len(numbers), buffers)


def _scalar(text: bytes) -> pa.Scalar:
    return Texts.of([text]).to_arrow().view(pa.large_binary())[0]


def binary_buffers(array: pa.Array) -> tuple[Offsets, Bytes]:
    """Offsets from zero and bytes of a large_binary or large_string array."""
    _, raw_offsets, raw_data = array.buffers()
    offsets = np.frombuffer(raw_offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    data = np.frombuffer(raw_data, np.uint8) if raw_data is not None and raw_data.size else np.zeros(0, np.uint8)
    return offsets - offsets[0], data[offsets[0] : offsets[-1]]
