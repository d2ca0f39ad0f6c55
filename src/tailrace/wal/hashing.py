"""Open-addressing tables inside kernels: what a transaction id or a file number stands for, without leaving compiled code.

A table is an int32 array of slots (-1: free), twice as large as its keys at least; keys live in arrays of the caller, by slot.
"""

from __future__ import annotations

import numpy as np

from tailrace.kernels import kernel

_MIX = np.uint64(0x9E3779B97F4A7C15)


@kernel
def new_table(capacity):  # type: ignore[no-untyped-def]
    """A table for up to `capacity` keys."""
    size = 16
    while size < 2 * capacity:
        size *= 2
    return np.full(size, -1, np.int32)


@kernel
def home(key, mask):  # type: ignore[no-untyped-def]
    """Where the search for `key` begins."""
    mixed = np.uint64(key) * _MIX
    return np.int64(mixed >> np.uint64(32)) & mask


@kernel
def find(table, keys, key):  # type: ignore[no-untyped-def]
    """The slot of `key`, or -1 - (free place in the table), where its slot is to be put."""
    return find_pair(table, keys, keys, key, key)


@kernel
def find_pair(table, keys, others, key, other):  # type: ignore[no-untyped-def]
    """As `find`, where a key may come several times, each time with another of `others`."""
    mask = len(table) - 1
    place = home(key, mask)
    while True:
        slot = table[place]
        if slot < 0:
            return -1 - place
        if keys[slot] == key and others[slot] == other:
            return np.int64(slot)
        place = (place + 1) & mask


@kernel
def rehashed(keys, count, capacity):  # type: ignore[no-untyped-def]
    """A new table over keys[:count] with room for `capacity`."""
    table = new_table(capacity)
    mask = len(table) - 1
    for slot in range(count):
        place = home(keys[slot], mask)
        while table[place] >= 0:
            place = (place + 1) & mask
        table[place] = slot
    return table


@kernel
def grown(array, capacity):  # type: ignore[no-untyped-def]
    """A longer copy of a one-dimensional array."""
    longer = np.zeros(capacity, array.dtype)
    longer[: len(array)] = array
    return longer
