"""Which tuples of a page a snapshot sees, each state of a tuple by hand. Against a server: `tests/client/test_table_pages.py`."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from tailrace.catalog.data_directory.commit_status import ABORTED, COMMITTED, IN_PROGRESS, SUB_COMMITTED, XIDS_PER_STATUS_FILE
from tailrace.catalog.pages import page_layout as p
from tailrace.catalog.pages.visible_tuples import SEES_ALL, UNSOUND, KnownStatus, MvccSnapshot, VisibleTuples, see_tuples
from tailrace.model import PAGE_SIZE

SNAPSHOT = MvccSnapshot(100, 110, np.array([100, 105, 106]))
ENDED = {90: COMMITTED, 91: ABORTED, 92: IN_PROGRESS, 93: SUB_COMMITTED, 101: COMMITTED, 105: COMMITTED, 110: COMMITTED}
MOST = max(ENDED)
SURE, GONE = p.HEAP_XMIN_COMMITTED, p.HEAP_XMAX_INVALID


def _page(tuples: list[tuple[int, int, int]], flags: int = p.LP_NORMAL) -> np.ndarray:
    """With these tuples: xmin, xmax, infomask."""
    page, upper = bytearray(PAGE_SIZE), PAGE_SIZE
    for item, (xmin, xmax, infomask) in enumerate(tuples):
        upper -= 32
        struct.pack_into("<IIIHHHHHB", page, upper, xmin, xmax, 0, 0, 0, item + 1, 1, infomask, 24)
        struct.pack_into("<I", page, p.SIZE_OF_PAGE_HEADER + 4 * item, upper | flags << p.LP_FLAGS_SHIFT | 28 << p.LP_LEN_SHIFT)
    struct.pack_into(
        "<HHHH", page, p.PD_LOWER, p.SIZE_OF_PAGE_HEADER + 4 * len(tuples), upper, PAGE_SIZE, PAGE_SIZE | p.PAGE_LAYOUT_VERSION
    )
    return np.frombuffer(page, np.uint8).copy()


def _status() -> bytes:
    data = bytearray(MOST // 4 + 1)
    for xid, state in ENDED.items():
        data[xid // 4] |= state << (2 * (xid % 4))
    return bytes(data)


def _seen(
    pages: np.ndarray, status: dict[int, bytes], snapshot: MvccSnapshot = SNAPSHOT
) -> tuple[list[int], list[list[int]], int]:
    found = VisibleTuples.room(len(pages) // PAGE_SIZE)
    seen, asked, missing = see_tuples(pages, snapshot, KnownStatus.of(status), found)
    return found.item[:seen].tolist(), found.asked[:asked].tolist(), missing


@pytest.mark.parametrize(
    ("xmin", "xmax", "infomask", "verdict"),
    [
        (90, 0, SURE | GONE, "seen"),
        (90, 0, GONE, "seen"),  # by pg_xact
        (91, 0, GONE, ""),
        (92, 0, GONE, ""),  # of a server that crashed
        (93, 0, GONE, ""),
        (101, 0, GONE, "seen"),
        (105, 0, SURE | GONE, ""),  # has committed since
        (105, 0, GONE, ""),
        (110, 0, SURE | GONE, ""),
        (90, 0, p.HEAP_XMIN_INVALID | GONE, ""),
        (0, 0, GONE, ""),  # a speculative insert that was taken back
        (2, 0, GONE, "seen"),
        (110, 0, p.HEAP_XMIN_FROZEN | GONE, "seen"),
        (90, 101, SURE | p.HEAP_XMAX_COMMITTED, ""),
        (90, 101, SURE, ""),
        (90, 91, SURE, "seen"),
        (90, 106, SURE | p.HEAP_XMAX_COMMITTED, "seen"),
        (90, 110, SURE, "seen"),
        (90, 101, SURE | p.HEAP_XMAX_EXCL_LOCK, "seen"),  # a lock of before 9.3 (HEAP_XMAX_IS_LOCKED_ONLY)
        (90, 101, SURE | p.HEAP_XMAX_EXCL_LOCK | p.HEAP_XMAX_LOCK_ONLY, "seen"),
        (90, 7, SURE | p.HEAP_XMAX_IS_MULTI | p.HEAP_XMAX_LOCK_ONLY, "seen"),
        (90, 7, SURE | p.HEAP_XMAX_IS_MULTI, "asked"),
        (90, 0, SURE | p.HEAP_MOVED, "asked"),
        (MOST + 4, 0, GONE, ""),
    ],
)  # fmt: skip
def test_each_state(xmin: int, xmax: int, infomask: int, verdict: str) -> None:
    seen, asked, missing = _seen(_page([(xmin, xmax, infomask)]), {0: _status()})
    assert missing == SEES_ALL
    assert ("seen" if seen else "asked" if asked else "") == verdict


def test_where_they_lie() -> None:
    pages = np.concatenate(
        [_page([(90, 0, GONE)] * 3), np.zeros(PAGE_SIZE, np.uint8), _page([(91, 0, GONE), (90, 7, p.HEAP_XMAX_IS_MULTI | SURE)])]
    )
    found = VisibleTuples.room(3)
    seen, asked, missing = see_tuples(pages, SNAPSHOT, KnownStatus.of({0: _status()}), found)
    assert (seen, asked, missing) == (3, 1, SEES_ALL)
    assert found.at[:3].tolist() == [PAGE_SIZE - 32 * (1 + item) + p.T_INFOMASK2 for item in range(3)]
    assert found.length[:3].tolist() == [28 - p.T_INFOMASK2] * 3
    assert found.asked[0].tolist() == [2, 2]


def test_only_what_is_there_counts() -> None:
    assert _seen(_page([(90, 0, GONE)], flags=2), {}) == ([], [], SEES_ALL)  # LP_REDIRECT


def test_what_pg_xact_lacks() -> None:
    """A file that was not read is asked for; of one that VACUUM has removed, or that ends before, only the server knows what it said."""
    page = _page([(90, 0, GONE)])
    assert _seen(page, {})[2] == 0
    assert _seen(page, {0: b""}) == ([], [[0, 1]], SEES_ALL)
    deleted = _page([(90, 95, SURE)])
    assert _seen(deleted, {0: bytes(20)}) == ([], [[0, 1]], SEES_ALL)
    old = _page([(XIDS_PER_STATUS_FILE + 5, 0, GONE)])
    later = MvccSnapshot(XIDS_PER_STATUS_FILE * 2, XIDS_PER_STATUS_FILE * 2, np.zeros(0, np.int64))
    assert _seen(old, {0: _status()}, later)[2] == 1


def test_xids_that_wrap_around() -> None:
    """4294967290 is before 50, and 100 behind it."""
    snapshot = MvccSnapshot(50, 60, np.zeros(0, np.int64))
    page = _page([(4294967290, 0, SURE | GONE), (100, 0, SURE | GONE)])
    assert _seen(page, {}, snapshot) == ([1], [], SEES_ALL)


@pytest.mark.parametrize(
    ("at", "value"), [(p.PD_LOWER, 9000), (p.PD_LOWER, 8), (p.PD_UPPER, 20), (p.PD_SPECIAL, 100), (p.PD_PAGESIZE_VERSION, 7)]
)
def test_what_is_no_page(at: int, value: int) -> None:
    page = _page([(90, 0, GONE)])
    struct.pack_into("<H", page, at, value)
    assert _seen(page, {0: _status()})[2] == UNSOUND


def test_a_line_pointer_that_leads_out() -> None:
    for offset, length in ((PAGE_SIZE - 8, 28), (PAGE_SIZE - 30, 28), (PAGE_SIZE - 32, 8), (8, 28)):
        page = _page([(90, 0, GONE)])
        struct.pack_into("<I", page, p.SIZE_OF_PAGE_HEADER, offset | p.LP_NORMAL << p.LP_FLAGS_SHIFT | length << p.LP_LEN_SHIFT)
        assert _seen(page, {0: _status()})[2] == UNSOUND
