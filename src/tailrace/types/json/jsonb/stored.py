"""jsonb as it is stored: a tree in binary.

A container (`utils/jsonb.h`) is a u32 header (count; scalar, object, array bits), one u32 entry per child (objects: all keys,
then all values), then the children's bytes. An entry gives the length of its child or, every 32nd, the offset of its end.
Numbers are whole numerics with a 4-byte length word and start, like containers, at multiples of 4.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from tailrace.errors import UsageError
from tailrace.kernels import kernel
from tailrace.types.numbers.numeric.text import parse_numeric

COUNT, SCALAR, OBJECT = 0x0FFFFFFF, 0x10000000, 0x20000000
HAS_OFFSET, KIND = 0x80000000, 0x70000000
STRING, NUMERIC, FALSE, TRUE, NULL, CONTAINER = (kind << 28 for kind in range(6))
ARRAY = 0x40000000
STRIDE = 32
"""Every 32nd entry holds an offset instead of a length (`utils/jsonb.h`, JB_OFFSET_STRIDE)."""


class Digits(str):
    """A number as it was written."""


def _write_nested(tree: dict[str, object] | list[object]) -> bytes:
    if isinstance(tree, list):
        return _write_container(len(tree) | ARRAY, tree)
    keys = sorted(tree, key=lambda key: (len(key.encode()), key.encode()))
    return _write_container(len(keys) | OBJECT, [*keys, *(tree[key] for key in keys)])


def _write_container(header: int, children: list[object]) -> bytes:
    entries, body = [header], bytearray()
    for place, child in enumerate(children):
        start = len(body)
        kind, stored = _write_child(child)
        if kind in {NUMERIC, CONTAINER}:
            body += bytes(-len(body) % 4)
        body += stored
        if len(body) > COUNT:
            raise UsageError("total size of jsonb object elements exceeds the maximum", sqlstate="54000")
        entries.append(kind | (len(body) | HAS_OFFSET if place % STRIDE == 0 else len(body) - start))
    return struct.pack(f"<{len(entries)}I", *entries) + bytes(body)


def _write_child(child: object) -> tuple[int, bytes]:
    if isinstance(child, Digits):
        number = parse_numeric(child)
        return NUMERIC, struct.pack("<I", len(number) + 4 << 2) + number
    if isinstance(child, str):
        return STRING, child.encode()
    if isinstance(child, dict | list):
        return CONTAINER, _write_nested(child)
    return (NULL if child is None else TRUE if child else FALSE), b""


@kernel
def read_u32(data: Any, at: Any) -> Any:
    """A u32 as int64."""
    return np.int64(data[at]) | np.int64(data[at + 1]) << 8 | np.int64(data[at + 2]) << 16 | np.int64(data[at + 3]) << 24
