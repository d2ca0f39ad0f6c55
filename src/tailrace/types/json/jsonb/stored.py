"""Reading JSON text into jsonb's tree: the other direction of `jsonb`, in plain Python.

Numbers keep their digits (1.50 stays 1.50), keys are sorted by length and then bytes, of equal keys the last one wins.
"""

from __future__ import annotations

import json
import struct
from typing import NoReturn

from tailrace.errors import UsageError
from tailrace.model import PgType
from tailrace.types.binary_forms import without_version
from tailrace.types.codec import parse_each, syntax_error
from tailrace.types.json.jsonb.text import CONTAINER as NESTED
from tailrace.types.json.jsonb.text import COUNT, FALSE, HAS_OFFSET, NULL, NUMERIC, OBJECT, SCALAR, STRING, TRUE
from tailrace.types.numbers.numeric.text import parse_numeric
from tailrace.types.values import Mask, Texts, Values

ARRAY = 0x40000000
STRIDE = 32
"""Every 32nd entry holds an offset instead of a length (`utils/jsonb.h`, JB_OFFSET_STRIDE)."""


class _Digits(str):
    """A number as it was written."""


def parse_jsonbs(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As jsonb_in."""
    return parse_each(texts, valid, pg_type, parse_jsonb)


def receive_jsonbs(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    return parse_jsonbs(without_version(texts, valid, pg_type), valid, pg_type)


def parse_jsonb(text: str) -> bytes:
    """The stored form of one document."""
    try:
        tree = json.loads(text, parse_float=_Digits, parse_int=_Digits, parse_constant=_refuse)
    except ValueError:
        raise syntax_error("json", text) from None
    if isinstance(tree, dict | list):
        return _container(tree)
    return _assemble(1 | SCALAR | ARRAY, [tree])


def _refuse(word: str) -> NoReturn:
    raise ValueError(word)


def _container(tree: dict[str, object] | list[object]) -> bytes:
    if isinstance(tree, list):
        return _assemble(len(tree) | ARRAY, tree)
    keys = sorted(tree, key=lambda key: (len(key.encode()), key.encode()))
    return _assemble(len(keys) | OBJECT, [*keys, *(tree[key] for key in keys)])


def _assemble(header: int, children: list[object]) -> bytes:
    entries, body = [header], bytearray()
    for place, child in enumerate(children):
        start = len(body)
        kind, stored = _child(child)
        if kind in {NUMERIC, NESTED}:
            body += bytes(-len(body) % 4)
        body += stored
        if len(body) > COUNT:
            raise UsageError("total size of jsonb object elements exceeds the maximum", sqlstate="54000")
        entries.append(kind | (len(body) | HAS_OFFSET if place % STRIDE == 0 else len(body) - start))
    return struct.pack(f"<{len(entries)}I", *entries) + bytes(body)


def _child(child: object) -> tuple[int, bytes]:
    if isinstance(child, _Digits):
        number = parse_numeric(child)
        return NUMERIC, struct.pack("<I", len(number) + 4 << 2) + number
    if isinstance(child, str):
        return STRING, child.encode()
    if isinstance(child, dict | list):
        return NESTED, _container(child)
    return (NULL if child is None else TRUE if child else FALSE), b""
