"""Catalog records -> versions of catalog rows.

In: the records that indexes kept on catalog files, in WAL order, and pages to begin with. Out: every version of every row that was ever
there, with the transactions that made and unmade it, and where in WAL that happened. Pruning, freezing and locking leave no trace in what a
row said, so they are not replayed; a version, once seen, stays. That is what makes history possible where pages alone have none (rule 5).

A record is replayed as a server does it: first its page images (`whole_pages`), then what it says itself of a page without one (`heap_redo`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.pages.catalog_files import NO_FILE, CatalogFiles, catalog_file
from tailrace.catalog.redo.heap_redo import ChangedPage, added_item, heap_redo
from tailrace.catalog.redo.replay_buffers import (
    DONE,
    MORE_BYTES,
    MORE_ROWS,
    UNKNOWN_PAGE,
    UNREADABLE,
    VERSIONS,
    Replayed,
    ReplayedRecord,
    Target,
    doubled,
    lacking,
    note_contents,
    versions_of,
    with_room,
)
from tailrace.catalog.redo.whole_pages import ADDS_NOTHING, replay_page
from tailrace.catalog.rows.row_versions import Versions
from tailrace.errors import CorruptFile, MissingHistory
from tailrace.kernels import inner_kernel, kernel
from tailrace.memcpy import memcpy
from tailrace.model import PAGE_SIZE, Lsn
from tailrace.transactions.epochs import XidClock, with_epoch
from tailrace.wal import heap, records
from tailrace.wal.full_page_images import Images, is_installed, new_page, restore_block_image
from tailrace.wal.index import TRACKED_CATALOGS
from tailrace.wal.records import FIRST_BLOCK, MANAGER, XID
from tailrace.wal.resource_managers import HEAP, HEAP2
from tailrace.wal.versions import WalFormat

_BYTES_OF_ROW = 128
"""What a row of a catalog takes, about."""


class CatalogLog(NamedTuple):
    """Catalog records of consecutive stretches, joined: record i is `data[at[i] : at[i] + length[i]]`."""

    lsn: NDArray[np.int64]
    at: NDArray[np.int64]
    length: NDArray[np.int64]
    data: NDArray[np.uint8]

    def behind(self, earlier: CatalogLog) -> CatalogLog:
        """The records of another log, and then these."""
        return CatalogLog(
            lsn=np.concatenate([earlier.lsn, self.lsn]),
            at=np.concatenate([earlier.at, self.at + len(earlier.data)]),
            length=np.concatenate([earlier.length, self.length]),
            data=np.concatenate([earlier.data, self.data]),
        )

    def after(self, lsn: int) -> CatalogLog:
        return self._of(self.lsn >= lsn)

    def before(self, lsn: int) -> CatalogLog:
        return self._of(self.lsn < lsn)

    def _of(self, wanted: NDArray[np.bool_]) -> CatalogLog:
        rows = np.flatnonzero(wanted)
        return self._replace(lsn=self.lsn[rows], at=self.at[rows], length=self.length[rows])


class BeforeLog(NamedTuple):
    """Pages of catalogs as they were before the log: `page[i]` is block `block[i]` of file number `file[i]`."""

    file: NDArray[np.int64]
    block: NDArray[np.int64]
    page: NDArray[np.uint8]

    @classmethod
    def none(cls) -> BeforeLog:
        return cls(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, PAGE_SIZE), np.uint8))


class Reading(NamedTuple):
    """The log, and what reading it takes: per record a full xid that tells the epoch of others there (`transactions.epochs`), the catalogs' files,
    what restores images, and whether all pages are known, so that one that is not there is empty. `parsed` and `page` are room for the record at
    hand."""

    log: CatalogLog
    next_xid: NDArray[np.int64]
    files: CatalogFiles
    images: Images
    complete: bool
    parsed: NDArray[np.int64]
    page: NDArray[np.uint8]


def replay(
    versions: Versions,
    pages: BeforeLog,
    log: CatalogLog,
    clock: XidClock,
    files: CatalogFiles,
    form: WalFormat,
    *,
    complete: bool,
) -> Versions:
    """The versions after these pages and the records of the log. Raises MissingHistory where a page is changed that nothing tells the content of,
    CorruptFile for a page that is none."""
    # Most records bring one version, if any.
    replayed = with_room(versions, len(log.at) + pages.page.size // _BYTES_OF_ROW, len(log.data) + pages.page.size)
    index_contents(replayed)
    play_pages = partial(replay_pages, pages, files, np.int64(clock.next_at_end), new_page())
    replayed, row, status = _to_the_end(play_pages, replayed)
    if status != DONE:
        catalog = int(files.catalog[pages.file[row]])
        name = TRACKED_CATALOGS.get(catalog, f"file {catalog}")
        raise CorruptFile(f"invalid page in block {pages.block[row]} of {name}", block=int(pages.block[row]))
    reading = Reading(
        log=log,
        next_xid=clock.next_at(log.lsn),
        files=files,
        images=Images.of(form, log.data, log.at, log.length),
        complete=complete,
        parsed=records.new_parsed(),
        page=new_page(),
    )
    replayed, row, status = _to_the_end(partial(replay_records, reading), replayed)
    if status != DONE:
        raise _not_replayed(Lsn(int(log.lsn[row])), status)
    return versions_of(replayed)


def _to_the_end(play: Callable[[Replayed, int], tuple[int, int]], replayed: Replayed) -> tuple[Replayed, int, int]:
    """Let a kernel go on where it was for as long as it only asks for more room. Where it ended, and how."""
    row, status = play(replayed, 0)
    while status in (MORE_ROWS, MORE_BYTES):
        replayed = doubled(replayed, status)
        row, status = play(replayed, row)
    return replayed, row, status


def _not_replayed(lsn: Lsn, status: int) -> MissingHistory:
    if status == UNKNOWN_PAGE:
        return MissingHistory(
            f"a catalog page is changed at {lsn} whose content before is not known",
            hint="Without a captured catalog state, full_page_writes must have been on since the checkpoint that decoding starts from. "
            "Give --catalog.",
            context=f"WAL record at {lsn}",
            lsn=lsn,
        )
    return MissingHistory(f"cannot read the catalog record at {lsn}", lsn=lsn)


@kernel
def index_contents(replayed):  # type: ignore[no-untyped-def]
    """All versions that there are can be found by their contents."""
    note_contents(replayed, np.int64(0))


@kernel
def replay_pages(pages, files, next_xid, page, replayed, start):  # type: ignore[no-untyped-def]
    """Replay the pages from number `start` on. Returns where it ended, and a status of `replayed`; `page` is room for one."""
    for row in range(start, len(pages.file)):
        status = replay_one_page(pages, files, next_xid, page, replayed, row)
        if status != DONE:
            return row, status
    return len(pages.file), DONE


@inner_kernel
def replay_one_page(pages, files, next_xid, page, replayed, row):  # type: ignore[no-untyped-def]
    """A page as it was before the log, of which no record knows who wrote it. Returns a status."""
    status = lacking(replayed)
    if status != DONE:
        return status
    first_new = replayed.used[VERSIONS]
    nobody = ReplayedRecord(np.int64(0), np.int64(0), next_xid)
    target = Target(pages.file[row], files.catalog[pages.file[row]], pages.block[row])
    memcpy(page, 0, pages.page, row * PAGE_SIZE, PAGE_SIZE)
    status = replay_page(replayed, nobody, target, page, np.int64(ADDS_NOTHING))
    note_contents(replayed, first_new)
    return status


@kernel
def replay_records(reading, replayed, start):  # type: ignore[no-untyped-def]
    """Replay the log from record `start` on. Returns where it ended, and a status of `replayed`."""
    for row in range(start, len(reading.log.at)):
        status = replay_record(reading, replayed, row)
        if status != DONE:
            return row, status
    return len(reading.log.at), DONE


@inner_kernel
def replay_record(reading, replayed, row):  # type: ignore[no-untyped-def]
    """One record: its images, then what it says itself. Returns a status."""
    status = lacking(replayed)
    if status != DONE:
        return status
    log, parsed, next_xid = reading.log, reading.parsed, reading.next_xid[row]
    if not records.parse(log.data, log.at[row], log.length[row], reading.images.bits.compressed, parsed):
        return UNREADABLE
    if heap.is_new_cid(parsed):
        return DONE
    if not heap.has_main_data(log.data, parsed):
        return UNREADABLE
    first_new = replayed.used[VERSIONS]
    record = ReplayedRecord(log.lsn[row], with_epoch(parsed[XID], next_xid), next_xid)
    status, has_image = replay_images(reading, replayed, record)
    if status == DONE and parsed[MANAGER] in (HEAP, HEAP2) and parsed[records.BLOCKS] > 0:
        target = target_of(parsed, FIRST_BLOCK, reading.files)
        if target.file != NO_FILE:
            status = heap_redo(replayed, record, ChangedPage(target, has_image, reading.complete), log.data, parsed)
    note_contents(replayed, first_new)
    return status


@inner_kernel
def replay_images(reading, replayed, record):  # type: ignore[no-untyped-def]
    """The pages that the record at hand brings whole. Returns a status, and whether that of its first block is among them."""
    buf, parsed, page = reading.log.data, reading.parsed, reading.page
    has_first = False
    for i in range(parsed[records.BLOCKS]):
        block = FIRST_BLOCK + i * records.BLOCK_FIELDS
        if not is_installed(parsed, block, reading.images.bits):
            continue
        target = target_of(parsed, block, reading.files)
        if target.file == NO_FILE:
            continue
        if not restore_block_image(buf, parsed, block, reading.images, page):
            return UNREADABLE, has_first
        added = added_item(buf, parsed) if i == 0 else np.int64(ADDS_NOTHING)
        status = replay_page(replayed, record, target, page, added)
        if status != DONE:
            return status, has_first
        has_first = has_first or i == 0
    return DONE, has_first


@inner_kernel
def target_of(parsed, block, files):  # type: ignore[no-untyped-def]
    """The page that a block reference is to."""
    file = catalog_file(parsed, block, files)
    return Target(file, files.catalog[file] if file >= 0 else np.int64(0), parsed[block + records.BLOCK])
