"""Pages of catalog files, checked: by their checksums, if the cluster has them, and by whether header, line pointers and tuples keep within the page
and have the layout of the catalog. Kernels check no bounds of pages that passed.

Only pages that are used are checked. One that WAL brings whole may be torn in a backup that was taken of a running server.
Layouts: `storage/bufpage.h`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.pages.catalog_files import FileKey
from tailrace.catalog.pages.checksums import page_checksums
from tailrace.catalog.pages.page_layout import (
    LP_FLAGS,
    LP_FLAGS_SHIFT,
    LP_LEN_SHIFT,
    LP_NORMAL,
    LP_OFF,
    MAXALIGN,
    PAGE_LAYOUT_VERSION,
    PD_CHECKSUM,
    PD_FLAGS,
    PD_LOWER,
    PD_LSN,
    PD_PAGESIZE_VERSION,
    PD_SPECIAL,
    PD_UPPER,
    PD_VALID_FLAG_BITS,
    SIZE_OF_ITEM_ID,
    SIZE_OF_PAGE_HEADER,
    T_INFOMASK2,
)
from tailrace.catalog.rows.layouts import CatalogLayout
from tailrace.dataclass import dataclass
from tailrace.errors import CorruptFile
from tailrace.model import PAGE_SIZE
from tailrace.tuples.deform import TUPLE_HEADER, first_misfit

_TRIES = 20
"""How often a page of a running server is read until it is not just being written."""


@dataclass(slots=True)
class CatalogPages:
    """Catalog files of a data directory: their pages (n x 8192), and their paths. `checksums` says whether the cluster has data checksums. If a
    server may be writing the files, `read_again` reads one block of a file anew, after a short while."""

    files: dict[FileKey, NDArray[np.uint8]]
    paths: dict[FileKey, str] = field(default_factory=dict)
    checksums: bool = False
    read_again: Callable[[FileKey, int], NDArray[np.uint8]] | None = None

    def __bool__(self) -> bool:
        return bool(self.files)

    def believed(self, key: FileKey, blocks: NDArray[np.int64], layout: CatalogLayout) -> NDArray[np.uint8]:
        """These blocks of a file. Raises CorruptFile, naming file and block, for one that is damaged."""
        pages = self.files[key][blocks]
        for row, why in list(unsound_pages(pages, blocks, layout, checksums=self.checksums)):
            pages[row] = self._another_reading(key, int(blocks[row]), layout, why)
        return pages

    def _another_reading(self, key: FileKey, block: int, layout: CatalogLayout, why: str) -> NDArray[np.uint8]:
        for _ in range(_TRIES if self.read_again else 0):
            assert self.read_again is not None
            page = self.read_again(key, block)[None, :]
            if not any(unsound_pages(page, np.array([block]), layout, checksums=self.checksums)):
                return page[0]
        raise CorruptFile(
            f'invalid page in block {block} of catalog file "{self.paths[key]}"',
            hint="Take the file from a backup, or give a catalog state that was captured before it was damaged (--catalog).",
            context=why,
            file=self.paths[key],
            block=block,
        )


def unsound_pages(
    pages: NDArray[np.uint8], blocks: NDArray[np.int64], layout: CatalogLayout, *, checksums: bool
) -> Iterator[tuple[int, str]]:
    """Rows of `pages` that are damaged, and why. A page of zeros is a new one, and sound."""
    named: set[int] = set()
    for row, why in _damages(pages, blocks, layout, checksums=checksums):
        if row not in named:
            named.add(row)
            yield row, why


def _damages(
    pages: NDArray[np.uint8], blocks: NDArray[np.int64], layout: CatalogLayout, *, checksums: bool
) -> Iterator[tuple[int, str]]:
    """All damage there is; a row of `pages` may come several times."""
    pages = np.ascontiguousarray(pages)
    halves = pages.view("<u2")
    used = np.flatnonzero(pages.any(axis=1))
    if checksums:
        expected = page_checksums(pages[used], blocks[used])
        for row, said, computed in zip(used.tolist(), halves[used, PD_CHECKSUM // 2].tolist(), expected.tolist(), strict=True):
            if said != computed:
                yield row, f"page verification failed, calculated checksum {computed} but expected {said}"
    flags, lower, upper, special, version = (
        halves[used, field // 2].astype(np.int64) for field in (PD_FLAGS, PD_LOWER, PD_UPPER, PD_SPECIAL, PD_PAGESIZE_VERSION)
    )
    sound = (
        (flags & ~PD_VALID_FLAG_BITS == 0) & (lower >= SIZE_OF_PAGE_HEADER) & (lower % SIZE_OF_ITEM_ID == 0) & (lower <= upper)
    )
    sound &= (upper <= special) & (special == PAGE_SIZE) & (version == PAGE_SIZE | PAGE_LAYOUT_VERSION)
    for row in used[~sound].tolist():
        yield row, "its header is damaged"
    used, lower, upper = used[sound], lower[sound], upper[sound]
    item_ids = pages.view("<u4")[used, SIZE_OF_PAGE_HEADER // SIZE_OF_ITEM_ID :].astype(np.int64)
    present = np.arange(item_ids.shape[1]) < ((lower - SIZE_OF_PAGE_HEADER) // SIZE_OF_ITEM_ID)[:, None]
    page, item = np.nonzero(present & ((item_ids >> LP_FLAGS_SHIFT) & LP_FLAGS == LP_NORMAL))
    offset, length = item_ids[page, item] & LP_OFF, item_ids[page, item] >> LP_LEN_SHIFT
    within = (offset >= upper[page]) & (offset % MAXALIGN == 0) & (length >= TUPLE_HEADER) & (offset + length <= PAGE_SIZE)
    for number in np.flatnonzero(~within).tolist():
        yield int(used[page[number]]), f"line pointer {item[number] + 1} points out of it"
    row, offset, length, item = used[page[within]], offset[within], length[within], item[within]
    at = row * PAGE_SIZE + offset + T_INFOMASK2
    flat = pages.reshape(-1)
    start = 0
    while start < len(at):
        bad = first_misfit(flat, at[start:], length[start:] - T_INFOMASK2, layout.lengths, layout.aligns)
        if bad < 0:
            return
        yield int(row[start + bad]), f"tuple {item[start + bad] + 1} does not have the layout of its catalog"
        start += bad + 1


def page_lsns(pages: NDArray[np.uint8]) -> NDArray[np.int64]:
    """pd_lsn of each page of an (n, 8192) array: two u32, high first (`storage/bufpage.h`)."""
    words = np.ascontiguousarray(pages[:, PD_LSN : PD_LSN + 8]).view("<u4").astype(np.int64)
    return (words[:, 0] << 32) | words[:, 1]
