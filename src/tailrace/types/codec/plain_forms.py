"""Input functions of types that are in every table: a kernel reads what output functions print, and the rest is read one by one.

In: a column of texts (or binary forms), a kernel that reads those of the usual form and says which it left, and a function that reads any one, or
raises. Out: the column in stored form. The kernel must read a value as that function would; so errors, spaces around a number and all that is rare
have one place.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailrace.model import PgType
from tailrace.types.codec import cut_short
from tailrace.types.values import Mask, Texts, Values, as_string, as_writable

PlainNumbers = Callable[[Any, Any, Any, Any], NDArray[np.bool_]]
"""(offsets, data, valid, numbers) -> which valid rows it left; the others' numbers it has set."""
PlainPayloads = Callable[[Any, Any, Any], tuple[NDArray[np.int64], NDArray[np.uint8], NDArray[np.bool_]]]
"""(offsets, data, valid) -> (offsets, payloads, which valid rows it left); those it left are empty."""


def parse_numbers(texts: Texts, valid: Mask, dtype: str, plain: PlainNumbers, parse_one: Callable[[str], bytes]) -> Values:
    """A fixed-length type whose stored form is one number of `dtype`. The kernel gives int64s, sure to fit."""
    numbers = np.zeros(len(texts), np.int64)
    left = plain(as_writable(texts.offsets), as_writable(texts.data), as_writable(valid), numbers)
    stored = numbers.astype(dtype)
    fixed = stored.view(np.uint8).reshape(len(texts), stored.itemsize)
    for row in np.flatnonzero(left).tolist():
        fixed[row] = np.frombuffer(parse_one(as_string(_bytes_of(texts, row))), np.uint8)
    return Values(valid, fixed=fixed)


def receive_payloads(
    texts: Texts, valid: Mask, pg_type: PgType, plain: PlainPayloads, read_one: Callable[[bytes], bytes]
) -> Values:  # fmt: skip
    """A varlena, from its binary form."""
    try:
        return parse_payloads(texts, valid, plain, read_one)
    except (struct.error, IndexError):
        raise cut_short(pg_type) from None


def parse_payloads(texts: Texts, valid: Mask, plain: PlainPayloads, read_one: Callable[[bytes], bytes]) -> Values:
    """A varlena."""
    offsets, data, left = plain(as_writable(texts.offsets), as_writable(texts.data), as_writable(valid))
    if not left.any():
        return Values(valid, offsets=offsets, data=data)
    rows = np.flatnonzero(left)
    rest = Values.of_payloads([read_one(_bytes_of(texts, row)) for row in rows.tolist()], -1)
    more, behind = rest.payloads
    both = Values(
        np.concatenate([valid, rest.valid]),
        offsets=np.concatenate([offsets, more[1:] + offsets[-1]]),
        data=np.concatenate([data, behind]),
    )
    place = np.arange(len(texts))
    place[rows] = len(texts) + np.arange(len(rows))
    return both.take(place)


def _bytes_of(texts: Texts, row: int) -> bytes:
    return texts.data[texts.offsets[row] : texts.offsets[row + 1]].tobytes()
