"""tsquery as it is stored (`tsearch/ts_type.h`): i32 how many items, items of 12 bytes in Polish order (an operator, its right operand, its left
operand), then the lexemes, each closed by a zero.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np

VALUE, OPERATOR = 1, 2
NOT, AND, OR, PHRASE = 1, 2, 3, 4
PRIORITY = {OR: 1, AND: 2, PHRASE: 3, NOT: 4}
ITEM = 12


@dataclass(slots=True)
class Query:
    """A node: a lexeme with its weights and whether it is a prefix, or an operator with one or two operands."""

    operator: int = 0
    distance: int = 0
    left: Query | None = None
    right: Query | None = None
    word: bytes = b""
    weights: int = 0
    prefix: bool = False


def read_query(payload: bytes) -> Query | None:
    """The tree of a stored tsquery; None for one that is empty."""
    (count,) = struct.unpack_from("<i", payload)
    words = 4 + ITEM * count

    def node(item: int) -> Query:
        at = 4 + ITEM * item
        if payload[at] == VALUE:
            (where,) = struct.unpack_from("<I", payload, at + 8)
            start = words + (where >> 12)
            return Query(word=payload[start : start + (where & 0xFFF)], weights=payload[at + 1], prefix=bool(payload[at + 2]))
        operator, distance, left = struct.unpack_from("<bhI", payload, at + 1)
        if operator == NOT:
            return Query(operator, left=node(item + 1))
        return Query(operator, distance, left=node(item + left), right=node(item + 1))

    return node(0) if count else None


def write_query(query: Query | None) -> bytes:
    """The stored form. Lexemes lie in the order in which they are read, items the other way round."""
    words = bytearray()

    def items(node: Query) -> list[bytes]:
        if not node.operator:
            where = len(words) << 12 | len(node.word)
            words.extend(node.word + b"\0")
            return [struct.pack("<BBBxII", VALUE, node.weights, node.prefix, legacy_crc(node.word), where)]
        assert node.left is not None
        left = items(node.left)
        right = items(node.right) if node.right is not None else []
        head = struct.pack("<BBhI4x", OPERATOR, node.operator, node.distance, len(right) + 1)
        return [head, *right, *left]

    made = items(query) if query is not None else []
    return struct.pack("<i", len(made)) + b"".join(made) + bytes(words)


def _table() -> list[int]:
    entries = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        entries = np.where(entries & 1, entries >> 1 ^ np.uint32(0xEDB88320), entries >> 1)
    return [int(entry) for entry in entries]


_CRC = _table()


def legacy_crc(word: bytes) -> int:
    """The checksum of a lexeme: the usual table of CRC-32, walked from the wrong end (`utils/pg_crc.h`), and so kept for ever."""
    crc = 0xFFFFFFFF
    for byte in word:
        crc = _CRC[(crc >> 24 ^ byte) & 0xFF] ^ crc << 8 & 0xFFFFFFFF
    return crc ^ 0xFFFFFFFF
