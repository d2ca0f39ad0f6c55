"""test_decoding: the readable form, in PostgreSQL's exact words (manual, appendix F, "test_decoding")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.names.quoting import quote_identifier, quote_literal
from tailrace.decode import DELETE, UPDATE, Alike, Batch
from tailrace.errors import UsageError
from tailrace.kernels import inner_kernel, kernel
from tailrace.memcpy import memcpy
from tailrace.model import Column, PgType, Relation
from tailrace.plan.events import LogicalMessage, Truncation
from tailrace.plugins.plugin import OutputPlugin, parse_bool
from tailrace.transactions.fates import Transactions
from tailrace.types import registry
from tailrace.types.encodings.conversion import to_utf8
from tailrace.types.encodings.server_encodings import UTF8
from tailrace.types.style import NameOf
from tailrace.types.values import Texts, Values

OPTIONS = {
    "include-xids": ("include_xids", "xids after BEGIN and COMMIT (on)"),
    "include-timestamp": ("include_timestamp", "when the transaction committed, in TimeZone (off)"),
    "skip-empty-xacts": ("skips_empty_transactions", "no BEGIN and COMMIT around nothing (off)"),
    "only-local": ("only_local", "nothing that was replicated from elsewhere, as its origin says (off)"),
    "include-rewrites": ("receives_rewrites", "rows that ALTER TABLE or REFRESH MATERIALIZED VIEW write anew (off)"),
    "force-binary": ("writes_binary", "the output is declared binary, and is printed in hex (off)"),
}
"""Name -> our attribute, and what it does."""
_NOT_YET = ("stream-changes",)

_BOOL = 16
_TIMESTAMPTZ = PgType(1184, "pg_catalog", "timestamptz", "timestamp with time zone", "b", 8, 8)

# How a column's values stand
_BARE = 0
_QUOTED = 1
_ESCAPED = 2  # quoted, and there are quotes in some to be doubled
_BITS = 3  # quoted, behind a B
_QUOTING = {"bare": _BARE, "quoted": _QUOTED, "bits": _BITS}

_VALUE, _NULL, _UNCHANGED = 0, 1, 2


def _bytes(*texts: str) -> NDArray[np.uint8]:
    return np.frombuffer("".join(texts).encode("utf-8", "surrogateescape"), np.uint8)


class TestDecoding(OutputPlugin):
    """Options as the original's. Time stamps print in UTC unless `style` says otherwise."""

    name = "test_decoding"
    __test__ = False  # pytest: not a test

    def __init__(self) -> None:
        self.include_xids = True
        self.include_timestamp = False
        self.skips_empty_transactions = False
        self.only_local = False
        self.codec = UTF8
        self.major = 18

    def startup(self, options: Mapping[str, str | None], major: int) -> None:
        self.major = major
        self.style = replace(self.style, major=major)
        self.messages_begin = major >= 17
        for name, value in options.items():
            if name in _NOT_YET and not parse_bool(name, value):
                continue
            if name not in OPTIONS:
                raise UsageError(f'option "{name}" = "{value if value is not None else "(null)"}" is unknown', sqlstate="22023")
            setattr(self, OPTIONS[name][0], parse_bool(name, value))

    def knowing(self, names: NameOf | None, codec: str) -> TestDecoding:
        twin = copy(self)
        twin.style = replace(self.style, names=names)
        twin.codec = codec
        return twin

    def begin_texts(self, transactions: Transactions) -> Texts:
        xids = (" ", transactions.xid) if self.include_xids else ()
        return Texts.joined("BEGIN", *xids, rows=len(transactions))

    def commit_texts(self, transactions: Transactions) -> Texts:
        xids = (" ", transactions.xid) if self.include_xids else ()
        return Texts.joined("COMMIT", *xids, *self._times(transactions), rows=len(transactions))

    @staticmethod
    def filter_prepare(gid: str) -> bool:
        return "_nodecode" in gid

    def prepare_texts(self, transactions: Transactions) -> Texts:
        return self._phase("PREPARE TRANSACTION", transactions)

    def commit_prepared_texts(self, transactions: Transactions) -> Texts:
        return self._phase("COMMIT PREPARED", transactions)

    def rollback_prepared_texts(self, transactions: Transactions) -> Texts:
        return self._phase("ROLLBACK PREPARED", transactions)

    def _phase(self, what: str, transactions: Transactions) -> Texts:
        gids = to_utf8(Texts.of([quote_literal(gid) for gid in transactions.gids]), self.codec)
        xids = (", txid ", transactions.xid) if self.include_xids else ()
        return Texts.joined(f"{what} ", gids, *xids, *self._times(transactions), rows=len(transactions))

    def _times(self, transactions: Transactions) -> tuple[str | Texts, ...]:
        if not self.include_timestamp:
            return ()
        stored = Values(np.ones(len(transactions), np.bool_), fixed=transactions.time.view(np.uint8).reshape(-1, 8))
        return " (at ", registry.format_values(stored, _TIMESTAMPTZ, self.style), ")"

    def truncate_text(self, truncation: Truncation) -> str:
        names = ", ".join(self._name(relation) for relation in truncation.relations)
        flags = " restart_seqs" * truncation.restart_sequences + " cascade" * truncation.cascade
        return f"table {names}: TRUNCATE:{flags or ' (no-flags)'}"

    def message_text(self, message: LogicalMessage) -> bytes:
        head = (
            f"message: transactional: {int(message.ordinal >= 0)} prefix: {message.prefix}, sz: {len(message.content)} content:"
        )
        return to_utf8(Texts.of([head.encode("utf-8", "surrogateescape") + message.content]), self.codec).data.tobytes()

    def change_texts(self, batch: Batch) -> Texts:
        return self.alike_texts(Alike.of(batch))

    def alike_texts(self, alike: Alike) -> Texts:
        batch = alike.batch
        columns, rows = batch.columns, len(batch)
        heads = Words.of([f"table {self._name(each)}: " for each in alike.published_as])
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

    def _name(self, relation: Relation) -> str:
        return f"{quote_identifier(relation.schema, self.major)}.{quote_identifier(relation.name, self.major)}"

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
