"""ltree, lquery, ltxtquery (`ltree.h`): labels, and two kinds of patterns of them.

ltree is u16 how many levels, each u16 length and label, at multiples of 8; an lquery has alternatives at each level; an ltxtquery has items of 12
bytes in Polish order, then the words, each closed by a zero. The binary form of all is a version and the text.
"""

from __future__ import annotations

import struct

from tailrace.errors import UsageError
from tailrace.model import PgType
from tailrace.types.binary_forms import with_version, without_version
from tailrace.types.codec import format_each, parse_each, parse_texts
from tailrace.types.style import TextStyle
from tailrace.types.values import Mask, Texts, Values, as_string

LEVELS = 65535
"""LTREE_MAX_LEVELS; as an upper bound it means none."""


def format_ltrees(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As ltree_out: Top.Science."""

    def text_of(payload: bytes) -> bytes:
        at, labels = 4, []
        for _ in range(struct.unpack_from("<H", payload)[0]):
            (size,) = struct.unpack_from("<H", payload, at)
            labels.append(payload[at + 2 : at + 2 + size])
            at += size + 2 + -(size + 2) % 8
        return b".".join(labels)

    return format_each(values, text_of)


def parse_ltrees(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As ltree_in."""

    def parse_one(text: str) -> bytes:
        labels = text.encode().split(b".") if text else []
        if not all(labels):
            raise UsageError(f'ltree syntax error: "{text}"', sqlstate="42601")
        body = bytearray(struct.pack("<Hxx", len(labels)))
        for label in labels:
            body += struct.pack("<H", len(label)) + label
            body += bytes(-(len(body) + 4) % 8)
        return bytes(body)

    return parse_each(texts, valid, pg_type, parse_one)


def format_lqueries(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As lquery_out: Top.*{1,2}.!pizza|tomato@*."""

    def text_of(payload: bytes) -> str:
        at, levels = 12, []
        for _ in range(struct.unpack_from("<H", payload)[0]):
            total, flag, variants, low, high = struct.unpack_from("<5H", payload, at)
            levels.append(_level(payload, at + 16, flag, variants, low, high))
            at += total + -total % 8
        return ".".join(levels)

    return format_each(values, text_of)


def _level(payload: bytes, at: int, flag: int, variants: int, low: int, high: int) -> str:
    names = []
    for _ in range(variants):
        _, size, marks = struct.unpack_from("<iHB", payload, at)
        names.append(as_string(payload[at + 7 : at + 7 + size]) + _marks(marks))
        at += 8 + size + -size % 8
    text = ("!" if flag & 0x10 else "") + "|".join(names) if variants else "*"
    if variants and not flag & 0x20:
        return text
    if low == high:
        return f"{text}{{{low}}}"
    if not variants and low == 0 and high == LEVELS:
        return text
    return f"{text}{{{low or ''},{'' if high == LEVELS else high}}}"


def _marks(flag: int) -> str:
    """Part of a label (%), any case (@), any end (*)."""
    return "".join(sign for bit, sign in ((4, "%"), (2, "@"), (1, "*")) if flag & bit)


def format_ltxtqueries(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As ltxtq_out. Items of 12 bytes in Polish order, then the words, each closed by a zero."""

    def text_of(payload: bytes) -> str:
        (count,) = struct.unpack_from("<i", payload)
        return _infix(payload, count, 0, True)

    return format_each(values, text_of)


def _infix(payload: bytes, count: int, item: int, first: bool) -> str:
    kind, left, code, flag, size, where = struct.unpack_from("<hhiBBH", payload, 4 + 12 * item)
    if kind == 2:
        start = 4 + 12 * count + where
        return as_string(payload[start : start + size]) + _marks(flag)
    if chr(code) == "!":
        inner = struct.unpack_from("<h", payload, 4 + 12 * (item + 1))[0] == 3
        text = _infix(payload, count, item + 1, inner)
        return f"!( {text} )" if inner else f"!{text}"
    text = f"{_infix(payload, count, item + left, False)} {chr(code)} {_infix(payload, count, item + 1, False)}"
    return f"( {text} )" if chr(code) == "|" and not first else text


def send_trees(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """A version and the text, of ltree, lquery and ltxtquery alike."""
    printer = {"ltree": format_ltrees, "lquery": format_lqueries, "ltxtquery": format_ltxtqueries}[pg_type.name]
    return with_version(printer(values, pg_type, style), values.valid)


def receive_trees(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    return parse_texts(without_version(texts, valid, pg_type), valid, pg_type)


def refuse_queries(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """Nobody needs the tree of a query but a server."""
    if valid.any():
        raise UsageError(f"cannot make a value of type {pg_type.name} of its text", sqlstate="0A000")
    return Values.of_payloads([None] * len(texts), -1)
