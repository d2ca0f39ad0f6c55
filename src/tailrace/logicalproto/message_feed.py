"""Messages of pgoutput as a `Feed`: what a subscriber receives becomes tables of a lake as what is read of WAL does.

In: messages of whole transactions, each with the LSN that stands before it in the stream. Out: a `Feed` of their changes. A stream says less than
WAL: it tells columns by their names, so a column that was renamed is another one; it does not tell of DROP TABLE, and what it tells of columns
comes with the next change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from itertools import groupby
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tailrace.changes import COLUMNS, change_schema
from tailrace.dataclass import dataclass
from tailrace.feed import (
    ChangesOf,
    Feed,
    FeedPart,
    FeedSpan,
    FeedTable,
    PassedOver,
    RefusedChanges,
    TableChanges,
    TableTruncation,
    UnplannedFeed,
    WantedTable,
)  # fmt: skip
from tailrace.logicalproto import message as m
from tailrace.logicalproto.change_columns import change_batches, type_of
from tailrace.logicalproto.change_reader import ChangeReader, Scanned
from tailrace.model import Column, Lsn, Relation
from tailrace.types.values import Texts

_BEGINS = [ord("B"), ord("b")]


@dataclass(frozen=True, slots=True)
class MessagePiece:
    """Messages that were read together, and the LSN of each."""

    scanned: Scanned
    lsns: NDArray[np.int64]


@dataclass(slots=True)
class MessageFeed(UnplannedFeed):
    """`span` is what the messages cover: the transactions that commit in it are all there."""

    span: FeedSpan
    pieces: Sequence[MessagePiece]
    _tables: dict[int, FeedTable] = field(init=False)

    def __post_init__(self) -> None:
        self._tables = {}
        for piece in self.pieces:
            for relation in piece.scanned.relations:
                known = self._tables.get(relation.relation_oid, FeedTable(as_relation(relation, piece.scanned.types)))
                self._tables[relation.relation_oid] = replace(known, relation=as_relation(relation, piece.scanned.types))
            for oid, at in _truncated(piece):
                self._tables[oid] = replace(self._tables[oid], truncations=(*self._tables[oid].truncations, at))

    @classmethod
    def of(cls, span: FeedSpan, messages: Iterable[tuple[int, bytes]], proto_version: int = 1) -> MessageFeed:
        """Of these messages, each behind its LSN, in one session of this version of the protocol, in which transactions come whole (streaming off).
        Raises PeerError for what is none."""
        several = list(messages)
        texts = Texts.of([data for _, data in several])
        scanned = ChangeReader(proto_version, "off").read(texts.data, texts.offsets)
        return cls(span, [MessagePiece(scanned, np.array([lsn for lsn, _ in several], np.int64))])

    def for_tables(self, outlet: str, *, rewrites: bool = False) -> Feed:
        """The same: a stream has no rows that ALTER TABLE wrote anew, of tables whose changes it has."""
        return self

    def tables(self, names: Sequence[tuple[str, str]] = ()) -> Mapping[int, FeedTable]:
        return self._tables

    def table(self, oid: int) -> FeedTable | None:
        return self._tables.get(oid)

    @property
    def stretches(self) -> int:
        return len(self.pieces)

    @property
    def changes(self) -> ChangesOf:
        return partial(changes_of_messages)

    def parts(self, oids: frozenset[int], since: int = 0) -> Iterator[FeedPart]:
        yield FeedPart(self.pieces, len(self.pieces))


def as_relation(described: m.Relation, types: Mapping[int, m.Type]) -> Relation:
    """What a description says, with columns numbered by their names: the same name has the same number in every session. Types that cannot be read
    without a catalog are text."""
    columns = tuple(_column(each, types) for each in described.columns)
    is_whole = described.replica_identity == "f"
    identity = (
        ()
        if is_whole
        else tuple(column.number for column, each in zip(columns, described.columns, strict=True) if each.flags & 1)
    )
    schema = described.namespace or "pg_catalog"
    return Relation(described.relation_oid, schema, described.name, "r", "p", described.replica_identity, 0, columns, identity)


def _column(described: m.RelationColumn, types: Mapping[int, m.Type]) -> Column:
    kind = type_of(described.type_oid, types)
    number = crc32(described.name.encode()) & 0x7FFF_FFFF
    return Column(number, described.name, kind, described.type_modifier, kind.length, kind.align)


def _truncated(piece: MessagePiece) -> Iterator[tuple[int, TableTruncation]]:
    """Relations, and where and when each TRUNCATE of them is."""
    scanned = piece.scanned
    begun = np.cumsum(np.isin(scanned.data[scanned.offsets[:-1]], _BEGINS)) - 1  # transactions are numbered as they begin
    for number, message in sorted(scanned.others.items()):
        if isinstance(message, m.Truncate):
            transactions, at = scanned.transactions, begun[number]
            commit, time = Lsn(int(transactions.commit_lsn[at])), int(transactions.time[at])
            yield from ((oid, TableTruncation(commit, Lsn(int(piece.lsns[number])), time)) for oid in message.relation_oids)


def changes_of_messages(
    piece: MessagePiece, wanted: Mapping[int, WantedTable]
) -> Iterator[TableChanges | RefusedChanges | PassedOver]:
    """As a `Feed` gives them: the committed changes of these tables, in the columns that are wanted."""
    scanned = piece.scanned
    styles = {each.style for each in wanted.values()}
    for style in styles:
        of_relations = ((each, batch) for each, batch in change_batches(scanned, style=style) if _has(wanted, each, style))
        for oid, several in groupby(of_relations, lambda each: each[0].relation_oid):
            for _, batch in several:
                table = wanted[oid]
                committed = pc.greater_equal(pc.fill_null(batch["commit_lsn"], -1), table.since)
                rows = batch.filter(committed)
                if len(rows):
                    yield TableChanges(oid, 0, _in_columns(rows, piece.lsns, table))


def _has(wanted: Mapping[int, WantedTable], relation: m.Relation, style: object) -> bool:
    table = wanted.get(relation.relation_oid)
    return table is not None and table.style == style


def _in_columns(batch: pa.RecordBatch, lsns: NDArray[np.int64], table: WantedTable) -> pa.RecordBatch:
    schema = change_schema(table.relation, style=table.style)
    numbers = batch["number"].to_numpy()
    arrays = {
        "lsn": pa.array(lsns[numbers], pa.int64()), "sequence": pa.array(numbers.astype(np.int32), pa.int32()),
        "new": _in_type(batch["new"], schema.field("new").type), "old": _in_type(batch["old"], schema.field("old").type),
        "unchanged": _those_of(batch["unchanged"], schema.field("new").type.names),
    }  # fmt: skip
    return pa.RecordBatch.from_arrays([arrays[name] if name in arrays else batch[name] for name in COLUMNS], schema=schema)


def _those_of(unchanged: pa.ListArray, names: Sequence[str]) -> pa.ListArray:
    """The same lists of columns, without those that the table does not have any more."""
    values = unchanged.flatten()
    stays = pc.is_in(values, value_set=pa.array(names, values.type))
    if pc.all(stays, min_count=0).as_py():
        return unchanged
    lengths = pc.fill_null(pc.list_value_length(unchanged), 0).to_numpy()
    before = np.concatenate([[0], np.cumsum(stays.to_numpy(zero_copy_only=False))])
    offsets = before[np.concatenate([[0], np.cumsum(lengths)])]
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values.filter(stays), mask=unchanged.is_null())


def _in_type(rows: pa.StructArray, wanted: pa.StructType) -> pa.StructArray:
    """Rows of one description of a table in the columns of another; what it does not have is null."""
    have = {each.name: rows.field(place) for place, each in enumerate(rows.type)}
    columns = [have[each.name].cast(each.type) if each.name in have else pa.nulls(len(rows), each.type) for each in wanted]
    if not columns:
        return pa.array([None if missing else {} for missing in rows.is_null().to_pylist()], wanted)
    return pa.StructArray.from_arrays(columns, fields=list(wanted), mask=rows.is_null())
