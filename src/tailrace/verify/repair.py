"""Rows of a lake's table that differ, made as the server has them: one commit, of these rows alone.

In: what was compared, while the snapshot lasts. Out: a version behind the one that was compared, through the door by which changes come out of
quarantine, and at the same position. The lake has the table's changes up to there. A row that still differs once those behind it are applied was
touched by none of them, or is what one of them makes of it once more: so it may be as the snapshot has it. Where somebody else has committed to the
table meanwhile, that is not known, and nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tailrace.changes import COLUMNS, change_schema
from tailrace.errors import UsageError
from tailrace.lake.position import columns_of
from tailrace.lake.staging import Staged, stage_rows
from tailrace.lake.target_tables import TargetTable
from tailrace.model import Lsn, Relation
from tailrace.types.registry import ArrowStyle
from tailrace.verify.checksums import BUCKETS, RowNumbers, bucket_of
from tailrace.verify.differences import MOST_HELD
from tailrace.verify.lake_at_rest import LakeAtRest
from tailrace.verify.verification import TableCompared


def repair(rest: LakeAtRest, compared: TableCompared) -> int:
    """How many rows were put right. Raises Overtaken where the table has another version than was compared, and UsageError where more is wrong with
    it than rows."""
    sides, found = compared.sides, compared.found
    table = rest.pinned_catalog.tables.get(compared.oid)
    position = rest.pinned_position(table) if table is not None else None
    relation = sides.relation
    if table is None or position is None or relation is None:
        raise UsageError(
            f"table {sides.name} cannot be repaired: {sides.note}", hint="Bring the lake up with tailrace replicate or mirror first.",
            sqlstate="55000",
        )  # fmt: skip
    if sides.unfit or position.columns != columns_of(relation, sides.style):
        raise UsageError(
            f"table {sides.name} cannot be repaired: the lake has other columns of it than the server",
            detail=sides.unfit or sides.note, sqlstate="55000",
            hint="Bring the lake up with tailrace replicate or mirror first, or make the table anew.",
        )  # fmt: skip
    if len(found.only_first) + len(found.only_second) < found.rows or found.rows > MOST_HELD:
        raise UsageError(
            f"table {sides.name} cannot be repaired: too many of its rows differ", hint="Make the lake anew in another place.",
            sqlstate="54000",
        )  # fmt: skip
    span = replace(rest.span, stop=position.lsn)
    target = TargetTable(
        replace(relation, replica_identity="f") if not sides.columns.key else relation, None, sides.style, rest.own_version(table),
        position, span, lambda _: position.fingerprint,
    )  # fmt: skip
    changes = list(_changes(compared, relation, sides.style, position.lsn))
    with rest.lake.staging() as files, target.found.going_on(sides.name):
        staged = Staged(stage_rows(files, compared.oid, 0, changes, rest.lake.changes_files([target])))
        rest.lake.layout.bring_up(target, files, staged, deletion_vectors=rest.lake.deletion_vectors)
    return found.rows


def _changes(compared: TableCompared, relation: Relation, style: ArrowStyle, at: Lsn) -> Iterator[pa.RecordBatch]:
    """What it takes: rows of the lake go, and the server's come. A row that comes takes the place of all that have its key."""
    sides, found = compared.sides, compared.found
    assert sides.server is not None
    goes, comes = found.only_second, found.only_first
    if sides.columns.key:
        keys = np.unique(np.concatenate([goes.keys, comes.keys]))
        comes = _of_keys(compared, keys)
        goes = goes.chosen(~np.isin(goes.keys, comes.keys))
    first = 0
    for kind, rows in (("delete", sides.lake.rows(goes.places)), ("insert", sides.server.rows(comes.places))):
        for _, batch in rows:
            yield _change_batch(kind, batch, relation, style, at, first)
            first += len(batch)


def _of_keys(compared: TableCompared, keys: NDArray[np.uint64]) -> RowNumbers:
    """The server's rows with these keys."""
    buckets = np.zeros(BUCKETS, np.bool_)
    buckets[bucket_of(keys)] = True
    assert compared.sides.server is not None
    there = compared.sides.server.numbers(buckets)
    return there.chosen(np.isin(there.keys, keys))


def _change_batch(kind: str, rows: pa.RecordBatch, relation: Relation, style: ArrowStyle, at: Lsn, first: int) -> pa.RecordBatch:
    schema, count = change_schema(relation, style=style), len(rows)
    side = "old" if kind == "delete" else "new"
    row = schema.field(side).type
    columns = [column.cast(field.type) for column, field in zip(rows.columns, row, strict=True)]
    commit = pa.array(np.full(count, int(at) - 1, np.int64))
    arrays: dict[str, pa.Array] = {
        "commit_lsn": commit, "end_lsn": commit, "lsn": pa.array(first + np.arange(count, dtype=np.int64)),
        "sequence": pa.array(np.zeros(count, np.int32)), "kind": pa.array([kind] * count, pa.string()),
        "unchanged": pa.ListArray.from_arrays(pa.array(np.zeros(count + 1, np.int32)), pa.array([], pa.string())),
        side: pa.StructArray.from_arrays(columns, fields=list(row)),
    }  # fmt: skip
    return pa.RecordBatch.from_arrays(
        [arrays[name] if name in arrays else pa.nulls(count, schema.field(name).type) for name in COLUMNS], schema=schema
    )
