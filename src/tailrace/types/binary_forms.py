"""Binary forms of plain values: what send functions send and receive functions take.

Most fixed-length types are numbers in a row, stored little-endian and sent big-endian: `swapped` makes their functions from the
widths of the numbers. Types that are their own text or bytes travel as they are.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from itertools import accumulate
from typing import Any

import numpy as np

from tailrace.errors import UsageError
from tailrace.kernels import kernel
from tailrace.model import PgType
from tailrace.types.codec import format_each, format_error, receive_each
from tailrace.types.geometric import BOX, PATH, POLYGON
from tailrace.types.network import CIDR
from tailrace.types.numbers.numeric.text import read_numeric
from tailrace.types.style import TextStyle
from tailrace.types.values import Mask, Texts, Values, as_writable

Send = Callable[[Values, PgType, TextStyle], Texts]
Receive = Callable[[Texts, Mask, PgType], Values]


def swapped(*widths: int) -> tuple[Send, Receive]:
    """Send and receive functions of a fixed-length type of numbers that wide: the bytes of each change their order."""
    order = np.concatenate([np.arange(start, start + width)[::-1] for start, width in zip(_starts(widths), widths, strict=True)])
    return lambda values, pg_type, style: _send_fixed(values, order), lambda texts, valid, pg_type: _receive_fixed(
        texts, valid, order
    )


def _starts(widths: tuple[int, ...]) -> list[int]:
    return [0, *accumulate(widths[:-1])]


def _send_fixed(values: Values, order: np.ndarray) -> Texts:
    assert values.fixed is not None
    rows = values.fixed if values.valid.all() else values.fixed[values.valid]
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum(np.where(values.valid, len(order), 0), out=offsets[1:])
    return Texts(offsets, rows[:, order].reshape(-1))


def _receive_fixed(texts: Texts, valid: Mask, order: np.ndarray) -> Values:
    sizes = np.diff(texts.offsets)[valid]
    if (sizes != len(order)).any():
        short = bool((sizes < len(order)).any())
        words = "insufficient data left in message" if short else "incorrect binary data format"
        raise UsageError(words, sqlstate="08P01" if short else "22P03")
    fixed = np.zeros((len(texts), len(order)), np.uint8)
    places = texts.offsets[:-1][valid]
    fixed[valid] = texts.data[places[:, None] + order]
    return Values(valid, fixed=fixed)


def send_bytes(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """The payload itself: texts and bytea. Not copied."""
    return Texts(*values.payloads)


def receive_bytes(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    return Values(valid, offsets=texts.offsets, data=texts.data)


@kernel
def _send_numerics(starts: Any, data: Any, valid: Any) -> Any:
    """u16 digits, i16 weight, u16 sign, u16 scale, then the base-10000 digits."""
    rows = len(valid)
    offsets = np.empty(rows + 1, np.int64)
    offsets[0] = 0
    out = np.empty(8 * rows + len(data), np.uint8)
    at = 0
    for row in range(rows):
        if valid[row]:
            sign, weight, scale, here = read_numeric(data, starts[row])
            stop = starts[row + 1]
            if sign >= 2:
                # The infinities' own bit lies in the field of the scale, and is sent as one.
                kind = 0xC000 if sign == 2 else (0xD000 if sign == 3 else 0xF000)
                scale = 0 if sign == 2 else 32
            else:
                kind = 0x4000 if sign == 1 else 0
            for word in ((stop - here) // 2, weight & 0xFFFF, kind, scale):
                out[at] = word >> 8
                out[at + 1] = word & 255
                at += 2
            while here < stop:
                out[at] = data[here + 1]
                out[at + 1] = data[here]
                here += 2
                at += 2
        offsets[row + 1] = at
    return offsets, out[:at]


def send_numerics(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As numeric_send."""
    return Texts(*_send_numerics(*values.payloads, as_writable(values.valid)))


def receive_numerics(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As numeric_recv without a modifier."""

    def read_one(sent: bytes) -> bytes:
        count, weight, sign, scale = struct.unpack_from(">HhHH", sent)
        if sign in {0xC000, 0xD000, 0xF000}:
            return struct.pack("<H", sign)
        digits = struct.unpack_from(f">{count}H", sent, 8)
        if sign not in {0, 0x4000} or any(digit > 9999 for digit in digits) or scale > 0x3FFF:
            raise format_error("numeric")
        body = struct.pack(f"<{count}H", *digits)
        if scale <= 0x3F and -0x40 <= weight <= 0x3F:
            return struct.pack("<H", 0x8000 | sign >> 1 | scale << 7 | weight & 0x7F) + body
        return struct.pack("<Hh", sign | scale, weight) + body

    return receive_each(texts, valid, pg_type, read_one)


def send_bits(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """How many bits, then the bits."""
    return format_each(values, lambda payload: payload[3::-1] + payload[4:])


def receive_bits(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    return receive_each(texts, valid, pg_type, lambda sent: sent[3::-1] + sent[4:])


def send_networks(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """Family, bits of the mask, whether it is a cidr, length of the address, address."""
    flag = int(pg_type.oid == CIDR)
    return format_each(values, lambda payload: payload[:2] + bytes((flag, len(payload) - 2)) + payload[2:])


def receive_networks(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    def read_one(sent: bytes) -> bytes:
        if sent[0] not in {2, 3} or sent[3] != (4 if sent[0] == 2 else 16) or len(sent) != 4 + sent[3] or sent[1] > 8 * sent[3]:
            raise format_error(pg_type.label)
        return sent[:2] + sent[4:]

    return receive_each(texts, valid, pg_type, read_one)


def send_shapes(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """The float8s; a path says before them whether it is closed, and like a polygon how many points follow."""

    def form_of(payload: bytes) -> bytes:
        if pg_type.oid == PATH:
            points, closed = struct.unpack_from("<ii", payload)
            return struct.pack(">bi", closed, points) + _turned(payload[12:])
        return payload[3::-1] + _turned(payload[36:])

    return format_each(values, form_of)


def receive_shapes(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """path and polygon; the latter's bounding box is made anew."""

    def read_one(sent: bytes) -> bytes:
        if pg_type.oid == PATH:
            closed, points = struct.unpack_from(">bi", sent)
            return struct.pack("<iii", points, closed, 0) + _turned(sent[5 : 5 + 16 * points])
        (points,) = struct.unpack_from(">i", sent)
        numbers = struct.unpack_from(f">{2 * points}d", sent, 4)
        xs, ys = numbers[::2], numbers[1::2]
        return struct.pack(f"<i4d{2 * points}d", points, max(xs), max(ys), min(xs), min(ys), *numbers)

    assert pg_type.oid in {PATH, POLYGON, BOX}
    return receive_each(texts, valid, pg_type, read_one)


def _turned(floats: bytes) -> bytes:
    return np.frombuffer(floats, "<u8").byteswap().tobytes()


def send_versioned(values: Values, pg_type: PgType, style: TextStyle, texts: Texts) -> Texts:
    """The text with the version of the form before it, which is 1: jsonb, jsonpath, ltree."""
    rows = zip(texts.to_bytes(), values.valid.tolist(), strict=True)
    return Texts.of([b"\1" + text if there else b"" for text, there in rows])


def without_version(texts: Texts, valid: Mask, pg_type: PgType) -> Texts:
    """The texts behind their version."""
    rows = list(zip(texts.to_bytes(), valid.tolist(), strict=True))
    for sent, there in rows:
        if there and sent[:1] != b"\1":
            version = sent[0] if sent else 0
            raise UsageError(f"unsupported {pg_type.name} version number {version}", sqlstate="XX000")
    return Texts.of([sent[1:] for sent, _ in rows])
