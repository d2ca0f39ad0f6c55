"""Changes of several tables in one DataFrame: they cannot share typed columns, so a row is a map from column to PostgreSQL's text.

In: a batch of one version of a relation. Out: a record batch of `several_schema`: which table it was (schema and table, as they were called
then), and the columns of `tailrace.changes`, with `new` and `old` as maps of the columns that the table had then. A value that is NULL, or that
the log does not tell, is NULL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from tailrace.changes import COLUMNS, change_batch, change_schema
from tailrace.decode import DELETE, OLD_ROW, Batch
from tailrace.model import Relation
from tailrace.transactions.commit_or_abort import Transactions
from tailrace.types.codec import string_array
from tailrace.types.encodings.conversion import strings_to_utf8
from tailrace.types.encodings.server_encodings import unchecked
from tailrace.types.registry import format_values
from tailrace.types.style import TextStyle
from tailrace.types.values import Mask, Values

SEVERAL_COLUMNS = ("schema", "table", *COLUMNS)
_NAMES = ("schema", "table")
_ROWS = ("new", "old")
_ROW = pa.map_(pa.string(), pa.string())
_NO_COLUMNS = Relation(0, "", "", "r", "p", "d", 0, ())


def several_schema(columns: Sequence[str] = SEVERAL_COLUMNS) -> pa.Schema:
    """What `several_batch` gives, of any relation."""
    known = {field.name: field for field in change_schema(_NO_COLUMNS)} | {name: pa.field(name, pa.string()) for name in _NAMES}
    return pa.schema([pa.field(name, _ROW) if name in _ROWS else known[name] for name in columns])


def several_batch(batch: Batch, facts: Transactions, columns: Sequence[str], style: TextStyle, codec: str) -> pa.RecordBatch:
    """The changes of a batch as rows of `several_schema(columns)`; `facts[ordinal]` must be those of its transactions."""
    plain = [name for name in columns if name not in _NAMES and name not in _ROWS]
    codec = codec if style.reads_utf8 else unchecked(codec)
    changes = change_batch(batch, facts, columns=plain, codec=codec)
    table, rows = batch.published_relation, len(batch)

    def made(name: str) -> pa.Array:
        if name == "schema":
            return pa.repeat(pa.scalar(table.schema), rows)
        if name == "table":
            return pa.repeat(pa.scalar(table.name), rows)
        if name == "new":
            return _maps(batch, batch.new, batch.kind != DELETE, None, style, codec)
        if name == "old":
            if batch.old is None:
                return pa.nulls(rows, _ROW)
            return _maps(batch, batch.old, batch.has_old, batch.has_old & (batch.old_kind != OLD_ROW), style, codec)
        return changes.column(name)

    return pa.RecordBatch.from_arrays([made(name) for name in columns], schema=several_schema(columns))


def _maps(batch: Batch, side: list[Values], present: Mask, key_only: Mask | None, style: TextStyle, codec: str) -> pa.MapArray:
    """One map per row of `side`, the batch's new or old values; NULL where not `present`. Where `key_only`, columns outside of the identity are
    NULL."""
    rows, count = len(present), len(side)
    texts = []
    for column, values in zip(batch.columns, side, strict=True):
        valid = values.valid
        if key_only is not None and column.number not in batch.relation.identity:
            valid = valid & ~key_only
        shown = replace(values, valid=valid)
        texts.append(strings_to_utf8(string_array(format_values(shown, column.live_type, style), valid), codec))
    names = pa.array([column.name for column in batch.columns], pa.string())
    # Column by column they were made; row by row they are wanted, where there is a row.
    here = np.flatnonzero(present)
    order = (here[:, None] + rows * np.arange(count)[None, :]).ravel()
    items = pa.concat_arrays(texts).take(pa.array(order)) if texts else pa.array([], pa.string())
    keys = names.take(pa.array(np.tile(np.arange(count), len(here))))
    ends = np.concatenate([[0], np.cumsum(present * count)]).astype(np.int32)
    return pa.MapArray.from_arrays(pa.array(ends, mask=np.append(~present, False)), keys, items)
