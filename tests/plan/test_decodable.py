"""Records at the end of a recorded log that its server never wrote: what cannot be decoded is refused, or passed over, by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cases import Case, open_case
from support.damage import PAGE, write_at
from support.decoding import opened, rows_of
from tailrace.errors import InsufficientLogging
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner, Source, scan_log
from tailrace.wal.record_header import write_record
from tailrace.wal.resource_managers import XLOG
from tailrace.wal.xlog import PARAMETER_CHANGE, WAL_LEVELS, ParameterChange


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return open_case("xact", 16, "with_slot", tmp_path)


def _append_record(case: Case, manager: int, info: int, main: bytes) -> Lsn:
    """Write a sound record where the log ends."""
    segments = Source.open(case.data_dir).segments
    last = scan_log(segments, LocalRunner(1))[-1]
    record = write_record(manager, info, main, xid=0, previous=last.last, major=segments.major)
    at = last.next_lsn % segments.segment_size
    if at % PAGE + len(record) >= PAGE:
        raise ValueError("no room in the page")
    write_at(Path(segments.by_number[last.next_lsn // segments.segment_size].path), at, record)
    return last.next_lsn


def _last_record(case: Case) -> Lsn:
    return scan_log(Source.open(case.data_dir).segments, LocalRunner(1))[-1].last


def _change_wal_level(case: Case, wal_level: str) -> Lsn:
    change = ParameterChange(
        max_connections=100, max_worker_processes=8, max_wal_senders=10, max_prepared_xacts=0, max_locks_per_xact=64,
        wal_level=WAL_LEVELS.index(wal_level),
    )  # fmt: skip
    return _append_record(case, XLOG, PARAMETER_CHANGE, change.write(case.major))


def _rows(case: Case, **options: object) -> str:
    return rows_of(case.data_dir, start_lsn=case.meta["start_lsn"], **options)


def test_wal_level_lowered_inside_the_range(case: Case) -> None:
    changed = _change_wal_level(case, "replica")
    assert _last_record(case) == changed
    with pytest.raises(InsufficientLogging, match="logical decoding requires wal_level >= logical") as caught:
        _rows(case)
    assert caught.value.lsn == changed
    assert str(changed) in caught.value.context
    assert _rows(case, upto_lsn=changed) == case.expected


def test_wal_level_that_stays_logical(case: Case) -> None:
    changed = _change_wal_level(case, "logical")
    assert _last_record(case) == changed
    assert _rows(case) == case.expected


def test_records_of_a_custom_resource_manager_are_passed_over_by_name(case: Case) -> None:
    assert opened(case.data_dir).warning == ""
    there = _append_record(case, 130, 0x10, b"whatever an extension logs")
    assert _last_record(case) == there
    assert _rows(case) == case.expected
    warning = opened(case.data_dir).warning
    assert warning == f"records of custom resource manager custom130, the first at {there}, are not decoded"


def test_a_resource_manager_that_cannot_be(case: Case) -> None:
    """Behind the last sound record, that is where the log ends, as for PostgreSQL."""
    before = _last_record(case)
    _append_record(case, 99, 0x10, b"no extension may have this number")
    assert _last_record(case) == before
    assert _rows(case) == case.expected
