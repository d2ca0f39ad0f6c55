"""A lake: the tables of one database, on any store, brought along window by window.

In: feeds, each from where the lake is complete. Out: tables as the source had them where the feed ends, and the catalog that says so
(`lake/catalog.py`). Only tables with changes are committed to. What was seen of tables is kept from window to window; where somebody else has
committed to one, a commit is refused, and whoever runs this reads the lake again.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import Self

from tailrace.catalog.names.qualified_names import write_table_name
from tailrace.changes import change_schema
from tailrace.dataclass import dataclass
from tailrace.errors import MissingHistory, UsageError
from tailrace.feed import Feed, FeedSpan, FeedTable, WantedTable
from tailrace.lake.catalog import LakeCatalog, LakeTable, StoredCatalog, no_table_any_more, something_else
from tailrace.lake.files.data_files import data_file_name
from tailrace.lake.files.file_changes import EditedFiles
from tailrace.lake.files.workers import Workers
from tailrace.lake.formats import DELTA, TableFormat, format_named
from tailrace.lake.layouts.layout import LakeLayout
from tailrace.lake.layouts.named import MIRROR, layout_named
from tailrace.lake.position import check_history, position_of
from tailrace.lake.quarantine import NamedBatches, Quarantine, TableNames, held_batch
from tailrace.lake.staging import STAGED, STAGED_NET, ChangesFiles, Progress, Staged, counting, stage_changes
from tailrace.lake.table import DAY, TableVersion
from tailrace.lake.table_change import BroughtUp
from tailrace.lake.target_tables import TableErrors, TargetTable, check_fit, is_followed, kept_style
from tailrace.lake.trouble import STOP, QuarantineNews, TroubleInWindow, check_policy
from tailrace.lake.upkeep import TableMaintained, Upkeep
from tailrace.model import Lsn, Relation
from tailrace.publications.subscription import only_columns
from tailrace.storage.local_store import LocalStore
from tailrace.storage.scratch_folder import scratch_folder
from tailrace.storage.store import Store
from tailrace.transactions.seen_transactions import SeenTransactions
from tailrace.types.registry import ArrowStyle

_STAGING = "_staging"
DEFAULT = ArrowStyle()


@dataclass(frozen=True, slots=True)
class TableApplied:
    """What a window did to a table."""

    table: str
    changes: int
    upserts: int
    deletes: int
    written: EditedFiles

    @classmethod
    def of(cls, name: str, done: BroughtUp) -> Self:
        return cls(name, done.changes, done.upserts, done.deletes, done.written)


@dataclass(slots=True)
class Lake:
    """`layout` is what its tables hold; `style` how values that Arrow has no one type for are held. Tables that are made have `deletion_vectors` if
    that says so. With `stages_here`, changes wait in this machine's files until they are committed; without, on the store, where workers on other
    machines can write them. Files that become a table's own are written to its folder at once."""

    store: Store
    style: ArrowStyle = DEFAULT
    deletion_vectors: bool = True
    stages_here: bool = True
    layout: LakeLayout = MIRROR
    format: TableFormat = field(default_factory=lambda: format_named(DELTA))
    on_error: str = STOP
    """What becomes of changes that cannot be applied (`lake/trouble.py`)."""
    quarantine: Quarantine = field(init=False)
    quarantine_news: list[QuarantineNews] = field(default_factory=list)
    """What went into quarantine with what was applied last."""
    rereads: int = 0
    """So many times somebody else had written."""
    _stored: StoredCatalog = field(default_factory=StoredCatalog)
    _open: dict[int, TableVersion] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.quarantine = Quarantine.of(self.store, self.format.name)

    @classmethod
    def open(
        cls, store: Store, style: ArrowStyle = DEFAULT, *, deletion_vectors: bool = True, stages_here: bool = True,
        layout: str | None = None, format: str | None = None, on_error: str = STOP,
    ) -> Self:  # fmt: skip
        """Without a `layout` it is that of the lake, or *mirror*; without a `format` that of its tables, or *delta*. Raises CorruptFile where the
        lake's catalog is damaged, and UsageError where it has another layout or format."""
        stored = StoredCatalog.read(store)
        catalog = stored.catalog
        layout = layout or (catalog.layout if catalog else MIRROR.name)
        format = format or (catalog.format if catalog else DELTA)
        chosen, tables = layout_named(layout), format_named(format)
        style = replace(style, smallint=tables.smallint)
        if catalog is not None:
            catalog.check_layout(layout, format, store.url)
        lake = cls(store, style, deletion_vectors, stages_here, chosen, tables, check_policy(on_error))
        lake._stored = stored
        return lake

    @property
    def catalog(self) -> LakeCatalog | None:
        """As it was read or written last; None of a lake that nothing was written to."""
        return self._stored.catalog

    def reread(self) -> None:
        """Somebody else has written: what was seen is forgotten."""
        self._stored = StoredCatalog.read(self.store)
        self._open.clear()
        self.rereads += 1

    def check_is_newest(self) -> None:
        """Raises Overtaken where the catalog is another by now."""
        self._stored.check_is_newest(self.store)

    def replace_catalog(self, catalog: LakeCatalog) -> None:
        """Raises Overtaken where it is another by now."""
        self._stored = self._stored.replaced(self.store, catalog)

    def forget(self, table: LakeTable) -> None:
        """What was seen of a table."""
        self._open.pop(table.oid, None)

    def keep(self, oid: int, version: TableVersion) -> None:
        """A table has this version now."""
        self._open[oid] = version

    def begin(self, catalog: LakeCatalog) -> None:
        """Make the lake, which is not there, to go on from what this says. Raises Overtaken where somebody else has made it."""
        if self._stored.catalog is None:
            self._stored = self._stored.replaced(self.store, catalog)

    def apply(self, feed: Feed, committed: int = 0, progress: Progress | None = None) -> list[TableApplied]:
        """Bring all tables to the end of the feed's span, whose last transaction commits at `committed` (microseconds since 2000). Raises Overtaken
        where somebody else was quicker: what is committed of it stays, and counts. Raises the error of a table that cannot be brought up: the catalog
        then stays where it is, and a later run goes on from there."""
        feed = feed.for_tables("a lake", rewrites=self.layout.reads_rewrites)
        span = feed.span
        whole = catalog = self._stored.catalog or LakeCatalog.begun(span, self.layout.name, self.format.name)
        is_behind = whole.is_for_those_behind(span.stop)
        whole.check_is_of(replace(span, timeline=whole.timeline) if is_behind else span, self.store.url)
        whole.check_layout(self.layout.name, self.format.name, self.store.url)
        if is_behind:
            catalog = whole.of_those_behind()
        self.quarantine_news = []
        if catalog.complete >= span.stop:
            return []
        if catalog.complete < span.start:
            raise MissingHistory(
                f'lake "{self.store.url}" is complete up to {catalog.complete}, but changes are at hand only from {span.start}',
                hint="Give the WAL in between, or make the lake anew in another place.", lsn=catalog.complete,
            )  # fmt: skip
        if not is_behind:
            check_history(catalog.fingerprint, catalog.timeline, feed, catalog.complete, f'lake "{self.store.url}"')
        errors = TableErrors(feed)
        tables = self._changed(feed, catalog)
        if is_behind:
            tables = {oid: each for oid, each in tables.items() if oid in catalog.tables}
        else:
            catalog = self._with_new(feed, catalog, tables)
        for table in catalog.tables.values():
            if table.held is not None and table.version >= 0 and not self.opened(table).is_there:
                raise no_table_any_more(table)
        trouble = self._trouble(feed, catalog, tables)
        self.quarantine_news = trouble.news
        targets = self._targets(feed, catalog, trouble.that_go_on(tables, catalog.complete), errors)
        applied = []
        for target, done in self._brought_up(feed, targets, errors, trouble, progress, _copied_of(catalog)):
            table = replace(catalog.tables[target.relation.oid].named_as(target.relation), held=None)
            self._open[table.oid] = done.version
            catalog = catalog.with_table(replace(table, version=done.version.version, changed=span.stop, dropped=target.dropped))
            applied.append(TableApplied.of(target.name, done))
        for oid in tables.keys() & catalog.tables.keys():  # one may have been made by a run that was killed
            table, there = catalog.tables[oid], self._open.get(oid)
            if table.version < 0 and there is not None and there.is_there:
                catalog = catalog.with_table(replace(table, version=there.version, changed=span.stop))
        held_from = partial(self._held_from, feed)
        catalog = trouble.with_held(catalog, tables, errors, span.stop, held_from, self.staging)
        dropped = {oid: each.dropped for oid, each in tables.items() if each.dropped is not None}
        catalog = replace(
            catalog.with_dropped(dropped), timeline=span.timeline, complete=span.stop, committed=committed or catalog.committed,
            fingerprint=feed.fingerprint_before(span.stop),
        )  # fmt: skip
        catalog = whole.with_those_behind(catalog) if is_behind else catalog.past_copies()
        self._stored = self._stored.replaced(self.store, catalog)
        self.quarantine.tidy(self.names_of, span.stop)
        return applied

    def maintain(
        self, budget: float | None = None, tables: Sequence[str] | None = None, *, everything: bool = False, orphans_older_than: float = DAY
    ) -> list[TableMaintained]:  # fmt: skip
        """Gather small files and remove what nobody needs, in tables that need it, the cheapest first, until `budget` seconds are over: for when the
        log is quiet. With `everything`, in all tables; or in `tables`, by name. What is wrong with one is told in what is returned. Files that no
        commit named are a dead run's once they are older than `orphans_older_than` seconds."""
        if self.catalog is None:
            return []
        upkeep = Upkeep(
            self.store, self.catalog, self.opened, lambda table, version: self.keep(table.oid, version), orphans_older_than
        )
        return upkeep.run(budget, tables, everything=everything)

    # -- which tables ------------------------------------------------------------------------------------------------------------------

    def _changed(self, feed: Feed, catalog: LakeCatalog) -> dict[int, FeedTable]:
        """Those with changes, and those of the lake that were dropped or got another name, other comments, or, where that matters, other columns."""
        tables = {}
        for oid, each in feed.tables().items():
            if not is_followed(each.relation) or not catalog.is_at_hand(oid):
                continue
            relation = self._shown(feed, catalog.tables.get(oid), each.relation)
            if relation is not None and (each.relation.kind == "r" or feed.span.publications):
                tables[oid] = replace(each, relation=relation)
        others = {
            oid: table
            for oid, table in catalog.tables.items()
            if oid not in tables and table.dropped is None and catalog.is_at_hand(oid)
        }
        anew = feed.defined_anew(others.keys())
        for oid, table in others.items():
            if (oid not in anew and table.held is None) or (found := feed.table(oid)) is None:
                continue
            is_renamed = (found.relation.schema, found.relation.name) != (table.schema, table.name)
            is_altered = found.commented or (found.altered and self.layout.follows_columns)
            if found.dropped is not None or is_renamed or (is_altered and table.version >= 0):
                tables[oid] = replace(found, relation=self._shown(feed, table, found.relation) or found.relation)
        return tables

    def _shown(self, feed: Feed, table: LakeTable | None, relation: Relation) -> Relation | None:
        """With the columns that come out of the feed."""
        shown = feed.shown(relation)
        if shown is None and table is not None and table.version >= 0 and feed.span.publications:
            position = position_of(self.opened(table).open(), feed.span)
            if position is not None:  # what is not published any more keeps the columns that it has
                shown = only_columns(relation, {number for number, _, _ in position.columns})
        return shown

    def _with_new(self, feed: Feed, catalog: LakeCatalog, tables: dict[int, FeedTable]) -> LakeCatalog:
        """The catalog with tables that the lake is about to have: their folders are theirs before anything is in them."""
        begun = catalog
        for oid, each in sorted(tables.items(), key=lambda item: item[1].dropped is not None):
            keeps = self.layout.keeps_dropped and each.dropped is not None and each.dropped <= feed.span.stop
            if oid not in catalog.tables and (each.dropped is None or keeps):
                relation = each.relation
                begun = begun.with_table(LakeTable(oid, begun.folder_for(relation), relation.schema, relation.name))
        if begun is not catalog or self._stored.catalog is None:
            self._stored = self._stored.replaced(self.store, begun)
        return begun

    def _targets(self, feed: Feed, catalog: LakeCatalog, tables: dict[int, FeedTable], errors: TableErrors) -> list[TargetTable]:
        targets = []
        for oid, each in sorted(tables.items()):
            table = catalog.tables.get(oid)
            if table is None:
                continue
            with errors.of(write_table_name(each.relation.schema, each.relation.name), each.relation):
                if (target := self._target(feed, catalog, table, each)) is not None:
                    targets.append(target)
        return targets

    def _target(self, feed: Feed, catalog: LakeCatalog, table: LakeTable, each: FeedTable) -> TargetTable | None:
        """None if the table is further already, or was dropped."""
        if table.dropped is not None:
            if each.dropped is None:
                raise UsageError(f"the oid of the table is that of one that was dropped at {table.dropped}", sqlstate="55000")
            return None
        check_fit(each.relation, feed.span)
        found = self.opened(table)
        start, style, position = catalog.complete, self.style, None
        if found.is_there:
            position = position_of(found.open(), feed.span)
            if position is None or position.oid != table.oid:
                raise something_else(table)
            if found.version < table.version:
                raise UsageError(
                    f'folder "{table.folder}" of the lake has version {found.version} of its table, and had version {table.version}',
                    detail="The table was put back to an earlier state.", hint="Put back what was there.", sqlstate="55000",
                )  # fmt: skip
            start, style = Lsn(max(position.lsn, start)), kept_style(style, position)
        elif table.version >= 0:
            raise no_table_any_more(table)
        if start >= feed.span.stop:
            return None
        span: FeedSpan = replace(feed.span, start=start)
        truncations = each.truncations
        if (copied := table.copied) is not None:  # nobody truncated it while it was locked
            truncations = tuple(truncation for truncation in truncations if truncation.commit_lsn >= copied.end)
        target = TargetTable(
            each.relation, each.dropped, style, found, position, span, feed.fingerprint_before, each.rewrites, truncations,
            comments=each.comments, commented=each.commented,
        )  # fmt: skip
        return self.layout.shaped(target, each.lost)

    def opened(self, table: LakeTable) -> TableVersion:
        """As this process saw it last. Where somebody else has committed since, our next commit is refused, and `reread` forgets what was seen."""
        if table.oid not in self._open:
            self._open[table.oid] = self.format.none(self.store.below(table.folder)).refreshed()
        return self._open[table.oid]

    # -- brought up ----------------------------------------------------------------------------------------------------------------------

    def _brought_up(
        self, feed: Feed, targets: Sequence[TargetTable], errors: TableErrors, trouble: TroubleInWindow,
        progress: Progress | None, copied: Mapping[int, SeenTransactions],
    ) -> Iterator[tuple[TargetTable, BroughtUp]]:  # fmt: skip
        if not targets:
            return
        fills = self.layout.fills_missing
        wanted = {target.relation.oid: trouble.wanted(target.wanted(fill_missing=fills)) for target in targets}
        read = frozenset(wanted).union(*(target.rewrites for target in targets if self.layout.reads_rewrites))
        step = counting(progress, feed.stretches + len(targets))
        workers = Workers.of(feed)
        with self.staging() as files:
            staged = stage_changes(feed, read, wanted, files, step, self.changes_files(targets), copied)
            waiting = dict(staged)
            try:
                for target in targets:
                    with errors.of_target(target):
                        settled, mine = trouble.settled(target, waiting.pop(target.relation.oid), files)
                        done = self.layout.bring_up(settled, files, mine, deletion_vectors=self.deletion_vectors, workers=workers)
                        if done is not None:
                            yield target, done
                    step(1)
            finally:
                if self.layout.in_place:
                    files.delete([file.path for each in waiting.values() for file in each.files])

    # -- what cannot be applied ------------------------------------------------------------------------------------------------------------

    def _trouble(self, feed: Feed, catalog: LakeCatalog, tables: Mapping[int, FeedTable]) -> TroubleInWindow:
        def stage(wanted: Mapping[int, WantedTable], files: Store) -> Mapping[int, Staged]:
            rewrites = {rewrite for oid in wanted for rewrite in tables[oid].rewrites if self.layout.reads_rewrites}
            read = frozenset({*wanted, *rewrites})
            return stage_changes(feed, read, wanted, files, counting(None, 0), STAGED, _copied_of(catalog))

        held = {oid: table.held for oid, table in catalog.tables.items() if table.held is not None}
        return TroubleInWindow(self.quarantine, self.layout, self.on_error, held, stage)

    def _held_from(self, feed: Feed, table: LakeTable) -> Lsn | None:
        """Where a table stays that is held; None where it is not made yet."""
        found = self.opened(table)
        position = position_of(found.open(), feed.span) if found.is_there else None
        return position.lsn if position is not None else None

    def names_of(self, oid: int) -> TableNames | None:
        """What counts of a table's changes that are in quarantine; None if the lake has no such table."""
        table = self.catalog.tables.get(oid) if self.catalog is not None else None
        if table is None:
            return None
        found = self._open[oid] = self.opened(table).refreshed()
        names = NamedBatches.of(found.open()).names if found.is_there else ()
        return TableNames(found.version, names, held_batch(oid, table.held.since) if table.held is not None else "")

    def changes_files(self, targets: Sequence[TargetTable]) -> ChangesFiles:
        """How workers write files of changes. Such as become the tables' own are named so, in the tables' folders, and have their columns."""
        if not self.layout.in_place or self.catalog is None:
            return STAGED_NET if self.layout.is_net else STAGED
        run, folders, schemas = uuid.uuid4().hex, {}, {}
        for target in targets:
            oid = target.relation.oid
            data = target.found.data_files(change_schema(target.relation, style=target.style), run)
            folders[oid], schemas[oid] = f"{self.catalog.tables[oid].folder}/{data.folder}", data.schema
        return ChangesFiles(partial(_named_in_table, folders, run), schemas)

    @contextmanager
    def staging(self) -> Iterator[Store]:
        """Where changes wait until they are committed."""
        if self.layout.in_place:
            yield self.store
            return
        if self.stages_here:
            with scratch_folder(Path(tempfile.gettempdir()), "tailrace-staging-") as folder:
                yield LocalStore(folder)
            return
        run = self.store.below(f"{_STAGING}/{uuid.uuid4().hex}")
        try:
            yield run
        finally:
            run.delete([each.name for each in run.list()])


def _copied_of(catalog: LakeCatalog) -> dict[int, SeenTransactions]:
    return {oid: table.copied for oid, table in catalog.tables.items() if table.copied is not None}


def _named_in_table(folders: Mapping[int, str], run: str, oid: int) -> str:
    return data_file_name(run, folders[oid])
