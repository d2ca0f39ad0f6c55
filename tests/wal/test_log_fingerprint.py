"""By what stands before a position a log is known again."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cases import open_case
from tailrace.model import Lsn
from tailrace.storage.segment_files import open_segments
from tailrace.wal.log_fingerprint import Kind, difference, fingerprint_before


@pytest.mark.parametrize("goes_on", [False, True], ids=["at its end", "amid it"])
def test_a_log_of_which_nothing_is_written_there(goes_on: bool, tmp_path: Path) -> None:
    """That may be on its way still, unless the log goes on behind it."""
    segments = open_segments(open_case("big", 18, "no_slot", tmp_path).wal_dir)
    first, size = segments.first_lsn, segments.segment_size
    middle = Lsn(first + size + size // 2)
    near = fingerprint_before(segments.read, segments.identity, middle, first)
    assert near is not None
    there = fingerprint_before(segments.read, segments.identity, near.last, first)
    assert there is not None
    assert difference(there, segments.read, segments.identity, first) is None
    assert first + size < there.since
    own = Path(segments.by_number[there.last // size].path)
    written = own.read_bytes()[: there.since % size]
    own.write_bytes(written.ljust(size, b"\0"))
    if not goes_on:
        for number in [number for number in segments.by_number if number > there.last // size]:
            Path(segments.by_number.pop(number).path).unlink()
    found = difference(there, segments.read, segments.identity, first)
    assert found is not None
    assert found.kind is (Kind.OTHER if goes_on else Kind.SHORT)
