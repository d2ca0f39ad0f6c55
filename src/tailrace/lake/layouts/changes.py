"""The layout *changes*: each change is a row, in the columns of `tailrace.changes`.

In: a target, and the files that workers wrote of its changes. Out: one commit, in which these files are the table's. Columns are told apart by their
names: one that was dropped or renamed keeps the values that it had. `append_changes` (`lake/changelog.py`) has a directory of such tables.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow as pa

from tailrace.changes import change_schema, widened
from tailrace.dataclass import dataclass
from tailrace.delta_log.actions import DataFile
from tailrace.errors import UsageError
from tailrace.lake.files.data_files import DataFiles
from tailrace.lake.files.file_changes import NO_CHANGES, EditedFiles, FileChanges
from tailrace.lake.files.statistics import without_statistics
from tailrace.lake.files.table_edit import TableEdit
from tailrace.lake.files.workers import HERE, Workers
from tailrace.lake.layouts.layout import is_told_anew
from tailrace.lake.position import TableIdentity
from tailrace.lake.staging import FileWritten, Staged
from tailrace.lake.table import OpenTable, TableVersion
from tailrace.lake.table_change import BroughtUp
from tailrace.lake.target_tables import TargetTable
from tailrace.model import Column, Relation
from tailrace.storage.store import Store

Taken = Callable[[DataFiles, FileWritten, str], DataFile]
"""Makes what a worker wrote a file of the table, with these statistics."""


@dataclass(frozen=True, slots=True)
class ChangesLayout:
    name: str = "changes"
    reads_rewrites: bool = False
    fills_missing: bool = False
    keeps_dropped: bool = True
    follows_columns: bool = False
    in_place: bool = True
    is_net: bool = False
    in_order: bool = False
    has_rows_alone: bool = False

    def shaped(self, target: TargetTable, lost: Sequence[Column]) -> TargetTable:
        """With the columns that were dropped, for the changes of before, unless others have their names by now."""
        if target.span.publications:
            return target
        names = {column.name.lower() for column in target.relation.live_columns}
        gone = {column.number: column for column in lost if column.name.lower() not in names}
        columns = tuple(gone.get(column.number, column) for column in target.relation.columns)
        return replace(target, relation=replace(target.relation, columns=columns), lost=frozenset(gone))

    def bring_up(
        self, target: TargetTable, store: Store, staged: Staged, *, deletion_vectors: bool, workers: Workers = HERE
    ) -> BroughtUp | None:
        staged.check()
        is_there = target.position is not None
        is_said = target.quarantine is not None
        if not (staged.files or is_said or (is_there and (target.dropped is not None or is_told_anew(target)))):
            return None
        folder = target.found.store.url.removeprefix(store.url).strip("/")

        def adopted(data: DataFiles, file: FileWritten, statistics: str) -> DataFile:
            return data.adopt(file.path.removeprefix(f"{folder}/"), file.size, statistics)

        version = append(target, staged.files, adopted, what_helps="Make a lake of its own for what follows.")
        rows = sum(file.rows for file in staged.files)
        written = EditedFiles(len(staged.files), bytes=sum(file.size for file in staged.files))
        return BroughtUp(rows, rows, 0, {}, written, version)


def append(target: TargetTable, files: Sequence[FileWritten], taken: Taken, what_helps: str) -> TableVersion:
    """Make the files part of their table, with the position, in one commit; they have the columns of the target's relation."""
    schema, run = change_schema(target.relation, style=target.style), uuid.uuid4().hex
    data = target.found.data_files(schema, run, without_statistics(schema, None))
    note = TableIdentity(
        target.span, target.relation, target.style, None, target.dropped, target.fingerprint_before(target.span.stop),
        comments=target.said(in_changes=True), quarantine=target.quarantine, copied=target.copied,
    ).note  # fmt: skip
    try:
        added = FileChanges(added=tuple(taken(data, file, _statistics(file)) for file in files))
        if target.position is None:
            return target.found.make(target.name, str(target.relation), schema, note, added)
        table = target.found.open()
        wanted = pa.schema([_joined(table.schema.field(field.name), field, target.name, what_helps) for field in schema])
        changes = _in_columns(target, table, wanted, data, what_helps)
        return table.commit(target.name, changes + added, note, wanted)
    except BaseException:
        data.abandon()
        raise


def _statistics(file: FileWritten) -> str:
    return json.dumps(
        {
            "numRecords": file.rows,
            "minValues": {"commit_lsn": file.first_commit},
            "maxValues": {"commit_lsn": file.last_commit},
            "nullCount": {"commit_lsn": 0},
        }
    )


def _in_columns(target: TargetTable, table: OpenTable, wanted: pa.Schema, data: DataFiles, what_helps: str) -> FileChanges:
    """What gives the rows that are there the columns that are `wanted`. Where some are added nothing is to be done; where a type has grown, as an
    integer's may, all rows are written anew."""
    if wanted == table.schema or _adds_only(table.schema, wanted):
        return NO_CHANGES
    edit = TableEdit(target.found.data_files(table.schema, data.run), table.files, ["commit_lsn"], keeps_vectors=False)
    new = data.in_columns(target.found.data_files(wanted, data.run).schema)

    def conform(rows: pa.Table) -> pa.Table:
        return pa.table([_in_type(rows[field.name], field.type, target.relation, what_helps) for field in wanted], schema=wanted)

    edit.conform(new, conform)
    return edit.changes()[0]


def _joined(there: pa.Field, new: pa.Field, table: str, what_helps: str) -> pa.Field:
    """The field with the columns of both, in the types of `new`."""
    if not pa.types.is_struct(new.type):
        return new
    columns = {column.name: column for column in there.type}
    known = {name.lower(): name for name in columns}
    for column in new.type:
        other = known.setdefault(column.name.lower(), column.name)
        if other != column.name:
            raise UsageError(
                f'cannot add column "{column.name}" beside "{other}": Delta does not tell capitals from small letters',
                hint=what_helps, context=f"table {table}", sqlstate="42701",
            )  # fmt: skip
        columns[column.name] = column
    return pa.field(new.name, pa.struct(list(columns.values())))


def _adds_only(there: pa.Schema, wanted: pa.Schema) -> bool:
    old = {(side.name, column.name): column.type for side in there if pa.types.is_struct(side.type) for column in side.type}
    return all(wanted.field(side).type.field(name).type == kind for (side, name), kind in old.items())


def _in_type(column: pa.ChunkedArray, wanted: pa.DataType, relation: Relation, what_helps: str) -> pa.ChunkedArray:
    """A column of rows, all columns in it in the types of `wanted`."""
    if column.type == wanted:
        return column
    rows = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    have = dict(zip((field.name for field in column.type), rows.flatten(), strict=True))
    types = {each.name: each.type for each in relation.live_columns}
    parts = []
    for field in wanted:
        if field.name in have:
            what = f"column {field.name} of table {relation}"
            parts.append(widened(have[field.name], field.type, what, hint=what_helps, of_type=types.get(field.name)))
        else:
            parts.append(pa.nulls(len(rows), field.type))
    return pa.chunked_array([pa.StructArray.from_arrays(parts, fields=list(wanted), mask=rows.is_null())])
