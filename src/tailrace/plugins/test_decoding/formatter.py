"""Changes as test_decoding prints them: a line for each, `table public.t: INSERT: id[integer]:1 v[text]:'one'`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailrace.dataclass import dataclass
from tailrace.decode import DELETE, UPDATE, Batch
from tailrace.kernels import inner_kernel, kernel
from tailrace.model import Column, PgType, Relation
from tailrace.plugins.column_texts import NULL, UNCHANGED, ColumnTexts, Words, put, put_word
from tailrace.plugins.formatter import Formatter
from tailrace.types import oids, registry
from tailrace.types.encodings.conversion import to_utf8
from tailrace.types.quoting import quote_identifier
from tailrace.types.values import Texts, Values

# How a column's values stand
_BARE = 0
_QUOTED = 1
_ESCAPED = 2  # quoted, and there are quotes in some to be doubled
_BITS = 3  # quoted, behind a B
_QUOTING = {"bare": _BARE, "quoted": _QUOTED, "bits": _BITS}


def _bytes(*texts: str) -> NDArray[np.uint8]:
    return np.frombuffer("".join(texts).encode("utf-8", "surrogateescape"), np.uint8)


@dataclass(frozen=True)
class LineFormatter(Formatter):
    """`major` decides which words are quoted; `include_xids`, what is written of streamed changes."""

    major: int
    include_xids: bool = True

    def change_texts(self, batch: Batch) -> Texts:
        stream = batch.stream
        if stream is None or not stream.any():
            return self._lines(batch)
        streamed, others = np.flatnonzero(stream), np.flatnonzero(stream == 0)
        xids = (" TXN ", stream[streamed]) if self.include_xids else (" transaction",)
        written = Texts.joined("streaming change for", *xids, rows=len(streamed))
        return Texts.merged([written, self._lines(batch.take(others))], np.argsort(np.concatenate([streamed, others])))

    def _lines(self, batch: Batch) -> Texts:
        columns, rows = batch.columns, len(batch)
        heads = Words.of([f"table {qualified_name(each, self.major)}: " for each in batch.published_as])
        labels = Words.of([f" {quote_identifier(column.name, self.major)}[{column.live_type.label}]:" for column in columns])
        new = ColumnTexts.of(batch.new, columns, rows, self._quoted)
        old = ColumnTexts.of(batch.old, columns, rows, self._quoted)
        # Room for the longest that it could be; pages that stay untouched cost nothing, and counting first would cost a second pass.
        longest = (
            heads.longest + _VERB + 2 * (len(labels.data) + len(columns) * len(_UNCHANGED_WORD)) + len(_OLD_KEY) + len(_NEW_TUPLE)
        )
        out = np.empty(rows * longest + new.room + old.room, np.uint8)
        offsets = np.zeros(rows + 1, np.int64)
        write_lines(LineRows(batch.number, batch.kind, batch.has_old), heads, labels, new, old, offsets, out)
        return Texts(offsets, out[: offsets[-1]])

    def _quoted(self, stored: Values, column: Column) -> tuple[Texts, int, int]:
        """A column's texts, how they are quoted, and how many bytes that takes at most."""
        pg_type = column.live_type
        texts, quoting = self._texts(stored, pg_type), _QUOTING[registry.quoting(pg_type)]
        has_quotes = quoting == _QUOTED and (texts.data == _QUOTE).any()
        return texts, _ESCAPED if has_quotes else quoting, 2 * len(texts.data)

    def _texts(self, stored: Values, pg_type: PgType) -> Texts:
        if pg_type.oid == oids.BOOL:
            return registry.printed_bool(stored)
        return to_utf8(registry.format_values(stored, pg_type, self.style), self.codec)


def qualified_name(relation: Relation, major: int) -> str:
    return f"{quote_identifier(relation.schema, major)}.{quote_identifier(relation.name, major)}"


class LineRows(NamedTuple):
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
    for column in range(len(side.form)):
        state = side.state[column, row]
        if state == NULL and skip_nulls:
            continue
        to = put_word(out, to, labels, column)
        if state == NULL:
            to = put(out, to, _NULL_WORD, 0, len(_NULL_WORD))
        elif state == UNCHANGED:
            to = put(out, to, _UNCHANGED_WORD, 0, len(_UNCHANGED_WORD))
        else:
            to = put_value(out, to, side.data, side.bounds[column, row], side.bounds[column, row + 1], side.form[column])
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
