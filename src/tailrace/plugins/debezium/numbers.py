"""Numbers in JSON: decimals, which Kafka Connect has as bytes in base64, the number without its point, highest byte first, as
two's complement; and what Java's doubles are told from whole numbers by."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tailrace.kernels import inner_kernel, kernel
from tailrace.plugins.column_texts import put
from tailrace.plugins.debezium.binary import put_base64
from tailrace.types.codec.ascii import MINUS, NINE, POINT, QUOTE, ZERO
from tailrace.types.values import Mask, Texts, as_writable

_CHUNK = 9
"""Decimal digits that are multiplied in at once."""
_SCALE, _VALUE, _NULL, _BEHIND = (np.frombuffer(word, np.uint8) for word in (b'{"scale":', b',"value":"', b"null", b".0"))
_VARIABLE = len(_SCALE) + len(_VALUE) + 8
_SPECIAL = {"NaN": "NAN", "Infinity": "POSITIVE_INFINITY", "-Infinity": "NEGATIVE_INFINITY"}
"""As `SpecialValueDecimal` names them."""


def with_points(numbers: Texts) -> Texts:
    """Whole numbers end in `.0`; what has a point or an exponent, or is no number, stays as it is."""
    out, offsets = np.empty(len(numbers.data) + len(_BEHIND) * len(numbers), np.uint8), np.zeros(len(numbers) + 1, np.int64)
    put_points(numbers.offsets, as_writable(numbers.data), offsets, out)
    return Texts(offsets, out[: offsets[-1]])


def are_special(numbers: Texts) -> Mask:
    """Which are NaN or an infinity."""
    array = numbers.to_arrow()
    found: Mask = pc.is_in(array, pa.array(_SPECIAL, array.type)).to_numpy(zero_copy_only=False)
    return found


def special_named(numbers: Texts) -> Texts:
    """NaN and infinities by their names there."""
    if not are_special(numbers).any():
        return numbers
    array = numbers.to_arrow()
    for name, there in _SPECIAL.items():
        array = pc.if_else(pc.equal(array, name), pa.scalar(there, array.type), array)
    return Texts.of_arrow(array)


def decimal_literals(texts: Texts, valid: Mask, *, variable: bool) -> Texts:
    """Numbers as they are printed -> strings of base64; or, of a scale of their own, objects with it. NaN and infinities, which
    have no such form, become null."""
    room = 2 * len(texts.data) + len(texts) * (_VARIABLE + 20)
    offsets, out = np.zeros(len(texts) + 1, np.int64), np.empty(room, np.uint8)
    longest = int(np.diff(texts.offsets).max(initial=0))
    limbs, big = np.zeros(longest // 8 + 2, np.int64), np.zeros(longest + 12, np.uint8)
    write_decimals(texts.offsets, as_writable(texts.data), valid, variable, Scratch(limbs, big), offsets, out)
    return Texts(offsets, out[: offsets[-1]])


class Scratch(NamedTuple):
    """Room for one number: as limbs of 32 bits, lowest first, and as bytes, highest first."""

    limbs: NDArray[np.int64]
    big: NDArray[np.uint8]


@kernel
def put_points(offsets, data, to, out):  # type: ignore[no-untyped-def]
    """to[i + 1] becomes the end of number i."""
    at = np.int64(0)
    for row in range(len(to) - 1):
        start, stop = offsets[row], offsets[row + 1]
        at = put(out, at, data, start, stop)
        is_whole = stop > start
        for i in range(start, stop):
            is_whole &= ZERO <= data[i] <= NINE or data[i] == MINUS
        if is_whole:
            at = put(out, at, _BEHIND, 0, len(_BEHIND))
        to[row + 1] = at


@kernel
def write_decimals(offsets, data, valid, variable, scratch, to, out):  # type: ignore[no-untyped-def]
    """The literals, one after another; to[i + 1] becomes the end of row i."""
    limbs, big = scratch.limbs, scratch.big
    at = np.int64(0)
    for row in range(len(to) - 1):
        start, stop = offsets[row], offsets[row + 1]
        is_number = valid[row] and stop > start and ZERO <= data[stop - 1] <= NINE
        if valid[row] and not is_number:
            at = put(out, at, _NULL, 0, len(_NULL))
        elif is_number:
            if variable:
                stop = without_zeros(data, start, stop)
            used, scale = read_digits(data, start, stop, limbs)
            if variable:
                at = put_scale(out, at, scale)
            else:
                out[at] = QUOTE
                at += 1
            size = twos_complement(limbs, used, data[start] == MINUS, big)
            at = put_base64(out, at, big, 0, size)
            out[at] = QUOTE
            at += 1
            if variable:
                out[at] = ord("}")
                at += 1
        to[row + 1] = at


@inner_kernel
def read_digits(data, start, stop, limbs):  # type: ignore[no-untyped-def]
    """The digits of a number without its point as limbs of 32 bits, lowest first; how many limbs, and how many digits stood
    behind the point."""
    used = 0
    chunk = count = scale = 0
    factor = np.int64(1)
    behind = False
    for at in range(start, stop + 1):
        if at == stop or count == _CHUNK:
            carry = np.int64(chunk)
            for i in range(used):
                wide = limbs[i] * factor + carry
                limbs[i] = wide & 0xFFFFFFFF
                carry = wide >> 32
            if carry:
                limbs[used] = carry
                used += 1
            chunk = count = 0
            factor = np.int64(1)
        if at == stop:
            break
        if data[at] == POINT:
            behind = True
        elif ZERO <= data[at] <= NINE:
            chunk = chunk * 10 + data[at] - ZERO
            factor *= 10
            count += 1
            scale += behind
    return used, scale


@inner_kernel
def twos_complement(limbs, used, is_negative, big):  # type: ignore[no-untyped-def]
    """The number in as few bytes as hold it with its sign, highest first; how many."""
    size = 4 * used
    while size and not (limbs[(size - 1) // 4] >> (8 * ((size - 1) % 4))) & 0xFF:
        size -= 1
    size += 1  # for the sign
    carry = 1
    for i in range(size):
        byte = (limbs[i // 4] >> (8 * (i % 4))) & 0xFF if i < 4 * used else 0
        if is_negative:
            byte = (byte ^ 0xFF) + carry
            carry = byte >> 8
        big[size - 1 - i] = byte & 0xFF
    if size > 1 and (big[0] ^ (0xFF if big[1] & 0x80 else 0)) == 0:
        for i in range(size - 1):
            big[i] = big[i + 1]
        size -= 1
    return size


@inner_kernel
def put_scale(out, at, scale):  # type: ignore[no-untyped-def]
    """`{"scale":N,"value":"`."""
    at = put(out, at, _SCALE, 0, len(_SCALE))
    power = 1
    while power * 10 <= scale:
        power *= 10
    while power:
        out[at] = ZERO + scale // power % 10
        power //= 10
        at += 1
    return put(out, at, _VALUE, 0, len(_VALUE))


@inner_kernel
def without_zeros(data, start, stop):  # type: ignore[no-untyped-def]
    """Where a number ends without the zeros that end its fraction."""
    point = start
    while point < stop and data[point] != POINT:
        point += 1
    while stop - 1 > point and data[stop - 1] == ZERO:
        stop -= 1
    return stop
