"""The half of a plugin written per change that runs in workers.

What it makes of a change is a text whose first byte says what the rest is: CHANGE, the change itself, for a callback that is
called in order; or what the plugin wrote of it here, ONE row or several (WROTE).
"""

from __future__ import annotations

import marshal
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import replace

import numpy as np
import pyarrow as pa

from tailrace.changes import COLUMNS
from tailrace.dataclass import dataclass
from tailrace.decode import Batch
from tailrace.errors import PluginError
from tailrace.model import Lsn, Relation, Transaction
from tailrace.plugins.callbacks.change import ChangeShape, batch_as_arrow, plain_changes, write_change
from tailrace.plugins.callbacks.context import Context
from tailrace.plugins.callbacks.plugin import Plugin, implements
from tailrace.plugins.formatter import Formatter
from tailrace.types.values import Texts

EVENT, CHANGE, ONE, WROTE = b"E", b"C", b"1", b"W"
_BATCH_COLUMNS = tuple(name for name in COLUMNS if name != "end_lsn")


@dataclass(frozen=True)
class CallbackFormatter(Formatter):
    """`context` is as `startup` left it."""

    plugin: Plugin
    context: Context

    needs_relations = True

    def relations_of(self, batch: Batch) -> Sequence[Relation]:
        """With the columns that are published."""
        columns = batch.columns
        return [each if each.live_columns == columns else replace(each, columns=columns) for each in batch.published_as]

    def change_texts(self, batch: Batch) -> Texts:
        rows = [mine for _, mine in batch.rows_by_relation]
        return Texts.merged([self._of_one(each) for each in batch.by_relation()], np.argsort(np.concatenate(rows)))

    def _of_one(self, batch: Batch) -> Texts:
        """The changes of one relation."""
        if implements(self.plugin, "change_batch"):
            return self._of_batch(batch)
        if self.plugin.parallel:
            return Texts.of(list(self._called(batch)))
        return Texts.of(
            [
                CHANGE + write_change(plain, typed=self.plugin.typed)
                for plain in plain_changes(batch, self.style, self.codec, typed=self.plugin.typed)
            ]
        )

    def _relation(self, batch: Batch) -> Relation:
        return self.relations_of(batch)[0]

    def _of_batch(self, batch: Batch) -> Texts:
        context = self.context.alone()
        changes = batch_as_arrow(batch, self.style, self.codec, columns=_BATCH_COLUMNS)
        texts = context.call(
            "change", int(batch.lsn[0]), copy(self.plugin).change_batch, self._relation(batch), changes, writes=False
        )
        if not isinstance(texts, pa.Array | pa.ChunkedArray) or len(texts) != len(batch):
            raise context.located(
                PluginError(f"change_batch must give an array of {len(batch)} texts"), "change", int(batch.lsn[0])
            )
        texts = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
        written = Texts.joined(ONE.decode(), Texts.of_arrow(texts), rows=len(batch))
        if not texts.null_count:
            return written
        rows = written.to_bytes()
        return Texts.of([row if there else write_rows(()) for row, there in zip(rows, texts.is_valid().to_pylist(), strict=True)])

    def _called(self, batch: Batch) -> Iterator[bytes]:
        assert batch.commits is not None, "asked for in the demand"
        plugin, context = copy(self.plugin), self.context.alone()
        relation = self._relation(batch)
        shape = ChangeShape(relation)
        streamed = np.zeros(len(batch), np.bool_) if batch.stream is None else batch.stream != 0
        last: tuple[int, ...] = ()
        txn: Transaction | None = None
        plain = plain_changes(batch, self.style, self.codec, typed=plugin.typed)
        facts = zip(*(column.tolist() for column in batch.commits), strict=True)
        for each, lsn, fact, in_stream in zip(plain, batch.lsn.tolist(), facts, streamed.tolist(), strict=True):
            if txn is None or fact != last:
                txn, last = _transaction(*fact), fact
            callback = "stream_change" if in_stream else "change"
            context.call(callback, lsn, getattr(plugin, callback), txn, relation, shape.change(each, lsn))
            yield write_rows(context.take_written())


def write_rows(rows: Sequence[bytes]) -> bytes:
    """The rows that were written of a change, on their way from a worker."""
    return ONE + rows[0] if len(rows) == 1 else WROTE + marshal.dumps(list(rows))


def read_rows(text: bytes) -> list[bytes]:
    """Read what the worker wrote of the rows."""
    kind, rest = text[:1], text[1:]
    rows: list[bytes] = [rest] if kind == ONE else marshal.loads(rest)
    return rows


def _transaction(xid: int, commit_lsn: int, time: int, origin: int) -> Transaction:
    return Transaction(
        ordinal=-1,
        xid=xid,
        commit_lsn=Lsn(commit_lsn),
        end_lsn=Lsn(0),
        first_lsn=Lsn(0),
        commit_time=time,
        database=0,
        origin=origin,
    )
