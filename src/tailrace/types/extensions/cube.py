"""cube (`cubedata.h`): u32 dimensions (top bit: a point), then the float8s of one corner and, if no point, of the other."""

from __future__ import annotations

import re
import struct

import numpy as np

from tailrace.model import PgType
from tailrace.types.binary_forms import swap_bytes
from tailrace.types.codec import format_each, parse_each, receive_each, syntax_error
from tailrace.types.numbers.floats.text import format_floats
from tailrace.types.style import TextStyle
from tailrace.types.values import Mask, Texts, Values

FLOAT8 = PgType(701, "pg_catalog", "float8", "double precision", "b", 8, 8)
POINT = 0x80000000


def format_cubes(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As cube_out: (1, 2),(3, 4), and a point once. All floats of all rows are printed at once."""
    payloads = [payload if there else bytes(4) for payload, there in zip(values.payload_list(), values.valid, strict=True)]
    raw = np.frombuffer(b"".join(payload[4:] for payload in payloads), np.uint8).reshape(-1, 8)
    words = iter(format_floats(Values(np.ones(len(raw), np.bool_), fixed=raw), FLOAT8, style).to_list())
    texts = []
    for payload, there in zip(payloads, values.valid.tolist(), strict=True):
        corners = [next(words) for _ in range(len(payload) // 8)]
        size = int.from_bytes(payload[:4], "little") & ~POINT
        first, second = corners[:size], corners[size:]
        other = payload[4 + 8 * size :]
        # Two corners at one place are a point, too, though not stored as one.
        shown = second and np.frombuffer(payload[4 : 4 + 8 * size]).tolist() != np.frombuffer(other).tolist()
        texts.append((f"({', '.join(first)})" + (f",({', '.join(second)})" if shown else "")) if there else "")
    return Texts.of(texts)


def parse_cubes(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As cube_in, for the form that cube_out prints."""

    def parse_one(text: str) -> bytes:
        found = re.fullmatch(r"\s*\(([^()]*)\)\s*(?:,\s*\(([^()]*)\))?\s*", text)
        if found is None:
            raise syntax_error("cube", text)
        corners = [[float(word) for word in corner.split(",") if word.strip()] for corner in found.groups() if corner is not None]
        if len(corners) == 2 and corners[0] == corners[1]:
            del corners[1]
        if len({len(corner) for corner in corners}) > 1:
            raise syntax_error("cube", text)
        head = len(corners[0]) | (POINT if len(corners) == 1 else 0)
        return struct.pack("<I", head) + b"".join(struct.pack(f"<{len(corner)}d", *corner) for corner in corners)

    return parse_each(texts, valid, pg_type, parse_one)


def send_cubes(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """The same words, big-endian."""
    return format_each(values, _swapped)


def receive_cubes(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    return receive_each(texts, valid, pg_type, _swapped)


def _swapped(raw: bytes) -> bytes:
    return swap_bytes(raw[:4], 4) + swap_bytes(raw[4:], 8)
