"""Published changes as Insert, Update and Delete messages, a batch at a time."""

from __future__ import annotations

import numpy as np

from tailrace.dataclass import dataclass
from tailrace.decode import Batch
from tailrace.logicalproto.change_writer import NO_XID, ChangeHeads, write_changes
from tailrace.logicalproto.tuple_columns import TupleColumns, tuple_columns
from tailrace.plugins.formatter import Formatter
from tailrace.types.values import Texts
from tailrace.wal.heap import NO_OLD, OLD_KEY, OLD_ROW

_FULL = "f"


@dataclass(frozen=True)
class MessageFormatter(Formatter):
    """`binary`: values of types that have a send function travel as it makes them."""

    binary: bool = False

    needs_relations = True

    @property
    def checks_values(self) -> bool:
        return self.style.reads_utf8

    def change_texts(self, batch: Batch) -> Texts:
        stream = batch.stream
        if stream is None or not stream.any():
            return self._messages(batch, streamed=False)
        if stream.all():
            return self._messages(batch, streamed=True)
        streamed, others = np.flatnonzero(stream), np.flatnonzero(stream == 0)
        parts = [self._messages(batch.take(streamed), streamed=True), self._messages(batch.take(others), streamed=False)]
        return Texts.merged(parts, np.argsort(np.concatenate([streamed, others])))

    def _messages(self, batch: Batch, *, streamed: bool) -> Texts:
        rows, columns = len(batch), batch.columns
        oid = np.array([relation.oid for relation in batch.published_as], np.uint32)[batch.number]
        # Whether an old tuple is a key or a row, says the replica identity of the table that the receiver knows.
        is_full = np.array([relation.replica_identity == _FULL for relation in batch.published_as])[batch.number]
        old_kind = np.where(batch.old_kind == NO_OLD, NO_OLD, np.where(is_full, OLD_ROW, OLD_KEY)).astype(np.uint8)
        new = tuple_columns(batch.new, columns, self.style, self.codec, binary=self.binary)
        old = TupleColumns.absent(rows, len(columns))
        if batch.old is not None:
            old = tuple_columns(batch.old, columns, self.style, self.codec, binary=self.binary)
        xid = batch.xid if streamed and batch.xid is not None else NO_XID
        return write_changes(ChangeHeads(batch.kind, oid, old_kind, xid), new, old, np.ones(len(columns), np.bool_))
