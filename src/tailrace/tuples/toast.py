"""TOAST chunks of a stretch, found by the row that they serve and the value's id (rule 7).

A chunk serves the next row of its xid (for a batch, the rows up to the one marked LAST_IN_MULTI) and then is forgotten, as the server
forgets it. Scan and decode count these turns per xid; the number of a turn is its *epoch*, unique in a stretch, and
(epoch, value id) is the key.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailrace.errors import CorruptWal
from tailrace.kernels import kernel
from tailrace.wal.hashing import find, new_table
from tailrace.wal.unaligned import u8, u32


@kernel
def find_value(table, keys, epoch, value):  # type: ignore[no-untyped-def]
    """First chunk of a value, or a negative number."""
    return find(table, keys, (epoch << 32) | value)


@kernel
def read_chunks(buf, tuple_at, tuple_length, epoch, keys, at, size, following):  # type: ignore[no-untyped-def]
    """Chunk tuples (chunk_id oid, chunk_seq int4, chunk_data bytea) -> linked values. Returns the table, or marks keys[0] = -1 on damage."""
    table = new_table(len(tuple_at))
    last = np.full(len(tuple_at), -1, np.int64)  # last chunk so far, at the first one's place
    expected = np.zeros(len(tuple_at), np.int64)
    for i in range(len(tuple_at)):
        data = tuple_at[i] + 5 + buf[tuple_at[i] + 4] - 23
        value = u32(buf, data)
        sequence = u32(buf, data + 4)
        first = u8(buf, data + 8)
        if first & 1:
            at[i] = data + 9
            size[i] = (first >> 1) - 1
        else:
            at[i] = data + 12
            size[i] = (u32(buf, data + 8) >> 2) - 4
        following[i] = -1
        key = (epoch[i] << 32) | value
        keys[i] = key
        found = find(table, keys, key)
        if found < 0:
            table[-1 - found] = i
            found = np.int64(i)
        else:
            following[last[found]] = i
        last[found] = i
        if sequence != expected[found]:
            keys[0] = -1
            return table
        expected[found] += 1
    return table


@dataclass(slots=True)
class Chunks:
    """Chunk i holds `buf[at[i] : at[i] + size[i]]`; `next` links the chunks of a value; `table` over `keys` finds its first."""

    table: NDArray[np.int32]
    keys: NDArray[np.int64]
    at: NDArray[np.int64]
    size: NDArray[np.int64]
    next: NDArray[np.int64]

    @classmethod
    def of(
        cls, buf: NDArray[np.uint8], tuple_at: NDArray[np.int64], tuple_length: NDArray[np.int64], epoch: NDArray[np.int64]
    ) -> Chunks:
        """Link the chunk tuples of a stretch, given in WAL order."""
        n = len(tuple_at)
        keys, at, size, following = (np.zeros(n, np.int64) for _ in range(4))
        table = read_chunks(buf, tuple_at, tuple_length, epoch, keys, at, size, following)
        if n and keys[0] == -1:
            raise CorruptWal("got a TOAST chunk out of sequence")
        return cls(table, keys, at, size, following)
