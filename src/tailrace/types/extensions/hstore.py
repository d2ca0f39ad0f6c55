"""Types of PostgreSQL's own extensions, known by name: hstore, cube, ltree, lquery, ltxtquery. (citext is text by another name.)

hstore (`hstore.h`) is u32 how many pairs, two words a pair (30 bits where the text ends, a bit for a NULL value), then the texts.
cube (`cubedata.h`) is u32 dimensions (top bit: a point), then the float8s of one corner and, if no point, of the other.
ltree (`ltree.h`) is u16 how many levels, each u16 length and label, at multiples of 8; a query has alternatives at each level.
"""

from __future__ import annotations

import re
import struct

import numpy as np

from tailrace.errors import UsageError
from tailrace.model import PgType
from tailrace.types.binary_forms import send_versioned, without_version
from tailrace.types.codec import format_each, parse_each, parse_texts, receive_each, syntax_error
from tailrace.types.numbers.floats.text import format_floats
from tailrace.types.style import TextStyle
from tailrace.types.values import Mask, Texts, Values, as_string

FLOAT8 = PgType(701, "pg_catalog", "float8", "double precision", "b", 8, 8)
NULL_VALUE, END, NEW_FORM, FIRST = 0x40000000, 0x3FFFFFFF, 0x80000000, 0x80000000
PAIR = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[^\s",=]+)\s*=>\s*("(?:[^"\\]|\\.)*"|[^\s",]+)\s*(?:,|$)', re.S)
POINT = 0x80000000
LEVELS = 65535
"""LTREE_MAX_LEVELS; as an upper bound it means none."""

Pairs = list[tuple[bytes, bytes | None]]


def format_hstores(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As hstore_out: "a"=>"1", "b"=>NULL."""

    def text_of(payload: bytes) -> str:
        words = [(_in_quotes(key), "NULL" if value is None else _in_quotes(value)) for key, value in _read_pairs(payload)]
        return ", ".join(f"{key}=>{value}" for key, value in words)

    return format_each(values, text_of)


def _in_quotes(word: bytes) -> str:
    return '"' + as_string(word).replace("\\", "\\\\").replace('"', '\\"') + '"'


def _read_pairs(payload: bytes) -> Pairs:
    (count,) = struct.unpack_from("<I", payload)
    count &= 0x0FFFFFFF
    entries = struct.unpack_from(f"<{2 * count}I", payload, 4)
    base, start = 4 + 8 * count, 0
    words: list[bytes | None] = []
    for entry in entries:
        words.append(None if entry & NULL_VALUE else payload[base + start : base + (entry & END)])
        start = entry & END
    return [(key or b"", value) for key, value in zip(words[::2], words[1::2], strict=True)]


def _write_pairs(pairs: Pairs) -> bytes:
    """By length of the key and then by its bytes; of equal keys the first stays."""
    unique = dict(reversed(pairs))
    body = bytearray()
    entries: list[int] = []
    for key in sorted(unique, key=lambda key: (len(key), key)):
        value = unique[key]
        body += key
        entries.append(len(body) | (0 if entries else FIRST))
        body += value or b""
        entries.append(len(body) | (NULL_VALUE if value is None else 0))
    return struct.pack(f"<I{len(entries)}I", len(unique) | NEW_FORM, *entries) + bytes(body)


def parse_hstores(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As hstore_in."""

    def word(text: str) -> bytes:
        return re.sub(r"\\(.)", r"\1", text[1:-1] if text[0] == '"' else text, flags=re.S).encode()

    def parse_one(text: str) -> bytes:
        at, pairs = 0, []
        while at < len(text.rstrip()):
            found = PAIR.match(text, at)
            if found is None:
                raise UsageError(f'syntax error in hstore, near "{text[at : at + 20]}"', sqlstate="42601")
            pairs.append((word(found[1]), None if found[2].upper() == "NULL" else word(found[2])))
            at = found.end()
        return _write_pairs(pairs)

    return parse_each(texts, valid, pg_type, parse_one)


def send_hstores(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """How many pairs; each key and value after its length, -1 for NULL."""

    def form_of(payload: bytes) -> bytes:
        pairs = _read_pairs(payload)
        words = [word for pair in pairs for word in pair]
        sent = (struct.pack(">i", -1) if word is None else struct.pack(">i", len(word)) + word for word in words)
        return struct.pack(">i", len(pairs)) + b"".join(sent)

    return format_each(values, form_of)


def receive_hstores(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    def read_one(sent: bytes) -> bytes:
        at, words = 4, []
        for _ in range(2 * struct.unpack_from(">i", sent)[0]):
            (size,) = struct.unpack_from(">i", sent, at)
            words.append(None if size < 0 else sent[at + 4 : at + 4 + size])
            at += 4 + max(size, 0)
        return _write_pairs([(key or b"", value) for key, value in zip(words[::2], words[1::2], strict=True)])

    return receive_each(texts, valid, pg_type, read_one)


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
    return format_each(values, _turned)


def receive_cubes(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    return receive_each(texts, valid, pg_type, _turned)


def _turned(raw: bytes) -> bytes:
    return raw[3::-1] + np.frombuffer(raw[4:], "<u8").byteswap().tobytes()


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
    return send_versioned(values, pg_type, style, printer(values, pg_type, style))


def receive_trees(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    return parse_texts(without_version(texts, valid, pg_type), valid, pg_type)


def refuse_queries(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """Nobody needs the tree of a query but a server."""
    if valid.any():
        raise UsageError(f"cannot make a value of type {pg_type.name} of its text", sqlstate="0A000")
    return Values.of_payloads([None] * len(texts), -1)
