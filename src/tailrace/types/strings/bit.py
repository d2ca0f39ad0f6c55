"""bit and varbit: i32 number of bits, then the bits, highest first (`utils/varbit.h`). As text 0101; in Arrow a string of that."""

from __future__ import annotations

import numpy as np

from tailrace.errors import UsageError
from tailrace.model import PgType
from tailrace.types.codec import format_each, none_of_its_type, parse_each, receive_each
from tailrace.types.codec.binary_forms import swap_bytes
from tailrace.types.style import TextStyle
from tailrace.types.values import Mask, Texts, Values

BITS = 4
"""Where the bits begin, behind their number."""


def format_bits(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As varbit_out. Raises CorruptWal for a value that has fewer bits than it says."""
    starts, data = values.payloads
    if (np.diff(starts)[values.valid] < BITS).any():
        raise none_of_its_type(pg_type)
    lengths = np.zeros(len(values), np.int64)
    heads = starts[:-1][values.valid]
    for place in range(BITS):
        lengths[values.valid] |= data[heads + place].astype(np.int64) << (8 * place)
    if (lengths > np.maximum(8 * (np.diff(starts) - BITS), 0)).any():
        raise none_of_its_type(pg_type)
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    places = np.repeat(8 * (starts[:-1] + BITS) - offsets[:-1], lengths) + np.arange(offsets[-1])
    return Texts(offsets, np.unpackbits(data)[places] + np.uint8(ord("0")))


def parse_bits(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As varbit_in, of binary digits."""

    def parse_one(text: str) -> bytes:
        if set(text) - set("01"):
            raise UsageError(f'"{text}" is not a valid binary digit', sqlstate="22P02")
        padded = text.ljust(-(-len(text) // 8) * 8, "0")
        return len(text).to_bytes(4, "little") + bytes(int(padded[at : at + 8], 2) for at in range(0, len(padded), 8))

    return parse_each(texts, valid, pg_type, parse_one)


def send_bits(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As varbit_send: how many bits, then the bits."""
    return format_each(values, _swapped)


def receive_bits(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As varbit_recv."""
    return receive_each(texts, valid, pg_type, _swapped)


def _swapped(raw: bytes) -> bytes:
    return swap_bytes(raw[:BITS], BITS) + raw[BITS:]
