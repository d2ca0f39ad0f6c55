"""point, lseg, path, box, polygon, line, circle: float8s in a row. In Arrow they are strings of their text.

path and polygon count their points first (`utils/geo_decls.h`): path i32 points, i32 closed, 4 bytes of padding; polygon
i32 points, then its bounding box, which is not printed. A box stores its upper right corner first.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence

import numpy as np

from tailrace.model import PgType
from tailrace.types import oids
from tailrace.types.codec import Codec, format_each, parse_each, receive_each, syntax_error
from tailrace.types.codec.binary_forms import receive_swapped, send_swapped, swap_bytes
from tailrace.types.numbers.floats import print_floats
from tailrace.types.style import TextStyle
from tailrace.types.values import Mask, Texts, Values

PATH_HEAD, POLYGON_HEAD = struct.Struct("<ii4x"), struct.Struct("<i4d")
HEADS = {oids.PATH: PATH_HEAD.size, oids.POLYGON: POLYGON_HEAD.size}
"""Bytes before the floats that are printed."""
NUMBERS = {oids.POINT: 2, oids.LSEG: 4, oids.BOX: 4, oids.LINE: 3, oids.CIRCLE: 3}
"""How many floats a value has, where that is fixed."""
NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*(?:e[+-]?\d+)?|\.\d+(?:e[+-]?\d+)?|infinity|nan)", re.I)


def format_shapes(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """All floats of all rows are printed at once; then each row takes its share."""
    payloads, valid = values.payload_list(), values.valid.tolist()
    head, lay_out = HEADS.get(pg_type.oid, 0), _LAYOUTS[pg_type.oid]
    raw = b"".join(payload[head:] if present else b"" for payload, present in zip(payloads, valid, strict=True))
    numbers = np.frombuffer(raw, "<f8")
    words = iter(print_floats(numbers, np.ones(len(numbers), np.bool_), style).to_list())
    texts = []
    for payload, present in zip(payloads, valid, strict=True):
        own = [next(words) for _ in range((len(payload) - head) // 8)] if present else []
        texts.append(lay_out(payload, own) if present else "")
    return Texts.of(texts)


def _points(numbers: list[str]) -> str:
    return ",".join(f"({x},{y})" for x, y in zip(numbers[::2], numbers[1::2], strict=True))


def _path(payload: bytes, numbers: list[str]) -> str:
    _, closed = PATH_HEAD.unpack_from(payload)
    return f"({_points(numbers)})" if closed else f"[{_points(numbers)}]"


_LAYOUTS: dict[int, Callable[[bytes, list[str]], str]] = {
    oids.POINT: lambda _, numbers: _points(numbers),
    oids.LSEG: lambda _, numbers: f"[{_points(numbers)}]",
    oids.PATH: _path,
    oids.BOX: lambda _, numbers: _points(numbers),
    oids.POLYGON: lambda _, numbers: f"({_points(numbers)})",
    oids.LINE: lambda _, numbers: "{" + ",".join(numbers) + "}",
    oids.CIRCLE: lambda _, numbers: f"<({numbers[0]},{numbers[1]}),{numbers[2]}>",
}


def parse_shapes(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """The numbers in their order; brackets only matter for a path, where [ means open."""

    def parse_one(text: str) -> bytes:
        numbers = [float(word) for word in NUMBER.findall(text)]
        expected = NUMBERS.get(pg_type.oid)
        if (expected and len(numbers) != expected) or len(numbers) < 2 or (not expected and len(numbers) % 2):
            raise syntax_error(pg_type.name, text)
        body = struct.pack(f"<{len(numbers)}d", *numbers)
        if pg_type.oid == oids.BOX:
            return struct.pack("<4d", *_bounding_box(numbers))
        if pg_type.oid == oids.PATH:
            return PATH_HEAD.pack(len(numbers) // 2, not text.lstrip().startswith("[")) + body
        if pg_type.oid == oids.POLYGON:
            return POLYGON_HEAD.pack(len(numbers) // 2, *_bounding_box(numbers)) + body
        return body

    return parse_each(texts, valid, pg_type, parse_one)


def _bounding_box(numbers: Sequence[float]) -> tuple[float, float, float, float]:
    """The upper right corner, and the lower left one."""
    xs, ys = numbers[::2], numbers[1::2]
    return max(xs), max(ys), min(xs), min(ys)


PATH_SENT, POLYGON_SENT = struct.Struct(">bi"), struct.Struct(">i")


def send_shapes(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As path_send and poly_send: the float8s; a path says before them whether it is closed, and like a polygon how many points follow."""

    def form_of(payload: bytes) -> bytes:
        if pg_type.oid == oids.PATH:
            points, closed = PATH_HEAD.unpack_from(payload)
            return PATH_SENT.pack(closed, points) + swap_bytes(payload[PATH_HEAD.size :], 8)
        points, *_ = POLYGON_HEAD.unpack_from(payload)
        return POLYGON_SENT.pack(points) + swap_bytes(payload[POLYGON_HEAD.size :], 8)

    return format_each(values, form_of)


def receive_shapes(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As path_recv and poly_recv, which makes the bounding box anew."""

    def read_one(sent: bytes) -> bytes:
        if pg_type.oid == oids.PATH:
            closed, points = PATH_SENT.unpack_from(sent)
            return PATH_HEAD.pack(points, closed) + swap_bytes(sent[PATH_SENT.size :][: 16 * points], 8)
        (points,) = POLYGON_SENT.unpack_from(sent)
        numbers = struct.unpack_from(f">{2 * points}d", sent, POLYGON_SENT.size)
        return POLYGON_HEAD.pack(points, *_bounding_box(numbers)) + struct.pack(f"<{2 * points}d", *numbers)

    return receive_each(texts, valid, pg_type, read_one)


def _floats(count: int) -> Codec:
    return Codec(
        format=format_shapes, parse=parse_shapes, send=send_swapped(*(8,) * count), receive=receive_swapped(*(8,) * count)
    )


POINT, LSEG, BOX, LINE, CIRCLE = (_floats(count) for count in (2, 4, 4, 3, 3))
PATH = POLYGON = Codec(format=format_shapes, parse=parse_shapes, send=send_shapes, receive=receive_shapes)
