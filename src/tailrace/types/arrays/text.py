"""Arrays of any element as text: {1,NULL,"a b"}; with [2:3]= in front where a lower bound is not 1; and int2vector and oidvector: 1 2 3.

The elements of all rows are printed, or parsed, as one column of their own type. The delimiter is the element type's (; for box).
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from tailrace.errors import UsageError
from tailrace.kernels import kernel
from tailrace.model import PgType
from tailrace.types.arrays.stored import MAX_DIMENSIONS, Literal, element_of, read_word, stored_arrays, take_apart
from tailrace.types.codec import format_values, parse_texts
from tailrace.types.numbers.digits import grown, put_signed
from tailrace.types.style import TextStyle
from tailrace.types.values import Mask, Texts, Values, as_writable


@kernel
def _needs_quotes(text: Any, start: Any, stop: Any, delimiter: Any) -> Any:
    """Empty, the word NULL, or holding something with a meaning in an array literal."""
    if start == stop:
        return True
    if stop - start == 4:
        null = text[start] | 32 == 110 and text[start + 1] | 32 == 117
        if null and text[start + 2] | 32 == 108 and text[start + 3] | 32 == 108:
            return True
    for place in range(start, stop):
        byte = text[place]
        if byte in (34, 92, 123, 125, delimiter, 32) or 9 <= byte <= 13:
            return True
    return False


@kernel
def _assemble(
    starts: Any, data: Any, valid: Any, firsts: Any, present: Any, offsets: Any, text: Any, delimiter: Any, vector: Any
) -> Any:
    """Braces, bounds, delimiters and quotes around the elements' texts; a vector is its elements between spaces."""
    rows = len(valid)
    ends = np.empty(rows + 1, np.int64)
    ends[0] = 0
    out = np.empty(len(text) + len(text) // 2 + 3 * len(present) + 2 * rows + 64, np.uint8)
    inner = np.empty(MAX_DIMENSIONS, np.int64)
    at = 0
    for row in range(rows):
        out = grown(out, at + 256)
        dimensions = read_word(data, starts[row]) if valid[row] else 0
        total = firsts[row + 1] - firsts[row]
        if vector:
            dimensions = 0
        elif valid[row] and dimensions == 0:
            out[at] = 123
            out[at + 1] = 125
            at += 2
        bounded = False
        product = 1
        for place in range(dimensions - 1, -1, -1):
            product *= read_word(data, starts[row] + 12 + 4 * place)
            inner[place] = product
            bounded |= read_word(data, starts[row] + 12 + 4 * (dimensions + place)) != 1
        if bounded:
            for place in range(dimensions):
                low = read_word(data, starts[row] + 12 + 4 * (dimensions + place))
                out[at] = 91
                at = put_signed(out, at + 1, low)
                out[at] = 58
                at = put_signed(out, at + 1, low + read_word(data, starts[row] + 12 + 4 * place) - 1)
                out[at] = 93
                at += 1
            out[at] = 61
            at += 1
        for each in range(total):
            start, stop = offsets[firsts[row] + each], offsets[firsts[row] + each + 1]
            out = grown(out, at + 2 * (stop - start) + 64)
            for place in range(dimensions):
                if each % inner[place] == 0:
                    out[at] = 123
                    at += 1
            if not present[firsts[row] + each]:
                for letter in (78, 85, 76, 76):
                    out[at] = letter
                    at += 1
            elif vector or not _needs_quotes(text, start, stop, delimiter):
                for place in range(start, stop):
                    out[at] = text[place]
                    at += 1
            else:
                out[at] = 34
                at += 1
                for place in range(start, stop):
                    if text[place] in (34, 92):
                        out[at] = 92
                        at += 1
                    out[at] = text[place]
                    at += 1
                out[at] = 34
                at += 1
            for place in range(dimensions):
                if (each + 1) % inner[place] == 0:
                    out[at] = 125
                    at += 1
            if each + 1 < total:
                out[at] = delimiter
                at += 1
        ends[row + 1] = at
    return ends, out[:at]


def format_arrays(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As array_out: {1,NULL,"a b"}, with [2:3]= in front where a lower bound is not 1."""
    return _format_elements(values, pg_type, style, ord(element_of(pg_type).delimiter), False)


def format_vectors(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As int2vectorout: 1 2 3."""
    return _format_elements(values, pg_type, style, ord(" "), True)


def _format_elements(values: Values, pg_type: PgType, style: TextStyle, delimiter: int, vector: bool) -> Texts:
    firsts, _, elements = take_apart(values, pg_type)
    texts = format_values(elements, element_of(pg_type), style)
    text, offsets = as_writable(texts.data), as_writable(texts.offsets)
    valid, present = as_writable(values.valid), as_writable(elements.valid)
    return Texts(*_assemble(*values.payloads, valid, firsts, present, offsets, text, delimiter, vector))


BOUNDS = re.compile(r"\s*((?:\[[+-]?\d+(?::[+-]?\d+)?\])+)\s*=", re.A)
BOUND = re.compile(r"\[([+-]?\d+)(?::([+-]?\d+))?\]")


def parse_arrays(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As array_in."""
    delimiter = element_of(pg_type).delimiter
    rows = zip(texts.to_list(), valid.tolist(), strict=True)
    return _stored_literals([_read_literal(text, delimiter) if present else None for text, present in rows], pg_type)


def parse_vectors(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As int2vectorin: always one dimension from 0."""
    words = [text.split() for text in texts.to_list()]
    literals = [Literal([len(row)], [0], list(row)) for row in words]
    return _stored_literals([each if present else None for each, present in zip(literals, valid.tolist(), strict=True)], pg_type)


def _read_literal(text: str, delimiter: str) -> Literal:
    literal, at = Literal(), 0
    declared = BOUNDS.match(text)
    if declared:
        at = declared.end()
        bounds = BOUND.findall(declared[1])
        literal.lowers = [int(low) if high else 1 for low, high in bounds]
    token = re.compile(
        rf'\s*([{{}}{re.escape(delimiter)}]|"((?:[^"\\]|\\.)*)"|((?:[^{{}}"\\{re.escape(delimiter)}]|\\.)+))\s*', re.S | re.A
    )
    depth, counts = 0, [0] * (MAX_DIMENSIONS + 2)
    while at < len(text):
        found = token.match(text, at)
        if found is None:
            raise _malformed(text)
        at = found.end()
        if found[1] == "{":
            depth += 1
            if depth > MAX_DIMENSIONS:
                raise _malformed(text)
            counts[depth] = 0
        elif found[1] == "}":
            depth -= 1
            if depth < 0:
                raise _malformed(text)
            counts[depth] += 1
            # Every array of one depth is as long as the first that closed there.
            literal.lengths += [-1] * (depth + 1 - len(literal.lengths))
            if literal.lengths[depth] not in {-1, counts[depth + 1]}:
                raise _malformed(text)
            literal.lengths[depth] = counts[depth + 1]
        elif found[1] != delimiter:
            counts[depth] += 1
            word = found[2] if found[2] is not None else found[3].strip(" \t\n\v\f\r")
            null = found[2] is None and word.upper() == "NULL"
            literal.elements.append(None if null else re.sub(r"\\(.)", r"\1", word, flags=re.S))
        if depth == 0 and at < len(text):
            raise _malformed(text)
    if not literal.elements:
        return Literal()
    if int(np.prod(literal.lengths)) != len(literal.elements) or depth:
        raise _malformed(text)
    literal.lowers = literal.lowers or [1] * len(literal.lengths)
    return literal


def _malformed(text: str) -> UsageError:
    return UsageError(f'malformed array literal: "{text}"', sqlstate="22P02")


def _stored_literals(literals: list[Literal | None], pg_type: PgType) -> Values:
    words = [word for literal in literals if literal is not None for word in literal.elements]
    present = np.array([word is not None for word in words], np.bool_)
    payloads = parse_texts(Texts.of([word or "" for word in words]), present, element_of(pg_type)).payload_list()
    return stored_arrays(literals, present.tolist(), payloads, pg_type)
