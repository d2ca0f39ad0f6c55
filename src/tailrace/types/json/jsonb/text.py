"""jsonb as text: printed by one kernel with its own stack, parsed in plain Python.

What is parsed keeps its digits (1.50 stays 1.50); of equal keys the last one wins. In binary form it is a version, and the text.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

import numpy as np

from tailrace.kernels import inner_kernel, kernel
from tailrace.model import PgType
from tailrace.types.codec import none_of_its_type, parse_each, syntax_error
from tailrace.types.codec.ascii import (
    BACKSLASH,
    COLON,
    COMMA,
    LEFT_BRACE,
    LEFT_BRACKET,
    QUOTE,
    RIGHT_BRACE,
    RIGHT_BRACKET,
    SPACE,
    ZERO,
)
from tailrace.types.codec.binary_forms import with_version, without_version
from tailrace.types.json.jsonb.stored import (
    ARRAY,
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
    WORD,
    Digits,
    read_u32,
    write_document,
)
from tailrace.types.numbers.digits import grown
from tailrace.types.numbers.numeric.stored import is_numeric
from tailrace.types.numbers.numeric.text import numeric_room, put_numeric
from tailrace.types.style import TextStyle
from tailrace.types.values import Mask, Texts, Values, as_writable

LETTER_U = ord("u")
ESCAPES = np.zeros(256, np.uint8)
"""What stands after the backslash for a byte of a string; 0 for itself, u for the long form."""
ESCAPES[:32] = LETTER_U
for _byte, _letter in zip(b'\b\f\n\r\t"\\', b'bfnrt"\\', strict=True):
    ESCAPES[_byte] = _letter
LONGEST_ESCAPE = 6
HEX_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8).copy()
WORDS = np.frombuffer(b"falsetruenull", np.uint8).copy()
ROOM = 64
"""More than all that is written around one value: braces, commas, colons, quotes, and the words."""

FRAME = 8
ENTRIES, CHILDREN, CHILD_COUNT, NEXT, KEY_END, VALUE_END, FLAGS, STOP = range(FRAME)
"""What the printer keeps of a container that it is in: where its entries and its children's bytes begin, how many children it has (an object: pairs)
and which is next, where the last key and the last value ended, the bits of the header, and where it ends. Its children lie one behind another before
that, however it is damaged: so all that is read is the value's own, and once."""


@inner_kernel
def _put_string(out: Any, at: Any, data: Any, start: Any, stop: Any) -> Any:
    """Between quotes, with the escapes of escape_json."""
    out[at] = QUOTE
    at += 1
    for place in range(start, stop):
        byte = data[place]
        escape = ESCAPES[byte]
        if escape == 0:
            out[at] = byte
            at += 1
        else:
            out[at] = BACKSLASH
            out[at + 1] = escape
            at += 2
            if escape == LETTER_U:
                out[at] = ZERO
                out[at + 1] = ZERO
                out[at + 2] = HEX_DIGITS[byte >> 4]
                out[at + 3] = HEX_DIGITS[byte & 15]
                at += 4
    out[at] = QUOTE
    return at + 1


@inner_kernel
def _put_scalar(out: Any, at: Any, data: Any, kind: Any, start: Any, stop: Any) -> Any:
    """A string, a number, or one of the words."""
    if kind == STRING:
        return _put_string(out, at, data, start, stop)
    if kind == NUMERIC:
        return put_numeric(out, at, data, start + WORD, start + (read_u32(data, start) >> 2))
    first, last = (0, 5) if kind == FALSE else ((5, 9) if kind == TRUE else (9, 13))
    for place in range(first, last):
        out[at] = WORDS[place]
        at += 1
    return at


@inner_kernel
def _room_of(data: Any, kind: Any, start: Any, stop: Any) -> Any:
    """An upper bound of its printed length beyond ROOM."""
    if kind == STRING:
        return LONGEST_ESCAPE * (stop - start)
    return numeric_room(data, start + WORD) if kind == NUMERIC else 0


@inner_kernel
def _enter(data: Any, at: Any, stop: Any, frame: Any) -> Any:
    """Fill the frame of the container at `at`. Whether there is one, with all its entries before `stop`."""
    if stop - at < WORD:
        return False
    header = read_u32(data, at)
    count = header & COUNT
    entries = at + WORD
    if (
        header & ~COUNT not in (OBJECT, ARRAY, ARRAY | SCALAR)
        or WORD * (2 * count if header & OBJECT else count) > stop - entries
    ):
        return False
    frame[STOP] = stop
    frame[ENTRIES] = entries
    frame[CHILDREN] = entries + WORD * (2 * count if header & OBJECT else count)
    frame[CHILD_COUNT] = count
    frame[NEXT] = 0
    frame[KEY_END] = 0
    frame[VALUE_END] = 0
    frame[FLAGS] = header & ~COUNT
    if header & OBJECT:
        # Values begin where the last key ends: the lengths back to the nearest entry that holds an offset.
        number = count - 1
        while number >= 0:
            entry = read_u32(data, entries + WORD * number)
            frame[VALUE_END] += entry & LENGTH
            if entry & HAS_OFFSET:
                break
            number -= 1
    return True


@inner_kernel
def _child_end(entry: Any, start: Any) -> Any:
    """Where the child of this entry ends that begins at `start`, both counted from the first child's bytes."""
    return entry & LENGTH if entry & HAS_OFFSET else start + (entry & LENGTH)


@inner_kernel
def _next_key(data: Any, frame: Any) -> Any:
    """Where an object's next key begins and ends; of an array two equal places."""
    start = frame[KEY_END]
    if frame[FLAGS] & OBJECT:
        frame[KEY_END] = _child_end(read_u32(data, frame[ENTRIES] + WORD * frame[NEXT]), start)
    return frame[CHILDREN] + start, frame[CHILDREN] + frame[KEY_END]


@inner_kernel
def _next_value(data: Any, frame: Any) -> Any:
    """The kind of the next value, and where it begins and ends; the frame moves on."""
    number = frame[NEXT] + (frame[CHILD_COUNT] if frame[FLAGS] & OBJECT else 0)
    entry = read_u32(data, frame[ENTRIES] + WORD * number)
    start = frame[VALUE_END]
    stop = _child_end(entry, start)
    frame[VALUE_END] = stop
    frame[NEXT] += 1
    kind = entry & KIND
    if kind in (NUMERIC, CONTAINER):
        start = (start + WORD - 1) // WORD * WORD
    return kind, frame[CHILDREN] + start, frame[CHILDREN] + stop


@inner_kernel
def _is_child(data: Any, frame: Any, kind: Any, start: Any, stop: Any) -> Any:
    """Whether a child of this kind may lie there: within its container, and a number if it says that it is one."""
    if not start <= stop <= frame[STOP]:
        return False
    if kind != NUMERIC:
        return kind in (STRING, FALSE, TRUE, NULL, CONTAINER)
    return (
        stop - start > WORD
        and start + (read_u32(data, start) >> 2) <= stop
        and is_numeric(data, start + WORD, start + (read_u32(data, start) >> 2))
    )


@inner_kernel
def _put_edge(out: Any, at: Any, flags: Any, brace: Any, bracket: Any) -> Any:
    """What opens or closes an object or an array; nothing of a scalar, which is stored as an array."""
    if flags & SCALAR:
        return at
    out[at] = brace if flags & OBJECT else bracket
    return at + 1


@kernel
def _format_jsonb(starts: Any, data: Any, valid: Any) -> Any:
    """One pass; before each value, or pair of key and value, the output is made large enough for it. Returns the texts, and the first row that is
    damaged, or -1."""
    rows = len(valid)
    offsets = np.empty(rows + 1, np.int64)
    offsets[0] = 0
    out = np.empty(2 * len(data) + ROOM, np.uint8)
    stack = np.empty((64, FRAME), np.int64)
    at = 0
    for row in range(rows):
        depth = -1
        if valid[row]:
            depth = 0
            if not _enter(data, starts[row], starts[row + 1], stack[0]):
                return offsets, out, row
            if at + ROOM > len(out):
                out = grown(out, at + ROOM)
            at = _put_edge(out, at, stack[0, FLAGS], LEFT_BRACE, LEFT_BRACKET)
        while depth >= 0:
            frame = stack[depth]
            if frame[NEXT] == frame[CHILD_COUNT]:
                if at + ROOM > len(out):
                    out = grown(out, at + ROOM)
                at = _put_edge(out, at, frame[FLAGS], RIGHT_BRACE, RIGHT_BRACKET)
                depth -= 1
                continue
            is_first = frame[NEXT] == 0
            key_start, key_stop = _next_key(data, frame)
            kind, start, stop = _next_value(data, frame)
            if not _is_child(data, frame, np.int64(STRING), key_start, key_stop) or not _is_child(data, frame, kind, start, stop):
                return offsets, out, row
            need = at + LONGEST_ESCAPE * (key_stop - key_start) + _room_of(data, kind, start, stop) + ROOM
            if need > len(out):
                out = grown(out, need)
            if not is_first:
                out[at] = COMMA
                out[at + 1] = SPACE
                at += 2
            if frame[FLAGS] & OBJECT:
                at = _put_string(out, at, data, key_start, key_stop)
                out[at] = COLON
                out[at + 1] = SPACE
                at += 2
            if kind == CONTAINER:
                depth += 1
                if depth == len(stack):
                    deeper = np.empty((2 * depth, FRAME), np.int64)
                    deeper[:depth] = stack
                    stack = deeper
                if not _enter(data, start, stop, stack[depth]):
                    return offsets, out, row
                at = _put_edge(out, at, stack[depth, FLAGS], LEFT_BRACE, LEFT_BRACKET)
            else:
                at = _put_scalar(out, at, data, kind, start, stop)
        offsets[row + 1] = at
    return offsets, out[:at], -1


def format_jsonbs(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As jsonb_out: {"k": v, ...}. Raises CorruptWal for a value that is no jsonb."""
    offsets, data, bad = _format_jsonb(*values.payloads, as_writable(values.valid))
    if bad >= 0:
        raise none_of_its_type(pg_type)
    return Texts(offsets, data)


def parse_jsonbs(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As jsonb_in."""
    return parse_each(texts, valid, pg_type, _parse)


def _parse(text: str) -> bytes:
    try:
        document = json.loads(text, parse_float=Digits, parse_int=Digits, parse_constant=_refuse)
    except ValueError:
        raise syntax_error("json", text) from None
    return write_document(document)


def _refuse(word: str) -> NoReturn:
    """NaN and Infinity, which Python takes for JSON."""
    raise ValueError(word)


def send_jsonbs(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As jsonb_send: a version, and the text."""
    return with_version(format_jsonbs(values, pg_type, style), values.valid)


def receive_jsonbs(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As jsonb_recv."""
    return parse_jsonbs(without_version(texts, valid, pg_type), valid, pg_type)
