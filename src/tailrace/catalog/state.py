"""A catalog state: all that decoding must know about the catalogs at one LSN, to go on from there (rule 5).

In: relation maps, commit status and pages of a data directory, or a file that an earlier run captured; then the catalog records of the WAL. Out:
`CatalogState`. Both ways are one: pages of a directory count as long as no record touched them since the redo pointer; a page that was touched
is, from its first touch, what its full-page image says. A state that is complete knows every page and needs no images.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tailrace.catalog.heap_pages import CatalogPages, FileKey
from tailrace.catalog.layouts import layouts_by_oid, layouts_of
from tailrace.catalog.multixacts import Multixacts
from tailrace.catalog.pages import CommitStatus, page_lsns, read_relation_map
from tailrace.catalog.redo import PAGE_FIRST_TOUCH_WHOLE, V_STATE, V_XMAX, XMAX_MULTI, Versions, first_touches, replay, tid_key
from tailrace.catalog.rows import Spans, rows_of
from tailrace.errors import MissingHistory
from tailrace.kernels import kernel
from tailrace.model import Lsn
from tailrace.transactions.epochs import XidClock
from tailrace.wal import records
from tailrace.wal.framing import RECORD_HEADER
from tailrace.wal.hashing import rehashed
from tailrace.wal.index import TRACKED_CATALOGS
from tailrace.wal.records import FIRST_BLOCK, IMAGE, MAIN
from tailrace.wal.unaligned import number
from tailrace.wal.versions import FORMATS, WalFormat

SHARED_CATALOGS = frozenset({1260, 1262, 6000})


@dataclass(slots=True)
class CatalogLog:
    """Catalog records of consecutive stretches, joined: row i is `data[at[i] : at[i] + length[i]]`."""

    lsn: NDArray[np.int64]
    end_lsn: NDArray[np.int64]
    at: NDArray[np.int64]
    length: NDArray[np.int64]
    data: NDArray[np.uint8]

    def after(self, lsn: int) -> CatalogLog:
        rows = np.flatnonzero(self.lsn >= lsn)
        return replace(self, lsn=self.lsn[rows], end_lsn=self.end_lsn[rows], at=self.at[rows], length=self.length[rows])


@dataclass(slots=True)
class CatalogState:
    """The catalogs of one database (and the shared ones) as of `lsn`; `encoding` is the database's, by PostgreSQL's number.

    `files` says which catalog each file holds, files of the past included. `complete` states know every page. `status` and `multixacts` are
    pg_xact and pg_multixact of the directory, for transactions that ended before the WAL at hand. All xids are full; `next_xid` was the next near
    `lsn`. `xids_open` are the transactions open at `lsn` with the LSN of their first record, or 0 if that lies before all WAL that was at hand: what
    such a one did cannot be read. WAL is needed from the least of the others, or from `lsn`.
    """

    system: int
    timeline: int
    major: int
    lsn: Lsn
    database: int
    database_name: str
    default_tablespace: int
    encoding: int
    next_xid: int
    versions: Versions
    files: dict[FileKey, int]
    complete: bool
    status: CommitStatus | None
    multixacts: Multixacts | None
    xids_open: dict[int, int]

    @property
    def needs_wal_from(self) -> Lsn:
        """Where scanning must begin so that the transactions open here are read whole, as far as that can be."""
        return Lsn(min([self.lsn, *(lsn for lsn in self.xids_open.values() if lsn)]))


def initial_files(database: int, shared_map: dict[int, int], database_map: dict[int, int]) -> dict[FileKey, int]:
    """File -> catalog oid, from the numbers initdb gave and from the relation maps."""
    files: dict[FileKey, int] = {}
    for oid in TRACKED_CATALOGS:
        files[(0 if oid in SHARED_CATALOGS else database, oid)] = oid
    for relation_map, where in ((shared_map, 0), (database_map, database)):
        files |= {(where, number): oid for oid, number in relation_map.items() if oid in TRACKED_CATALOGS}
    return files


def files_of_map_records(relation_maps: Iterable[bytes], database: int, form: WalFormat) -> dict[FileKey, int]:
    """What RELMAP records (main data: database, tablespace, size, map) add."""
    files: dict[FileKey, int] = {}
    parsed = records.new_parsed()
    for raw in relation_maps:
        buf = np.frombuffer(raw, np.uint8).copy()
        records.parse(buf, 0, len(buf), form.image_compressed, parsed)
        main = int(parsed[MAIN])
        of = number(buf, main, 4)
        if of in (0, database):
            mapped = read_relation_map(raw[main + 12 :], "RELMAP record")
            files |= {(of, number): oid for oid, number in mapped.items() if oid in TRACKED_CATALOGS}
    return files


def files_of_pg_class(versions: Versions, spans: Spans, database: int, major: int) -> dict[FileKey, int]:
    """What pg_class says about the catalogs that are not mapped, in every version of it."""
    rows = rows_of(versions, spans, 1259, layouts_of(major)["pg_class"], ("oid", "relfilenode"))
    pairs = zip(rows.columns["oid"].tolist(), rows.columns["relfilenode"].tolist(), strict=True)
    return {
        (0 if oid in SHARED_CATALOGS else database, number): oid for oid, number in pairs if oid in TRACKED_CATALOGS and number
    }


def tablespaces_of(versions: Versions, spans: Spans, database: int, major: int) -> frozenset[int]:
    """Where pg_database says, in every version of it, that the database lay: with its catalogs, and all that has no tablespace of its own."""
    rows = rows_of(versions, spans, 1262, layouts_of(major)["pg_database"], ("oid", "dattablespace"))
    return frozenset(rows.columns["dattablespace"][rows.columns["oid"] == database].tolist())


def advance(
    state: CatalogState, log: CatalogLog, pages: CatalogPages, clock: XidClock, until: Lsn, tablespaces: frozenset[int]
) -> CatalogState:
    """The state after the catalog records of `log`; the database lay in these tablespaces. Raises MissingHistory where a page was changed that
    nothing tells the content of."""
    form = FORMATS[state.major]
    keys = list(state.files)  # places name a file by its number here, so files are only ever added at the end
    file_key = np.array([(database << 32) | number for database, number in keys], np.int64)
    file_catalog = np.array([state.files[key] for key in keys], np.int64)
    file_table = rehashed(file_key, len(file_key), max(len(file_key), 1))
    spaces = np.array(sorted(tablespaces), np.int64)
    images, image_at = _zstd_images(log, form)
    base_key, base_pages = (np.zeros(0, np.int64), np.zeros((0, 8192), np.uint8))
    if pages:
        base_key, base_pages = _untouched(log, pages, state.files, form, file_table, file_key, spaces)
        _check_not_newer(base_pages, until)
    found = replay(
        log.data, log.at, log.length, log.lsn, clock.next_at(log.lsn), clock.next_at_end, form.image_compressed, form.image_apply,
        form.image_pglz, form.image_lz4, form.image_zstd, form.inplace_header, file_table, file_key, file_catalog, spaces, base_pages, base_key,
        images, image_at, state.complete,
        state.versions.rows, len(state.versions), state.versions.store, len(state.versions.store),
        state.versions.place_key, state.versions.place_version,
    )  # fmt: skip
    rows, count, store, used, place_key, place_version, bad, unknown_page = found
    if bad >= 0:
        if unknown_page:
            raise MissingHistory(
                f"a catalog page is changed at {Lsn(int(log.lsn[bad]))} whose content before is not known",
                hint="Without a captured catalog state, full_page_writes must have been on since the checkpoint that decoding starts from. "
                "Give --catalog.",
                context=f"WAL record at {Lsn(int(log.lsn[bad]))}",
            )
        raise MissingHistory(f"cannot read the catalog record at {Lsn(int(log.lsn[bad]))}")
    rows = _without_multixacts(rows[:count], state.multixacts, clock, state.lsn)
    return replace(
        state,
        lsn=until,
        next_xid=clock.next_at_end,
        versions=Versions(rows, store[:used].copy(), place_key.copy(), place_version.copy()),
    )


def _without_multixacts(rows: NDArray[np.int64], multixacts: Multixacts | None, clock: XidClock, start: Lsn) -> NDArray[np.int64]:
    """A copy where the xmax of each version is a transaction, or none. What it is was written before the log at hand, which begins at `start`."""
    rows = rows.copy()
    for row in np.flatnonzero(rows[:, V_STATE] & XMAX_MULTI).tolist():
        updater = multixacts.updater_of(int(rows[row, V_XMAX])) if multixacts else None
        if updater is None:
            raise MissingHistory(
                f"MultiXactId {rows[row, V_XMAX]} does no longer exist",
                hint="A catalog row was updated under it before the WAL at hand. Start later, or from a captured state (--catalog).",
            )
        rows[row, V_XMAX] = clock.full(updater, start)
        rows[row, V_STATE] &= ~XMAX_MULTI
    return rows


def _untouched(
    log: CatalogLog,
    pages: CatalogPages,
    files: dict[FileKey, int],
    form: WalFormat,
    file_table: NDArray[np.int32],
    file_key: NDArray[np.int64],
    spaces: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Pages of the directory that count: those that no record touches, or that are older than their first record. Raises CorruptFile for
    a damaged one."""
    touched, first_row, flags = first_touches(
        log.data, log.at, log.length, form.image_compressed, form.image_apply, file_table, file_key, spaces
    )
    order = np.argsort(touched)
    touched, first_row, flags = touched[order], first_row[order], flags[order]
    base_key: list[NDArray[np.int64]] = []
    base_pages: list[NDArray[np.uint8]] = []
    layouts = layouts_by_oid(form.major)
    for file, key in enumerate(files):
        content = pages.files.get(key)
        if content is None or not len(content):
            continue
        mine = np.array([tid_key(file, block, 0) for block in range(len(content))], np.int64)
        keep = np.ones(len(mine), np.bool_)
        if len(touched):
            at = np.minimum(np.searchsorted(touched, mine), len(touched) - 1)
            hit = touched[at] == mine
            whole = (flags[at] & PAGE_FIRST_TOUCH_WHOLE) != 0
            older = page_lsns(content) <= log.lsn[first_row[at]]
            keep = ~hit | (~whole & older)
        base_key.append(mine[keep])
        base_pages.append(pages.believed(key, np.flatnonzero(keep), layouts[files[key]]))
    if not base_key:
        return np.zeros(0, np.int64), np.zeros((0, 8192), np.uint8)
    return np.concatenate(base_key), np.concatenate(base_pages)


def _check_not_newer(pages: NDArray[np.uint8], until: Lsn) -> None:
    """Raise if a page was changed after the log at hand: what it said before cannot be told from it."""
    newest = int(page_lsns(pages).max(initial=0))
    if newest > until:
        raise MissingHistory(
            f"a catalog page was changed at {Lsn(newest)}, but the WAL at hand ends at {until}",
            hint="If a server is running there, it went on while it was read: try again. Else give the rest of the WAL.",
        )


def _zstd_images(log: CatalogLog, form: WalFormat) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Page images that only a library can expand, done beforehand: the bytes, and the offsets of their compressed forms."""
    if not form.image_zstd:
        return np.zeros((0, 8192), np.uint8), np.zeros(0, np.int64)
    room = np.zeros((len(log.data) // RECORD_HEADER + 1, 3), np.int64)
    found = room[: find_images(log.data, log.at, log.length, form.image_compressed, form.image_zstd, records.new_parsed(), room)]
    codec = pa.Codec("zstd")
    images = np.zeros((len(found), 8192), np.uint8)
    for row, (start, length, raw) in enumerate(found.tolist()):
        images[row, :raw] = np.frombuffer(
            codec.decompress(log.data[start : start + length].tobytes(), decompressed_size=raw), np.uint8
        )
    return images, found[:, 0].copy()


@kernel
def find_images(data, at, length, compressed, wanted, parsed, found):  # type: ignore[no-untyped-def]
    """Page images compressed in a `wanted` way: offset, stored length and length before. Returns how many."""
    count = 0
    for row in range(len(at)):
        if not records.parse(data, at[row], length[row], compressed, parsed):
            continue
        for i in range(parsed[records.BLOCKS]):
            block = FIRST_BLOCK + i * records.BLOCK_FIELDS
            if parsed[block + IMAGE] and parsed[block + records.IMAGE_INFO] & wanted:
                found[count, 0] = parsed[block + IMAGE]
                found[count, 1] = parsed[block + records.IMAGE_LENGTH]
                found[count, 2] = 8192 - parsed[block + records.HOLE_LENGTH]
                count += 1
    return count
