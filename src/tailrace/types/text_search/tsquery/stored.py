"""tsquery as it is stored (`tsearch/ts_type.h`): i32 how many items, items of 12 bytes in Polish order (an operator, its right operand, its left
operand), then the lexemes, each closed by a zero.

An item is u8 VALUE, u8 weights, u8 whether it is a prefix, padding, u32 checksum of the lexeme, u32 its length (12 bits) and place (20); or
u8 OPERATOR, u8 which, i16 distance of a phrase, u32 how many items further its left operand is, padding.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np

VALUE, OPERATOR = 1, 2
NOT, AND, OR, PHRASE = 1, 2, 3, 4
PRIORITY = {OR: 1, AND: 2, PHRASE: 3, NOT: 4}
ITEMS = 4
"""Where the items begin."""
OPERAND_ITEM, OPERATOR_ITEM = struct.Struct("<BBBxII"), struct.Struct("<BBhI4x")
LENGTH, START_SHIFT = 0xFFF, 12


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
    return _read_node(payload, 0) if count_items(payload) else None


def _read_node(payload: bytes, item: int) -> Query:
    at = item_at(item)
    if payload[at] == VALUE:
        _, weights, prefix, _, _ = OPERAND_ITEM.unpack_from(payload, at)
        return Query(word=lexeme_of(payload, at), weights=weights, prefix=bool(prefix))
    _, operator, distance, left = OPERATOR_ITEM.unpack_from(payload, at)
    if operator == NOT:
        return Query(operator, left=_read_node(payload, item + 1))
    return Query(operator, distance, left=_read_node(payload, item + left), right=_read_node(payload, item + 1))


def count_items(payload: bytes) -> int:
    return int(struct.unpack_from("<i", payload)[0])


def item_at(item: int) -> int:
    """Where the item of that number is."""
    return ITEMS + OPERAND_ITEM.size * item


def lexeme_of(payload: bytes, at: int) -> bytes:
    """The lexeme of the operand at `at`."""
    *_, where = OPERAND_ITEM.unpack_from(payload, at)
    start = item_at(count_items(payload)) + (where >> START_SHIFT)
    return payload[start : start + (where & LENGTH)]


def write_query(query: Query | None) -> bytes:
    """The stored form. Lexemes lie in the order in which they are read, items the other way round."""
    words = bytearray()

    def items_of(node: Query) -> list[bytes]:
        if not node.operator:
            where = len(words) << START_SHIFT | len(node.word)
            words.extend(node.word + b"\0")
            return [OPERAND_ITEM.pack(VALUE, node.weights, node.prefix, legacy_crc(node.word), where)]
        assert node.left is not None, "an operator has an operand"
        left = items_of(node.left)
        right = items_of(node.right) if node.right is not None else []
        return [OPERATOR_ITEM.pack(OPERATOR, node.operator, node.distance, len(right) + 1), *right, *left]

    items = items_of(query) if query is not None else []
    return struct.pack("<i", len(items)) + b"".join(items) + bytes(words)


def _crc_table() -> list[int]:
    entries = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        entries = np.where(entries & 1, entries >> 1 ^ np.uint32(0xEDB88320), entries >> 1)
    return [int(entry) for entry in entries]


_CRC = _crc_table()


def legacy_crc(word: bytes) -> int:
    """The checksum of a lexeme: the usual table of CRC-32 with the shift of the other direction (COMP_LEGACY_CRC32 in `utils/pg_crc.h`)."""
    crc = 0xFFFFFFFF
    for byte in word:
        crc = _CRC[(crc >> 24 ^ byte) & 0xFF] ^ crc << 8 & 0xFFFFFFFF
    return crc ^ 0xFFFFFFFF
