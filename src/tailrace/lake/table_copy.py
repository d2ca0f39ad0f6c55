"""Tables of a copy on their way into a lake: each is there once all its rows are, in one commit that makes it.

In: a lake that awaits the tables, their rows in parts (`copy_feed.py`), and which transactions the snapshot has seen that they are of. Out: for each
table what was done. Where a table holds rows as the source does, workers write them to the files that become the table's; where it holds something
else, they are staged as changes are. A table of which the catalog does not say that it was copied is not: its folder is emptied before.

A table that was in the lake, and joins it once more, goes on from there: as if a TRUNCATE had removed its rows just before the copy's were inserted,
in one commit. As no such commit may be made twice, the catalog says before under which snapshot its next version is made (`take_up_refilled`).
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import field, replace
from functools import partial
from itertools import islice
from typing import Any

import pyarrow as pa

from tailrace.changes import row_schema
from tailrace.copy_feed import CopiedTable, CopyFeed, CopyPiece
from tailrace.dataclass import dataclass
from tailrace.errors import Overtaken
from tailrace.feed import TableTruncation
from tailrace.lake.catalog import LakeTable, no_table_any_more, something_else
from tailrace.lake.files.data_files import DataFiles
from tailrace.lake.files.file_changes import EditedFiles, FileChanges
from tailrace.lake.files.row_files import RowFiles, write_rows
from tailrace.lake.files.statistics import without_statistics
from tailrace.lake.lake import Lake, TableApplied
from tailrace.lake.position import TableIdentity, position_of
from tailrace.lake.quarantine import NamedBatches
from tailrace.lake.staging import FileWritten, Staged, quarantine_file, write_changes
from tailrace.lake.table import AGAIN, OpenTable, TableVersion
from tailrace.lake.table_change import BroughtUp
from tailrace.lake.target_tables import TargetTable, check_fit, kept_style
from tailrace.lake.trouble import quarantine_copied
from tailrace.model import Lsn, Relation
from tailrace.quarantine.unfit_rows import UnfitRows
from tailrace.storage.store import Store
from tailrace.transactions.seen_transactions import SeenTransactions
from tailrace.types.times.calendar import UNIX_TO_POSTGRES_USECS

_SAID = 2.0
"""Seconds in which the catalog is told once of tables that were made: of many small ones it hears together."""

_LOOKS = 0.5
"""Seconds from one look to the next whether another run has written to the lake, which may have emptied the folders of tables that are made."""

SPAN_BYTES = 8
"""Of the span of a copy, which ends where the lake is: rows that are copied count as committed there, and no record begins in between."""
Work = Callable[[CopyPiece], Any]


@dataclass(frozen=True, slots=True)
class CopyProgress:
    """How many parts are done, of how many; how many rows these have; how many bytes they take at the source, and all of them, about; and how many
    seconds that took. It `is_first` unless the lake has begun, and these tables join it."""

    parts: int
    of_parts: int
    rows: int
    bytes: int
    of_bytes: int
    seconds: float
    is_first: bool = True

    @property
    def seconds_left(self) -> float | None:
        """If it goes on as it did; None as long as nothing is known of that."""
        return self.seconds * (self.of_bytes - self.bytes) / self.bytes if self.bytes else None


@dataclass(slots=True)
class TableCopy:
    """`progress` is told now and then, and of each part."""

    lake: Lake
    feed: CopyFeed
    seen: SeenTransactions
    progress: Callable[[CopyProgress], None] | None = None
    _made: dict[int, BroughtUp] = field(default_factory=dict)

    def run(self) -> Iterator[TableApplied]:
        """Copy what is not copied yet. Raises Overtaken where somebody else has written to the lake, and what a server or a value raises."""
        lake, rereads = self.lake, self.lake.rereads
        self._begin()
        catalog = lake.catalog
        assert catalog is not None, "it awaits the tables"
        targets = {each.relation.oid: self._target(each, catalog.tables[each.relation.oid]) for each in self.feed.copied}
        parts = [piece for part in self.feed.parts(frozenset(targets)) for piece in part.pieces]
        said = looked = 0.0
        tell = self._progress_of(len(parts), is_first=catalog.awaits_copy)

        def meanwhile() -> None:
            tell()
            self.feed.meanwhile()
            if lake.rereads != rereads:  # another run may have begun the same copy, and have emptied the folders of its tables
                raise Overtaken(f'another run has written to lake "{lake.store.url}" while tables were copied', hint=AGAIN)

        feed = replace(self.feed, meanwhile=meanwhile)
        with lake.staging() as files:
            ways = _ways(lake, targets, self.feed, files)
            work = partial(_work, {oid: way.work for oid, way in ways.items()})
            try:
                with closing(feed.run(work, parts)) as results:
                    tell()
                    for each in self.feed.copied:
                        oid, quarantined = each.relation.oid, list[FileWritten]()
                        way = ways[oid]
                        for number, result in enumerate(islice(results, len(each.parts))):
                            quarantined += way.take(oid, result)
                            tell(oid, number, way.rows_of(result))
                        if time.monotonic() - looked > _LOOKS:
                            lake.check_is_newest()
                            looked = time.monotonic()
                        self._made[oid] = made = way.made(self._settled(targets[oid], quarantined, files))
                        yield TableApplied.of(targets[oid].name, made)
                        if time.monotonic() - said > _SAID:
                            self._say()
                            said = time.monotonic()
            finally:
                for way in set(ways.values()):
                    way.abandon()
                self._say()
        lake.quarantine.tidy(lake.names_of, self.feed.span.stop)

    def _progress_of(self, count: int, *, is_first: bool) -> Callable[..., None]:
        """What tells how far it is, and is told of each part of a table that is done, with its rows."""
        shares = {each.relation.oid: each.size / max(1, len(each.parts)) for each in self.feed.copied}
        whole, began, done = sum(each.size for each in self.feed.copied), time.monotonic(), dict[tuple[int, int], int]()

        def tell(oid: int = 0, number: int = 0, rows: int = -1) -> None:
            if rows >= 0:
                done[oid, number] = rows
            if self.progress is None:
                return
            running = [(oid, *read) for (oid, number), read in list(self.feed.read.parts.items()) if (oid, number) not in done]
            read_bytes = sum(shares[oid] for oid, _ in done) + sum(min(shares[oid], size) for oid, _, size in running)
            read_rows = sum(done.values()) + sum(rows for _, rows, _ in running)
            self.progress(CopyProgress(len(done), count, read_rows, round(read_bytes), whole, time.monotonic() - began, is_first))

        return tell

    def _settled(self, target: TargetTable, quarantined: list[FileWritten], files: Store) -> TargetTable:
        """What goes into quarantine of the table is put there, and its commit is to say so."""
        if not quarantined:
            return target
        target, news = quarantine_copied(self.lake.quarantine, target, quarantined, files)
        files.delete([each.path for each in quarantined])
        self.lake.quarantine_news.append(news)
        return target

    def _begin(self) -> None:
        """The tables have folders, and there is nothing in those that are new. What a run that died had begun to copy goes."""
        lake, catalog = self.lake, self.lake.catalog
        assert catalog is not None, "it awaits the tables"
        known = catalog
        emptied = {
            oid: table.folder
            for oid, table in known.tables.items()
            if not known.is_at_hand(oid) and not known.is_to_be_refilled(oid)
        }
        for table in known.tables.values():
            lake.forget(table)
        catalog = replace(known, tables={oid: table for oid, table in known.tables.items() if oid not in emptied})
        for each in self.feed.copied:
            relation = each.relation
            if known.is_to_be_refilled(relation.oid):
                there = catalog.tables[relation.oid]
                version = lake.opened(there).version
                catalog = catalog.with_table(replace(there.named_as(relation), version=version, copied=self.seen))
                continue
            table = LakeTable(relation.oid, catalog.folder_for(relation), relation.schema, relation.name)
            catalog = catalog.with_table(table)
            emptied[relation.oid] = table.folder
        lake.replace_catalog(catalog)
        lake.quarantine_news = []
        lake.quarantine.remove({batch for oid, batch in lake.quarantine.counts() if oid in emptied})
        for name in dict.fromkeys(emptied.values()):
            folder = lake.store.below(name)
            folder.delete([found.name for found in folder.list()])

    def _target(self, copied: CopiedTable, table: LakeTable) -> TargetTable:
        lake, span, catalog = self.lake, self.feed.span, self.lake.catalog
        assert catalog is not None, "it awaits the tables"
        check_fit(copied.relation, span)
        found, fingerprint_before = lake.opened(table), self.feed.fingerprint_before
        target = TargetTable(copied.relation, None, lake.style, found, None, span, fingerprint_before, comments=copied.comments)
        if not catalog.is_to_be_refilled(table.oid):
            return target
        if not found.is_there:
            raise no_table_any_more(table)
        there = found.open()
        if (position := position_of(there, span)) is None or position.oid != table.oid:
            raise something_else(table)
        before = Lsn(span.stop - 2)  # the copy's rows commit behind it
        emptied = TableTruncation(before, before, (self.feed.time or UNIX_TO_POSTGRES_USECS) - UNIX_TO_POSTGRES_USECS)
        lake.quarantine.is_touched = True
        is_over = lake.layout.has_rows_alone and bool(NamedBatches.of(there).names)
        refilled = replace(
            target, position=position, style=kept_style(lake.style, position), truncations=(emptied,), quarantine="" if is_over else None,
            copied=self.seen.digest,
        )  # fmt: skip
        return lake.layout.shaped(refilled, ())

    def _say(self) -> None:
        """What was made since counts."""
        catalog = self.lake.catalog
        assert catalog is not None, "it has the tables"
        if not self._made:
            return
        for oid, done in self._made.items():
            self.lake.keep(oid, done.version)
            made = replace(catalog.tables[oid], version=done.version.version, changed=self.seen.end, copied=self.seen, held=None)
            catalog = catalog.with_table(made).copied_at(oid, self.feed.span.stop)
        self._made.clear()
        self.lake.replace_catalog(catalog)


def take_up_refilled(lake: Lake) -> None:
    """What a run that died has refilled, and has not said so, is in the lake: the table's last commit of ours is of the snapshot that the catalog
    names."""
    catalog = lake.catalog
    assert catalog is not None, "it awaits the tables"
    known = catalog
    for oid in known.joining:
        if not known.is_to_be_refilled(oid) or (table := known.tables[oid]).copied is None:
            continue
        found = lake.opened(table).refreshed()
        if found.version > table.version and (at := _copied_at(found.open(), table.copied)) is not None:
            table = replace(table, version=found.version, changed=max(table.changed, at), held=None)
            catalog = catalog.with_table(table).copied_at(oid, at)
    if catalog is not known:
        lake.replace_catalog(catalog)


def _copied_at(table: OpenTable, seen: SeenTransactions) -> Lsn | None:
    """Where its rows count as committed if its last commit was that of this copy: others gather files before and behind it, which says nothing."""
    said = table.said()
    return Lsn.parse(said["to"]) if said is not None and said.get("copied") == seen.digest else None


def _ways(lake: Lake, targets: Mapping[int, TargetTable], feed: CopyFeed, files: Store) -> dict[int, Any]:
    """How each table is made: a new one from files that workers write of its rows, if it is to have nothing else."""
    alone = {oid: target for oid, target in targets.items() if lake.layout.has_rows_alone and target.position is None}
    others = {oid: target for oid, target in targets.items() if oid not in alone}
    return {
        **dict.fromkeys(alone, _AsRows(lake, alone, files)),
        **dict.fromkeys(others, _AsChanges(lake, others, feed, files)),
    }  # fmt: skip


def _work(ways: Mapping[int, Work], piece: CopyPiece) -> Any:
    """Runs in a worker."""
    return ways[piece.oid](piece)


class _AsRows:
    """The files that workers write become the table's. State: those of tables that are not made yet."""

    def __init__(self, lake: Lake, targets: Mapping[int, TargetTable], files: Store) -> None:
        self._lake, self._written = lake, dict[int, RowFiles]()
        run = uuid.uuid4().hex
        self._data = {
            oid: partial(_new_files, each.found, row_schema(each.relation, each.style), run) for oid, each in targets.items()
        }
        self.work = partial(_write_part, self._data, {oid: target.relation for oid, target in targets.items()}, files)

    def take(self, oid: int, result: tuple[RowFiles, list[FileWritten]]) -> list[FileWritten]:
        """The files of rows that go into quarantine."""
        written, quarantined = result
        self._written[oid] = self._written.get(oid, RowFiles()) + written
        return quarantined

    def rows_of(self, result: tuple[RowFiles, list[FileWritten]]) -> int:
        return result[0].rows + sum(each.rows for each in result[1])

    def made(self, target: TargetTable) -> BroughtUp:
        oid, found = target.relation.oid, target.found
        written = self._written.get(oid, RowFiles())
        identity = TableIdentity(
            target.span, target.relation, target.style, written.unbounded, None, target.fingerprint_before(target.span.stop),
            comments=target.said(in_changes=False), quarantine=target.quarantine,
        )  # fmt: skip
        keeps_vectors = self._lake.deletion_vectors and found.keeps_vectors
        note = identity.note.with_vectors() if keeps_vectors else identity.note
        schema = row_schema(target.relation, target.style)
        version = found.make(target.name, str(target.relation), schema, note, FileChanges(added=written.files))
        self._written.pop(oid, None)
        edited = EditedFiles(len(written.files), bytes=written.bytes)
        return BroughtUp(written.rows, written.rows, 0, written.beyond, edited, version)

    def abandon(self) -> None:
        """What did not become a table's is of no use."""
        for oid, written in self._written.items():
            self._data[oid]().drop(written.files)


def _new_files(found: TableVersion, schema: pa.Schema, run: str) -> DataFiles:
    return found.data_files(schema, run, without_statistics(schema))


def _write_part(
    data: Mapping[int, Callable[[], DataFiles]], relations: Mapping[int, Relation], files: Store, piece: CopyPiece
) -> tuple[RowFiles, list[FileWritten]]:
    """Runs in a worker. Rows that go into quarantine are staged in `files`."""
    written: list[Any] = []

    def fitting(keep: Callable[[pa.RecordBatch], None]) -> Iterator[pa.RecordBatch]:
        first = 0
        for batch in piece.rows():
            if isinstance(batch, UnfitRows):
                keep(piece.quarantined(batch, relations[piece.oid], first).rows)
                first += len(batch.reasons)
            else:
                yield batch

    with quarantine_file(files, piece.oid, written) as keep:
        rows = write_rows(data[piece.oid], fitting(keep))
    return rows, written


class _AsChanges:
    """Rows are changes that insert them, staged in `files` for the layout."""

    def __init__(self, lake: Lake, targets: Mapping[int, TargetTable], feed: CopyFeed, files: Store) -> None:
        self._lake, self._files, self._staged = lake, files, dict[int, Staged]()
        wanted = {oid: target.wanted(fill_missing=False) for oid, target in targets.items()}
        how = lake.changes_files(list(targets.values()))
        self.work = partial(write_changes, files, wanted, feed.changes, how)

    def take(self, oid: int, result: list[FileWritten]) -> list[FileWritten]:
        """The files of rows that go into quarantine."""
        self._staged.setdefault(oid, Staged()).files.extend(each for each in result if not each.is_quarantined)
        return [each for each in result if each.is_quarantined]

    def rows_of(self, result: list[FileWritten]) -> int:
        return sum(each.rows for each in result)

    def made(self, target: TargetTable) -> BroughtUp:
        staged = self._staged.pop(target.relation.oid, Staged())
        done = self._lake.layout.bring_up(target, self._files, staged, deletion_vectors=self._lake.deletion_vectors)
        return done or BroughtUp(0, 0, 0, {}, EditedFiles(), target.found)

    def abandon(self) -> None:
        """Files in a table's folder that did not become the table's are of no use."""
        if self._lake.layout.in_place:
            self._files.delete([file.path for each in self._staged.values() for file in each.files])
