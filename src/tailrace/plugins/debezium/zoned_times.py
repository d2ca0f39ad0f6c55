"""Moments as Java prints them in UTC (`DateTimeFormatter.ISO_OFFSET_DATE_TIME`): years behind 9999 with a plus, those before
Christ counted on with a minus, as many digits of a second as the column has."""

from __future__ import annotations

import numpy as np

from tailrace.kernels import inner_kernel, kernel
from tailrace.plugins.column_texts import put
from tailrace.types.codec.ascii import MINUS, NINE, PLUS, POINT, SPACE, ZERO
from tailrace.types.values import Texts, as_writable

_LONGEST = 40
_YEAR_DIGITS = 4
_ZONE = len("+00")


def zoned_texts(printed: Texts, digits: int) -> Texts:
    """From `2024-02-29 10:34:56.789+00`, as PostgreSQL prints them in UTC; infinities stay as they are."""
    out, offsets = np.empty(len(printed.data) + _LONGEST * len(printed), np.uint8), np.zeros(len(printed) + 1, np.int64)
    write_zoned(printed.offsets, as_writable(printed.data), digits, offsets, out)
    return Texts(offsets, out[: offsets[-1]])


@kernel
def write_zoned(offsets, data, digits, to, out):  # type: ignore[no-untyped-def]
    """to[i + 1] becomes the end of moment i."""
    at = np.int64(0)
    for row in range(len(to) - 1):
        start, stop = offsets[row], offsets[row + 1]
        if stop > start and ZERO <= data[start] <= NINE:
            at = put_zoned(out, at, data, start, stop, digits)
        else:
            at = put(out, at, data, start, stop)
        to[row + 1] = at


@inner_kernel
def put_zoned(out, to, data, start, stop, digits):  # type: ignore[no-untyped-def]
    before_christ = data[stop - 1] == ord("C")
    if before_christ:
        stop -= 3
    year, at = np.int64(0), start
    while at < stop and data[at] != MINUS:
        year = 10 * year + data[at] - ZERO
        at += 1
    to = put_year(out, to, 1 - year if before_christ else year)
    stop -= _ZONE
    point = stop
    for i in range(at, stop):
        if data[i] == POINT:
            point = i
    for i in range(at, point):
        out[to] = ord("T") if data[i] == SPACE else data[i]
        to += 1
    if digits:
        out[to] = POINT
        to += 1
        for i in range(digits):
            out[to] = data[point + 1 + i] if point + 1 + i < stop else ZERO
            to += 1
    out[to] = ord("Z")
    return to + 1


@inner_kernel
def put_year(out, to, year):  # type: ignore[no-untyped-def]
    """With its sign where it needs one, and in four digits at least."""
    size, power = 1, 10
    while power <= abs(year):
        size, power = size + 1, power * 10
    if year < 0 or size > _YEAR_DIGITS:
        out[to] = MINUS if year < 0 else PLUS
        to += 1
    year = abs(year)
    size = max(size, _YEAR_DIGITS)
    for i in range(size):
        out[to + size - 1 - i] = ZERO + year % 10
        year //= 10
    return to + size
