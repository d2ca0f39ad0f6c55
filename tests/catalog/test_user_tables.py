"""Files of user catalog tables among those of catalogs: rows that are alike stay two, and what is no longer asked for is forgotten with its file."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from support.beginning import begin
from support.cases import open_case
from support.decoding import state_before
from support.heap_records import DATABASE, TABLESPACE, XID, block, logged_tuple, page, record
from tailrace.catalog.history.user_tables import user_files
from tailrace.catalog.pages.catalog_files import CatalogFiles
from tailrace.catalog.redo.replay import BeforeLog, CatalogLog, replay
from tailrace.catalog.rows.row_versions import Versions
from tailrace.catalog.state.state_file import read_state, write_state
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner, Source
from tailrace.pipeline.decoding_range import DecodingRange
from tailrace.pipeline.scanning import Scanning, scan_log
from tailrace.pipeline.windows import step
from tailrace.plan.demand import OF_TABLES
from tailrace.transactions.epochs import XidClock
from tailrace.wal.resource_managers import XLOG
from tailrace.wal.versions import FORMATS

USER_FILE = 20000
CATALOG = 2610
FPI = 0xB0


def _pages_alike(oid: int) -> Versions:
    """Two pages of a file, one after the other, with the same row."""
    image = page((XID, 0, logged_tuple(b"row")))
    records = [record(XLOG, FPI, b"", block(image=image, file=USER_FILE, number=number), xid=0) for number in range(2)]
    length = np.array([len(each) for each in records], np.int64)
    log = CatalogLog(np.array([100, 200]), np.cumsum(length) - length, length, np.frombuffer(b"".join(records), np.uint8).copy())
    files = CatalogFiles.of({(DATABASE, USER_FILE): oid}, frozenset({TABLESPACE}))
    clock = XidClock.of([], (0, 1000))
    return replay(Versions.none(), BeforeLog.none(), log, clock, files, FORMATS[16], complete=True)


def test_rows_that_are_alike_are_two() -> None:
    assert _pages_alike(USER_FILE).columns.added.tolist() == [100, 200]
    assert len(_pages_alike(CATALOG)) == 1


def test_what_nobody_asks_for_any_more_is_forgotten(tmp_path: Path) -> None:
    """At the end of the story no table is one any more."""
    case = open_case("user_catalog", 18, "with_slot", tmp_path)
    state = state_before(case)
    source, runner = Source.open(case.data_dir, state.needs_wal_from), LocalRunner(1)
    indexes = scan_log(source.segments, runner, state.needs_wal_from, Scanning(1 << 14))
    start = Lsn.parse(case.meta["start_lsn"])
    carried, asked = begin(source, runner, indexes, case.meta["dbname"], state, start_lsn=start, upto_lsn=None, demand=OF_TABLES)
    seen = []
    for part in indexes:
        carried, _ = step(source, runner, carried, [part], asked)
        seen.append(user_files(carried.state.files))
        again = read_state(write_state(carried.state), "again")
        assert user_files(again.files) == seen[-1]
        assert set(carried.state.versions.columns.catalog.tolist()) & {*range(16384, 1 << 17)} <= seen[-1]
    assert seen[0] == seen[-1] == set()
    assert any(seen)

    kept, asked_of_all = begin(
        source, runner, indexes, case.meta["dbname"], state, start_lsn=start, upto_lsn=None, demand=OF_TABLES
    )
    kept, _ = step(
        source, runner, kept, indexes, DecodingRange(start, asked_of_all.upto, OF_TABLES, is_strict=True, horizon=start)
    )
    assert user_files(kept.state.files) >= set.union(*seen)
