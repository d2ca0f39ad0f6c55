"""Values that catalogs keep inside a column: vectors, and the one-element array of a missing value (`attmissingval`)."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from tailrace.wal.compression import expanded


def signed16(value: int) -> int:
    value = int(value)
    return value - (1 << 16) if value >= 1 << 15 else value


def int2_vector(payload: bytes) -> tuple[int, ...]:
    """An int2vector's values: array header (ndim, dataoffset, elemtype, dim, lbound), then int2s."""
    return tuple(np.frombuffer(payload, "<i2", offset=20).tolist())


@lru_cache(maxsize=1 << 14)
def oid_vector(payload: bytes) -> tuple[int, ...]:
    """The same of an oidvector."""
    return tuple(np.frombuffer(payload, "<u4", offset=20).tolist())


def only_element(payload: bytes, length: int, align: int) -> bytes | None:
    """The one element of an attmissingval array, in stored form without its length word (A.3)."""
    data_offset = int.from_bytes(payload[4:8], "little")
    if int.from_bytes(payload[0:4], "little") == 0 or data_offset:
        return None
    # The header is 4 (length word) + 12 + 8 bytes; elements begin aligned to 8 from the length word.
    start = ((24 + 7) & ~7) - 4
    if length > 0:
        return payload[start : start + length]
    first = payload[start]
    if first & 1:
        return payload[start + 1 : start + (first >> 1)]
    total = int.from_bytes(payload[start : start + 4], "little") >> 2
    if first & 3 == 2:
        return expanded(payload[start : start + total])
    return payload[start + 4 : start + total]
