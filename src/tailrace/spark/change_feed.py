"""Changes of a table as a change feed has them: the table's own columns, and three that say what became of the row, when.

In: record batches of `tailrace.changes`. Out: record batches of `feed_schema`. The names and the kinds are those of Spark's `Changelog` (4.2), which
are those of Delta's change data feed. Where the log holds the row before an UPDATE, or its key, the UPDATE is two rows, the one before first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tailrace.changes import names_by_row, row_schema, rows_by_name
from tailrace.errors import UsageError
from tailrace.model import Lsn, Relation
from tailrace.types.registry import ArrowStyle

CONTRACT = ("_change_type", "_commit_version", "_commit_timestamp")
OF_FEED = {
    "_change_type": pa.string(), "_commit_version": pa.int64(), "_commit_timestamp": pa.timestamp("us", "UTC"),
    "_lsn": pa.int64(), "_sequence": pa.int32(), "_unchanged": pa.list_(pa.string()),
}  # fmt: skip
"""The columns that are not the table's. Those behind the first three are there where they are asked for."""
EVERY = "*"
"""Among the names of columns: all of the table's."""
DEFAULT = (EVERY, *CONTRACT)
ASKED = ("commit_lsn", "commit_timestamp", "lsn", "sequence", "kind", "unchanged", "new", "old")
"""The columns of a change that rows of a feed are made from."""


def feed_schema(relation: Relation, columns: Sequence[str], style: ArrowStyle) -> pa.Schema:
    """What `feed_batch` gives. Raises UsageError for names of columns that there are none of, that come twice, or that both the table and the feed
    have."""
    of_table = {field.name: field for field in row_schema(relation, style)}
    if both := of_table.keys() & OF_FEED.keys():
        raise UsageError(
            f'column name "{min(both)}" conflicts with a column of the change feed', hint="Read the table without readChangeFeed.",
            context=f"table {relation}", sqlstate="42701",
        )  # fmt: skip
    known = of_table | {name: pa.field(name, of) for name, of in OF_FEED.items()}
    names = [each for name in columns for each in (of_table if name == EVERY else (name,))]
    for name in names:
        if name not in known or names.count(name) > 1:
            raise UsageError(
                f'column "{name}" does not exist or is named twice', hint=f"Columns: *, {', '.join(known)}.", sqlstate="42703"
            )
    return pa.schema([known[name] for name in names])


def feed_batch(changes: pa.RecordBatch, schema: pa.Schema, table: str) -> pa.RecordBatch:
    """The rows of these changes, in their order. A value that an UPDATE did not touch and the log does not repeat (TOAST) is that of the row before,
    where the log has it; else it is NULL and named by `_unchanged`, or, without that column, an error that names it."""
    fields = [field.name for field in changes.schema.field("new").type]
    old, new = (dict(zip(fields, changes.column(side).flatten(), strict=True)) for side in ("old", "new"))
    unknown: dict[str, NDArray[np.bool_]] = {}
    for name, unchanged in rows_by_name(changes.column("unchanged")).items():
        if name in schema.names or "_unchanged" in schema.names:
            new[name] = pc.if_else(pa.array(unchanged), old[name], new[name])
            unknown[name] = unchanged & new[name].is_null().to_numpy(zero_copy_only=False)
    if "_unchanged" not in schema.names:
        _refuse(unknown, changes, table)
    kind = changes.column("kind").to_numpy(zero_copy_only=False)
    has_old = changes.column("old").is_valid().to_numpy(zero_copy_only=False)
    before = (kind == "update") & has_old
    change = np.repeat(np.arange(len(changes)), 1 + before)
    first = np.append(True, change[1:] != change[:-1])[: len(change)]
    is_old = (first & before[change]) | (kind[change] == "delete")
    side = pa.array(change + np.where(is_old, 0, len(changes)))
    told = np.where(kind[change] == "update", np.where(is_old, "update_preimage", "update_postimage"), kind[change])

    def made(name: str) -> pa.Array:
        if name in old:
            return pa.concat_arrays([old[name], new[name]]).take(side)
        if name == "_change_type":
            return pa.array(told, pa.string())
        if name == "_unchanged":
            return names_by_row([(each, mask[change] & ~is_old) for each, mask in unknown.items()], len(change))
        return changes.column(_OF_CHANGE[name]).take(pa.array(change))

    return pa.RecordBatch.from_arrays([made(name) for name in schema.names], schema=schema)


_OF_CHANGE = {"_commit_version": "commit_lsn", "_commit_timestamp": "commit_timestamp", "_lsn": "lsn", "_sequence": "sequence"}


def _refuse(unknown: Mapping[str, NDArray[np.bool_]], changes: pa.RecordBatch, table: str) -> None:
    """Raises UsageError for the first value that is not known."""
    for name, mask in unknown.items():
        if mask.any():
            row = int(np.flatnonzero(mask)[0])
            lsn, commit = (Lsn(changes.column(each)[row].as_py()) for each in ("lsn", "commit_lsn"))
            raise UsageError(
                f'an update of table {table} does not tell column "{name}"',
                detail="The value is stored out of line (TOAST) and did not change, so the log does not repeat it.",
                hint='Set REPLICA IDENTITY FULL, or have NULL there and a column that says so: columns="*, _unchanged, …".',
                context=f"transaction that commits at {commit}", lsn=lsn, sqlstate="55000",
            )  # fmt: skip
