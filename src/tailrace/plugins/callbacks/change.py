"""Changes as a plugin that is written per change gets them: rows as mappings of names to values.

In: a batch of changes, as columns. Out: a `Change` for each; on the way to another process, bytes.
"""

from __future__ import annotations

import marshal
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa

from tailrace.changes import KINDS, change_batch
from tailrace.dataclass import dataclass
from tailrace.decode import DELETE, Batch
from tailrace.model import Lsn, Relation
from tailrace.plan.stretch_plan import Commits
from tailrace.transactions.commit_or_abort import Transactions
from tailrace.types.encodings.conversion import to_utf8
from tailrace.types.registry import ArrowStyle, format_values
from tailrace.types.style import TextStyle
from tailrace.types.values import Texts, Values
from tailrace.wal.heap import NO_OLD, OLD_KEY


@dataclass(frozen=True, slots=True)
class Change:
    """`kind` is insert, update, delete or truncate; `lsn` where its record begins. `new` and `old` are rows, None where there is
    none: `old` the key where that is all that is logged. Columns of which TOAST was not written, as they had not changed, are in
    `unchanged`, not in the rows. `cascade` and `restart_sequences` are TRUNCATE's."""

    kind: str
    lsn: Lsn
    new: dict[str, Any] | None = None
    old: dict[str, Any] | None = None
    unchanged: tuple[str, ...] = ()
    cascade: bool = False
    restart_sequences: bool = False


_Plain = tuple[int, tuple[Any, ...] | None, tuple[Any, ...] | None, bool]
"""Kind, new and old values in the order of the columns, whether the old ones are a key. `...` for what is unchanged."""


class ChangeShape:
    """How rows of a relation become mappings."""

    def __init__(self, relation: Relation) -> None:
        columns = relation.live_columns
        self.relation = relation
        self.names = tuple(column.name for column in columns)
        self.key = frozenset(column.name for column in columns if column.number in relation.identity)

    def change(self, plain: _Plain, lsn: int) -> Change:
        kind, new, old, is_key = plain
        unchanged: tuple[str, ...] = ()
        row = None if new is None else dict(zip(self.names, new, strict=True))
        if row is not None and ... in row.values():
            unchanged = tuple(name for name, value in row.items() if value is ...)
            row = {name: value for name, value in row.items() if value is not ...}
        before = None if old is None else dict(zip(self.names, old, strict=True))
        if before is not None and is_key:
            before = {name: value for name, value in before.items() if name in self.key}
        return Change(KINDS[kind], Lsn(lsn), row, before, unchanged)


def plain_changes(batch: Batch, style: TextStyle, codec: str, *, typed: bool) -> Iterator[_Plain]:
    """The changes of a batch, in its order."""
    has_new, has_old = (batch.kind != DELETE).tolist(), (batch.old_kind != NO_OLD).tolist()
    if typed:
        new, old = _typed(batch, style, codec)
    else:
        new, old = _texts(batch, batch.new, style, codec), _texts(batch, batch.old, style, codec)
    for kind, new_row, with_new, old_row, with_old, is_key in zip(
        batch.kind.tolist(), new, has_new, old, has_old, (batch.old_kind == OLD_KEY).tolist(), strict=True
    ):
        yield kind, new_row if with_new else None, old_row if with_old else None, is_key


def batch_as_arrow(batch: Batch, style: TextStyle, codec: str, *, columns: Sequence[str]) -> pa.RecordBatch:
    """These columns of the DataFrame. The plan was asked for what is told of commits."""
    assert batch.commits is not None, "asked for in the demand"
    alone = replace(batch, ordinal=np.arange(len(batch)))
    return change_batch(alone, _facts(batch.commits), columns=columns, style=ArrowStyle(text=style), codec=codec)


def _facts(commits: Commits) -> Transactions:
    """As if each row were a transaction."""
    rows = len(commits.xid)
    zeros = np.zeros(rows, np.int64)
    return Transactions(
        kind=zeros.astype(np.uint8), prepared=zeros, xid=commits.xid, full_xid=zeros, commit_lsn=commits.lsn, end_lsn=zeros, first_lsn=zeros,
        time=commits.time, database=zeros.astype(np.uint32), origin=commits.origin, origin_lsn=zeros, prepared_end=zeros, prepared_time=zeros,
        gids=[], subxact_bounds=np.zeros(rows + 1, np.int64), subxids=zeros[:0],
    )  # fmt: skip


def _texts(batch: Batch, side: Sequence[Values] | None, style: TextStyle, codec: str) -> Iterator[tuple[Any, ...]]:
    if not side:
        return repeat((), len(batch))
    columns: list[list[Any]] = []
    for column, values in zip(batch.columns, side, strict=True):
        texts = to_utf8(format_values(values, column.live_type, style), codec)
        columns.append(_marked(_strings(texts, values), values))
    return zip(*columns, strict=True)


def _strings(texts: Texts, values: Values) -> list[Any]:
    try:
        return texts.to_arrow(values.valid).to_pylist()
    except UnicodeDecodeError:  # SQL_ASCII holds any bytes
        return [text if valid else None for text, valid in zip(texts.to_list(), values.valid.tolist(), strict=True)]


def _typed(batch: Batch, style: TextStyle, codec: str) -> tuple[Iterator[tuple[Any, ...]], Iterator[tuple[Any, ...]]]:
    arrays = batch_as_arrow(batch, style, codec, columns=("new", "old"))
    sides = []
    for array, values in zip(arrays.columns, (batch.new, batch.old), strict=True):
        columns = [array.field(i).to_pylist() for i in range(array.type.num_fields)]
        marked = [_marked(column, each) for column, each in zip(columns, values, strict=True)] if values else []
        sides.append(zip(*marked, strict=True) if marked else repeat((), len(batch)))
    return sides[0], sides[1]


def _marked(column: list[Any], values: Values) -> list[Any]:
    if values.unchanged is not None:
        for row in np.flatnonzero(values.unchanged).tolist():
            column[row] = ...
    return column


def write_change(plain: _Plain, *, typed: bool) -> bytes:
    """A change on its way from a worker."""
    return pickle.dumps(plain, pickle.HIGHEST_PROTOCOL) if typed else marshal.dumps(plain)


def read_change(data: bytes, *, typed: bool) -> _Plain:
    """Read what `write_change` wrote."""
    plain: _Plain = pickle.loads(data) if typed else marshal.loads(data)
    return plain
