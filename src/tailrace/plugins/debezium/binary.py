"""Bytes in JSON: as base64 (RFC 4648). And decimals, which Kafka Connect has as bytes: the number without its point, highest byte first, as two's
complement."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailrace.kernels import inner_kernel, kernel
from tailrace.plugins.json_text.columns import put
from tailrace.types.ascii import MINUS, NINE, POINT, QUOTE, ZERO
from tailrace.types.values import Mask, Texts, as_writable

_ALPHABET = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)
_PAD = ord("=")
_CHUNK = 9
"""Decimal digits that are multiplied in at once."""
_SCALE, _VALUE, _NULL = (np.frombuffer(word, np.uint8) for word in (b'{"scale":', b',"value":"', b"null"))
_VARIABLE = len(_SCALE) + len(_VALUE) + 8


def base64_texts(offsets: NDArray[np.int64], data: NDArray[np.uint8]) -> Texts:
    """Each run of bytes."""
    sizes = (np.diff(offsets) + 2) // 3 * 4
    to = np.zeros(len(offsets), np.int64)
    np.cumsum(sizes, out=to[1:])
    out = np.empty(to[-1], np.uint8)
    encode_rows(offsets, as_writable(data), to, out)
    return Texts(to, out)


def little_endian(bits: Texts) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Texts of binary digits, highest first, as bytes, lowest first: offsets and bytes."""
    to = np.zeros(len(bits) + 1, np.int64)
    np.cumsum((np.diff(bits.offsets) + 7) // 8, out=to[1:])
    out = np.zeros(to[-1], np.uint8)
    gather_bits(bits.offsets, as_writable(bits.data), to, out)
    return to, out


def decimal_literals(texts: Texts, valid: Mask, *, variable: bool) -> Texts:
    """Numbers as they are printed -> strings of base64; or, of a scale of their own, objects with it. NaN and infinities, which have no such form,
    become null."""
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
def encode_rows(offsets, data, to, out):  # type: ignore[no-untyped-def]
    """Run i to out[to[i]]."""
    for row in range(len(to) - 1):
        put_base64(out, to[row], data, offsets[row], offsets[row + 1])


@inner_kernel
def put_base64(out, to, data, start, stop):  # type: ignore[no-untyped-def]
    """Append data[start:stop]; where it ends in `out`."""
    for at in range(start, stop, 3):
        left = stop - at
        word = np.int64(data[at]) << 16
        if left > 1:
            word |= np.int64(data[at + 1]) << 8
        if left > 2:
            word |= np.int64(data[at + 2])
        for place in range(4):
            out[to + place] = _ALPHABET[(word >> (18 - 6 * place)) & 63] if place <= left else _PAD
        to += 4
    return to


@kernel
def gather_bits(offsets, digits, to, out):  # type: ignore[no-untyped-def]
    for row in range(len(to) - 1):
        last = offsets[row + 1] - 1
        for bit in range(offsets[row + 1] - offsets[row]):
            if digits[last - bit] != ZERO:
                out[to[row] + bit // 8] |= 1 << (bit % 8)


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
    """The digits of a number without its point as limbs of 32 bits, lowest first; how many limbs, and how many digits stood behind the point."""
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
