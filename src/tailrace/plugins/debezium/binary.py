"""Bytes in JSON: as base64 (RFC 4648)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tailrace.kernels import inner_kernel, kernel
from tailrace.types.codec.ascii import ZERO
from tailrace.types.values import Texts, as_writable

_ALPHABET = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)
_PAD = ord("=")


def base64_texts(offsets: NDArray[np.int64], data: NDArray[np.uint8]) -> Texts:
    """Encode each run of bytes."""
    sizes = (np.diff(offsets) + 2) // 3 * 4
    to = np.zeros(len(offsets), np.int64)
    np.cumsum(sizes, out=to[1:])
    out = np.empty(to[-1], np.uint8)
    encode_rows(offsets, as_writable(data), to, out)
    return Texts(to, out)


def little_endian(bits: Texts) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Texts of binary digits, highest first, as bytes, lowest first: offsets and bytes. Bytes of zeros behind the last other one
    are left out, as Java's BitSet leaves them out."""
    digits, to = as_writable(bits.data), np.zeros(len(bits) + 1, np.int64)
    count_bytes(bits.offsets, digits, to)
    out = np.zeros(to[-1], np.uint8)
    gather_bits(bits.offsets, digits, to, out)
    return to, out


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
def count_bytes(offsets, digits, to):  # type: ignore[no-untyped-def]
    """to[i + 1] becomes the end of run i."""
    for row in range(len(to) - 1):
        first, stop = offsets[row], offsets[row + 1]
        while first < stop and digits[first] == ZERO:
            first += 1
        to[row + 1] = to[row] + (stop - first + 7) // 8


@kernel
def gather_bits(offsets, digits, to, out):  # type: ignore[no-untyped-def]
    for row in range(len(to) - 1):
        last = offsets[row + 1] - 1
        for bit in range(min(offsets[row + 1] - offsets[row], 8 * (to[row + 1] - to[row]))):
            if digits[last - bit] != ZERO:
                out[to[row] + bit // 8] |= 1 << (bit % 8)
