"""Records at the end of a recorded log that its server never wrote: what cannot be decoded is refused, or passed over, by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from support.cases import Case, open_case
from support.damage import PAGE, write_at
from support.decoding import opened, rows_of
from tailrace.errors import UsageError
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner, Source, scan_log
from tailrace.wal.crc import record_crc

XLOG, PARAMETER_CHANGE = 0, 0x60


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return open_case("xact", 16, "with_slot", tmp_path)


def _append_record(case: Case, manager: int, info: int, main: bytes) -> Lsn:
    """Write a sound record where the log ends."""
    segments = Source.open(case.data_dir).segments
    last = scan_log(segments, LocalRunner(1))[-1]
    length = 24 + 2 + len(main)
    record = bytearray(length.to_bytes(4, "little") + bytes(4) + int(last.last).to_bytes(8, "little"))
    record += bytes([info, manager]) + bytes(6) + bytes([255, len(main)]) + main
    record[20:24] = int(record_crc(np.frombuffer(record, np.uint8), 0, length)).to_bytes(4, "little")
    at = last.next_lsn % segments.segment_size
    if at % PAGE + length >= PAGE:
        raise ValueError("no room in the page")
    write_at(Path(segments.by_number[last.next_lsn // segments.segment_size].path), at, bytes(record))
    return last.next_lsn


def _last_record(case: Case) -> Lsn:
    return scan_log(Source.open(case.data_dir).segments, LocalRunner(1))[-1].last


def _parameter_change(wal_level: int) -> bytes:
    """xl_parameter_change: five limits, wal_level, wal_log_hints, track_commit_timestamp."""
    return b"".join(number.to_bytes(4, "little") for number in (100, 8, 10, 0, 64, wal_level)) + bytes(4)


def _rows(case: Case, **options: object) -> str:
    return rows_of(case.data_dir, start_lsn=case.meta["start_lsn"], **options)


def test_wal_level_lowered_inside_the_range(case: Case) -> None:
    changed = _append_record(case, XLOG, PARAMETER_CHANGE, _parameter_change(wal_level=1))
    assert _last_record(case) == changed
    with pytest.raises(UsageError, match="logical decoding requires wal_level >= logical") as caught:
        _rows(case)
    assert str(changed) in caught.value.context
    assert _rows(case, upto_lsn=changed) == case.expected


def test_wal_level_that_stays_logical(case: Case) -> None:
    changed = _append_record(case, XLOG, PARAMETER_CHANGE, _parameter_change(wal_level=2))
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
