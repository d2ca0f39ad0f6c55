"""Columns of a batch as texts that wait to become JSON literals, and the kernel that writes one of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tailrace.kernels import inner_kernel
from tailrace.model import Column, PgType
from tailrace.plugins.column_texts import VALUE, ColumnTexts, put
from tailrace.plugins.json_text.strings import escapes, put_escaped
from tailrace.types import oids, registry
from tailrace.types.codec.ascii import MINUS, QUOTE
from tailrace.types.encodings.conversion import to_utf8
from tailrace.types.style import TextStyle
from tailrace.types.values import Texts, Values

# How a column's texts become literals
BARE = 0  # as they are
NUMBER = 1  # as they are, but for NaN and infinities, which JSON lacks: null
BOOLEAN = 2  # t or f
STRING = 3  # in quotes
ESCAPED = 4  # in quotes, and there is something to escape
HEX = 5  # a string of what stands behind the \x of a bytea
NUMBER_OR_NAME = 6  # a number as it is, what JSON lacks in quotes

NUMBERS = frozenset({oids.INT2, oids.INT4, oids.INT8, oids.OID, oids.FLOAT4, oids.FLOAT8, oids.NUMERIC})

TextOf = Callable[[Values, Column], tuple[Texts, int]]
"""A column's values as texts in UTF-8, and how they become literals."""


def literal_columns(values: Sequence[Values] | None, columns: Sequence[Column], rows: int, text_of: TextOf) -> ColumnTexts:
    """The columns as they become literals."""

    def literals(stored: Values, column: Column) -> tuple[Texts, int, int]:
        texts, form = text_of(stored, column)
        escaped = int(escapes(texts.data)) if form == STRING else 0
        return texts, ESCAPED if escaped else form, len(texts.data) + escaped

    return ColumnTexts.of(values, columns, rows, literals)


def printed(stored: Values, pg_type: PgType, style: TextStyle, codec: str) -> Texts:
    """What the type's output function prints, in UTF-8."""
    return to_utf8(registry.format_values(stored, pg_type, style), codec)


_TRUE, _FALSE, _NULL = (np.frombuffer(word, np.uint8) for word in (b"true", b"false", b"null"))
LONGEST_LITERAL = 6
"""Bytes that a value takes beside its text: quotes, or a word instead of it."""
_LETTER_T, _LETTER_I, _LETTER_N = b"tIN"


@inner_kernel
def put_literal(out, to, side, column, row):  # type: ignore[no-untyped-def]
    """Append a value; an absent one as null."""
    start, stop, form = side.bounds[column, row], side.bounds[column, row + 1], side.form[column]
    if side.state[column, row] != VALUE or (form == NUMBER and is_special(side.data, start, stop)):
        return put(out, to, _NULL, 0, len(_NULL))
    if form == BARE or form == NUMBER or (form == NUMBER_OR_NAME and not is_special(side.data, start, stop)):
        return put(out, to, side.data, start, stop)
    if form == BOOLEAN:
        if side.data[start] == _LETTER_T:
            return put(out, to, _TRUE, 0, len(_TRUE))
        return put(out, to, _FALSE, 0, len(_FALSE))
    out[to] = QUOTE
    if form == ESCAPED:
        to = put_escaped(out, to + 1, side.data, start, stop)
    else:
        to = put(out, to + 1, side.data, min(start + 2, stop) if form == HEX else start, stop)
    out[to] = QUOTE
    return to + 1


@inner_kernel
def is_special(data, start, stop):  # type: ignore[no-untyped-def]
    """Whether this is NaN, Infinity or -Infinity."""
    if stop > start and data[start] == MINUS:
        start += 1
    return stop > start and (data[start] == _LETTER_I or data[start] == _LETTER_N)
