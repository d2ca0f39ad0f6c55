"""jsonb as text: printed by one kernel with its own stack, parsed in plain Python.

What is parsed keeps its digits (1.50 stays 1.50); keys are sorted by length and then bytes, of equal keys the last one wins.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

import numpy as np

from tailrace.kernels import kernel
from tailrace.model import PgType
from tailrace.types.codec import parse_each, syntax_error
from tailrace.types.json.jsonb.stored import (
    ARRAY,
    CONTAINER,
    COUNT,
    FALSE,
    HAS_OFFSET,
    KIND,
    NUMERIC,
    OBJECT,
    SCALAR,
    STRING,
    TRUE,
    Digits,
    _write_container,
    _write_nested,
    read_u32,
)
from tailrace.types.numbers.digits import grown
from tailrace.types.numbers.numeric.text import numeric_room, put_numeric
from tailrace.types.style import TextStyle
from tailrace.types.values import Mask, Texts, Values, as_writable

ESCAPES = np.zeros(256, np.uint8)
"""What stands after the backslash for a byte of a string; 0 for itself, u for the long form."""
ESCAPES[:32] = ord("u")
for _byte, _letter in zip(b'\b\f\n\r\t"\\', b'bfnrt"\\', strict=True):
    ESCAPES[_byte] = _letter
WORDS = np.frombuffer(b"falsetruenull", np.uint8).copy()
HEX_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8).copy()


@kernel
def _put_string(out: Any, at: Any, data: Any, start: Any, stop: Any) -> Any:
    """Between quotes, with the escapes of escape_json."""
    out[at] = 34
    at += 1
    for place in range(start, stop):
        byte = data[place]
        escape = ESCAPES[byte]
        if escape == 0:
            out[at] = byte
            at += 1
        else:
            out[at] = 92
            out[at + 1] = escape
            at += 2
            if escape == 117:
                out[at] = 48
                out[at + 1] = 48
                out[at + 2] = HEX_DIGITS[byte >> 4]
                out[at + 3] = HEX_DIGITS[byte & 15]
                at += 4
    out[at] = 34
    return at + 1


@kernel
def _enter(data: Any, at: Any, frame: Any) -> Any:
    """Fill a stack frame for the container at `at`: entries, children, count, next, key end, value end, kind bits."""
    header = read_u32(data, at)
    count = header & COUNT
    entries = at + 4
    many = 2 * count if header & OBJECT else count
    frame[0] = entries
    frame[1] = entries + 4 * many
    frame[2] = count
    frame[3] = 0
    frame[4] = 0
    frame[5] = 0
    frame[6] = header & ~COUNT
    if header & OBJECT:
        # Values begin where the last key ends: the lengths back to the nearest entry that holds an offset.
        place = count - 1
        while place >= 0:
            entry = read_u32(data, entries + 4 * place)
            frame[5] += entry & COUNT
            if entry & HAS_OFFSET:
                break
            place -= 1


@kernel
def _format_jsonb(starts: Any, data: Any, valid: Any) -> Any:
    """One pass; before each token the output is made large enough for it."""
    rows = len(valid)
    offsets = np.empty(rows + 1, np.int64)
    offsets[0] = 0
    out = np.empty(2 * len(data) + 64, np.uint8)
    stack = np.empty((64, 7), np.int64)
    at = 0
    for row in range(rows):
        depth = -1
        if valid[row]:
            depth = 0
            _enter(data, starts[row], stack[0])
            if at + 64 > len(out):
                out = grown(out, at + 64)
            if not stack[0, 6] & SCALAR:
                out[at] = 123 if stack[0, 6] & OBJECT else 91
                at += 1
        while depth >= 0:
            frame = stack[depth]
            entries, children, count, here = frame[0], frame[1], frame[2], frame[3]
            keyed = frame[6] & OBJECT
            if here == count:
                if not frame[6] & SCALAR:
                    if at + 64 > len(out):
                        out = grown(out, at + 64)
                    out[at] = 125 if keyed else 93
                    at += 1
                depth -= 1
                continue
            frame[3] = here + 1
            if at + 64 > len(out):
                out = grown(out, at + 64)
            if here:
                out[at] = 44
                out[at + 1] = 32
                at += 2
            if keyed:
                entry = read_u32(data, entries + 4 * here)
                start = frame[4]
                frame[4] = entry & COUNT if entry & HAS_OFFSET else start + (entry & COUNT)
                if at + 6 * (frame[4] - start) + 64 > len(out):
                    out = grown(out, at + 6 * (frame[4] - start) + 64)
                at = _put_string(out, at, data, children + start, children + frame[4])
                out[at] = 58
                out[at + 1] = 32
                at += 2
                here += count
            entry = read_u32(data, entries + 4 * here)
            start = frame[5]
            stop = entry & COUNT if entry & HAS_OFFSET else start + (entry & COUNT)
            frame[5] = stop
            kind = entry & KIND
            if kind == STRING:
                if at + 6 * (stop - start) + 64 > len(out):
                    out = grown(out, at + 6 * (stop - start) + 64)
                at = _put_string(out, at, data, children + start, children + stop)
            elif kind == NUMERIC:
                place = children + (start + 3) // 4 * 4
                if at + numeric_room(data, place + 4) + 64 > len(out):
                    out = grown(out, at + numeric_room(data, place + 4) + 64)
                at = put_numeric(out, at, data, place + 4, place + (read_u32(data, place) >> 2))
            elif kind == CONTAINER:
                depth += 1
                if depth == len(stack):
                    more = np.empty((2 * depth, 7), np.int64)
                    more[:depth] = stack
                    stack = more
                _enter(data, children + (start + 3) // 4 * 4, stack[depth])
                out[at] = 123 if stack[depth, 6] & OBJECT else 91
                at += 1
            else:
                first, last = (0, 5) if kind == FALSE else ((5, 9) if kind == TRUE else (9, 13))
                for place in range(first, last):
                    out[at] = WORDS[place]
                    at += 1
        offsets[row + 1] = at
    return offsets, out[:at]


def format_jsonbs(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As jsonb_out: {"k": v, ...}."""
    return Texts(*_format_jsonb(*values.payloads, as_writable(values.valid)))


def parse_jsonbs(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As jsonb_in."""
    return parse_each(texts, valid, pg_type, parse_jsonb)


def parse_jsonb(text: str) -> bytes:
    """The stored form of one document."""
    try:
        tree = json.loads(text, parse_float=Digits, parse_int=Digits, parse_constant=_refuse)
    except ValueError:
        raise syntax_error("json", text) from None
    if isinstance(tree, dict | list):
        return _write_nested(tree)
    return _write_container(1 | SCALAR | ARRAY, [tree])


def _refuse(word: str) -> NoReturn:
    raise ValueError(word)
