"""Pages of a data directory that still say what was there before the log: those that no record touches, and those whose first record brings no image
and is younger than the page. Every other page is what its first record's image says, and may be torn in a backup."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.pages.catalog_files import NO_FILE, CatalogFiles, FileKey, catalog_file
from tailrace.catalog.pages.heap_pages import CatalogPages, page_lsns
from tailrace.catalog.pages.tids import tid_of, tids_of_pages
from tailrace.catalog.redo.replay import BeforeLog, CatalogLog
from tailrace.catalog.rows.layouts import ANY_LAYOUT, layouts_by_oid
from tailrace.errors import MissingHistory
from tailrace.kernels import kernel
from tailrace.model import Lsn
from tailrace.wal import heap, records
from tailrace.wal.full_page_images import ImageBits, is_installed
from tailrace.wal.hashing import find, grown, new_table, rehashed
from tailrace.wal.records import BLOCK_FLAGS, FIRST_BLOCK
from tailrace.wal.versions import WalFormat


def untouched_pages(
    log: CatalogLog, pages: CatalogPages, names: Mapping[FileKey, int], files: CatalogFiles, form: WalFormat, until: Lsn
) -> BeforeLog:
    """Those of `pages` that count; `names` are the files in their order. Raises CorruptFile for one that is damaged, MissingHistory for one that was
    changed after the log, which is at hand `until` there."""
    page, row, whole = first_touches(log, ImageBits.of(form), files, records.new_parsed())
    order = np.argsort(page)
    touched, first_lsn, whole = page[order], log.lsn[row[order]], whole[order]
    parts = [BeforeLog.none()]
    layouts = layouts_by_oid(form.major)
    for file, (key, catalog) in enumerate(names.items()):
        content = pages.files.get(key)
        if content is None or not len(content):
            continue
        mine = tids_of_pages(file, np.arange(len(content)))
        counts = np.ones(len(mine), np.bool_)
        if len(touched):
            at = np.minimum(np.searchsorted(touched, mine), len(touched) - 1)
            counts = (touched[at] != mine) | (~whole[at] & (page_lsns(content) <= first_lsn[at]))
        blocks = np.flatnonzero(counts)
        parts.append(
            BeforeLog(np.full(len(blocks), file, np.int64), blocks, pages.believed(key, blocks, layouts.get(catalog, ANY_LAYOUT)))
        )
    before = BeforeLog(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))
    _check_not_newer(before.page, until)
    return before


def _check_not_newer(pages: NDArray[np.uint8], until: Lsn) -> None:
    """Raise if a page was changed after the log at hand: what it said before cannot be told from it."""
    newest = int(page_lsns(pages).max(initial=0))
    if newest > until:
        raise MissingHistory(
            f"a catalog page was changed at {Lsn(newest)}, but the WAL at hand ends at {until}",
            hint="If a server is running there, it went on while it was read: try again. Else give the rest of the WAL.",
            lsn=Lsn(newest),
        )


@kernel
def first_touches(log, bits, files, parsed):  # type: ignore[no-untyped-def]
    """The catalog pages that records touch; pruning, freezing and the like do not count, unless they bring an image. Returns (pages as `tids.tid_of`
    names them, row of the first record, whether that brings the page whole: by an image, or since it begins it anew)."""
    capacity = 1024
    table = new_table(capacity)
    pages = np.zeros(capacity, np.int64)
    rows = np.zeros(capacity, np.int64)
    whole = np.zeros(capacity, np.bool_)
    count = 0
    for row in range(len(log.at)):
        if not records.parse(log.data, log.at[row], log.length[row], bits.compressed, parsed):
            continue
        if heap.is_new_cid(parsed):
            continue
        for i in range(parsed[records.BLOCKS]):
            block = FIRST_BLOCK + i * records.BLOCK_FIELDS
            file = catalog_file(parsed, block, files)
            is_whole = parsed[block + BLOCK_FLAGS] & records.WILL_INIT != 0 or is_installed(parsed, block, bits)
            if file == NO_FILE or not (is_whole or heap.changes_rows(parsed)):
                continue
            page = tid_of(file, parsed[block + records.BLOCK], 0)
            slot = find(table, pages, page)
            if slot >= 0:
                continue
            if count == capacity:
                capacity *= 4
                pages, rows, whole = grown(pages, capacity), grown(rows, capacity), grown(whole, capacity)
                table = rehashed(pages, count, capacity)
                slot = find(table, pages, page)
            table[-1 - slot] = count
            pages[count], rows[count], whole[count] = page, row, is_whole
            count += 1
    return pages[:count], rows[:count], whole[:count]
