"""Versions that are over for everybody, forgotten; and what may bring a dead row back: an image of its page, a copy that VACUUM FULL makes."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from support.heap_records import DATABASE, FILE, TABLESPACE, XID, block, logged_tuple, page, record
from tailrace.catalog.pages.catalog_files import CatalogFiles
from tailrace.catalog.pages.tids import tid_of
from tailrace.catalog.redo.replay import BeforeLog, CatalogLog, replay
from tailrace.catalog.rows.row_versions import Versions
from tailrace.catalog.state.catalog_state import CatalogState
from tailrace.catalog.state.forget import forgotten, xids_of_forgotten
from tailrace.model import Lsn
from tailrace.plan.carried import ended_in
from tailrace.transactions.commit_or_abort import NEVER, EndedElsewhere, outcomes_of
from tailrace.transactions.epochs import XidClock
from tailrace.wal.resource_managers import HEAP, XLOG
from tailrace.wal.versions import FORMATS

PG_INDEX = 2610
OTHER_FILE = 20000
FILES = {(DATABASE, FILE): PG_INDEX, (DATABASE, OTHER_FILE): PG_INDEX}
INSERT, DELETE, FPI = 0x00, 0x10, 0xB0
DELETER = XID + 1
MULTI = 0x1000
ENDED = EndedElsewhere(np.array([XID, DELETER]), np.array([150, 250]))


def _insert(item: int, values: bytes) -> bytes:
    return record(HEAP, INSERT, struct.pack("<HB", item, 0), block(logged_tuple(values)))


DELETE_FIRST = record(HEAP, DELETE, struct.pack("<IHBB", DELETER, 1, 0, 0), block(), xid=DELETER)


def _image(xmax: int, infomask: int = 0, *, file: int = FILE) -> bytes:
    return record(XLOG, FPI, b"", block(image=page((XID, infomask, logged_tuple(b"row")), xmax=xmax), file=file), xid=0)


def _state(versions: Versions) -> CatalogState:
    return CatalogState(
        system=1, timeline=1, major=16, lsn=Lsn(0), database=DATABASE, database_name="app", default_tablespace=TABLESPACE, encoding=6,
        next_xid=1000, versions=versions, files=FILES, complete=True, status=None, multixacts=None, xids_open={},
    )  # fmt: skip


def _replayed(state: CatalogState, *records: bytes) -> CatalogState:
    """Records at LSN 100, 200, …"""
    length = np.array([len(each) for each in records], np.int64)
    data = np.frombuffer(b"".join(records), np.uint8).copy()
    log = CatalogLog(100 * np.arange(1, len(records) + 1), np.cumsum(length) - length, length, data)
    files = CatalogFiles.of(state.files, frozenset({TABLESPACE}))
    clock = XidClock.of([], (0, 1000))
    return _state(replay(state.versions, BeforeLog.none(), log, clock, files, FORMATS[16], complete=True))


def _at(state: CatalogState, file: int = 0) -> int:
    return int(state.versions.version_at[state.versions.tids == tid_of(file, 0, 1)][0])


DEAD = _replayed(_state(Versions.none()), _insert(1, b"row"), DELETE_FIRST)


@pytest.mark.parametrize(("horizon", "left"), [(250, 1), (251, 0)])
def test_a_deleted_row_goes_when_everybody_sees_it_deleted(horizon: int, left: int) -> None:
    state = forgotten(DEAD, ENDED, horizon)
    assert len(state.versions) == left
    assert (len(state.versions.tuples) > 0) == bool(left)
    assert _at(state) == (0 if left else -1 - DELETER)


def test_a_row_that_was_rolled_back_goes_at_once() -> None:
    state = forgotten(DEAD, EndedElsewhere(np.array([XID]), np.array([NEVER])), 0)
    assert len(state.versions) == 0
    assert _at(state) == -1 - XID


def test_what_is_not_over_stays() -> None:
    alive = _replayed(_state(Versions.none()), _insert(1, b"row"), _insert(2, b"another"))
    for state in (alive, DEAD):
        for ended in (EndedElsewhere.none(), EndedElsewhere(np.array([DELETER]), np.array([NEVER]))):
            assert len(forgotten(state, ended, 1000).versions) == len(state.versions)


@pytest.mark.parametrize(("xmax", "infomask"), [(DELETER, 0), (5, MULTI)])
def test_an_image_of_its_page_does_not_bring_it_back(xmax: int, infomask: int) -> None:
    state = _replayed(forgotten(DEAD, ENDED, 300), _image(xmax, infomask))
    assert len(state.versions) == 0
    assert _at(state) == -1 - DELETER


def test_a_copy_of_it_is_dead_as_well() -> None:
    state = forgotten(DEAD, ENDED, 300)
    ended = ended_in(state.versions, outcomes_of((), elsewhere=ENDED))
    assert ended.xid.tolist() == [DELETER]
    copied = _replayed(state, _image(DELETER, file=OTHER_FILE))
    assert len(copied.versions) == 1
    again = forgotten(copied, ended, 300)
    assert len(again.versions) == 0
    assert _at(again) == _at(again, 1) == -1 - DELETER


def test_a_deleter_that_no_record_tells_of_ended_before_all_wal() -> None:
    state = forgotten(DEAD, ENDED, 300)
    ended = ended_in(state.versions, outcomes_of(()))
    assert (ended.xid.tolist(), ended.seen_from.tolist()) == ([DELETER], [0])


def test_another_row_in_its_place_ends_the_memory_of_it() -> None:
    state = _replayed(forgotten(DEAD, ENDED, 300), _insert(1, b"new"))
    assert _at(state) == 0
    assert xids_of_forgotten(state.versions).tolist() == []
