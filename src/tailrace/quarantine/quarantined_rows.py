"""Changes in quarantine, as they are: rows that anybody can read, with all that it takes to make changes of them again.

In: a batch as it was decoded, and the facts of its transactions. Out: rows of `QUARANTINE_SCHEMA`, in which `new` and `old` are PostgreSQL's text of
each column, as JSON, for people; `stored` are the bytes of the values as PostgreSQL stores them, and `shape` the definition that they had, from which
`quarantined_batches` gives the same batch again. So nothing is lost of a value that no column of a lake holds.

A TRUNCATE that a table is to see between its changes is a row, too, of kind `truncate`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tailrace.changes import KINDS
from tailrace.dataclass import dataclass
from tailrace.decode import DELETE, NO_OLD, OLD_ROW, Batch
from tailrace.errors import CorruptFile, TailraceError
from tailrace.model import Column, Relation
from tailrace.quarantine.definitions import read_columns, read_relation, write_columns, write_relation
from tailrace.transactions.commit_or_abort import Transactions
from tailrace.types.encodings.server_encodings import CHECKED
from tailrace.types.registry import ArrowStyle, format_values
from tailrace.types.style import NameOf, TextStyle
from tailrace.types.times.calendar import UNIX_TO_POSTGRES_USECS
from tailrace.types.values import Values

TRUNCATE = "truncate"
QUARANTINE_SCHEMA = pa.schema(
    [
        ("table", pa.string()), ("oid", pa.int64()), ("batch", pa.string()), ("commit_lsn", pa.int64()), ("end_lsn", pa.int64()),
        ("commit_timestamp", pa.timestamp("us", "UTC")), ("xid", pa.int64()), ("lsn", pa.int64()), ("sequence", pa.int32()),
        ("kind", pa.string()), ("new", pa.string()), ("old", pa.string()), ("reason", pa.string()), ("sqlstate", pa.string()),
        ("quarantined_at", pa.timestamp("us", "UTC")), ("rewrite", pa.int64()), ("stored", pa.string()), ("shape", pa.string()),
    ]
)  # fmt: skip
"""A row is told from all others of its table by commit_lsn, lsn and sequence. `batch` says which commit let it lie (`lake/quarantine.py`)."""
_NUMBERS = {kind: number for number, kind in KINDS.items()}


@dataclass(frozen=True, slots=True)
class Reason:
    """Why changes are in quarantine, as the error says it."""

    message: str
    sqlstate: str

    @classmethod
    def of(cls, error: TailraceError, column: str = "") -> Reason:
        return cls(f'column "{column}": {error.message}' if column else error.message, error.sqlstate)


def quarantined_rows(batch: Batch, transactions: Transactions, oid: int, codec: str, reasons: Sequence[Reason]) -> pa.RecordBatch:
    """The rows of a batch of one relation, for a reason each; `oid` is the table's, whatever is published as it. Of which `batch` they are is
    not said yet."""
    relation, count = batch.relation, len(batch)
    new, old = ([_payloads(values) for values in side] for side in (batch.new, batch.old or []))
    unchanged = [values.unchanged.tolist() if values.unchanged is not None else [False] * count for values in batch.new]
    stored = [
        json.dumps(
            {
                "new": _of_row(new, row) if kind != DELETE else None,
                "old": _of_row(old, row) if old_kind != NO_OLD else None,
                "unchanged": [at for at, marks in enumerate(unchanged) if marks[row] and kind != DELETE],
                "old_kind": old_kind,
            },
            separators=(",", ":"),
        )
        for row, (kind, old_kind) in enumerate(zip(batch.kind.tolist(), batch.old_kind.tolist(), strict=True))
    ]

    def of_transaction(facts: NDArray[Any]) -> list[int]:
        return [int(each) for each in facts[batch.ordinal]]

    shown, none, names = batch.published_relation, np.zeros(count, np.bool_), _NamesAsked(batch.names)
    style = TextStyle(names=names) if batch.names is not None else TextStyle()
    new_words = _in_words(batch, batch.new, batch.kind != DELETE, none, codec, style)
    old_words = _in_words(batch, batch.old or [], batch.has_old, batch.old_kind != OLD_ROW, codec, style)
    shape = {"relation": write_relation(relation), "columns": write_columns(batch.columns), "codec": codec, "names": names.known}
    now = datetime.now(UTC)
    columns: dict[str, Any] = {
        "table": [f"{shown.schema}.{shown.name}"] * count, "oid": [oid] * count, "batch": [""] * count,
        "commit_lsn": of_transaction(transactions.commit_lsn), "end_lsn": of_transaction(transactions.end_lsn),
        "commit_timestamp": of_transaction(transactions.time + UNIX_TO_POSTGRES_USECS), "xid": of_transaction(transactions.xid),
        "lsn": batch.lsn.tolist(), "sequence": batch.sequence.tolist(), "kind": [KINDS[each] for each in batch.kind.tolist()],
        "new": new_words, "old": old_words,
        "reason": [each.message for each in reasons], "sqlstate": [each.sqlstate for each in reasons], "quarantined_at": [now] * count,
        "rewrite": [relation.oid if relation.rewrite_of else 0] * count, "stored": stored, "shape": [json.dumps(shape)] * count,
    }  # fmt: skip
    return pa.RecordBatch.from_pydict({name: columns[name] for name in QUARANTINE_SCHEMA.names}, QUARANTINE_SCHEMA)


@dataclass(frozen=True, slots=True)
class QuarantinedBatch:
    """Changes as they were decoded; they are the rows `at` of those that were read."""

    at: NDArray[np.int64]
    batch: Batch
    transactions: Transactions
    codec: str


def quarantined_batches(rows: pa.Table) -> Iterator[QuarantinedBatch]:
    """The same batches again, of rows of one table; those of one definition together. Raises CorruptFile for what was not written so."""
    shapes = rows["shape"].to_pylist()
    kinds = rows["kind"].to_pylist()
    by_shape: dict[str, list[int]] = {}
    for at, (shape, kind) in enumerate(zip(shapes, kinds, strict=True)):
        if kind != TRUNCATE:
            by_shape.setdefault(shape, []).append(at)
    for shape, places in by_shape.items():
        try:
            yield _batch(json.loads(shape), np.array(places), rows.take(pa.array(places)))
        except (ValueError, LookupError, TypeError) as error:
            raise CorruptFile(
                f"a row of the quarantine of table {rows['table'][places[0]].as_py()} is damaged",
                hint="Put back what was there, or discard its rows.", context=repr(error),
            ) from error  # fmt: skip


def _batch(shape: dict[str, Any], at: NDArray[np.int64], rows: pa.Table) -> QuarantinedBatch:
    relation, columns = read_relation(shape["relation"]), read_columns(shape["columns"])
    stored = [json.loads(text) for text in rows["stored"].to_pylist()]
    count = len(rows)

    def side(name: str) -> list[Values]:
        return [_values([each[name] for each in stored], number, column) for number, column in enumerate(columns)]

    new, old = side("new"), side("old")
    for number, values in enumerate(new):
        marks = np.array([number in each["unchanged"] for each in stored], np.bool_)
        if marks.any():
            values.unchanged = marks
    batch = Batch(
        relations=(relation,), published_as=(relation,), number=np.zeros(count, np.int64), columns=columns, ordinal=np.arange(count),
        lsn=rows["lsn"].to_numpy(), sequence=rows["sequence"].to_numpy().astype(np.int64),
        kind=np.array([_NUMBERS[kind] for kind in rows["kind"].to_pylist()], np.uint8),
        old_kind=np.array([each["old_kind"] for each in stored], np.uint8), new=new, old=old, names=_names_of(shape["names"]),
    )  # fmt: skip
    return QuarantinedBatch(at, batch, _transactions(rows), shape["codec"])


def _transactions(rows: pa.Table) -> Transactions:
    """One of its own for each row, of which only what changes show is known."""
    count = len(rows)
    none = np.zeros(count, np.int64)
    xid = rows["xid"].to_numpy()
    time = rows["commit_timestamp"].cast(pa.int64()).to_numpy() - UNIX_TO_POSTGRES_USECS
    return Transactions(
        none.astype(np.uint8), none, xid.astype(np.uint32), xid, rows["commit_lsn"].to_numpy(), rows["end_lsn"].to_numpy(), none, time,
        none.astype(np.uint32), none.astype(np.uint16), none, none, none, [], np.zeros(count + 1, np.int64), none[:0],
    )  # fmt: skip


def truncation_row(relation: Relation, place: tuple[int, int], committed: int, reason: Reason) -> pa.Table:
    """A TRUNCATE of the table, at (commit LSN, LSN), that committed then (microseconds since 2000)."""
    row: dict[str, Any] = dict.fromkeys(QUARANTINE_SCHEMA.names)
    row |= {
        "table": str(relation), "oid": relation.oid, "batch": "", "commit_lsn": place[0], "end_lsn": place[0], "lsn": place[1], "sequence": 0,
        "kind": TRUNCATE, "commit_timestamp": committed + UNIX_TO_POSTGRES_USECS, "xid": 0, "reason": reason.message,
        "sqlstate": reason.sqlstate, "quarantined_at": datetime.now(UTC), "rewrite": 0,
    }  # fmt: skip
    return pa.Table.from_pydict({name: [row[name]] for name in QUARANTINE_SCHEMA.names}, QUARANTINE_SCHEMA)


def _payloads(values: Values) -> list[str | None]:
    """Of each row the bytes, in hex."""
    return [payload.hex() if valid else None for payload, valid in zip(values.payload_list(), values.valid.tolist(), strict=True)]


def _of_row(columns: Sequence[list[str | None]], row: int) -> list[str | None]:
    return [column[row] for column in columns]


def _values(sides: Sequence[Sequence[str | None] | None], number: int, column: Column) -> Values:
    payloads = [None if side is None or side[number] is None else bytes.fromhex(side[number] or "") for side in sides]
    return Values.of_payloads(payloads, column.length)


@dataclass(slots=True)
class _NamesAsked:
    """Gives the names behind oids, and notes those that were asked for: as (type, oid, name)."""

    name_of: NameOf | None
    _asked: dict[tuple[int, int], str | None] = field(default_factory=dict)

    def __call__(self, pg_type: int, oid: int) -> str | None:
        assert self.name_of is not None
        found = self._asked[int(pg_type), int(oid)] = self.name_of(pg_type, oid)
        return found

    @property
    def known(self) -> list[tuple[int, int, str]]:
        return sorted((pg_type, oid, name) for (pg_type, oid), name in self._asked.items() if name is not None)


def _names_of(known: Sequence[tuple[int, int, str]]) -> NameOf | None:
    """The same again."""
    names = {(pg_type, oid): name for pg_type, oid, name in known}
    return (lambda pg_type, oid: names.get((int(pg_type), int(oid)))) if names else None


def in_style(batch: Batch, style: ArrowStyle) -> ArrowStyle:
    """With the names that the batch has."""
    return style if batch.names is None else replace(style, text=replace(style.text, names=batch.names))


def _in_words(
    batch: Batch, side: Sequence[Values], present: NDArray[np.bool_], key_only: NDArray[np.bool_], codec: str, style: TextStyle
) -> list[str | None]:
    """Each row as JSON: the text of each column that was sent."""
    if not side:
        return [None] * len(batch)
    texts = [_texts(column, values, codec, style) for column, values in zip(batch.columns, side, strict=True)]
    names = [column.name for column in batch.columns]
    unsent = np.zeros((len(names), len(batch)), np.bool_)
    for number, (column, values) in enumerate(zip(batch.columns, side, strict=True)):
        if values.unchanged is not None:
            unsent[number] = values.unchanged
        if column.number not in batch.relation.identity:
            unsent[number] |= key_only
    rows: list[str | None] = []
    for row, is_there in enumerate(present.tolist()):
        sent = {name: texts[number][row] for number, name in enumerate(names) if not unsent[number, row]}
        rows.append(json.dumps(sent, ensure_ascii=False) if is_there else None)
    return rows


def _texts(column: Column, values: Values, codec: str, style: TextStyle) -> list[str | None]:
    """PostgreSQL's text of each value; of what has none that we know the bytes."""
    valid = values.valid.tolist()
    try:
        printed = format_values(values, column.live_type, style).to_bytes()
    except TailraceError:
        return [f"\\x{payload.hex()}" if there else None for payload, there in zip(values.payload_list(), valid, strict=True)]
    return [_decoded(text, codec) if there else None for text, there in zip(printed, valid, strict=True)]


def _decoded(text: bytes, codec: str) -> str:
    """For people: what is none of the encoding is shown byte by byte."""
    try:
        return text.decode(codec if codec not in ("", CHECKED) else "utf-8", "backslashreplace")
    except LookupError:
        return text.decode("utf-8", "backslashreplace")
