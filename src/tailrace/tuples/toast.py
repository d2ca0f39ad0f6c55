"""TOAST chunks of a stretch, found by the row that they serve and the value's id (rule 7).

A chunk serves the next row of its xid (for a batch, the rows up to the one marked LAST_IN_MULTI) and then is forgotten, as the server
forgets it. Scan and decode count these *turns* per xid; the number of a turn is unique in a stretch, and (turn, value id) is the key.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailrace.kernels import inner_kernel, kernel
from tailrace.tuples.deform import user_data_at
from tailrace.tuples.errors import CorruptTuple
from tailrace.tuples.varlena import PLAIN, varlena_at
from tailrace.wal.hashing import find, new_table
from tailrace.wal.heap import SIZE_OF_HEADER
from tailrace.wal.unaligned import u32

# A tuple of a TOAST table: chunk_id oid, chunk_seq int4, chunk_data bytea, which is plain
_CHUNK_ID_AT = 0
_CHUNK_SEQ_AT = 4
_CHUNK_DATA_AT = 8
_SMALLEST = SIZE_OF_HEADER + _CHUNK_DATA_AT + 1

# What is wrong with a chunk
_SOUND, _DAMAGED, _OUT_OF_SEQUENCE = range(3)


class Chunks(NamedTuple):
    """Chunk i holds `buf[at[i] : at[i] + size[i]]`; `next` links the chunks of a value, -1 behind the last; `table` over `keys` finds its first."""

    table: NDArray[np.int32]
    keys: NDArray[np.int64]
    at: NDArray[np.int64]
    size: NDArray[np.int64]
    next: NDArray[np.int64]

    @classmethod
    def of(
        cls, buf: NDArray[np.uint8], tuple_at: NDArray[np.int64], tuple_length: NDArray[np.int64], turn: NDArray[np.int64]
    ) -> Chunks:  # fmt: skip
        """Link the chunk tuples of a stretch, given in WAL order; each lies in `buf`. Raises CorruptTuple for one that holds no chunk, or not the
        next of its value."""
        count = len(tuple_at)
        chunks = cls(new_table(count), *(np.zeros(count, np.int64) for _ in range(4)))
        row, wrong = link_chunks(buf, tuple_at, tuple_length, turn, chunks)
        if wrong == _DAMAGED:
            raise CorruptTuple("found a TOAST chunk that is none", row=row)
        if wrong == _OUT_OF_SEQUENCE:
            raise CorruptTuple("got a TOAST chunk out of sequence", row=row)
        return chunks

    @classmethod
    def none(cls) -> Chunks:
        nothing = np.zeros(0, np.int64)
        return cls.of(np.zeros(0, np.uint8), nothing, nothing, nothing)


@kernel
def link_chunks(buf, tuple_at, tuple_length, turn, chunks):  # type: ignore[no-untyped-def]
    """Fill `chunks`, whose table is empty. Returns the first tuple that is no chunk, or not the next of its value, and what is wrong with it; _SOUND
    if nothing is."""
    last = np.full(len(tuple_at), -1, np.int64)  # last chunk so far, at the first one's place
    expected = np.zeros(len(tuple_at), np.int64)
    for i in range(len(tuple_at)):
        stop = tuple_at[i] + tuple_length[i]
        if tuple_length[i] < _SMALLEST:
            return i, _DAMAGED
        data = user_data_at(buf, tuple_at[i])
        if data < tuple_at[i] + SIZE_OF_HEADER or data + _CHUNK_DATA_AT >= stop:
            return i, _DAMAGED
        form, chunks.at[i], chunks.size[i], end = varlena_at(buf, data + _CHUNK_DATA_AT, stop)
        if form != PLAIN or end > stop:
            return i, _DAMAGED
        chunks.next[i] = -1
        chunks.keys[i] = (turn[i] << 32) | u32(buf, data + _CHUNK_ID_AT)
        first = find(chunks.table, chunks.keys, chunks.keys[i])
        if first < 0:
            chunks.table[-1 - first] = i
            first = np.int64(i)
        else:
            chunks.next[last[first]] = i
        last[first] = i
        if u32(buf, data + _CHUNK_SEQ_AT) != expected[first]:
            return i, _OUT_OF_SEQUENCE
        expected[first] += 1
    return -1, _SOUND


@inner_kernel
def first_chunk(chunks, turn, value):  # type: ignore[no-untyped-def]
    """The first chunk of a value, or a negative number."""
    return find(chunks.table, chunks.keys, (turn << 32) | value)


@inner_kernel
def size_of_chunks(chunks, first):  # type: ignore[no-untyped-def]
    """How much the chunks of a value hold together."""
    size = np.int64(0)
    chunk = first
    while chunk >= 0:
        size += chunks.size[chunk]
        chunk = chunks.next[chunk]
    return size
