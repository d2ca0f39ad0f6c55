"""The layout *history*: each version of a row is a row, with the commits from which and up to which it was the row.

In: a target, and the files of its changes that workers wrote. Out: one commit. A version that ends goes from where it lies, by deletion vector,
and comes again with its end. Versions that are current lie in files of their own, in which `valid_to_lsn` is null throughout, as their statistics
say: so who asks for current rows, we among them, reads no others. A file in which others have put both together is looked through as well.

Where a transaction is cut by a chunk, what is a version of no length is left out as everywhere; of equal rows without a key, one that goes and one
that comes in the same transaction are then told as two versions.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.apply.keys import key_of
from tailrace.apply.versions import (
    VALID_FROM_LSN,
    VALID_TO_LSN,
    Numbers,
    Sweep,
    Taken,
    VersionsMade,
    ended_at,
    versions_of,
    with_nulls,
)  # fmt: skip
from tailrace.changes import change_schema
from tailrace.dataclass import dataclass
from tailrace.delta_log.actions import DataFile
from tailrace.delta_log.file_bounds import null_count
from tailrace.errors import UsageError
from tailrace.lake.chunks import chunks_of
from tailrace.lake.files.changes_file import read_changes_file
from tailrace.lake.files.data_files import FILE_BYTES, DataFiles
from tailrace.lake.files.file_changes import EditedFiles
from tailrace.lake.files.statistics import columns_beyond_statistics, unbounded_values, without_statistics
from tailrace.lake.files.table_edit import TableEdit
from tailrace.lake.files.workers import HERE, Workers
from tailrace.lake.layouts.history_columns import HistoryColumns, in_one_type, with_lost_columns
from tailrace.lake.layouts.layout import is_told_anew
from tailrace.lake.position import TableIdentity, columns_of
from tailrace.lake.staging import FileWritten, Staged
from tailrace.lake.table import OpenTable, TableVersion
from tailrace.lake.table_change import CHUNK_BYTES, BroughtUp
from tailrace.lake.target_tables import TargetTable
from tailrace.model import Column
from tailrace.storage.store import Store
from tailrace.types.times.calendar import UNIX_TO_POSTGRES_USECS

_LAST = 1 << 62


@dataclass(frozen=True, slots=True)
class HistoryLayout:
    name: str = "history"
    reads_rewrites: bool = True
    fills_missing: bool = True
    keeps_dropped: bool = True
    follows_columns: bool = True
    in_place: bool = False
    is_net: bool = False
    in_order: bool = True
    has_rows_alone: bool = False

    def shaped(self, target: TargetTable, lost: Sequence[Column]) -> TargetTable:
        return with_lost_columns(target, lost)

    def bring_up(
        self, target: TargetTable, store: Store, staged: Staged, *, deletion_vectors: bool, workers: Workers = HERE
    ) -> BroughtUp | None:
        """What the transaction did that dropped the table nobody saw: it is left out, and what was current before stays so."""
        staged = staged if target.dropped is None else staged.seen_by_others(target.dropped)
        try:
            staged.check()
        except UsageError as error:
            in_one_type(error)
            raise
        sweeps = _sweeps(target, staged)
        ends = target.dropped is not None and target.position is not None
        if not (staged.files or sweeps or ends or target.quarantine is not None or _has_new_columns(target)):
            return None
        done = _HistoryChange.of(target, keeps_vectors=deletion_vectors)
        try:
            return done.bring_up(store, staged.files, sweeps)
        except BaseException:
            done.data.abandon()
            raise


def is_closed(file: DataFile) -> bool:
    """Whether all versions in a file have ended, as far as the log says."""
    return null_count(file, VALID_TO_LSN) == 0


def _sweeps(target: TargetTable, staged: Staged) -> list[Sweep]:
    """Where all rows were removed, by TRUNCATE or an ALTER TABLE that wrote them anew, of what the table does not have yet."""
    truncations = [
        Sweep((int(each.commit_lsn), int(each.lsn), 0), each.committed + UNIX_TO_POSTGRES_USECS)
        for each in target.truncations
        if each.commit_lsn >= target.span.start and each.commit_lsn != target.dropped
    ]
    return sorted([*truncations, *map(Sweep, staged.rewrites)], key=lambda each: each.place)


def _has_new_columns(target: TargetTable) -> bool:
    """Whether the table has another name, other comments, or columns that it did not have."""
    position = target.position
    return position is not None and (
        is_told_anew(target) or not set(columns_of(target.relation, target.style)) <= set(position.columns)
    )


@dataclass(slots=True)
class _HistoryChange:
    """How a table is edited: `current` are its files of versions that have not ended, `closed` the others. Both write by `data`."""

    target: TargetTable
    columns: HistoryColumns
    table: OpenTable | None
    data: DataFiles
    current: TableEdit
    closed: TableEdit
    unbounded: frozenset[str]
    counts: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, target: TargetTable, *, keeps_vectors: bool) -> Self:
        table = target.found.open() if target.position is not None else None
        columns = HistoryColumns.of(target, table.schema if table else None)
        unbounded = target.position.unbounded if target.position else frozenset()
        found, run = target.found, uuid.uuid4().hex
        data = found.data_files(columns.schema, run, without_statistics(columns.schema, unbounded))
        position, files, here = target.position, table.files if table else [], data
        stays = table is None or position is None or columns.are_there(position)
        keeps_vectors = keeps_vectors and found.keeps_vectors
        if table is not None:
            keeps_vectors = table.keeps_vectors
            here = data if stays else found.data_files(table.schema, run)
        by = key_of(target.relation) or columns.live

        def edited(only_null: str | None, *, closed: bool) -> TableEdit:
            mine = [file for file in files if is_closed(file) is closed]
            edit = TableEdit(here, mine, by, keeps_vectors=keeps_vectors, only_null=only_null)
            if position is not None and not stays:
                edit.conform(data, lambda rows: columns.conformed(rows, position))
            return edit

        current, closed = edited(VALID_TO_LSN, closed=False), edited(None, closed=True)
        return cls(target, columns, table, data, current, closed, unbounded)

    def bring_up(self, store: Store, files: Sequence[FileWritten], sweeps: Sequence[Sweep]) -> BroughtUp:
        wanted = change_schema(self.target.relation, style=self.target.style)

        def read(file: FileWritten, names: list[str] | None) -> pa.Table:
            return read_changes_file(store, file.path, wanted, names)

        beyond, ahead = Counter[str](), list(sweeps)
        for chunk in chunks_of(files, CHUNK_BYTES, read):
            changes = self._seen(chunk.rows(read))
            if changes is None or not len(changes):
                continue
            commit, lsn = (changes[name].to_numpy() for name in ("commit_lsn", "lsn"))
            last = int(commit.max()), int(lsn[commit == commit.max()].max()), _LAST
            behind = [sweep for sweep in ahead if sweep.place < last]
            ahead = ahead[len(behind) :]
            found = versions_of(changes, self.target.relation, behind, self._take, self.columns.live)
            del changes
            for each in (found.current, found.closed):
                own = each.select([name for name in each.schema.names if name in wanted.field("new").type.names])
                self.unbounded |= columns_beyond_statistics(own)
                beyond.update(unbounded_values(own))
            self._apply(found)
        if ahead:
            time = ahead[0].time
            assert time is not None, "a rewrite has rows"
            self._end_all(ahead[0].place[0], time)
        version, written = self._commit()
        changed = sum(file.rows for file in files)
        return BroughtUp(changed, self.counts["made"], self.counts["ended"], dict(beyond), written, version)

    def _seen(self, changes: pa.Table | None) -> pa.Table | None:
        """Without those of the transaction that dropped the table."""
        if changes is None or self.target.dropped is None:
            return changes
        return changes.filter(pc.not_equal(changes["commit_lsn"], int(self.target.dropped)))

    def _take(self, keys: pa.Table, most: Numbers | None) -> Taken:
        return self.current.take(keys, most, VALID_FROM_LSN)

    def _apply(self, found: VersionsMade) -> None:
        for edit in (self.current, self.closed):
            edit.leave_out_statistics(self.unbounded)
        if found.swept is not None:
            self._end_all(*found.swept)
        schema = self.columns.schema
        closed = pa.concat_tables([found.ended, with_nulls(found.closed, schema)])
        self.counts.update(made=len(found.current) + len(found.closed), ended=len(closed))
        self.closed.insert(closed)
        self.current.insert(with_nulls(found.current, schema))

    def _end_all(self, lsn: int, time: int) -> None:
        """All versions that are current in the table end there."""
        for rows in _together(self.current.take_all()):
            ended = ended_at(rows, np.full(len(rows), lsn, np.int64), np.full(len(rows), time, np.int64))
            self.counts.update(ended=len(ended))
            self.closed.insert(ended)

    def _commit(self) -> tuple[TableVersion, EditedFiles]:
        target = self.target
        identity = TableIdentity(
            target.span, target.relation, target.style, self.unbounded, target.dropped,
            target.fingerprint_before(target.span.stop), self.columns.kept, target.said(), target.quarantine, target.copied,
        )  # fmt: skip
        (changes, one), (more, other) = self.current.changes(), self.closed.changes()
        written = EditedFiles(
            one.files + other.files, one.rewritten + other.rewritten, one.vectors + other.vectors, self.data.bytes_written
        )
        changes, note = changes + more, identity.note
        if self.table is not None:
            return self.table.commit(target.name, changes, note, self.columns.schema), written
        note = note.with_vectors() if self.current.keeps_vectors else note
        return target.found.make(target.name, str(target.relation), self.columns.schema, note, changes), written


def _together(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """In tables that become one file each."""
    parts: list[pa.Table] = []
    for each in tables:
        parts.append(each)
        if sum(part.nbytes for part in parts) > FILE_BYTES // 2:
            yield pa.concat_tables(parts)
            parts = []
    if parts:
        yield pa.concat_tables(parts)
