"""Changes as test_decoding prints them: a line for each, `table public.t: INSERT: id[integer]:1 v[text]:'one'`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.names.quoting import quote_identifier
from tailrace.decode import DELETE, UPDATE, Alike, Batch
from tailrace.kernels import inner_kernel, kernel
from tailrace.memcpy import memcpy
from tailrace.model import Column, PgType, Relation
from tailrace.plugins.picking import taken
from tailrace.plugins.plugin import Formatter
from tailrace.types import registry
from tailrace.types.encodings.conversion import to_utf8
from tailrace.types.encodings.server_encodings import UTF8
from tailrace.types.style import NameOf, TextStyle
from tailrace.types.values import Texts, Values

_BOOL = 16

# How a column's values stand
_BARE = 0
_QUOTED = 1
_ESCAPED = 2  # quoted, and there are quotes in some to be doubled
_BITS = 3  # quoted, behind a B
_QUOTING = {"bare": _BARE, "quoted": _QUOTED, "bits": _BITS}

_VALUE, _NULL, _UNCHANGED = 0, 1, 2


def _bytes(*texts: str) -> NDArray[np.uint8]:
    return np.frombuffer("".join(texts).encode("utf-8", "surrogateescape"), np.uint8)


@dataclass(frozen=True)
class LineFormatter(Formatter):
    """`major` decides which words are quoted; `include_xids`, what is told of streamed changes."""

    major: int
    style: TextStyle
    include_xids: bool = True
    codec: str = UTF8

    def knowing(self, names: NameOf | None, codec: str) -> LineFormatter:
        return replace(self, style=replace(self.style, names=names), codec=codec)

    def change_texts(self, batch: Batch) -> Texts:
        return self.alike_texts(Alike.of(batch))

    def alike_texts(self, alike: Alike) -> Texts:
        stream = alike.batch.stream
        if stream is None or not stream.any():
            return self._lines(alike)
        streamed, others = np.flatnonzero(stream), np.flatnonzero(stream == 0)
        xids = (" TXN ", stream[streamed]) if self.include_xids else (" transaction",)
        told = Texts.joined("streaming change for", *xids, rows=len(streamed))
        return taken([told, self._lines(alike.take(others))], np.argsort(np.concatenate([streamed, others])))

    def _lines(self, alike: Alike) -> Texts:
        batch = alike.batch
        columns, rows = batch.columns, len(batch)
        heads = Words.of([f"table {qualified_name(each, self.major)}: " for each in alike.published_as])
        labels = Words.of([f" {quote_identifier(column.name, self.major)}[{_type(column).label}]:" for column in columns])
        new = self._side(batch.new, columns, rows)
        old = self._side(batch.old, columns, rows) if batch.old is not None else Side.absent(rows, len(columns))
        # Room for the longest that it could be; pages that stay untouched cost nothing, and counting first would cost a second pass.
        longest = (
            int(np.diff(heads.bounds).max())
            + _VERB
            + 2 * (len(labels.data) + len(columns) * len(_UNCHANGED_WORD))
            + len(_OLD_KEY)
            + len(_NEW_TUPLE)
        )
        out = np.empty(rows * longest + 2 * (len(new.data) + len(old.data)), np.uint8)
        offsets = np.zeros(rows + 1, np.int64)
        write_lines(Changes(alike.number, batch.kind, batch.has_old), heads, labels, new, old, offsets, out)
        return Texts(offsets, out[: offsets[-1]])

    def _side(self, values: Sequence[Values], columns: Sequence[Column], rows: int) -> Side:
        """The columns' texts, one after another."""
        side = Side.absent(rows, len(columns))
        parts = [np.zeros(0, np.uint8)]
        used = 0
        for i, (column, stored) in enumerate(zip(columns, values, strict=True)):
            texts = self._texts(stored, _type(column))
            side.bounds[i] = texts.offsets + used
            used += len(texts.data)
            parts.append(texts.data)
            side.state[i] = np.where(stored.valid, _VALUE, _NULL)
            if stored.unchanged is not None:
                side.state[i][stored.unchanged] = _UNCHANGED
            quoting = _QUOTING[registry.quoting(_type(column))]
            side.quoting[i] = _ESCAPED if quoting == _QUOTED and (texts.data == _QUOTE).any() else quoting
        return side._replace(data=np.concatenate(parts) if len(parts) != 2 else parts[1])

    def _texts(self, stored: Values, pg_type: PgType) -> Texts:
        if pg_type.oid == _BOOL:
            return registry.printed_bool(stored)
        return to_utf8(registry.format_values(stored, pg_type, self.style), self.codec)


def qualified_name(relation: Relation, major: int) -> str:
    return f"{quote_identifier(relation.schema, major)}.{quote_identifier(relation.name, major)}"


def _type(column: Column) -> PgType:
    assert column.type is not None, "dropped columns are not shown"
    return column.type


class Words(NamedTuple):
    """Word i is `data[bounds[i] : bounds[i + 1]]`."""

    data: NDArray[np.uint8]
    bounds: NDArray[np.int64]

    @classmethod
    def of(cls, words: Sequence[str]) -> Words:
        parts = [_bytes(word) for word in words]
        bounds = np.zeros(len(parts) + 1, np.int64)
        np.cumsum([len(part) for part in parts], out=bounds[1:])
        return cls(_bytes(*words), bounds)


class Side(NamedTuple):
    """New or old values as text: of column c and row i `data[bounds[c, i] : bounds[c, i + 1]]`, unless `state[c, i]` says that it is NULL or was not
    sent. `quoting` is by column."""

    data: NDArray[np.uint8]
    bounds: NDArray[np.int64]
    state: NDArray[np.uint8]
    quoting: NDArray[np.uint8]

    @classmethod
    def absent(cls, rows: int, columns: int) -> Side:
        """All NULL."""
        return cls(
            np.zeros(0, np.uint8),
            np.zeros((columns, rows + 1), np.int64),
            np.full((columns, rows), _NULL, np.uint8),
            np.zeros(columns, np.uint8),
        )


class Changes(NamedTuple):
    """By row: which of the tables it is of, what happened, and whether there is an old tuple."""

    number: NDArray[np.int64]
    kind: NDArray[np.uint8]
    has_old: NDArray[np.bool_]


_VERBS = _bytes("INSERT:UPDATE:DELETE:")  # by kind, which counts from 1
_VERB = 7
_NO_TUPLE = _bytes(" (no-tuple-data)")
_OLD_KEY = _bytes(" old-key:")
_NEW_TUPLE = _bytes(" new-tuple:")
_NULL_WORD = _bytes("null")
_UNCHANGED_WORD = _bytes("unchanged-toast-datum")
_QUOTE = np.uint8(ord("'"))
_B = np.uint8(ord("B"))


@kernel
def write_lines(changes, heads, labels, new, old, offsets, out):  # type: ignore[no-untyped-def]
    """The lines of a batch, one after another, each with the head of its table; offsets[i + 1] becomes the end of row i."""
    to = np.int64(0)
    for row in range(len(changes.kind)):
        kind = changes.kind[row]
        to = put_word(out, to, heads, changes.number[row])
        to = put(out, to, _VERBS, _VERB * (kind - 1), _VERB * kind)
        if kind == DELETE:
            if changes.has_old[row]:
                to = put_tuple(out, to, labels, old, row, True)
            else:
                to = put(out, to, _NO_TUPLE, 0, len(_NO_TUPLE))
        else:
            if kind == UPDATE and changes.has_old[row]:
                to = put(out, to, _OLD_KEY, 0, len(_OLD_KEY))
                to = put_tuple(out, to, labels, old, row, True)
                to = put(out, to, _NEW_TUPLE, 0, len(_NEW_TUPLE))
            to = put_tuple(out, to, labels, new, row, False)
        offsets[row + 1] = to


@inner_kernel
def put_tuple(out, to, labels, side, row, skip_nulls):  # type: ignore[no-untyped-def]
    """Append the columns of one side of a row."""
    for column in range(len(side.quoting)):
        state = side.state[column, row]
        if state == _NULL and skip_nulls:
            continue
        to = put_word(out, to, labels, column)
        if state == _NULL:
            to = put(out, to, _NULL_WORD, 0, len(_NULL_WORD))
        elif state == _UNCHANGED:
            to = put(out, to, _UNCHANGED_WORD, 0, len(_UNCHANGED_WORD))
        else:
            to = put_value(out, to, side.data, side.bounds[column, row], side.bounds[column, row + 1], side.quoting[column])
    return to


@inner_kernel
def put_value(out, to, data, start, stop, quoting):  # type: ignore[no-untyped-def]
    """Append data[start:stop] as `quoting` says."""
    if quoting == _BARE:
        return put(out, to, data, start, stop)
    if quoting == _BITS:
        out[to] = _B
        to += 1
    out[to] = _QUOTE
    to += 1
    if quoting == _ESCAPED:
        for i in range(start, stop):
            out[to] = data[i]
            to += 1
            if data[i] == _QUOTE:
                out[to] = _QUOTE
                to += 1
    else:
        to = put(out, to, data, start, stop)
    out[to] = _QUOTE
    return to + 1


@inner_kernel
def put_word(out, to, words, i):  # type: ignore[no-untyped-def]
    return put(out, to, words.data, words.bounds[i], words.bounds[i + 1])


@inner_kernel
def put(out, to, part, start, stop):  # type: ignore[no-untyped-def]
    """Append part[start:stop] at `to`."""
    memcpy(out, to, part, start, stop - start)
    return to + stop - start
