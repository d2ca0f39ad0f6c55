"""cube (`cubedata.h`): u32 dimensions (top bit: a point), then the float8s of one corner and, if no point, of the other."""

from __future__ import annotations

import re
import struct

import numpy as np

from tailrace.model import PgType
from tailrace.types.codec import format_each, parse_each, receive_each, syntax_error
from tailrace.types.codec.binary_forms import swap_bytes
from tailrace.types.numbers.floats import print_floats
from tailrace.types.style import TextStyle
from tailrace.types.values import Mask, Texts, Values

POINT = 0x80000000
CORNERS = 4
"""Where the floats begin, behind the dimensions."""


def format_cubes(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As cube_out: (1, 2),(3, 4), and a point once. All floats of all rows are printed at once."""
    valid = values.valid.tolist()
    payloads = [payload if there else bytes(CORNERS) for payload, there in zip(values.payload_list(), valid, strict=True)]
    numbers = np.frombuffer(b"".join(payload[CORNERS:] for payload in payloads), "<f8")
    words = iter(print_floats(numbers, np.ones(len(numbers), np.bool_), style).to_list())
    texts = []
    for payload, there in zip(payloads, valid, strict=True):
        size = int.from_bytes(payload[:CORNERS], "little") & ~POINT
        floats = np.frombuffer(payload[CORNERS:], "<f8").tolist()
        first, second = [next(words) for _ in floats[:size]], [next(words) for _ in floats[size:]]
        # Two corners at one place are a point, too, though not stored as one.
        is_point = not second or floats[:size] == floats[size:]
        texts.append((f"({', '.join(first)})" + ("" if is_point else f",({', '.join(second)})")) if there else "")
    return Texts.of(texts)


def parse_cubes(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As cube_in, for the form that cube_out prints."""

    def parse_one(text: str) -> bytes:
        cube = re.fullmatch(r"\s*\(([^()]*)\)\s*(?:,\s*\(([^()]*)\))?\s*", text)
        if cube is None:
            raise syntax_error("cube", text)
        corners = [[float(word) for word in corner.split(",") if word.strip()] for corner in cube.groups() if corner is not None]
        if len(corners) == 2 and corners[0] == corners[1]:
            del corners[1]
        if len({len(corner) for corner in corners}) > 1:
            raise syntax_error("cube", text)
        head = len(corners[0]) | (POINT if len(corners) == 1 else 0)
        return struct.pack("<I", head) + b"".join(struct.pack(f"<{len(corner)}d", *corner) for corner in corners)

    return parse_each(texts, valid, pg_type, parse_one)


def send_cubes(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As cube_send: the same numbers, big-endian."""
    return format_each(values, _swapped)


def receive_cubes(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As cube_recv."""
    return receive_each(texts, valid, pg_type, _swapped)


def _swapped(raw: bytes) -> bytes:
    return swap_bytes(raw[:CORNERS], 4) + swap_bytes(raw[CORNERS:], 8)
