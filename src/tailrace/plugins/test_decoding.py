"""test_decoding: the readable form, in PostgreSQL's exact words (manual, appendix F, "test_decoding")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.names.quoting import quote_identifier, quote_literal
from tailrace.decode import DELETE, UPDATE, Alike, Batch
from tailrace.errors import UsageError
from tailrace.kernels import kernel
from tailrace.model import PgType, Relation
from tailrace.plan.events import LogicalMessage, Truncation
from tailrace.plugins.plugin import OutputPlugin, parse_bool
from tailrace.transactions.fates import Transactions
from tailrace.types import registry
from tailrace.types.encodings.conversion import to_utf8
from tailrace.types.encodings.server_encodings import UTF8
from tailrace.types.style import NameOf
from tailrace.types.values import Texts, Values
from tailrace.wal.unaligned import copy as copy_bytes
from tailrace.wal.unaligned import u8

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

_TIMESTAMPTZ = PgType(1184, "pg_catalog", "timestamptz", "timestamp with time zone", "b", 8, 8)

_BARE, _QUOTED, _BITS = 0, 1, 2
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
        if not self.include_xids:
            return Texts.of(["BEGIN"] * len(transactions))
        return Texts.of([f"BEGIN {xid}" for xid in transactions.xid.tolist()])

    def commit_texts(self, transactions: Transactions) -> Texts:
        xids = [f" {xid}" for xid in transactions.xid.tolist()] if self.include_xids else [""] * len(transactions)
        return Texts.of([f"COMMIT{xid}{time}" for xid, time in zip(xids, self._times(transactions), strict=True)])

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
        gids = [quote_literal(gid) for gid in transactions.gids]
        xids = [f", txid {xid}" for xid in transactions.xid.tolist()] if self.include_xids else [""] * len(transactions)
        texts = [f"{what} {gid}{xid}{time}" for gid, xid, time in zip(gids, xids, self._times(transactions), strict=True)]
        return to_utf8(Texts.of(texts), self.codec)

    def _times(self, transactions: Transactions) -> list[str]:
        if not self.include_timestamp:
            return [""] * len(transactions)
        stored = Values(np.ones(len(transactions), np.bool_), fixed=transactions.time.view(np.uint8).reshape(-1, 8))
        return [f" (at {text})" for text in registry.format_values(stored, _TIMESTAMPTZ, self.style).to_list()]

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
        relation = batch.relation
        columns = relation.live_columns
        new = _Tuple.of(batch.new, len(batch), relation, self)
        old = (
            _Tuple.of(batch.old, len(batch), relation, self) if batch.old is not None else _Tuple.absent(len(batch), len(columns))
        )
        labels = [
            _bytes(f" {quote_identifier(column.name, self.major)}[{column.type.label}]:") for column in columns if column.type
        ]
        label_data, label_bounds = _joined(labels)
        heads = [_bytes(f"table {self._name(each)}: ") for each in alike.relations]
        head_data, head_bounds = _joined(heads)
        has_old = batch.has_old
        arguments = (
            batch.kind, has_old, alike.number, head_data, head_bounds, label_data, label_bounds, new.quoting,
            new.data, new.bounds, new.state, old.data, old.bounds, old.state,
        )  # fmt: skip
        offsets = np.zeros(len(batch) + 1, np.int64)
        # Room for the longest that it could be; pages that stay untouched cost nothing, and counting first would cost a second pass.
        fixed = (
            max(map(len, heads))
            + _VERB
            + 2 * (len(label_data) + len(columns) * len(_UNCHANGED_WORD))
            + len(_OLD_KEY)
            + len(_NEW_TUPLE)
        )
        data = np.empty(len(batch) * fixed + 2 * (len(new.data) + len(old.data)), np.uint8)
        write_rows(*arguments, offsets, data)
        return Texts(offsets, data[: offsets[-1]])

    def _name(self, relation: Relation) -> str:
        return f"{quote_identifier(relation.schema, self.major)}.{quote_identifier(relation.name, self.major)}"


class _Tuple:
    """The texts of all columns of one side, laid end to end: column c of row i is data[bounds[c, i] : bounds[c, i + 1]]."""

    def __init__(
        self, data: NDArray[np.uint8], bounds: NDArray[np.int64], state: NDArray[np.uint8], quoting: NDArray[np.uint8]
    ) -> None:
        self.data = data
        self.bounds = bounds
        self.state = state
        self.quoting = quoting

    @classmethod
    def absent(cls, rows: int, columns: int) -> _Tuple:
        return cls(
            np.zeros(0, np.uint8),
            np.zeros((columns, rows + 1), np.int64),
            np.ones((columns, rows), np.uint8),
            np.zeros(columns, np.uint8),
        )

    @classmethod
    def of(cls, values: Sequence[Values], rows: int, relation: Relation, plugin: TestDecoding) -> _Tuple:
        columns = relation.live_columns
        if not columns:
            return cls.absent(rows, 0)
        bounds = np.zeros((len(columns), rows + 1), np.int64)
        state = np.zeros((len(columns), rows), np.uint8)
        quoting = np.zeros(len(columns), np.uint8)
        parts: list[NDArray[np.uint8]] = []
        used = 0
        for i, (column, stored) in enumerate(zip(columns, values, strict=True)):
            assert column.type is not None
            if column.type.oid == 16:
                texts = registry.printed_bool(stored)
            else:
                texts = to_utf8(registry.format_values(stored, column.type, plugin.style), plugin.codec)
            bounds[i] = texts.offsets + used
            used += len(texts.data)
            parts.append(texts.data)
            state[i] = ~stored.valid
            if stored.unchanged is not None:
                state[i][stored.unchanged] = _UNCHANGED
            quoting[i] = {"bare": _BARE, "quoted": _QUOTED, "bits": _BITS}[registry.quoting(column.type)]
        data = np.concatenate(parts) if len(parts) != 1 else parts[0]
        return cls(data, bounds, state, quoting)


def _joined(parts: Sequence[NDArray[np.uint8]]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    bounds = np.zeros(len(parts) + 1, np.int64)
    np.cumsum([len(part) for part in parts], out=bounds[1:])
    return np.concatenate(parts) if parts else np.zeros(0, np.uint8), bounds


_VERBS = _bytes("INSERT:UPDATE:DELETE:")  # by kind, which counts from 1
_VERB = 7
_NO_TUPLE = _bytes(" (no-tuple-data)")
_OLD_KEY = _bytes(" old-key:")
_NEW_TUPLE = _bytes(" new-tuple:")
_NULL_WORD = _bytes("null")
_UNCHANGED_WORD = _bytes("unchanged-toast-datum")
_QUOTE = np.uint8(ord("'"))


@kernel
def put(out, to, part, start, stop):  # type: ignore[no-untyped-def]
    """Append part[start:stop] at `to`."""
    copy_bytes(out, to, part, start, stop - start)
    return to + stop - start


@kernel
def put_tuple(out, to, row, skip_nulls, labels, label_bounds, quoting, data, bounds, state):  # type: ignore[no-untyped-def]
    """Append the columns of one side of a row."""
    for column in range(len(quoting)):
        what = state[column, row]
        if what == _NULL and skip_nulls:
            continue
        to = put(out, to, labels, label_bounds[column], label_bounds[column + 1])
        if what == _NULL:
            to = put(out, to, _NULL_WORD, 0, len(_NULL_WORD))
        elif what == _UNCHANGED:
            to = put(out, to, _UNCHANGED_WORD, 0, len(_UNCHANGED_WORD))
        elif quoting[column] == _BARE:
            to = put(out, to, data, bounds[column, row], bounds[column, row + 1])
        else:
            if quoting[column] == _BITS:
                out[to] = 66
                to += 1
            out[to] = _QUOTE
            to += 1
            for i in range(bounds[column, row], bounds[column, row + 1]):
                byte = u8(data, i)
                out[to] = byte
                to += 1
                if byte == _QUOTE:
                    out[to] = byte
                    to += 1
            out[to] = _QUOTE
            to += 1
    return to


@kernel
def write_rows(kind, has_old, number, heads, head_bounds, labels, label_bounds, quoting,  # type: ignore[no-untyped-def]
               new_data, new_bounds, new_state, old_data, old_bounds, old_state, offsets, out):  # fmt: skip
    """The lines of a batch, one after another, each with the head of its relation; offsets[i + 1] becomes the end of row i."""
    to = np.int64(0)
    for row in range(len(kind)):
        to = put(out, to, heads, head_bounds[number[row]], head_bounds[number[row] + 1])
        to = put(out, to, _VERBS, _VERB * (kind[row] - 1), _VERB * kind[row])
        if kind[row] == DELETE:
            if has_old[row]:
                to = put_tuple(out, to, row, True, labels, label_bounds, quoting, old_data, old_bounds, old_state)
            else:
                to = put(out, to, _NO_TUPLE, 0, len(_NO_TUPLE))
        else:
            if kind[row] == UPDATE and has_old[row]:
                to = put(out, to, _OLD_KEY, 0, len(_OLD_KEY))
                to = put_tuple(out, to, row, True, labels, label_bounds, quoting, old_data, old_bounds, old_state)
                to = put(out, to, _NEW_TUPLE, 0, len(_NEW_TUPLE))
            to = put_tuple(out, to, row, False, labels, label_bounds, quoting, new_data, new_bounds, new_state)
        offsets[row + 1] = to
