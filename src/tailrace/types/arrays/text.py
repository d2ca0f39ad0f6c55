"""Arrays of any element as text: {1,NULL,"a b"}; with [2:3]= in front where a lower bound is not 1; and int2vector and oidvector: 1 2 3.

The elements of all rows are printed, or parsed, as one column of their own type. The delimiter is the element type's (; for box).
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import numpy as np

from tailrace.errors import UsageError
from tailrace.kernels import inner_kernel, kernel
from tailrace.model import PgType
from tailrace.types.arrays.stored import (
    MAX_DIMENSIONS,
    Shape,
    element_of,
    read_dimension,
    read_lower_bound,
    read_word,
    stored_arrays,
    take_apart,
)
from tailrace.types.codec import format_values, parse_texts
from tailrace.types.codec.ascii import (
    BACKSLASH,
    COLON,
    EQUALS,
    LEFT_BRACE,
    LEFT_BRACKET,
    LOWER,
    QUOTE,
    RETURN,
    RIGHT_BRACE,
    RIGHT_BRACKET,
    SPACE,
    TAB,
)
from tailrace.types.numbers.digits import grown, put_signed
from tailrace.types.style import TextStyle
from tailrace.types.values import Mask, Texts, Values, as_writable

LETTERS_OF_NULL = np.frombuffer(b"NULL", np.uint8).copy()
ROOM = 256
"""Bytes that the bounds of an array take at most: six times [-2147483648:-2147483648]; or braces, delimiter and quotes of an element."""


@inner_kernel
def _is_null_word(text: Any, start: Any, stop: Any) -> Any:
    """Whether the text is the word NULL, in letters of either case."""
    if stop - start != len(LETTERS_OF_NULL):
        return False
    for place in range(len(LETTERS_OF_NULL)):
        if text[start + place] | LOWER != LETTERS_OF_NULL[place] | LOWER:
            return False
    return True


@inner_kernel
def _needs_quotes(text: Any, start: Any, stop: Any, delimiter: Any) -> Any:
    """Empty, the word NULL, or holding something with a meaning in an array literal."""
    if start == stop or _is_null_word(text, start, stop):
        return True
    for place in range(start, stop):
        byte = text[place]
        if byte in (QUOTE, BACKSLASH, LEFT_BRACE, RIGHT_BRACE, delimiter, SPACE) or TAB <= byte <= RETURN:
            return True
    return False


@inner_kernel
def _put_element(out: Any, at: Any, text: Any, start: Any, stop: Any, delimiter: Any) -> Any:
    """The text of an element, in quotes if it needs them."""
    if not _needs_quotes(text, start, stop, delimiter):
        for place in range(start, stop):
            out[at] = text[place]
            at += 1
        return at
    out[at] = QUOTE
    at += 1
    for place in range(start, stop):
        if text[place] in (QUOTE, BACKSLASH):
            out[at] = BACKSLASH
            at += 1
        out[at] = text[place]
        at += 1
    out[at] = QUOTE
    return at + 1


@inner_kernel
def _put_null(out: Any, at: Any) -> Any:
    """NULL, which is never in quotes."""
    for letter in LETTERS_OF_NULL:
        out[at] = letter
        at += 1
    return at


@inner_kernel
def _put_bounds(out: Any, at: Any, data: Any, start: Any, dimensions: Any) -> Any:
    """[2:3][1:2]=, unless every lower bound is 1."""
    declared = False
    for dimension in range(dimensions):
        declared |= read_lower_bound(data, start, dimensions, dimension) != 1
    if not declared:
        return at
    for dimension in range(dimensions):
        lower = read_lower_bound(data, start, dimensions, dimension)
        out[at] = LEFT_BRACKET
        at = put_signed(out, at + 1, lower)
        out[at] = COLON
        at = put_signed(out, at + 1, lower + read_dimension(data, start, dimension) - 1)
        out[at] = RIGHT_BRACKET
        at += 1
    out[at] = EQUALS
    return at + 1


@kernel
def _format_arrays(starts: Any, data: Any, valid: Any, firsts: Any, present: Any, offsets: Any, text: Any, delimiter: Any) -> Any:
    """Braces, bounds and delimiters around the texts of the elements. Those of a row are from its `firsts` to the next row's; which of them are
    `present` is no NULL, and the text of each is in `text` between its `offsets`."""
    rows = len(valid)
    ends = np.zeros(rows + 1, np.int64)
    out = np.empty(len(text) + len(text) // 2 + 3 * len(present) + 2 * rows + ROOM, np.uint8)
    inner = np.empty(MAX_DIMENSIONS, np.int64)  # how many elements lie between the braces of each dimension
    at = 0
    for row in range(rows):
        if valid[row]:
            if at + ROOM > len(out):
                out = grown(out, at + ROOM)
            dimensions = read_word(data, starts[row])
            if dimensions == 0:
                out[at] = LEFT_BRACE
                out[at + 1] = RIGHT_BRACE
                at += 2
            at = _put_bounds(out, at, data, starts[row], dimensions)
            count = 1
            for dimension in range(dimensions - 1, -1, -1):
                count *= read_dimension(data, starts[row], dimension)
                inner[dimension] = count
            for element in range(firsts[row], firsts[row + 1]):
                number = element - firsts[row]
                start, stop = offsets[element], offsets[element + 1]
                need = at + 2 * (stop - start) + ROOM
                if need > len(out):
                    out = grown(out, need)
                if number:
                    out[at] = delimiter
                    at += 1
                for dimension in range(dimensions):
                    if number % inner[dimension] == 0:
                        out[at] = LEFT_BRACE
                        at += 1
                if present[element]:
                    at = _put_element(out, at, text, start, stop, delimiter)
                else:
                    at = _put_null(out, at)
                for dimension in range(dimensions):
                    if (number + 1) % inner[dimension] == 0:
                        out[at] = RIGHT_BRACE
                        at += 1
        ends[row + 1] = at
    return ends, out[:at]


def format_arrays(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As array_out: {1,NULL,"a b"}, with [2:3]= in front where a lower bound is not 1."""
    element = element_of(pg_type)
    firsts, _, elements = take_apart(values, pg_type)
    texts = format_values(elements, element, style)
    valid, present = as_writable(values.valid), as_writable(elements.valid)
    text, offsets = as_writable(texts.data), as_writable(texts.offsets)
    return Texts(*_format_arrays(*values.payloads, valid, firsts, present, offsets, text, ord(element.delimiter)))


def format_vectors(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As int2vectorout: 1 2 3."""
    firsts, _, elements = take_apart(values, pg_type)
    words = format_values(elements, element_of(pg_type), style).to_list()
    return Texts.of([" ".join(words[first:stop]) for first, stop in pairwise(firsts.tolist())])


BOUNDS = re.compile(r"\s*((?:\[[+-]?\d+(?::[+-]?\d+)?\])+)\s*=", re.A)
BOUND = re.compile(r"\[([+-]?\d+)(?::([+-]?\d+))?\]")


def parse_arrays(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As array_in."""
    delimiter = element_of(pg_type).delimiter
    rows = zip(texts.to_list(), valid.tolist(), strict=True)
    return _with_elements([_Literal(text, delimiter).read() if present else None for text, present in rows], pg_type)


def read_array_literal(text: str, pg_type: PgType) -> tuple[Shape, list[str | None]]:
    """The shape of one array, and the texts of its elements, for who reads elements otherwise than their codec."""
    return _Literal(text, element_of(pg_type).delimiter).read()


def parse_vectors(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As int2vectorin: always one dimension from 0."""
    rows = zip(texts.to_list(), valid.tolist(), strict=True)
    words = [text.split() if present else None for text, present in rows]
    return _with_elements([None if row is None else (Shape([len(row)], [0]), list(row)) for row in words], pg_type)


def _with_elements(arrays: list[tuple[Shape, list[str | None]] | None], pg_type: PgType) -> Values:
    """Stored arrays of shapes and texts of elements (None for NULL), which are all parsed at once."""
    words = [word for array in arrays if array is not None for word in array[1]]
    present = np.array([word is not None for word in words], np.bool_)
    elements = parse_texts(Texts.of([word or "" for word in words]), present, element_of(pg_type))
    return stored_arrays([None if array is None else array[0] for array in arrays], elements, pg_type)


class _Literal:
    """Reads an array literal (`ReadArrayStr` in `adt/arrayfuncs.c`). State: where it stands, how deep in braces, and what it has read."""

    def __init__(self, text: str, delimiter: str) -> None:
        self.text = text
        self.delimiter = delimiter
        mark = re.escape(delimiter)
        self.token = re.compile(rf'\s*([{{}}{mark}]|"((?:[^"\\]|\\.)*)"|((?:[^{{}}"\\{mark}]|\\.)+))\s*', re.S | re.A)
        self.depth = 0
        self.counts = [0] * (MAX_DIMENSIONS + 2)  # by depth: elements or arrays since the last brace opened there
        self.lengths: list[int] = []
        self.elements: list[str | None] = []

    def read(self) -> tuple[Shape, list[str | None]]:
        """The shape, and the elements in order."""
        declared = BOUNDS.match(self.text)
        bounds = BOUND.findall(declared[1]) if declared else []
        at = declared.end() if declared else 0
        while at < len(self.text):
            token = self.token.match(self.text, at)
            if token is None:
                raise self._malformed()
            at = token.end()
            if token[1] == "{":
                self._open()
            elif token[1] == "}":
                self._close()
            elif token[1] != self.delimiter:
                self._element(token[2], token[3])
            if self.depth == 0 and at < len(self.text):
                raise self._malformed()
        if not self.elements:
            return Shape(), []
        if int(np.prod(self.lengths)) != len(self.elements) or self.depth:
            raise self._malformed()
        lowers = [int(lower) if upper else 1 for lower, upper in bounds]
        return Shape(self.lengths, lowers or [1] * len(self.lengths)), self.elements

    def _open(self) -> None:
        self.depth += 1
        if self.depth > MAX_DIMENSIONS:
            raise self._malformed()
        self.counts[self.depth] = 0

    def _close(self) -> None:
        """Every array of one depth is as long as the first that closed there."""
        length = self.counts[self.depth]
        self.depth -= 1
        if self.depth < 0:
            raise self._malformed()
        self.counts[self.depth] += 1
        self.lengths += [-1] * (self.depth + 1 - len(self.lengths))
        if self.lengths[self.depth] not in {-1, length}:
            raise self._malformed()
        self.lengths[self.depth] = length

    def _element(self, quoted: str | None, bare: str) -> None:
        self.counts[self.depth] += 1
        word = bare.strip(" \t\n\v\f\r") if quoted is None else quoted
        is_null = quoted is None and word.upper() == "NULL"
        self.elements.append(None if is_null else re.sub(r"\\(.)", r"\1", word, flags=re.S))

    def _malformed(self) -> UsageError:
        return UsageError(f'malformed array literal: "{self.text}"', sqlstate="22P02")
