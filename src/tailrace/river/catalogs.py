"""The catalogs of one database over the scanned WAL: brought forward from a captured state, or rebuilt from the data directory (rules 5, 6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from tailrace.catalog.catalog_files import FileKey, files_of_map_records, files_of_pg_class, initial_files, tablespaces_of
from tailrace.catalog.heap_pages import CatalogPages
from tailrace.catalog.history import History
from tailrace.catalog.layouts import layouts_of
from tailrace.catalog.redo import CatalogLog
from tailrace.catalog.row_versions import Versions
from tailrace.catalog.rows import Spans, rows_of, spans_of
from tailrace.catalog.state import CatalogState, advance
from tailrace.errors import CorruptWal, MissingHistory, UsageError
from tailrace.model import Locator, Lsn, Stretch
from tailrace.river.runner import Runner
from tailrace.river.scanning import scan_stretch
from tailrace.river.source import Source
from tailrace.storage.directory import DEFAULT_TABLESPACE
from tailrace.storage.segments import Segments
from tailrace.transactions.epochs import XidClock
from tailrace.transactions.fates import NEVER, Fates, TwoPhase, fates_of
from tailrace.types.search_path import SEARCH_PATH
from tailrace.wal import index
from tailrace.wal.index import Index
from tailrace.wal.kept import Checkpoint, moments
from tailrace.wal.versions import FORMATS


def catalog_log(indexes: Sequence[Index]) -> CatalogLog:
    """The catalog records of all indexes (supplements included), in WAL order and once each."""
    parts = [(found.kept, found.kept.rows_of(index.CATALOG_CHANGE)) for found in indexes]
    lsn = np.concatenate([kept.lsn[rows] for kept, rows in parts])
    length = np.concatenate([kept.length[rows] for kept, rows in parts])
    base = np.cumsum([0, *(len(kept.data) for kept, _ in parts)])
    at = np.concatenate([kept.at[rows] + base[i] for i, (kept, rows) in enumerate(parts)])
    data = np.concatenate([kept.data for kept, _ in parts])
    if (lsn[1:] > lsn[:-1]).all():
        return CatalogLog(lsn, at, length, data)
    lsn, first = np.unique(lsn, return_index=True)  # a supplement may have what an index has
    return CatalogLog(lsn, at[first], length[first], data)


def with_full_xids(
    source: Source, indexes: Sequence[Index], captured: CatalogState | None = None
) -> tuple[list[Index], XidClock]:
    """The indexes with their xids widened, and what told the epochs: the log, and what is known beside it."""
    if captured is not None:
        known = (int(captured.lsn), captured.next_xid)
    elif source.directory is not None:
        control = source.directory.control()
        known = (int(control.checkpoint), control.next_xid)
    else:
        raise UsageError(
            "an archive alone does not say what its tables are",
            hint="Give a catalog state (--catalog FILE), or a data directory as SOURCE.",
        )
    clock = XidClock.of(indexes, known)
    return [clock.widened(found) for found in indexes], clock


@dataclass(slots=True)
class Catalogs:
    """The catalogs of one database over the scanned WAL: where they begin to be known, and their state at its end."""

    state: CatalogState
    spans: Spans
    known_from: Lsn
    fates: Fates
    clock: XidClock
    open_at_start: dict[int, int] | None

    def history(self, search_path: tuple[str, ...] = SEARCH_PATH) -> History:
        return History(
            self.state.versions, self.spans, self.state.major, database=self.state.database,
            default_tablespace=self.state.default_tablespace, known_from=self.known_from, search_path=search_path,
            encoding=self.state.encoding,
        )  # fmt: skip


def know_catalogs(
    source: Source,
    indexes: list[Index],
    clock: XidClock,
    runner: Runner,
    database: str,
    captured: CatalogState | None,
    two_phase: TwoPhase | None = None,
) -> Catalogs:
    """Bring the catalogs of `database` over the scanned WAL (`with_full_xids`), from a captured state or from the data directory.

    A catalog that moved to a new file needs the records on that file: stretches that list it are scanned once more for those. That may reveal
    further moves, so it goes on until nothing new is learned.
    """
    fates = fates_of([found.ends for found in indexes], two_phase)
    if captured is not None:
        start, known_from, pages_of = captured, captured.needs_wal_from, None
        after = captured.lsn
    else:
        known_from = after = first_redo(indexes)
        start = _empty_state(source, indexes, fates, clock, runner, database, after)
        pages_of = source.directory
    supplements: list[Index] = []
    maps = [found.kept.record(row) for found in indexes for row in found.kept.rows_of(index.RELATION_MAP)]
    files = start.files | files_of_map_records(maps, start.database, FORMATS[start.major])
    tablespaces = frozenset({start.default_tablespace})
    while True:
        lacking = _untracked(indexes, files, tablespaces, supplements)
        supplements += _supplements(source.segments, runner, indexes, lacking)
        log = catalog_log([*indexes, *supplements]).after(after)
        pages = pages_of.pages(files, start.default_tablespace) if pages_of else CatalogPages({})
        grown = advance(replace(start, files=files), log, pages, clock, indexes[-1].next_lsn, tablespaces)
        spans = spans_of(grown.versions, fates, grown.status)
        moved = files_of_pg_class(grown.versions, spans, grown.database, grown.major)
        places = tablespaces_of(grown.versions, spans, grown.database, grown.major)
        if moved.items() <= files.items() and places <= tablespaces:
            return Catalogs(grown, spans, known_from, fates, clock, None if captured is None else captured.xids_open)
        files |= moved
        tablespaces |= places


def check_state(captured: CatalogState, segments: Segments, database: str) -> None:
    """Raise unless the state is of this database of this system, and the WAL goes on from where the state is, rather than from before, on another
    timeline. To be asked before anything is read by the state: what fails then may be for quite another reason."""
    if captured.system != segments.system:
        raise UsageError(
            f"the catalog state is of system {captured.system}, the WAL of {segments.system}",
            hint="Capture a state from the data directory that wrote this WAL, or from a backup of it.",
        )
    if captured.major != segments.major:
        raise UsageError(f"the catalog state is of PostgreSQL {captured.major}, the WAL of {segments.major}")
    if captured.database_name != database:
        raise UsageError(f'the catalog state is of database "{captured.database_name}", not "{database}"')
    left = dict(segments.history) | {segments.timeline: Lsn(NEVER)}
    if captured.timeline > segments.timeline or (segments.history and captured.lsn > left.get(captured.timeline, 0)):
        raise UsageError(
            f"the catalog state is at {captured.lsn} on timeline {captured.timeline}, which is not in the history of timeline {segments.timeline}",
            hint="Capture a state on the timeline that the WAL follows, or before it branched off.",
        )


def _supplements(
    segments: Segments, runner: Runner, indexes: Sequence[Index], lacking: dict[Stretch, list[Locator]]
) -> list[Index]:  # fmt: skip
    """What the indexes lack about these files. Raises CorruptWal if a stretch is no longer what its index was made of."""
    found = list(runner.run(partial(_supplement, segments), list(lacking.items())))
    fingerprints = {each.stretch: each.fingerprint for each in indexes}
    for each in found:
        if each.fingerprint != fingerprints[each.stretch]:
            raise CorruptWal(
                f"WAL of {each.stretch} changed since it was indexed", context=f'file "{segments.name_at(each.stretch.start)}"'
            )
    return found


def _supplement(segments: Segments, lacking: tuple[Stretch, list[Locator]]) -> Index:
    """What the index of a stretch does not have about these files. Runs in a worker."""
    return scan_stretch(segments, lacking[1], lacking[0])


def _untracked(
    indexes: Sequence[Index], files: Mapping[FileKey, int], tablespaces: frozenset[int], supplements: Sequence[Index]
) -> dict[Stretch, list[Locator]]:
    """Stretches that list a catalog's file without having kept its records, and the files. Those of one database lie in these tablespaces."""
    have = {(found.stretch, file) for found in supplements for file in found.also}
    wanted: dict[Stretch, list[Locator]] = {}
    for found in indexes:
        for locator in _listed(found, files):
            if locator.database and locator.tablespace not in tablespaces:
                continue
            # A file named by a NEW_CID is kept only from there on, so it is asked for as well.
            if locator.number >= 16384 and (found.stretch, locator) not in have:
                wanted.setdefault(found.stretch, []).append(locator)
    return wanted


def _listed(found: Index, files: Mapping[FileKey, int]) -> list[Locator]:
    """Those of the files that have records in the stretch."""
    listed = found.files
    rows = np.flatnonzero(np.isin(listed.number, [of for _, of in files]))
    parts = zip(listed.tablespace[rows].tolist(), listed.database[rows].tolist(), listed.number[rows].tolist(), strict=True)
    return [locator for locator in (Locator(*each) for each in parts) if (locator.database, locator.number) in files]


def first_redo(indexes: Sequence[Index]) -> Lsn:
    """The earliest redo pointer from which WAL is at hand: from there on, the first touch of every page carries its image."""
    for moment in moments(indexes):
        if isinstance(moment, Checkpoint) and moment.redo >= indexes[0].stretch.start:
            return moment.redo
    raise MissingHistory(
        f"no checkpoint whose redo pointer lies between {indexes[0].first} and {indexes[-1].next_lsn}",
        hint="Without a captured catalog state (--catalog), decoding must start from a checkpoint.",
    )


def _empty_state(
    source: Source, indexes: Sequence[Index], fates: Fates, clock: XidClock, runner: Runner, database: str, after: Lsn
) -> CatalogState:
    """A state that knows only which database is meant and where its catalogs lie. pg_database itself may have moved to a new file."""
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
    supplements = _supplements(source.segments, runner, indexes, _untracked(indexes, blank.files, frozenset(), []))
    # Records of pg_database are few, and in few stretches.
    log = catalog_log([*(found for found in indexes if _listed(found, blank.files)), *supplements] or indexes[:1]).after(after)
    seen = advance(blank, log, directory.pages(blank.files), clock, indexes[-1].next_lsn, frozenset())
    rows = rows_of(
        seen.versions, spans_of(seen.versions, fates, seen.status), 1262, layouts_of(control.major)["pg_database"],
        ("oid", "datname", "dattablespace", "encoding"),
    )  # fmt: skip
    alive = rows.seen(np.arange(len(rows)), int(NEVER) - 1, -1)
    mine = alive[rows.names["datname"][alive] == database].tolist()
    if not mine:
        raise UsageError(f'database "{database}" does not exist', sqlstate="3D000")
    oid, tablespace, encoding = (int(rows.columns[name][mine[0]]) for name in ("oid", "dattablespace", "encoding"))
    files = initial_files(oid, shared, directory.relation_map(oid, tablespace))
    return replace(blank, database=oid, database_name=database, default_tablespace=tablespace, encoding=encoding, files=files)
