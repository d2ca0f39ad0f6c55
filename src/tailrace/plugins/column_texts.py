"""Columns of a batch as text, in the form in which kernels write rows of them: what all formatters of text share.

In: columns as PostgreSQL stores them, and a function that prints one. Out: `ColumnTexts`, the new or the old tuples of a batch;
and `Words`, which are the same in many rows, as names of tables and columns are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailrace.kernels import inner_kernel
from tailrace.memcpy import memcpy
from tailrace.model import Column
from tailrace.types.values import Texts, Values, as_writable

VALUE, NULL, UNCHANGED = 0, 1, 2

ColumnText = Callable[[Values, Column], tuple[Texts, int, int]]
"""A column's values in UTF-8; the form in which the kernel writes them, as the formatter numbers forms; and how many bytes they
take in that form at most."""


class Words(NamedTuple):
    """Word i is `data[bounds[i] : bounds[i + 1]]`."""

    data: NDArray[np.uint8]
    bounds: NDArray[np.int64]

    @classmethod
    def of(cls, words: Texts | Sequence[str]) -> Words:
        texts = words if isinstance(words, Texts) else Texts.of(words)
        return cls(as_writable(texts.data), texts.offsets)

    @property
    def longest(self) -> int:
        return int(np.diff(self.bounds).max(initial=0))


class ColumnTexts(NamedTuple):
    """The new or the old tuples of a batch: of column c and row i `data[bounds[c, i] : bounds[c, i + 1]]`, unless `state[c, i]`
    says that it is NULL or was not sent. `form` is by column; `room` is what the values take at most."""

    data: NDArray[np.uint8]
    bounds: NDArray[np.int64]
    state: NDArray[np.uint8]
    form: NDArray[np.uint8]
    room: int

    @classmethod
    def absent(cls, rows: int, columns: int) -> ColumnTexts:
        """Texts of NULLs, for changes that have no such tuple."""
        return cls(
            np.zeros(0, np.uint8),
            np.zeros((columns, rows + 1), np.int64),
            np.full((columns, rows), NULL, np.uint8),
            np.zeros(columns, np.uint8),
            0,
        )

    @classmethod
    def of(cls, values: Sequence[Values] | None, columns: Sequence[Column], rows: int, text_of: ColumnText) -> ColumnTexts:
        """The columns, each printed by `text_of`; without values all is NULL."""
        if values is None:
            return cls.absent(rows, len(columns))
        state, forms = np.zeros((len(columns), rows), np.uint8), np.zeros(len(columns), np.uint8)
        texts, room = [], 0
        for i, (column, stored) in enumerate(zip(columns, values, strict=True)):
            printed, forms[i], longest = text_of(stored, column)
            texts.append(printed)
            room += longest
            state[i] = np.where(stored.valid, VALUE, NULL)
            if stored.unchanged is not None:
                state[i][stored.unchanged] = UNCHANGED
        return cls(*Texts.columns_in_one(texts, rows), state, forms, room)


@inner_kernel
def put_word(out, to, words, i):  # type: ignore[no-untyped-def]
    """Append word i at `to`; where the next byte goes."""
    return put(out, to, words.data, words.bounds[i], words.bounds[i + 1])


@inner_kernel
def put(out, to, part, start, stop):  # type: ignore[no-untyped-def]
    """Append part[start:stop] at `to`; where the next byte goes."""
    memcpy(out, to, part, start, stop - start)
    return to + stop - start
