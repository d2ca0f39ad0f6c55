"""What a catalog column holds that is no plain number or name: int2, float4, int2vector, oidvector, `attmissingval` (an array of one element), and
what it says of a type that is to be a length or an alignment."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tailrace.errors import CorruptWal
from tailrace.model import Lsn
from tailrace.transactions.commit_or_abort import NEVER
from tailrace.wal.compression import expanded

WORD = 4
"""Width of the length word, which payloads lack."""
DATA_OFFSET = 4
"""Where an array's header says where its data begins (0: it has no NULLs). Before it is the number of dimensions (`utils/array.h`)."""
HEADER = 20
"""Bytes of the header of an array of one dimension: ndim, dataoffset, elemtype, dim, lbound."""


_ALIGN = {"c": 1, "s": 2, "i": 4, "d": 8}
_MISREAD = (ValueError, LookupError, TypeError, OverflowError, RecursionError, struct.error)
"""What is raised over rows of catalogs that no server writes."""


@contextmanager
def as_written(what: str, lsn: int) -> Iterator[None]:
    """Raises CorruptWal where the rows that tell of `what`, at `lsn`, say what no server writes."""
    try:
        yield
    except _MISREAD as error:
        at = Lsn(lsn) if lsn < NEVER else None
        raise CorruptWal(f"the catalogs have no valid rows of {what}" + (f" at {at}" if at else ""), lsn=at) from error


def length_of(attlen: int) -> int:
    """A type's length, or -1 of a varlena, -2 of a cstring. Raises ValueError for what is none of these."""
    if attlen < -2 or attlen == 0:
        raise ValueError(f"invalid length of a type: {attlen}")
    return attlen


def align_of(letter: int) -> int:
    """A type's alignment, in bytes. Raises ValueError or KeyError for a letter that stands for none."""
    return _ALIGN[chr(letter)]


def signed16(value: int) -> int:
    """An int2, which is read as unsigned."""
    value = int(value)
    return value - (1 << 16) if value >= 1 << 15 else value


def signed32(number: int) -> int:
    """A signed integer of 32 bits that was read as an unsigned one: a modifier."""
    return number - (1 << 32) if number >= 1 << 31 else number


def int2_vector(payload: bytes) -> tuple[int, ...]:
    """The values of an int2vector."""
    return tuple(np.frombuffer(payload, "<i2", offset=HEADER).tolist())


@lru_cache(maxsize=1 << 14)
def oid_vector(payload: bytes) -> tuple[int, ...]:
    """The values of an oidvector."""
    return tuple(np.frombuffer(payload, "<u4", offset=HEADER).tolist())


def text_elements(payload: bytes) -> Iterator[bytes]:
    """The elements of a text[] of one dimension without NULLs, such as reloptions. Each has a length word, and begins aligned."""
    at = HEADER
    while at + WORD <= len(payload):
        size = int.from_bytes(payload[at : at + WORD], "little") >> 2
        yield payload[at + WORD : at + size]
        at += max(size + 3 & ~3, WORD)


def float4s(values: NDArray[np.int64]) -> NDArray[np.float64]:
    """float4s, which are read as unsigned integers of four bytes."""
    return values.astype(np.uint32).view("<f4").astype(np.float64)


def only_element(payload: bytes, length: int) -> bytes | None:
    """The one element of an attmissingval array, in stored form without its length word (`getmissingattr`); None where there is none."""
    data_offset = int.from_bytes(payload[DATA_OFFSET : DATA_OFFSET + 4], "little")
    if int.from_bytes(payload[:DATA_OFFSET], "little") == 0 or data_offset:
        return None
    start = ((WORD + HEADER + 7) & ~7) - WORD  # aligned to 8, counted from the length word
    if length > 0:
        return payload[start : start + length]
    first = payload[start]
    if first & 1:
        return payload[start + 1 : start + (first >> 1)]
    total = int.from_bytes(payload[start : start + WORD], "little") >> 2
    if first & 3 == 2:
        return expanded(payload[start : start + total])
    return payload[start + WORD : start + total]
