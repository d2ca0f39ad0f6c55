"""Reading array literals: split in Python, elements parsed as one column, stored form put together per row."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field

import numpy as np

from tailrace.errors import UsageError
from tailrace.model import PgType
from tailrace.types.arrays.stored import element_of
from tailrace.types.arrays.text import MAX_DIMENSIONS
from tailrace.types.codec import parse_texts
from tailrace.types.values import Mask, Texts, Values

BOUNDS = re.compile(r"\s*((?:\[[+-]?\d+(?::[+-]?\d+)?\])+)\s*=", re.A)
BOUND = re.compile(r"\[([+-]?\d+)(?::([+-]?\d+))?\]")


@dataclass(slots=True)
class Literal:
    """One array: its lengths, lower bounds, and elements (None for NULL)."""

    lengths: list[int] = field(default_factory=list)
    lowers: list[int] = field(default_factory=list)
    elements: list[str | None] = field(default_factory=list)


def parse_arrays(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As array_in."""
    delimiter = element_of(pg_type).delimiter
    rows = zip(texts.to_list(), valid.tolist(), strict=True)
    return _stored([_read(text, delimiter) if present else None for text, present in rows], pg_type)


def parse_vectors(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As int2vectorin: always one dimension from 0."""
    words = [text.split() for text in texts.to_list()]
    literals = [Literal([len(row)], [0], list(row)) for row in words]
    return _stored([each if present else None for each, present in zip(literals, valid.tolist(), strict=True)], pg_type)


def _read(text: str, delimiter: str) -> Literal:
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


def _stored(literals: list[Literal | None], pg_type: PgType) -> Values:
    words = [word for literal in literals if literal is not None for word in literal.elements]
    present = np.array([word is not None for word in words], np.bool_)
    payloads = parse_texts(Texts.of([word or "" for word in words]), present, element_of(pg_type)).payload_list()
    return stored_arrays(literals, present.tolist(), payloads, pg_type)


def stored_arrays(literals: list[Literal | None], present: list[bool], payloads: list[bytes], pg_type: PgType) -> Values:
    """Stored arrays of the shapes of the literals; their elements, NULLs included, are `payloads` where `present`."""
    element = element_of(pg_type)
    stored = iter([payload if there else None for payload, there in zip(payloads, present, strict=True)])
    rows = [
        None if literal is None else _payload(literal, [next(stored) for _ in literal.elements], element) for literal in literals
    ]
    return Values.of_payloads(rows, -1)


def _payload(literal: Literal, elements: list[bytes | None], element: PgType) -> bytes:
    dimensions = len(literal.lengths)
    holes = None in elements
    head = 16 + 8 * dimensions + (-(-len(elements) // 8) if holes else 0)
    head += -head % 8
    body = bytearray(struct.pack(f"<iiI{2 * dimensions}i", dimensions, head if holes else 0, element.oid,
                                 *literal.lengths, *literal.lowers))  # fmt: skip
    if holes:
        flags = np.array([each is not None for each in elements])
        body += np.packbits(flags, bitorder="little").tobytes()
    # Without elements the header ends the value; with them, data starts aligned to 8 from the length word.
    body += bytes(head - 4 - len(body)) if elements else b""
    for each in elements:
        if each is not None:
            body += bytes(-(len(body) + 4) % element.align)
            body += each if element.length > 0 else struct.pack("<I", len(each) + 4 << 2) + each
    if element.length < 0:
        body += bytes(-(len(body) + 4) % element.align)
    return bytes(body)
