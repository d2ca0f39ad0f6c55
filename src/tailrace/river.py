"""The whole river on one screen: open a source, scan it, know its catalogs, plan, and let changes run out.

Here the shore meets the stages: files are found and read, work is handed to a `Runner` (threads of this process, or Spark),
and the pure stages decide.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np

from tailrace.catalog.history import History
from tailrace.catalog.layouts import layouts_of
from tailrace.catalog.pages import ABORTED, COMMITTED
from tailrace.catalog.redo import V_STATE, V_XMAX, V_XMIN, XMAX_COMMITTED, XMIN_ABORTED, XMIN_COMMITTED, Versions
from tailrace.catalog.rows import rows_of, spans_of
from tailrace.catalog.state import (
    CatalogLog,
    CatalogPages,
    CatalogState,
    FileKey,
    advance,
    files_of_map_records,
    files_of_pg_class,
    initial_files,
)  # fmt: skip
from tailrace.errors import CorruptWal, MissingHistory, TailraceError, UsageError
from tailrace.model import PAGE_SIZE, Locator, Lsn, Stretch
from tailrace.plan import Plan, check_chain, check_decodable, make_plan
from tailrace.plugins.driver import Lines, drive, format_stretch
from tailrace.plugins.plugin import OutputPlugin
from tailrace.storage.directory import DEFAULT_TABLESPACE, DataDirectory
from tailrace.storage.index_store import IndexStore
from tailrace.storage.segments import Segments, open_segments
from tailrace.storage.spool import spooled
from tailrace.transactions.fates import NEVER, Fates, fates_of
from tailrace.wal import index
from tailrace.wal.index import Index, NeedMoreWal, scan
from tailrace.wal.loads import number
from tailrace.wal.records import MAIN, new_parsed, parse
from tailrace.wal.versions import FORMATS
from tailrace.wal.xact import Ends

STRETCH_BYTES = 64 << 20

Item = TypeVar("Item")
Result = TypeVar("Result")


class Runner(Protocol):
    """Runs a stage: a pure function over items, results in the order of the items."""

    def run(self, work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]: ...


@dataclass(slots=True)
class LocalRunner:
    """Threads of this process; kernels release the GIL. Never more results in flight than workers, so memory stays flat."""

    workers: int = field(default_factory=lambda: os.cpu_count() or 1)

    def run(self, work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        if len(items) <= 1 or self.workers <= 1:
            yield from map(work, items)
            return
        with ThreadPoolExecutor(self.workers) as pool:
            waiting = iter(items)
            flying: list[Future[Result]] = [pool.submit(work, item) for item in islice(waiting, self.workers + 1)]
            while flying:
                yield flying.pop(0).result()
                flying += [pool.submit(work, item) for item in islice(waiting, 1)]


@dataclass(slots=True)
class Source:
    """WAL, and the data directory that it belongs to if there is one."""

    segments: Segments
    directory: DataDirectory | None

    @classmethod
    def open(cls, path: str | Path) -> Source:
        """A data directory or base backup, a pg_wal, or an archive of segments."""
        if not Path(path).is_dir():
            raise UsageError(f'source directory "{path}" does not exist')
        directory = DataDirectory.at(path)
        segments = open_segments(directory.wal if directory else path)
        if directory:
            control = directory.control()
            if control.system != segments.system:
                raise CorruptWal(
                    "WAL file is from different database system: WAL file database system identifier is "
                    f"{segments.system}, pg_control database system identifier is {control.system}",
                    context=segments.directory,
                )
            if directory.is_running:
                segments = spooled(segments)
        return cls(segments, directory)


def scan_stretch(segments: Segments, also: Sequence[Locator], stretch: Stretch) -> Index:
    """Read a stretch and index it; errors name the file. Runs in a worker."""
    form = FORMATS[segments.major]
    ahead = 4 * PAGE_SIZE
    while True:
        wal = segments.read(stretch.start, stretch.stop + ahead)
        try:
            return scan(
                wal, stretch, form, segments.segment_size, system=segments.system, timeline=segments.timeline,
                at_end_of_log=wal.base + wal.raw < stretch.stop + ahead, also=also,
            )  # fmt: skip
        except NeedMoreWal:
            ahead *= 16
        except TailraceError as error:
            position = error.context.rpartition(" ")[2]
            if "/" in position:
                error.context += f', file "{segments.name_at(Lsn.parse(position))}"'
            raise


def stretches_of(segments: Segments, start: int, stop: int, size: int = STRETCH_BYTES) -> list[Stretch]:
    """Cut `[start, stop)` at multiples of `size`; the first begins at the page of `start`."""
    begin = int(start) // PAGE_SIZE * PAGE_SIZE
    cuts = [begin, *range((begin // size + 1) * size, int(stop), size), int(stop)]
    return [Stretch(Lsn(a), Lsn(b)) for a, b in zip(cuts, cuts[1:], strict=False) if a < b]


def scan_log(
    segments: Segments, runner: Runner, start: Lsn | None = None, size: int = STRETCH_BYTES, store: IndexStore | None = None
) -> list[Index]:  # fmt: skip
    """Index everything from `start` to the end of the log, but for what `store` has. Raises where the log has a hole."""
    begin = segments.first_lsn if start is None else start
    if not segments.first_lsn <= begin <= segments.stop_lsn:
        raise MissingHistory(
            f"requested WAL segment {segments.name_at(begin)} has already been removed",
            hint=f"The source holds WAL from {segments.first_lsn} to {segments.stop_lsn}.",
            context=f"LSN {begin}",
        )
    found: list[Index] = []
    ended: Index | None = None
    stretches = stretches_of(segments, begin, segments.stop_lsn, size)
    stored = {stretch: store.load(segments.system, segments.timeline, stretch) for stretch in stretches} if store else {}
    scanned = runner.run(partial(scan_stretch, segments, ()), [stretch for stretch in stretches if stored.get(stretch) is None])
    for stretch in stretches:
        part = stored.get(stretch) or next(scanned)
        if store and part.sealed and stored.get(stretch) is None:
            store.save(part)
        if ended is not None and part.records:
            raise CorruptWal(
                ended.reason, hint="Valid WAL follows, so this is damage and not the end of the log.",
                context=f'WAL record at {ended.next_lsn}, file "{segments.name_at(ended.next_lsn)}"',
            )  # fmt: skip
        if ended is None:
            found.append(part)
            if not part.sealed:
                ended = part
    for missing, present in segments.gaps:
        raise CorruptWal(
            f"WAL segment {segments.name_at(missing * segments.segment_size)} is missing, but {segments.by_number[present].path} is there",
            context=f"LSN {Lsn(missing * segments.segment_size)}",
        )
    check_chain(found)
    return found


def catalog_log(indexes: Sequence[Index]) -> CatalogLog:
    """The catalog records of all indexes (supplements included), in WAL order and once each."""
    parts = [(found.kept, found.kept.rows_of(index.CATALOG_CHANGE)) for found in indexes]
    lsn = np.concatenate([kept.lsn[rows] for kept, rows in parts])
    end_lsn = np.concatenate([kept.end_lsn[rows] for kept, rows in parts])
    length = np.concatenate([kept.length[rows] for kept, rows in parts])
    base = np.cumsum([0, *(len(kept.data) for kept, _ in parts)])
    at = np.concatenate([kept.at[rows] + base[i] for i, (kept, rows) in enumerate(parts)])
    lsn, first = np.unique(lsn, return_index=True)
    return CatalogLog(lsn, end_lsn[first], at[first], length[first], np.concatenate([kept.data for kept, _ in parts]))


@dataclass(slots=True)
class Catalogs:
    """The catalogs of one database over the scanned WAL: where they begin to be known, and their state at its end."""

    state: CatalogState
    known_from: Lsn
    fates: Fates
    open_at_start: dict[int, int] | None

    def history(self) -> History:
        spans = spans_of(self.state.versions, self.fates, self.state.status)
        return History(
            self.state.versions, spans, self.state.major, database=self.state.database,
            default_tablespace=self.state.default_tablespace, known_from=self.known_from,
        )  # fmt: skip


def know_catalogs(source: Source, indexes: list[Index], runner: Runner, database: str, captured: CatalogState | None) -> Catalogs:
    """Bring the catalogs of `database` over the scanned WAL, from a captured state or from the data directory.

    A catalog that moved to a new file needs the records on that file: stretches that list it are scanned once more for those. That may reveal
    further moves, so it goes on until nothing new is learned.
    """
    fates = fates_of([found.ends for found in indexes])
    if captured is not None:
        start, known_from, pages_of = captured, captured.needs_wal_from, None
        if captured.database_name != database:
            raise UsageError(f'the catalog state is of database "{captured.database_name}", not "{database}"')
        if captured.system != source.segments.system:
            raise UsageError(f"the catalog state is of system {captured.system}, the WAL of {source.segments.system}")
        after = captured.lsn
    else:
        if source.directory is None:
            raise UsageError(
                "an archive alone does not say what its tables are",
                hint="Give a catalog state (--catalog FILE), or a data directory as SOURCE.",
            )
        known_from = after = first_redo(indexes)
        start = _empty_state(source, indexes, fates, database, after)
        pages_of = source.directory
    supplements: list[Index] = []
    maps = [found.kept.record(row) for found in indexes for row in found.kept.rows_of(index.RELATION_MAP)]
    files = start.files | files_of_map_records(maps, start.database, FORMATS[start.major])
    while True:
        for stretch, also in _untracked(indexes, files, supplements).items():
            supplements += list(runner.run(partial(scan_stretch, source.segments, also), [stretch]))
        log = catalog_log([*indexes, *supplements]).after(after)
        pages = pages_of.pages(files, start.default_tablespace) if pages_of else CatalogPages({})
        grown = advance(replace(start, files=files), log, pages, indexes[-1].next_lsn)
        spans = spans_of(grown.versions, fates, grown.status)
        moved = files_of_pg_class(grown.versions, spans, grown.database, grown.major)
        if moved.items() <= files.items():
            return Catalogs(grown, known_from, fates, None if captured is None else captured.xids_open)
        files |= moved


def _untracked(
    indexes: Sequence[Index], files: Mapping[FileKey, int], supplements: Sequence[Index]
) -> dict[Stretch, list[Locator]]:
    """Stretches that list a catalog's file without having kept its records, and the files."""
    have = {(found.stretch, file) for found in supplements for file in found.also}
    wanted: dict[Stretch, list[Locator]] = {}
    for found in indexes:
        listed = found.files
        for row in np.flatnonzero(np.isin(listed.number, [of for _, of in files])).tolist():
            locator = Locator(int(listed.tablespace[row]), int(listed.database[row]), int(listed.number[row]))
            # A file named by a NEW_CID is kept only from there on, so it is asked for as well.
            if (locator.database, locator.number) in files and locator.number >= 16384 and (found.stretch, locator) not in have:
                wanted.setdefault(found.stretch, []).append(locator)
    return wanted


def first_redo(indexes: Sequence[Index]) -> Lsn:
    """The earliest redo pointer from which WAL is at hand: from there on, the first touch of every page carries its image."""
    for found in indexes:
        for row in found.kept.rows_of(index.CHECKPOINT).tolist():
            raw = np.frombuffer(found.kept.record(row), np.uint8).copy()
            parsed = new_parsed()
            parse(raw, 0, len(raw), FORMATS[found.major].image_compressed, parsed)
            redo = number(raw, int(parsed[MAIN]), 8)
            if redo >= indexes[0].stretch.start:
                return Lsn(redo)
    raise MissingHistory(
        f"no checkpoint whose redo pointer lies between {indexes[0].first} and {indexes[-1].next_lsn}",
        hint="Without a captured catalog state (--catalog), decoding must start from a checkpoint.",
    )


def _empty_state(source: Source, indexes: Sequence[Index], fates: Fates, database: str, after: Lsn) -> CatalogState:
    """A state that knows only which database is meant and where its catalogs lie."""
    directory = source.directory
    assert directory is not None
    control = directory.control()
    shared = directory.relation_map(0)
    blank = CatalogState(
        system=control.system, timeline=control.timeline, major=control.major, lsn=after, database=0, database_name="",
        default_tablespace=DEFAULT_TABLESPACE, next_xid=control.next_xid, versions=Versions.none(),
        files={key: oid for key, oid in initial_files(0, shared, {}).items() if oid == 1262}, complete=False,
        status=directory.commit_status(), xids_open={},
    )  # fmt: skip
    seen = advance(blank, catalog_log(indexes).after(after), directory.pages(blank.files), after)
    rows = rows_of(
        seen.versions, spans_of(seen.versions, fates, seen.status), 1262, layouts_of(control.major)["pg_database"],
        ("oid", "datname", "dattablespace", "encoding"),
    )  # fmt: skip
    mine = [
        row for row in rows.seen(np.arange(len(rows)), int(NEVER) - 1, -1).tolist() if rows.columns["datname"][row] == database
    ]
    if not mine:
        raise UsageError(f'database "{database}" does not exist', sqlstate="3D000")
    oid, tablespace = int(rows.columns["oid"][mine[0]]), int(rows.columns["dattablespace"][mine[0]])
    files = initial_files(oid, shared, directory.relation_map(oid, tablespace))
    return replace(blank, database=oid, database_name=database, default_tablespace=tablespace, files=files)


def capture(source: Source, runner: Runner, database: str) -> CatalogState:
    """The catalog state at the end of the source's WAL (of a stopped directory: at its checkpoint), complete, to decode from later."""
    directory = source.directory
    if directory is None:
        raise UsageError("a catalog state is captured from a data directory", hint=f'"{source.segments.directory}" is only WAL.')
    control = directory.control()
    if control.shut_down:
        indexes = [_until(scan_log(source.segments, runner, control.redo)[0], control.redo)]
    else:
        indexes = scan_log(source.segments, runner, control.redo)
    catalogs = know_catalogs(source, indexes, runner, database, None)
    state = catalogs.state
    ended = set(catalogs.fates.xid.tolist())
    still_open = {
        int(xid): int(lsn)
        for found in indexes
        for xid, lsn in zip(found.xids.xid, found.xids.first_lsn, strict=True)
        if int(xid) not in ended and not control.shut_down
    }
    return replace(
        state, versions=_settled(state, catalogs.fates), status=None, complete=True, xids_open=still_open,
        lsn=control.checkpoint if control.shut_down else indexes[-1].next_lsn,
    )  # fmt: skip


def _until(found: Index, lsn: int) -> Index:
    """The index without catalog records and ends after `lsn`: what a directory stopped there knows."""
    keep = np.flatnonzero(found.kept.lsn <= lsn)
    kept = found.kept
    ends = fates_none(found)
    return replace(
        found, ends=ends, kept=index.Kept(kept.kind[keep], kept.lsn[keep], kept.end_lsn[keep], kept.at[keep], kept.length[keep], kept.data)
    )  # fmt: skip


def fates_none(found: Index) -> Ends:
    """No ends at all."""
    ends = found.ends
    none = np.zeros(1, np.int64)
    return replace(
        ends, kind=ends.kind[:0], xid=ends.xid[:0], lsn=ends.lsn[:0], end_lsn=ends.end_lsn[:0], time=ends.time[:0],
        database=ends.database[:0], origin=ends.origin[:0], origin_lsn=ends.origin_lsn[:0], origin_time=ends.origin_time[:0],
        subxact_bounds=none, subxids=ends.subxids[:0], gid_bounds=none, gids=ends.gids[:0], invalidation_bounds=none,
        invalidations=ends.invalidations[:0],
    )  # fmt: skip


def _settled(state: CatalogState, fates: Fates) -> Versions:
    """Versions whose transactions' ends are written into their hint bits, so that the state needs no commit status files."""
    rows = state.versions.rows.copy()
    for column, committed, aborted in ((V_XMIN, XMIN_COMMITTED, XMIN_ABORTED), (V_XMAX, XMAX_COMMITTED, 0)):
        xids = rows[:, column].astype(np.uint32)
        ordinals = fates.ordinals_of(xids)
        rows[ordinals >= 0, V_STATE] |= committed
        rows[ordinals == -1, V_STATE] |= aborted
        if state.status is not None:
            status = state.status.of(xids)
            rows[(ordinals == -2) & (status == COMMITTED), V_STATE] |= committed
            rows[(ordinals == -2) & (status == ABORTED), V_STATE] |= aborted
    return replace(state.versions, rows=rows)


@dataclass(slots=True)
class River:
    """A source, scanned and planned for one database: the door to everything that comes out of it."""

    source: Source
    runner: Runner
    indexes: list[Index]
    catalogs: Catalogs
    plan: Plan

    def lines(self, plugin: OutputPlugin) -> Iterator[Lines]:
        """What the plugin prints, in commit order."""
        return drive(self.plan, plugin, self.runner.run, partial(_format, self.source.segments, plugin))


def _format(segments: Segments, plugin: OutputPlugin, plan):  # type: ignore[no-untyped-def]
    return format_stretch(plan, segments.read, plugin)


def open_river(
    path: str | Path, database: str, *, runner: Runner | None = None, catalog: CatalogState | None = None, start_lsn: Lsn | None = None,
    upto_lsn: Lsn | None = None, stretch_bytes: int = STRETCH_BYTES, index_store: IndexStore | None = None,
) -> River:  # fmt: skip
    """Scan `path` and plan the decoding of `database`. See `tailrace decode` for what the positions mean."""
    runner = runner or LocalRunner()
    source = Source.open(path)
    scan_from = None
    if catalog is not None:
        scan_from = (
            max(catalog.needs_wal_from, source.segments.first_lsn)
            if catalog.needs_wal_from >= source.segments.first_lsn
            else None
        )
        if scan_from is None:
            raise MissingHistory(
                f"the catalog state needs WAL from {catalog.needs_wal_from}, the source begins at {source.segments.first_lsn}"
            )
    indexes = scan_log(source.segments, runner, scan_from, stretch_bytes, index_store)
    if start_lsn is not None and not indexes[0].stretch.start <= start_lsn <= indexes[-1].next_lsn:
        raise UsageError(
            f"start LSN {start_lsn} is outside of the WAL at hand",
            hint=f"It reaches from {indexes[0].first} to {indexes[-1].next_lsn}.",
        )
    catalogs = know_catalogs(source, indexes, runner, database, catalog)
    check_decodable(indexes, start_lsn or 0, upto_lsn or int(NEVER))
    plan = make_plan(
        indexes, catalogs.history(), catalogs.fates, start_lsn=start_lsn, upto_lsn=upto_lsn,
        segment_size=source.segments.segment_size, open_at_start=catalogs.open_at_start,
    )  # fmt: skip
    return River(source, runner, indexes, catalogs, plan)
