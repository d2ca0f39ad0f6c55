"""The catalogs of one database over the scanned WAL: brought forward from a captured state, or rebuilt from the data directory (rules 5, 6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from tailrace.catalog.catalog_files import files_of_map_records, files_of_pg_class, initial_files, tablespaces_of
from tailrace.catalog.catalog_records import catalog_log, lacking, listed
from tailrace.catalog.heap_pages import CatalogPages
from tailrace.catalog.history import History
from tailrace.catalog.layouts import layouts_of
from tailrace.catalog.row_versions import Versions
from tailrace.catalog.rows import Spans, rows_of, spans_of
from tailrace.catalog.state import CatalogState, advance
from tailrace.errors import CorruptWal, UsageError
from tailrace.model import Locator, Lsn, Stretch
from tailrace.pipeline.runner import Runner
from tailrace.pipeline.scanning import scan_stretch
from tailrace.plan.consistency import first_redo
from tailrace.storage.directory import DEFAULT_TABLESPACE
from tailrace.storage.segments import Segments
from tailrace.storage.source import Source
from tailrace.transactions.fates import NEVER, TwoPhase
from tailrace.transactions.scanned_log import ScannedLog
from tailrace.types.search_path import SEARCH_PATH
from tailrace.wal import index
from tailrace.wal.index import Index
from tailrace.wal.versions import FORMATS


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
    open_at_start = captured.xids_open if captured is not None else None
    return ScannedLog.of(indexes, next_xid, source.segments.segment_size, open_at_start=open_at_start, two_phase=two_phase)


@dataclass(slots=True)
class Catalogs:
    """The catalogs of one database over the scanned WAL: where they begin to be known, and their state at its end."""

    state: CatalogState
    spans: Spans
    known_from: Lsn

    def history(self, search_path: tuple[str, ...] = SEARCH_PATH) -> History:
        return History(
            self.state.versions, self.spans, self.state.major, database=self.state.database,
            default_tablespace=self.state.default_tablespace, known_from=self.known_from, search_path=search_path,
            encoding=self.state.encoding,
        )  # fmt: skip


def know_catalogs(source: Source, runner: Runner, log: ScannedLog, database: str, captured: CatalogState | None) -> Catalogs:
    """Bring the catalogs of `database` over the scanned WAL, from a captured state or from the data directory.

    A catalog that moved to a new file needs the records on that file: stretches that list it are scanned once more for those. That may reveal
    further moves, so it goes on until nothing new is learned.
    """
    if captured is not None:
        start, known_from, pages_of = captured, captured.needs_wal_from, None
        after = captured.lsn
    else:
        known_from = after = first_redo(log.indexes)
        start = _empty_state(source, runner, log, database, after)
        pages_of = source.directory
    supplements: list[Index] = []
    maps = [part.kept.record(row) for part in log.indexes for row in part.kept.rows_of(index.RELATION_MAP)]
    files = start.files | files_of_map_records(maps, start.database, FORMATS[start.major])
    tablespaces = frozenset({start.default_tablespace})
    while True:
        supplements += _supplements(source.segments, runner, log.indexes, lacking(log.indexes, files, tablespaces, supplements))
        records = catalog_log([*log.indexes, *supplements]).after(after)
        pages = pages_of.pages(files, start.default_tablespace) if pages_of else CatalogPages({})
        grown = advance(replace(start, files=files), records, pages, log.clock, log.end, tablespaces)
        spans = spans_of(grown.versions, log.fates, grown.status)
        moved = files_of_pg_class(grown.versions, spans, grown.database, grown.major)
        places = tablespaces_of(grown.versions, spans, grown.database, grown.major)
        if moved.items() <= files.items() and places <= tablespaces:
            return Catalogs(grown, spans, known_from)
        files |= moved
        tablespaces |= places


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
            )
    return made


def _supplement(segments: Segments, wanted: tuple[Stretch, list[Locator]]) -> Index:
    """What the index of a stretch does not have about these files. Runs in a worker."""
    return scan_stretch(segments, wanted[1], wanted[0])


def _empty_state(source: Source, runner: Runner, log: ScannedLog, database: str, after: Lsn) -> CatalogState:
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
    indexes = log.indexes
    supplements = _supplements(source.segments, runner, indexes, lacking(indexes, blank.files, frozenset(), []))
    # Records of pg_database are few, and in few stretches.
    records = catalog_log([*(part for part in indexes if listed(part, blank.files)), *supplements] or indexes[:1]).after(after)
    seen = advance(blank, records, directory.pages(blank.files), log.clock, log.end, frozenset())
    rows = rows_of(
        seen.versions, spans_of(seen.versions, log.fates, seen.status), 1262, layouts_of(control.major)["pg_database"],
        ("oid", "datname", "dattablespace", "encoding"),
    )  # fmt: skip
    alive = rows.seen(np.arange(len(rows)), int(NEVER) - 1, -1)
    mine = alive[rows.names["datname"][alive] == database].tolist()
    if not mine:
        raise UsageError(f'database "{database}" does not exist', sqlstate="3D000")
    oid, tablespace, encoding = (int(rows.columns[name][mine[0]]) for name in ("oid", "dattablespace", "encoding"))
    files = initial_files(oid, shared, directory.relation_map(oid, tablespace))
    return replace(blank, database=oid, database_name=database, default_tablespace=tablespace, encoding=encoding, files=files)
