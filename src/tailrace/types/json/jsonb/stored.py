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
from tailrace.kernels import inner_kernel
from tailrace.types.numbers.numeric.text import parse_numeric

WORD = 4
COUNT, SCALAR, OBJECT, ARRAY = 0x0FFFFFFF, 0x10000000, 0x20000000, 0x40000000
"""Of a container's header."""
HAS_OFFSET, KIND, LENGTH = 0x80000000, 0x70000000, 0x0FFFFFFF
"""Of an entry: whether it gives an offset instead of a length, what kind the child is, and the length or offset."""
STRING, NUMERIC, FALSE, TRUE, NULL, CONTAINER = (kind << 28 for kind in range(6))
STRIDE = 32
"""Every 32nd entry holds an offset instead of a length (JB_OFFSET_STRIDE)."""


@inner_kernel
def read_u32(data: Any, at: Any) -> Any:
    """A u32 as int64."""
    return np.int64(data[at]) | np.int64(data[at + 1]) << 8 | np.int64(data[at + 2]) << 16 | np.int64(data[at + 3]) << 24


class Digits(str):
    """A number as it was written."""


Tree = dict[str, object] | list[object]


def write_document(tree: object) -> bytes:
    """The stored form of a document of dicts, lists, strings, Digits, bools and None."""
    if isinstance(tree, dict | list):
        return _write_tree(tree)
    return _write_container(1 | SCALAR | ARRAY, [tree])


def _write_tree(tree: Tree) -> bytes:
    """Keys are sorted by length and then bytes."""
    if isinstance(tree, list):
        return _write_container(len(tree) | ARRAY, tree)
    keys = sorted(tree, key=lambda key: (len(key.encode()), key.encode()))
    return _write_container(len(keys) | OBJECT, [*keys, *(tree[key] for key in keys)])


def _write_container(header: int, children: list[object]) -> bytes:
    entries, body = [header], bytearray()
    for number, child in enumerate(children):
        start = len(body)
        kind, stored = _write_child(child)
        if kind in {NUMERIC, CONTAINER}:
            body += bytes(-len(body) % WORD)
        body += stored
        if len(body) > LENGTH:
            raise UsageError("total size of jsonb object elements exceeds the maximum", sqlstate="54000")
        entries.append(kind | (len(body) | HAS_OFFSET if number % STRIDE == 0 else len(body) - start))
    return struct.pack(f"<{len(entries)}I", *entries) + bytes(body)


def _write_child(child: object) -> tuple[int, bytes]:
    """Write a child: returns its JEntry's kind, and its bytes."""
    if isinstance(child, Digits):
        number = parse_numeric(child)
        return NUMERIC, struct.pack("<I", len(number) + WORD << 2) + number
    if isinstance(child, str):
        return STRING, child.encode()
    if isinstance(child, dict | list):
        return CONTAINER, _write_tree(child)
    return (NULL if child is None else TRUE if child else FALSE), b""
