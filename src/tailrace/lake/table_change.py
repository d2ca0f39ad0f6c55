"""A table of a mirror brought up: its change reduced to what it comes to, chunk by chunk, and committed with its position.

In: a target, and the files of its changes that workers wrote. Out: one commit, and what was done. A transaction may be larger than memory, so
changes are taken in chunks; readers see all of them at once. Columns are followed by attribute number; where all rows of a table were replaced,
by TRUNCATE or by an ALTER TABLE that wrote them anew, what was before is neither read nor written."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Self

import pyarrow as pa

from tailrace.apply.keys import key_of
from tailrace.apply.net_change import NetChange
from tailrace.apply.tables import filled
from tailrace.changes import missing_value, row_schema, widened
from tailrace.dataclass import dataclass
from tailrace.feed import OrderKey
from tailrace.lake.chunks import Chunk, StagedChanges
from tailrace.lake.files.file_changes import EditedFiles
from tailrace.lake.files.statistics import columns_beyond_statistics, unbounded_values, without_statistics
from tailrace.lake.files.table_edit import TableEdit
from tailrace.lake.files.wide_edit import WideEdit
from tailrace.lake.files.workers import HERE, Workers
from tailrace.lake.position import TableIdentity, TablePosition, columns_of
from tailrace.lake.staging import FileWritten, Staged
from tailrace.lake.table import OpenTable, TableVersion
from tailrace.lake.target_tables import WRITES_ANEW, TargetTable
from tailrace.lake.wide_change import ChangesApplied, apply_wide
from tailrace.model import Relation
from tailrace.storage.store import Store
from tailrace.types.registry import ArrowStyle

CHUNK_BYTES = 128 << 20
"""Of changes that are in memory at once."""
_EditOf = Callable[..., TableEdit]
_ANEW = (
    "The table has rows in another type, up to {}. "
    f"Have all written anew (ALTER TABLE … {WRITES_ANEW}), or copied again (tailrace mirror --copy-again)."
)


@dataclass(frozen=True, slots=True)
class BroughtUp:
    """What was done: changes read, rows written or replaced, keys (or rows) removed; times written that statistics cannot hold, by column; what was
    written; and the version that it came to."""

    changes: int
    upserts: int
    deletes: int
    unbounded: Mapping[str, int]
    written: EditedFiles
    version: TableVersion


def replaced_at(target: TargetTable, staged: Staged) -> list[OrderKey]:
    """Where all rows of the table were replaced, of what it does not have yet. Raises what could not be written of what came behind that."""
    truncations = [
        (int(each.commit_lsn), int(each.lsn), 0) for each in target.truncations if each.commit_lsn >= target.span.start
    ]
    replaced = [*truncations, *staged.rewrites]
    staged.check(max(replaced, default=None))
    return replaced


def bring_up(
    target: TargetTable, store: Store, files: Sequence[FileWritten], replaced: Sequence[OrderKey], *, deletion_vectors: bool,
    workers: Workers = HERE,
) -> BroughtUp:  # fmt: skip
    """Commit these files' changes since all rows were last `replaced`, if they were, and the position. A table that is made has `deletion_vectors` if
    that says so. `store` is where the files are. What is large is done by `workers`."""
    relation, last = target.relation, max(replaced, default=None)
    wanted = [file for file in files if last is None or file.last_commit >= last[0]]
    staged = StagedChanges(store, relation, target.style, last)
    is_wide = sum(file.memory for file in wanted) >= workers.large_bytes
    edits: _EditOf = partial(WideEdit, staged=store) if is_wide else TableEdit
    before = target.position.unbounded if target.position else frozenset()
    change = _TableChange.of(
        target, partial(edits, workers=workers), before, clears=last is not None, keeps_vectors=deletion_vectors
    )
    try:
        if isinstance(change.edit, WideEdit):
            done = apply_wide(change.edit, staged, wanted, workers)
        else:
            done = change.apply(staged.net(Chunk(tuple(wanted))))
        unbounded = before | done.unbounded
        fingerprint = target.fingerprint_before(target.span.stop)
        version, written = change.commit(
            TableIdentity(
                target.span, relation, target.style, unbounded, target.dropped, fingerprint, comments=target.said(),
                quarantine=target.quarantine, copied=target.copied,
            )
        )  # fmt: skip
    except BaseException:
        change.edit.abandon()
        raise
    return BroughtUp(sum(file.rows for file in files), done.upserts, done.deletes, dict(done.beyond), written, version)


@dataclass(slots=True)
class _TableChange:
    """How a table is edited, and what it is edited into."""

    target: TargetTable
    table: OpenTable | None
    edit: TableEdit

    @classmethod
    def of(
        cls, target: TargetTable, edits: _EditOf, unbounded: frozenset[str], *, clears: bool, keeps_vectors: bool
    ) -> Self:  # fmt: skip
        relation, style, position = target.relation, target.style, target.position
        schema, run = row_schema(relation, style), uuid.uuid4().hex
        data = target.found.data_files(schema, run, without_statistics(schema, unbounded))
        by = key_of(relation) or tuple(schema.names)
        if position is None:
            return cls(target, None, edits(data, [], by, keeps_vectors=keeps_vectors and target.found.keeps_vectors))
        table = target.found.open()
        before = target.found.data_files(table.schema, run)
        is_same = position.columns == columns_of(relation, style)
        only_adds = is_same or only_adds_columns(position, relation, style)
        edit = edits(data if only_adds else before, table.files, by, keeps_vectors=table.keeps_vectors)
        if clears:
            edit.clear(data)
        elif not only_adds:
            hint = _ANEW.format(position.lsn)
            edit.conform(data, partial(conformed, position=position, relation=relation, style=style, hint=hint))
        return cls(target, table, edit)

    def apply(self, net: NetChange | None) -> ChangesApplied:
        """What it comes to, in memory."""
        if net is None:
            return ChangesApplied(0, 0, frozenset(), {})
        edit, unbounded, beyond = self.edit, columns_beyond_statistics(net.upserts), unbounded_values(net.upserts)
        edit.leave_out_statistics(unbounded)
        net = self._filled(net)
        if net.key:
            edit.delete(pa.concat_tables([net.deletes.select(net.key), net.upserts.select(net.key)]))
        elif len(net.deletes):
            edit.delete_copies(net.deletes)
        edit.insert(net.upserts)
        return ChangesApplied(len(net.upserts), len(net.deletes), unbounded, beyond)

    def _filled(self, net: NetChange) -> NetChange:
        """With what the table alone knows: only the rows and columns asked for are read."""
        if not net.fills:
            return net
        keys = pa.concat_tables([fill.keys for fill in net.fills])
        return filled(net, self.edit.lookup(keys, [fill.column for fill in net.fills]))

    def commit(self, identity: TableIdentity) -> tuple[TableVersion, EditedFiles]:
        target = self.target
        changes, written = self.edit.changes()
        schema = row_schema(target.relation, target.style)
        if self.table is None:
            note = identity.note.with_vectors() if self.edit.keeps_vectors else identity.note
            version = target.found.make(target.name, str(target.relation), schema, note, changes)
        else:
            version = self.table.commit(target.name, changes, identity.note, schema)
        return version, written


def only_adds_columns(position: TablePosition, relation: Relation, style: ArrowStyle) -> bool:
    """Whether nothing has become of the table's columns but that some were added which are null in the rows that were there: then these rows stay as
    they are."""
    columns = columns_of(relation, style)
    names = {name.lower() for _, name, _ in position.columns}
    added = [column for column in relation.live_columns if column.number not in {number for number, _, _ in position.columns}]
    stay = [column for column in columns if column[0] not in {each.number for each in added}]
    return stay == list(position.columns) and all(each.missing is None and each.name.lower() not in names for each in added)


def conformed(rows: pa.Table, position: TablePosition, relation: Relation, style: ArrowStyle, hint: str) -> pa.Table:
    """Rows of an older version of the table in the columns of `relation`; columns that are new hold what ADD COLUMN gave to
    old rows. `hint` helps where values do not fit."""
    names = {number: name for number, name, _ in position.columns}
    schema = row_schema(relation, style)
    arrays = []
    for column, wanted in zip(relation.live_columns, schema, strict=True):
        if column.number in names:
            what = f"column {column.name} of table {relation}"
            arrays.append(widened(rows[names[column.number]], wanted.type, what, hint=hint, of_type=column.type))
        elif column.missing is None:
            arrays.append(pa.nulls(len(rows), wanted.type))
        else:
            arrays.append(missing_value(column, style).take(pa.array([0] * len(rows), pa.int64())))
    return pa.Table.from_arrays(arrays, schema=schema)
