"""Tuples of many rows as columns: what `change_writer` writes, and what `change_columns` reads out of messages.

In: columns as PostgreSQL stores them (`Values`). Out: `TupleColumns`, the new or the old tuples of a batch, with each value as it
travels: in text form, or in binary form where that was asked for and the type has one; in UTF-8, whatever the database's encoding
is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailrace.logicalproto.message import BINARY, NULL, TEXT, UNCHANGED
from tailrace.model import Column, PgType
from tailrace.types.encodings.conversion import to_utf8
from tailrace.types.encodings.server_encodings import UTF8
from tailrace.types.registry import format_binary, format_values, has_binary
from tailrace.types.style import TextStyle
from tailrace.types.values import Texts, Values

NULL_BYTE, UNCHANGED_BYTE, TEXT_BYTE, BINARY_BYTE = (np.uint8(ord(kind)) for kind in (NULL, UNCHANGED, TEXT, BINARY))


class TupleColumns(NamedTuple):
    """New or old tuples of a batch. Of column c and row i `kind[c, i]` is the byte before the value, which is `data[bounds[c, i]
    : bounds[c, i + 1]]`."""

    data: NDArray[np.uint8]
    bounds: NDArray[np.int64]
    kind: NDArray[np.uint8]

    @classmethod
    def absent(cls, rows: int, columns: int) -> TupleColumns:
        """Tuples of NULLs, for changes that have no such tuple."""
        return cls(np.zeros(0, np.uint8), np.zeros((columns, rows + 1), np.int64), np.full((columns, rows), NULL_BYTE))


def tuple_columns(
    values: Sequence[Values], columns: Sequence[Column], style: TextStyle = TextStyle(), codec: str = UTF8, *, binary: bool = False  # noqa: B008
) -> TupleColumns:  # fmt: skip
    """The columns' values as they travel, one column after another; `codec` is the database's encoding."""
    rows = len(values[0]) if values else 0
    kinds = np.full((len(columns), rows), NULL_BYTE)
    texts = []
    for i, (column, stored) in enumerate(zip(columns, values, strict=True)):
        sent, sent_as = _sent(stored, column.live_type, style, codec, binary=binary)
        texts.append(sent)
        kinds[i] = np.where(stored.valid, sent_as, NULL_BYTE)
        if stored.unchanged is not None:
            kinds[i][stored.unchanged] = UNCHANGED_BYTE
    return TupleColumns(*Texts.columns_in_one(texts, rows), kinds)


def _sent(stored: Values, pg_type: PgType, style: TextStyle, codec: str, *, binary: bool) -> tuple[Texts, np.uint8]:
    if binary and has_binary(pg_type):
        return format_binary(
            stored, pg_type, replace(style, to_client=partial(to_utf8, codec=codec)) if codec else style
        ), BINARY_BYTE
    return to_utf8(format_values(stored, pg_type, style), codec), TEXT_BYTE
