"""jsonb as it is worked on, and how it is printed, ordered and searched (`adt/jsonb_util.c`).

A document is a dict, a list, a str, a Numeric, a bool or NULL, which is not SQL's. A dict has its keys as they are stored: shorter ones first.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from itertools import chain
from typing import Any

from tailrace.expressions.evaluate.fmgr.datum_forms import register_form, text_codec
from tailrace.expressions.evaluate.numbers import numeric_arithmetic
from tailrace.expressions.evaluate.numbers.numeric_arithmetic import Numeric
from tailrace.types import oids
from tailrace.types.json.jsonb.stored import (
    CONTAINER,
    COUNT,
    FALSE,
    HAS_OFFSET,
    KIND,
    LENGTH,
    NULL,
    NUMERIC,
    OBJECT,
    SCALAR,
    STRING,
    TRUE,
)


class _Null:
    """JSON's null."""

    def __repr__(self) -> str:
        return "null"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Null)

    def __hash__(self) -> int:
        return 0


JSON_NULL = _Null()
Document = Any


def _reader(encoding: str) -> Callable[[bytes], Document]:
    codec = text_codec(encoding)

    def container(raw: bytes, at: int) -> Document:
        (header,) = struct.unpack_from("<I", raw, at)
        count = header & COUNT
        children = 2 * count if header & OBJECT else count
        entries = struct.unpack_from(f"<{children}I", raw, at + 4)
        base, here, found = at + 4 + 4 * children, 0, []
        for entry in entries:
            stop = entry & LENGTH if entry & HAS_OFFSET else here + (entry & LENGTH)
            found.append(child(raw, base, here, stop, entry & KIND))
            here = stop
        if header & OBJECT:
            return dict(zip(found[:count], found[count:], strict=True))
        return found[0] if header & SCALAR else found

    def child(raw: bytes, base: int, start: int, stop: int, kind: int) -> Document:
        if kind == STRING:
            return raw[base + start : base + stop].decode(codec, "surrogateescape")
        if kind in (TRUE, FALSE):
            return kind == TRUE
        if kind == NULL:
            return JSON_NULL
        aligned = base + start + -(base + start) % 4
        if kind == NUMERIC:
            return numeric_arithmetic.read_numeric_payload(raw[aligned + 4 : base + stop])
        assert kind == CONTAINER
        return container(raw, aligned)

    return lambda payload: container(payload, 0)


register_form(oids.JSONB, _reader)
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def quoted(text: str) -> str:
    """escape_json."""
    return '"' + "".join(_ESCAPES.get(letter) or (f"\\u{ord(letter):04x}" if letter < " " else letter) for letter in text) + '"'


def printed(document: Document, comma: str = ", ", colon: str = ": ") -> str:
    """As jsonb_out."""
    match document:
        case str():
            return quoted(document)
        case bool():
            return "true" if document else "false"
        case Numeric():
            return numeric_arithmetic.text_of(document)
        case list():
            return "[" + comma.join(printed(each, comma, colon) for each in document) + "]"
        case dict():
            return "{" + comma.join(f"{quoted(key)}{colon}{printed(each, comma, colon)}" for key, each in document.items()) + "}"
    return "null"


def pretty(document: Document, depth: int = 0) -> str:
    """jsonb_pretty: four blanks a level."""
    inner, outer = "\n" + "    " * (depth + 1), "\n" + "    " * depth
    if isinstance(document, list):
        return "[" + ",".join(inner + pretty(each, depth + 1) for each in document) + outer + "]"
    if isinstance(document, dict):
        return "{" + ",".join(f"{inner}{quoted(key)}: {pretty(each, depth + 1)}" for key, each in document.items()) + outer + "}"
    return printed(document)


def as_text(document: Document) -> str | None:
    """What ->> gives: a string bare, null as SQL's."""
    if document == JSON_NULL:
        return None
    return document if isinstance(document, str) else printed(document)


def rank(document: Document) -> int:
    """null, string, number, boolean, array, object (JsonbValue's types)."""
    match document:
        case bool():
            return 3
        case str():
            return 1
        case Numeric():
            return 2
        case list():
            return 4
        case dict():
            return 5
    return 0


def is_scalar(document: Document) -> bool:
    return not isinstance(document, list | dict)


def compare(left: Document, right: Document, strings: Callable[[str, str], int]) -> int:
    """compareJsonbContainers, with the order of strings: a scalar at the top counts as an array of one, and is before other arrays of one."""
    if is_scalar(left) and is_scalar(right):
        return _compare(left, right, strings)
    if isinstance(left, dict) or isinstance(right, dict):
        return _compare(left if isinstance(left, dict) else [], right if isinstance(right, dict) else [], strings)
    mine, other = (1 if is_scalar(each) else len(each) for each in (left, right))
    if mine != other:
        return 1 if mine > other else -1
    if is_scalar(left) != is_scalar(right):
        return -1 if is_scalar(left) else 1
    return _compare(left, right, strings)


def _compare(left: Document, right: Document, strings: Callable[[str, str], int]) -> int:
    mine, other = rank(left), rank(right)
    if mine != other:
        return 1 if mine > other else -1
    if mine == 2:
        return numeric_arithmetic.compare(left, right)
    if mine == 0:
        return 0
    if mine == 1:
        return strings(left, right)
    if mine == 3:
        return (left > right) - (left < right)
    if len(left) != len(right):
        return 1 if len(left) > len(right) else -1
    if mine == 5:
        left, right = chain.from_iterable(left.items()), chain.from_iterable(right.items())
    for one, two in zip(left, right, strict=True):
        found = _compare(one, two, strings)
        if found:
            return found
    return 0


def equal(left: Document, right: Document) -> bool:
    """Whether two documents are the same; it depends on no collation."""
    mine = rank(left)
    if mine != rank(right):
        return False
    if mine == 2:
        return numeric_arithmetic.compare(left, right) == 0
    if mine == 4:
        return len(left) == len(right) and all(map(equal, left, right))
    if mine == 5:
        return list(left) == list(right) and all(equal(left[key], right[key]) for key in left)
    return bool(left == right)


def contains(left: Document, right: Document) -> bool:
    """@>: an array may also contain a scalar that stands alone."""
    if isinstance(left, dict) != isinstance(right, dict):
        return False
    if is_scalar(left) or is_scalar(right):
        if is_scalar(left) and not is_scalar(right):
            return False
        return _element_in(right, [left] if is_scalar(left) else left)
    return _deep(left, right)


def _deep(left: Document, right: Document) -> bool:
    if isinstance(left, dict) != isinstance(right, dict):
        return False
    if isinstance(left, dict):
        return len(left) >= len(right) and all(key in left and _value_in(left[key], each) for key, each in right.items())
    return all(_element_in(each, left) for each in right)


def _value_in(mine: Document, other: Document) -> bool:
    if rank(mine) != rank(other):
        return False
    return equal(mine, other) if is_scalar(mine) else _deep(mine, other)


def _element_in(wanted: Document, elements: list[Document]) -> bool:
    if is_scalar(wanted):
        return any(is_scalar(each) and equal(each, wanted) for each in elements)
    return any(not is_scalar(each) and _deep(each, wanted) for each in elements)


def ordered(pairs: dict[str, Document]) -> dict[str, Document]:
    """With its keys in the order in which they are stored."""
    return {
        key: pairs[key]
        for key in sorted(
            pairs, key=lambda key: (len(key.encode("utf-8", "surrogateescape")), key.encode("utf-8", "surrogateescape"))
        )
    }
