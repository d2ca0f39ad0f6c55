"""point, lseg, path, box, polygon, line, circle: float8s in a row. In Arrow they are strings of their text.

path and polygon count their points first (`utils/geo_decls.h`): path i32 points, i32 closed, 4 bytes of padding; polygon
i32 points, then its bounding box, which is not printed. A box stores its upper right corner first.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable

import numpy as np

from tailrace.model import PgType
from tailrace.types.binary_forms import receive_swapped, send_swapped, swap_bytes
from tailrace.types.codec import Codec, format_each, parse_each, receive_each, syntax_error
from tailrace.types.numbers.floats.text import format_floats
from tailrace.types.style import TextStyle
from tailrace.types.values import Mask, Texts, Values

POINTOID, LSEGOID, PATHOID, BOXOID, POLYGONOID, LINEOID, CIRCLEOID = 600, 601, 602, 603, 604, 628, 718
SKIPPED = {PATHOID: 12, POLYGONOID: 36}
"""Bytes before the floats that are printed."""
FLOAT8 = PgType(701, "pg_catalog", "float8", "double precision", "b", 8, 8)
NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*(?:e[+-]?\d+)?|\.\d+(?:e[+-]?\d+)?|infinity|nan)", re.I)


def format_shapes(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """All floats of all rows are printed at once; then each row takes its share."""
    payloads = values.payload_list()
    skip = SKIPPED.get(pg_type.oid, 0)
    raw = b"".join(payload[skip:] if present else b"" for payload, present in zip(payloads, values.valid, strict=True))
    floats = Values(np.ones(len(raw) // 8, np.bool_), fixed=np.frombuffer(raw, np.uint8).reshape(-1, 8))
    words = iter(format_floats(floats, FLOAT8, style).to_list())
    lay_out = _LAYOUTS[pg_type.oid]
    texts = []
    for payload, present in zip(payloads, values.valid.tolist(), strict=True):
        numbers = [next(words) for _ in range((len(payload) - skip) // 8)] if present else []
        texts.append(lay_out(payload, numbers) if present else "")
    return Texts.of(texts)


def _points(numbers: list[str]) -> str:
    return ",".join(f"({x},{y})" for x, y in zip(numbers[::2], numbers[1::2], strict=True))


def _path(payload: bytes, numbers: list[str]) -> str:
    closed = struct.unpack_from("<i", payload, 4)[0]
    return f"({_points(numbers)})" if closed else f"[{_points(numbers)}]"


_LAYOUTS: dict[int, Callable[[bytes, list[str]], str]] = {
    POINTOID: lambda _, numbers: _points(numbers),
    LSEGOID: lambda _, numbers: f"[{_points(numbers)}]",
    PATHOID: _path,
    BOXOID: lambda _, numbers: _points(numbers),
    POLYGONOID: lambda _, numbers: f"({_points(numbers)})",
    LINEOID: lambda _, numbers: "{" + ",".join(numbers) + "}",
    CIRCLEOID: lambda _, numbers: f"<({numbers[0]},{numbers[1]}),{numbers[2]}>",
}


def parse_shapes(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """The numbers in their order; brackets only matter for a path, where [ means open."""

    def parse_one(text: str) -> bytes:
        numbers = [float(word) for word in NUMBER.findall(text)]
        expected = {POINTOID: 2, LSEGOID: 4, BOXOID: 4, LINEOID: 3, CIRCLEOID: 3}.get(pg_type.oid)
        if (expected and len(numbers) != expected) or len(numbers) < 2 or (not expected and len(numbers) % 2):
            raise syntax_error(pg_type.name, text)
        body = struct.pack(f"<{len(numbers)}d", *numbers)
        if pg_type.oid == BOXOID:
            xs, ys = numbers[::2], numbers[1::2]
            return struct.pack("<4d", max(xs), max(ys), min(xs), min(ys))
        if pg_type.oid == PATHOID:
            return struct.pack("<iii", len(numbers) // 2, not text.lstrip().startswith("["), 0) + body
        if pg_type.oid == POLYGONOID:
            xs, ys = numbers[::2], numbers[1::2]
            return struct.pack("<i4d", len(xs), max(xs), max(ys), min(xs), min(ys)) + body
        return body

    return parse_each(texts, valid, pg_type, parse_one)


def send_shapes(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """The float8s; a path says before them whether it is closed, and like a polygon how many points follow."""

    def form_of(payload: bytes) -> bytes:
        if pg_type.oid == PATHOID:
            points, closed = struct.unpack_from("<ii", payload)
            return struct.pack(">bi", closed, points) + swap_bytes(payload[12:], 8)
        return payload[3::-1] + swap_bytes(payload[36:], 8)

    return format_each(values, form_of)


def receive_shapes(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """path and polygon; the latter's bounding box is made anew."""

    def read_one(sent: bytes) -> bytes:
        if pg_type.oid == PATHOID:
            closed, points = struct.unpack_from(">bi", sent)
            return struct.pack("<iii", points, closed, 0) + swap_bytes(sent[5 : 5 + 16 * points], 8)
        (points,) = struct.unpack_from(">i", sent)
        numbers = struct.unpack_from(f">{2 * points}d", sent, 4)
        xs, ys = numbers[::2], numbers[1::2]
        return struct.pack(f"<i4d{2 * points}d", points, max(xs), max(ys), min(xs), min(ys), *numbers)

    assert pg_type.oid in {PATHOID, POLYGONOID, BOXOID}
    return receive_each(texts, valid, pg_type, read_one)


def _floats(count: int) -> Codec:
    return Codec(
        format=format_shapes, parse=parse_shapes, send=send_swapped(*(8,) * count), receive=receive_swapped(*(8,) * count)
    )


POINT, LSEG, BOX, LINE, CIRCLE = (_floats(count) for count in (2, 4, 4, 3, 3))
PATH = POLYGON = Codec(format=format_shapes, parse=parse_shapes, send=send_shapes, receive=receive_shapes)
