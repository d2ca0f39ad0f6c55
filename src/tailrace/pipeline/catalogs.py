"""The catalogs of one database over the scanned WAL: brought forward from a captured state, or rebuilt from the data directory
(rules 5, 6)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from tailrace.catalog.history.history import History
from tailrace.catalog.history.user_tables import (
    Truncated,
    UserTables,
    files_made,
    files_of_user_tables,
    files_there,
    truncated_in_place,
    user_files,
)
from tailrace.catalog.pages.catalog_files import FileKey, files_of_map_records, files_of_pg_class, initial_files, tablespaces_of
from tailrace.catalog.pages.heap_pages import CatalogPages
from tailrace.catalog.redo.catalog_records import about, catalog_log, lacking, listed
from tailrace.catalog.rows.catalog_rows import Spans, rows_of, spans_of
from tailrace.catalog.rows.layouts import layouts_of
from tailrace.catalog.rows.row_versions import Versions
from tailrace.catalog.state.catalog_state import CatalogState, advance
from tailrace.dataclass import dataclass
from tailrace.errors import CorruptFile, CorruptWal, MissingHistory, UsageError
from tailrace.model import FIRST_NORMAL_OID, Locator, Lsn, Stretch
from tailrace.pipeline.runner import Runner
from tailrace.pipeline.scanning import scan_stretch
from tailrace.plan.consistency import consistency, first_redo, maybe_begun_before
from tailrace.sources.source import Source
from tailrace.storage.directory import DEFAULT_TABLESPACE, DataDirectory
from tailrace.storage.segments import Segments
from tailrace.transactions.commit_or_abort import NEVER, TwoPhase
from tailrace.transactions.scanned_log import Earlier, ScannedLog
from tailrace.types.style import SEARCH_PATH, TextStyle
from tailrace.wal import index
from tailrace.wal.heap_records import HeapTruncate
from tailrace.wal.index import Index
from tailrace.wal.kept_records import kept_records
from tailrace.wal.relmap import RelationMapUpdate


def with_full_xids(
    source: Source, indexes: Sequence[Index], captured: CatalogState | None = None, two_phase: TwoPhase | None = None
) -> ScannedLog:
    """What the indexes tell of transactions; the epoch of the first xid is known beside the log."""
    if captured is not None:
        next_xid = (int(captured.lsn), captured.next_xid)
    elif source.directory is not None:
        control = source.directory.control()
        next_xid = (int(control.checkpoint), control.next_xid)
    else:
        raise UsageError(
            "an archive alone does not say what its tables are",
            hint="Give a catalog state (--catalog FILE), or a data directory as SOURCE.",
        )
    earlier = Earlier(captured.xids_open if captured is not None else None)
    log = ScannedLog.of(indexes, next_xid, source.segments.segment_size, earlier=earlier, two_phase=two_phase)
    if captured is None or captured.needs_wal_from == captured.lsn:
        return log
    unknown = maybe_begun_before(log, captured.needs_wal_from, captured.lsn)
    return replace(log, earlier=replace(earlier, open_at_start=dict.fromkeys(unknown, 0) | captured.xids_open))


@dataclass(slots=True)
class Catalogs:
    """The catalogs of one database over the scanned WAL: where they begin to be known, and their state at its end."""

    state: CatalogState
    spans: Spans
    known_from: Lsn

    def as_told(self, log: ScannedLog) -> Catalogs:
        """The same, as what `log` tells of transactions has them seen."""
        return replace(self, spans=spans_of(self.state.versions, log.outcomes, self.state.status))

    def history(self, search_path: tuple[str, ...] = SEARCH_PATH, defaults: TextStyle | None = None) -> History:
        history = History(
            self.state.versions, self.spans, self.state.major, database=self.state.database,
            default_tablespace=self.state.default_tablespace, known_from=self.known_from, search_path=search_path,
            encoding=self.state.encoding,
        )  # fmt: skip
        history.read_into(self.state.kept_tables.of(self.state.versions, self.spans))
        if defaults is not None:
            from tailrace.catalog.history.defaults import with_defaults  # noqa: PLC0415 - nobody else needs to load expressions

            history.with_defaults = partial(with_defaults, history, defaults)
        history.user_files = frozenset(user_files(self.state.files))
        history.knows_comments = self.state.knows_comments
        return history


def know_catalogs(source: Source, runner: Runner, log: ScannedLog, database: str, captured: CatalogState | None) -> Catalogs:
    """Bring the catalogs of `database` over the scanned WAL, from a captured state or from the data directory.

    A catalog that moved to a new file needs the records on that file: stretches that list it are scanned once more for those.
    That may reveal further moves, so it goes on until nothing new is learned.
    """
    if captured is not None:
        return followed_catalogs(source.segments, runner, log, captured, captured.needs_wal_from)
    redo = first_redo(log.indexes)
    state = _empty_state(source, runner, log, database, redo)
    return _followed(source.segments, runner, log, state, redo, source.directory)


def followed_catalogs(segments: Segments, runner: Runner, log: ScannedLog, state: CatalogState, known_from: Lsn) -> Catalogs:
    """Bring a state that knows every page over what was scanned, if it is not of later anyway."""
    if state.lsn < log.end and _is_untouched(state, log):
        state = replace(state, lsn=log.end, next_xid=log.clock.next_at_end)
    if state.lsn >= log.end:
        return Catalogs(state, spans_of(state.versions, log.outcomes, state.status), known_from)
    return _followed(segments, runner, log, state, known_from, None)


def _is_untouched(state: CatalogState, log: ScannedLog) -> bool:
    """Whether nothing of what was scanned is about catalogs, as nearly always where a log is followed: not a record, and not
    the end of a transaction that had written into them."""
    moved = {key: oid for key, oid in state.files.items() if key[1] >= FIRST_NORMAL_OID}
    for part in log.scanned:
        if len(part.kept.rows_of(index.KEPT_CATALOG_CHANGE, index.KEPT_RELATION_MAP, index.KEPT_STORAGE)) or listed(part, moved):
            return False
    ended = np.concatenate([xids for part in log.scanned for xids in (part.ends.xid, part.ends.subxids)])
    columns = state.versions.columns
    return not (np.isin(columns.xmin, ended).any() or np.isin(columns.xmax, ended).any())


def _followed(
    segments: Segments, runner: Runner, log: ScannedLog, start: CatalogState, known_from: Lsn, directory: DataDirectory | None
) -> Catalogs:
    """The same; with a directory, of which pages are to be taken that the log does not change."""
    supplements: list[Index] = []
    maps = (kept.read(RelationMapUpdate) for kept in kept_records(log.scanned, index.KEPT_RELATION_MAP))
    named = files_of_map_records(maps, start.database)
    # The last of a mapped catalog is its current one: a directory names that before the log names those that it was in before.
    files = (
        start.files | named if len(start.versions) else {key: oid for key, oid in start.files.items() if key not in named} | named
    )
    tablespaces = frozenset({start.default_tablespace})
    follows_tables = True
    while True:
        wanted = lacking(log.scanned, files, tablespaces, supplements)
        # What was scanned before has been read of all files that were known to be catalogs then.
        new = {key: oid for key, oid in files.items() if key not in start.files}
        wanted |= lacking(log.earlier.indexes_of_unfinished, new, tablespaces, supplements)
        supplements += _supplements(segments, runner, log.indexes, wanted)
        try:
            grown = _advanced(log, start, files, tablespaces, supplements, directory)
        except (CorruptFile, MissingHistory):
            if not user_files(new):
                raise
            # Of user catalog tables nothing is needed before a plugin reads them.
            files = {key: oid for key, oid in files.items() if key not in new or oid not in user_files(new)}
            follows_tables = False
            continue
        spans = spans_of(grown.versions, log.outcomes, grown.status)
        moved = files_of_pg_class(grown.versions, spans, grown.database, grown.major, known_from)
        if follows_tables:
            moved |= _user_tables(grown, spans, start.lsn, log, directory)
        places = tablespaces_of(grown.versions, spans, grown.database, grown.major)
        if moved.items() <= files.items() and places <= tablespaces:
            return Catalogs(grown, spans, known_from)
        files |= moved
        tablespaces |= places


def _advanced(
    log: ScannedLog, start: CatalogState, files: dict[FileKey, int], tablespaces: frozenset[int], supplements: Sequence[Index],
    directory: DataDirectory | None,
) -> CatalogState:  # fmt: skip
    """The state after the records of these files."""
    here = [part for part in supplements if part.stretch.start >= log.scanned[0].stretch.start]
    late = [part for part in supplements if part.stretch.start < log.scanned[0].stretch.start]
    new = {key: oid for key, oid in files.items() if key not in start.files}
    every = catalog_log([*log.scanned, *here])
    records = every.after(start.lsn)
    if start.complete and new:
        # What transactions wrote that were open there: a user catalog table, or a catalog's new file (VACUUM FULL).
        records = records.behind(about(every.before(start.lsn), new, start.major))
    records = records.behind(about(catalog_log(late), new, start.major)) if late else records
    pages = directory.pages(files, start.default_tablespace) if directory else CatalogPages({})
    grown = advance(replace(start, files=files), records, pages, log.clock, log.end, tablespaces)
    return replace(grown, versions=truncated_in_place(grown.versions, log.outcomes, _truncations(log, grown)))


def _user_tables(
    state: CatalogState, spans: Spans, since: Lsn, log: ScannedLog, directory: DataDirectory | None
) -> dict[FileKey, int]:
    """The files of user catalog tables, as far as all of their rows are at hand, from `since` on."""
    tables = UserTables.of(state.versions, spans, state.major)
    if not tables.is_one.any():
        return {}
    unread, _ = consistency(log)
    numbers = files_made(tables, since, log.outcomes.ordinals_of(np.array(sorted(unread), np.int64)))
    if directory is not None:
        sizes = directory.sizes(files_of_user_tables(tables), state.database, state.default_tablespace)
        numbers |= files_there(tables, sizes)
    return {(state.database, number): number for number in sorted(numbers)}


def _truncations(log: ScannedLog, state: CatalogState) -> Iterator[Truncated]:
    """What committed transactions truncated of the user catalog tables that are known."""
    known = user_files(state.files)
    if not known:
        return
    tables = UserTables.of(state.versions, spans_of(state.versions, log.outcomes, state.status), state.major)
    for kept in kept_records(log.indexes, index.KEPT_TRUNCATE):
        says, xid = kept.read(HeapTruncate), log.clock.full(kept.xid, kept.lsn)
        ordinal = int(log.outcomes.ordinals_of(np.array([xid]))[0])
        if says.database == state.database and ordinal >= 0:
            yield Truncated(kept.lsn, xid, tables.files_seen(says.relids, kept.lsn, ordinal) & known)


def _supplements(
    segments: Segments, runner: Runner, indexes: Sequence[Index], wanted: dict[Stretch, list[Locator]]
) -> list[Index]:  # fmt: skip
    """What the indexes lack about these files. Raises CorruptWal if a stretch is no longer what its index was made of."""
    made = list(runner.run(partial(_supplement, segments), list(wanted.items())))
    fingerprints = {part.stretch: part.fingerprint for part in indexes}
    for supplement in made:
        if supplement.fingerprint != fingerprints[supplement.stretch]:
            raise CorruptWal(
                f"WAL of {supplement.stretch} changed since it was indexed",
                context=f'file "{segments.name_at(supplement.stretch.start)}"',
                lsn=supplement.stretch.start,
                file=segments.name_at(supplement.stretch.start),
            )
    return made


def _supplement(segments: Segments, wanted: tuple[Stretch, list[Locator]]) -> Index:
    """What the index of a stretch does not have about these files. Runs in a worker."""
    return scan_stretch(segments, wanted[1], wanted[0])


def _empty_state(source: Source, runner: Runner, log: ScannedLog, database: str, after: Lsn) -> CatalogState:
    """A state that knows only which database is meant and where its catalogs lie. pg_database itself may have moved to a new
    file."""
    directory = source.directory
    assert directory is not None
    control = directory.control()
    shared = directory.relation_map(0)
    blank = CatalogState(
        system=control.system, timeline=control.timeline, major=control.major, lsn=after, database=0, database_name="",
        default_tablespace=DEFAULT_TABLESPACE, encoding=0, next_xid=control.next_xid, versions=Versions.none(),
        files={key: oid for key, oid in initial_files(0, shared, {}).items() if oid == 1262}, complete=False,
        status=source.status or directory.commit_status(), multixacts=directory.multixacts(), xids_open={},
    )  # fmt: skip
    indexes = log.indexes
    supplements = _supplements(source.segments, runner, indexes, lacking(indexes, blank.files, frozenset(), []))
    # Records of pg_database are few, and in few stretches.
    records = catalog_log([*(part for part in indexes if listed(part, blank.files)), *supplements] or indexes[:1]).after(after)
    seen = advance(blank, records, directory.pages(blank.files), log.clock, log.end, frozenset())
    rows = rows_of(
        seen.versions, spans_of(seen.versions, log.outcomes, seen.status), 1262, layouts_of(control.major)["pg_database"],
        ("oid", "datname", "dattablespace", "encoding"),
    )  # fmt: skip
    alive = rows.seen(np.arange(len(rows)), int(NEVER) - 1, -1)
    mine = alive[rows.names["datname"][alive] == database].tolist()
    if not mine:
        raise UsageError(f'database "{database}" does not exist', sqlstate="3D000")
    oid, tablespace, encoding = (int(rows.columns[name][mine[0]]) for name in ("oid", "dattablespace", "encoding"))
    files = initial_files(oid, shared, directory.relation_map(oid, tablespace))
    return replace(blank, database=oid, database_name=database, default_tablespace=tablespace, encoding=encoding, files=files)
