"""Batches of changes as typed Arrow: the columns that the data source shows, and that lake tables are made from.

In: a `Batch` of one version of a relation, and the facts of the transactions. Out: a record batch of
`change_schema(relation)`: where each change stands in the order (commit_lsn, lsn, sequence), what it is, and its new and old
rows as structs. To read several versions of a table as one, name the version wanted: older columns are matched by attribute
number and widened. Only types that Spark takes to the letter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tailrace.decode import DELETE, INSERT, OLD_ROW, UPDATE, Batch
from tailrace.decode.damaged import of_a_row
from tailrace.errors import CorruptWal, TailraceError, UsageError
from tailrace.model import Column, Lsn, PgType, Relation
from tailrace.transactions.commit_or_abort import Transactions
from tailrace.types.codec.arrow_to_text import as_text
from tailrace.types.encodings.conversion import strings_to_utf8
from tailrace.types.encodings.server_encodings import UTF8, unchecked
from tailrace.types.registry import ArrowStyle, arrow_type, to_arrow
from tailrace.types.times.calendar import UNIX_TO_POSTGRES_USECS
from tailrace.types.values import Mask, Values

KINDS = {INSERT: "insert", UPDATE: "update", DELETE: "delete"}

ORDER = ("commit_lsn", "lsn", "sequence")
"""The columns that order the changes of a table (rule 4)."""


DEFAULT = ArrowStyle()
COLUMNS = ("commit_lsn", "end_lsn", "commit_timestamp", "xid", "lsn", "sequence", "kind", "unchanged", "new", "old")


def row_schema(relation: Relation, style: ArrowStyle = DEFAULT) -> pa.Schema:
    """The live columns of a relation, every one nullable: a row as Arrow."""
    return pa.schema([pa.field(column.name, _type_of(column, style)) for column in relation.live_columns])


def change_schema(relation: Relation, columns: Sequence[str] = COLUMNS, style: ArrowStyle = DEFAULT) -> pa.Schema:
    """What `change_batch` gives for this version of a relation."""
    row = pa.struct(list(row_schema(relation, style)))
    types = {
        "commit_lsn": pa.int64(), "end_lsn": pa.int64(), "commit_timestamp": pa.timestamp("us", "UTC"), "xid": pa.int64(),
        "lsn": pa.int64(), "sequence": pa.int32(), "kind": pa.string(), "unchanged": pa.list_(pa.string()), "new": row, "old": row,
    }  # fmt: skip
    return pa.schema([(name, types[name]) for name in columns])


def change_batch(
    batch: Batch, transactions: Transactions, relation: Relation | None = None, *, columns: Sequence[str] = COLUMNS,
    style: ArrowStyle = DEFAULT, codec: str = UTF8, fill_missing: bool = False,
) -> pa.RecordBatch:  # fmt: skip
    """The changes of a batch as rows of `change_schema(relation, columns)`; `relation` is what it is published as unless told
    otherwise.

    `transactions[ordinal]` must be the facts of the batch's ordinals. With `fill_missing`, rows of versions that did not
    have a column yet get the value that ADD COLUMN gave to existing rows; without, they are NULL there. Raises UsageError for
    a retype that does not widen, CorruptWal for a value that is none of its type.
    """
    made = partial(
        _change_batch, transactions=transactions, relation=relation, columns=columns, style=style, codec=codec,
        fill_missing=fill_missing,
    )  # fmt: skip
    try:
        return made(batch)
    except CorruptWal as error:
        raise of_a_row(error, batch, lambda rows: made(batch.take(rows))) from error.__cause__


def _change_batch(
    batch: Batch, transactions: Transactions, relation: Relation | None, columns: Sequence[str], style: ArrowStyle, codec: str, *,
    fill_missing: bool,
) -> pa.RecordBatch:  # fmt: skip
    target = relation or batch.published_relation
    rows = len(batch)
    schema = change_schema(target, columns, style)

    def of_transaction(facts: NDArray, kind: pa.DataType) -> pa.Array:
        return pa.array(facts[batch.ordinal], kind)

    def old() -> pa.Array:
        if batch.old is None:
            return pa.nulls(rows, schema.field("old").type)
        key_only = batch.has_old & (batch.old_kind != OLD_ROW)
        return _rows(batch, batch.old, batch.has_old, target, style, key_only=key_only, fill_missing=fill_missing)

    makers: dict[str, Callable[[], pa.Array]] = {
        "commit_lsn": lambda: of_transaction(transactions.commit_lsn, pa.int64()),
        "end_lsn": lambda: of_transaction(transactions.end_lsn, pa.int64()),
        "commit_timestamp": lambda: of_transaction(transactions.time + UNIX_TO_POSTGRES_USECS, pa.timestamp("us", "UTC")),
        "xid": lambda: of_transaction(transactions.xid.astype(np.int64), pa.int64()),
        "lsn": lambda: pa.array(batch.lsn, pa.int64()),
        "sequence": lambda: pa.array(batch.sequence.astype(np.int32), pa.int32()),
        "kind": lambda: pa.array(list(KINDS.values()), pa.string()).take(pa.array(batch.kind - np.uint8(INSERT))),
        "unchanged": lambda: _unchanged(batch, target),
        "new": lambda: _rows(batch, batch.new, batch.kind != DELETE, target, style, fill_missing=fill_missing),
        "old": old,
    }
    if not style.text.reads_utf8:
        codec = unchecked(codec)
    try:
        arrays = [strings_to_utf8(makers[name](), codec) if name in ("new", "old") else makers[name]() for name in columns]
    except CorruptWal:
        raise  # of one record, which is found out
    except TailraceError as error:
        commits = transactions.commit_lsn[batch.ordinal]
        where = f"changes that commit from {Lsn(int(commits.min()))} to {Lsn(int(commits.max()))}"
        error.context = f"{error.context or f'table {target}'}, {where}"
        raise
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def row_batch(batch: Batch, relation: Relation, *, style: ArrowStyle = DEFAULT, codec: str = UTF8) -> pa.RecordBatch:
    """The new rows of a batch of inserts, in the columns of `row_schema(relation)`. Raises as `change_batch` does."""
    codec = codec if style.text.reads_utf8 else unchecked(codec)
    rows = strings_to_utf8(_rows(batch, batch.new, batch.kind != DELETE, relation, style, fill_missing=False), codec)
    return pa.RecordBatch.from_struct_array(rows)


def _type_of(column: Column, style: ArrowStyle) -> pa.DataType:
    return arrow_type(column.live_type, column.typmod, style)


def _rows(
    batch: Batch, side: list[Values], present: Mask, target: Relation, style: ArrowStyle, *, key_only: Mask | None = None,
    fill_missing: bool,
) -> pa.StructArray:  # fmt: skip
    """One struct per row of `side`, the batch's new or old values; NULL where not `present`. Where `key_only`, columns outside of
    the identity are NULL whatever the tuple says."""
    have = {column.number: (column, values) for column, values in zip(batch.columns, side, strict=True)}
    existing = {column.number for column in batch.relation.columns}
    arrays = []
    for column in target.live_columns:
        if column.number not in have:
            # What the table had, and the batch does not show, is not known.
            arrays.append(_absent(column, len(present), style, fill_missing=fill_missing and column.number not in existing))
            continue
        own, values = have[column.number]
        if key_only is not None and key_only.any() and column.number not in batch.relation.identity:
            values = replace(values, valid=values.valid & ~key_only)
        what = f"column {column.name} of table {target}"
        try:
            stored = to_arrow(values, own.live_type, own.typmod, style)
        except UsageError as error:
            error.context = error.context or what
            raise
        arrays.append(widened(stored, _type_of(column, style), what))
    fields = list(row_schema(target, style))
    if not fields:
        return pa.array([{} if here else None for here in present.tolist()], pa.struct([]))
    mask = None if present.all() else pa.array(~present)
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=mask)


def _absent(column: Column, rows: int, style: ArrowStyle, *, fill_missing: bool) -> pa.Array:
    if not fill_missing or column.missing is None:
        return pa.nulls(rows, _type_of(column, style))
    return missing_value(column, style).take(pa.array(np.zeros(rows, np.int64)))


def missing_value(column: Column, style: ArrowStyle = DEFAULT) -> pa.Array:
    """The one value that rows older than the column have for it (ADD COLUMN ... DEFAULT), as an array of length 1."""
    return to_arrow(Values.of_payloads([column.missing], column.length), column.live_type, column.typmod, style)


APART = (
    "The column's type was changed to one that does not hold all old values. Read the time before and after apart, or bring a lake up to there "
    "(--until), and have the table copied again (--copy-again)."
)


def widened(
    array: pa.Array | pa.ChunkedArray, wanted: pa.DataType, what: str, *, hint: str = APART, of_type: PgType | None = None
) -> pa.Array | pa.ChunkedArray:
    """`array` as `wanted`, if that loses nothing: an integer, float or decimal may grow, and values that are known to be
    `of_type` become its text. Raises UsageError otherwise; `what` names the column."""
    if array.type == wanted:
        return array
    if not len(array):
        return pa.array([], wanted)
    number = pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal
    if any(is_one(array.type) for is_one in number) and any(is_one(wanted) for is_one in number):
        try:
            return array.cast(wanted)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            pass
    if of_type is not None and pa.types.is_string(wanted) and _may_be_text(array.type, of_type):
        return as_text(array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array, of_type)
    raise UsageError(f"cannot read values of type {array.type} as {wanted}", hint=hint, context=what, sqlstate="42804")


def _may_be_text(stored: pa.DataType, pg_type: PgType) -> bool:
    """Whether values of the type may have been stored so, and text be wanted now: another style, or a numeric of any
    precision."""
    native = arrow_type(pg_type, -1, DEFAULT)
    return stored == native or (pa.types.is_decimal(stored) and pa.types.is_string(native)) or pa.types.is_list(native)


def _unchanged(batch: Batch, target: Relation) -> pa.ListArray:
    """The names of the columns whose value was not sent, row by row."""
    names = {column.number: column.name for column in target.live_columns}
    marked: list[tuple[str, Mask]] = []
    for column, values in zip(batch.columns, batch.new, strict=True):
        if values.unchanged is not None and column.number in names:
            mine = values.unchanged & (batch.kind != DELETE)
            if mine.any():
                marked.append((names[column.number], mine))
    return names_by_row(marked, len(batch))


def names_by_row(marked: Sequence[tuple[str, Mask]], rows: int) -> pa.ListArray:
    """By row the names whose mask is set there."""
    offsets = np.zeros(rows + 1, np.int32)
    which: NDArray[np.intp] = np.zeros(0, np.intp)
    if marked:
        grid = np.stack([mine for _, mine in marked], axis=1)
        np.cumsum(grid.sum(axis=1), out=offsets[1:])
        which = np.nonzero(grid)[1]
    flat = pa.array([name for name, _ in marked], pa.string()).take(pa.array(which, pa.int64()))
    return pa.ListArray.from_arrays(pa.array(offsets), flat)


def rows_by_name(lists: pa.ListArray) -> dict[str, Mask]:
    """By name a mask of the rows that name it: what `names_by_row` was made from."""
    names, rows = lists.flatten(), lists.value_parent_indices().to_numpy()
    masks = {}
    for name in names.unique().to_pylist():
        masks[name] = np.zeros(len(lists), np.bool_)
        masks[name][rows[pc.equal(names, name).to_numpy(zero_copy_only=False)]] = True
    return masks
