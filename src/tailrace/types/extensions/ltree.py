"""ltree, lquery, ltxtquery (`ltree.h`): labels, and two kinds of patterns of them.

ltree is u16 how many levels, each u16 length and label, at multiples of 8; an lquery has alternatives at each level; an ltxtquery has items of 12
bytes in Polish order, then the words, each closed by a zero. The binary form of all is a version and the text.
"""

from __future__ import annotations

import struct

from tailrace.errors import UsageError
from tailrace.model import PgType
from tailrace.types.codec import format_each, parse_each, parse_texts
from tailrace.types.codec.binary_forms import with_version, without_version
from tailrace.types.style import TextStyle
from tailrace.types.values import Mask, Texts, Values, as_string

TREE, LABEL = struct.Struct("<Hxx"), struct.Struct("<H")
"""How many levels; and, at multiples of 8 from there, the length of a label, which follows."""
QUERY, LEVEL, VARIANT = struct.Struct("<HHH6x"), struct.Struct("<5H6x"), struct.Struct("<iHB")
"""Of an lquery: its header, which begins with how many levels; of a level its size, flags, how many variants, and the least and the greatest
number of labels; of a variant its hash, length and marks. All begin at multiples of 8."""
LEVEL_NOT, LEVEL_COUNT = 0x10, 0x20
ANY_END, ANY_CASE, SUBLEXEME = 1, 2, 4
ITEMS, ITEM = 4, struct.Struct("<hhiBBH")
"""Of an ltxtquery: where the items begin; of each the kind, where the left operand is, hash or operator, marks, length, and where the word is."""
VALUE, OPERATOR = 2, 3
LEVELS = 65535
"""LTREE_MAX_LEVELS; as an upper bound it means none."""


def format_ltrees(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As ltree_out: Top.Science."""

    def text_of(payload: bytes) -> bytes:
        (levels,) = TREE.unpack_from(payload)
        at, labels = TREE.size, []
        for _ in range(levels):
            (size,) = LABEL.unpack_from(payload, at)
            labels.append(payload[at + LABEL.size :][:size])
            at += _aligned(LABEL.size + size)
        return b".".join(labels)

    return format_each(values, text_of)


def parse_ltrees(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As ltree_in."""

    def parse_one(text: str) -> bytes:
        labels = text.encode().split(b".") if text else []
        if not all(labels):
            raise UsageError(f'ltree syntax error: "{text}"', sqlstate="42601")
        body = bytearray(TREE.pack(len(labels)))
        for label in labels:
            size = LABEL.size + len(label)
            body += LABEL.pack(len(label)) + label + bytes(_aligned(size) - size)
        return bytes(body)

    return parse_each(texts, valid, pg_type, parse_one)


def format_lqueries(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As lquery_out: Top.*{1,2}.!pizza|tomato@*."""

    def text_of(payload: bytes) -> str:
        count, _, _ = QUERY.unpack_from(payload)
        at, levels = QUERY.size, []
        for _ in range(count):
            levels.append(_level(payload, at))
            at += _aligned(LEVEL.unpack_from(payload, at)[0])
        return ".".join(levels)

    return format_each(values, text_of)


def _level(payload: bytes, at: int) -> str:
    _, flag, variants, low, high = LEVEL.unpack_from(payload, at)
    at += LEVEL.size
    names = []
    for _ in range(variants):
        _, size, marks = VARIANT.unpack_from(payload, at)
        names.append(as_string(payload[at + VARIANT.size :][:size]) + _marks(marks))
        at += _aligned(VARIANT.size + 1 + size)
    text = ("!" if flag & LEVEL_NOT else "") + "|".join(names) if variants else "*"
    if variants and not flag & LEVEL_COUNT:
        return text
    if low == high:
        return f"{text}{{{low}}}"
    if not variants and low == 0 and high == LEVELS:
        return text
    return f"{text}{{{low or ''},{'' if high == LEVELS else high}}}"


def _marks(flag: int) -> str:
    """Part of a label (%), any case (@), any end (*)."""
    return "".join(sign for bit, sign in ((SUBLEXEME, "%"), (ANY_CASE, "@"), (ANY_END, "*")) if flag & bit)


def _aligned(size: int) -> int:
    return size + -size % 8


def format_ltxtqueries(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As ltxtq_out."""

    def text_of(payload: bytes) -> str:
        (count,) = struct.unpack_from("<i", payload)
        return _infix(payload, count, 0, True)

    return format_each(values, text_of)


def _infix(payload: bytes, count: int, item: int, first: bool) -> str:
    kind, left, code, flag, size, where = ITEM.unpack_from(payload, ITEMS + ITEM.size * item)
    if kind == VALUE:
        start = ITEMS + ITEM.size * count + where
        return as_string(payload[start : start + size]) + _marks(flag)
    if chr(code) == "!":
        inner = ITEM.unpack_from(payload, ITEMS + ITEM.size * (item + 1))[0] == OPERATOR
        text = _infix(payload, count, item + 1, inner)
        return f"!( {text} )" if inner else f"!{text}"
    text = f"{_infix(payload, count, item + left, False)} {chr(code)} {_infix(payload, count, item + 1, False)}"
    return f"( {text} )" if chr(code) == "|" and not first else text


def send_trees(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As ltree_send, lquery_send and ltxtq_send: a version and the text."""
    printer = {"ltree": format_ltrees, "lquery": format_lqueries, "ltxtquery": format_ltxtqueries}[pg_type.name]
    return with_version(printer(values, pg_type, style), values.valid)


def receive_trees(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As ltree_recv."""
    return parse_texts(without_version(texts, valid, pg_type), valid, pg_type)


def refuse_queries(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """Nobody needs the tree of a query but a server."""
    if valid.any():
        raise UsageError(f"cannot make a value of type {pg_type.name} of its text", sqlstate="0A000")
    return Values.of_payloads([None] * len(texts), -1)
