"""Counting a log: the same however it is cut into stretches."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.cases import open_case
from tailrace.model import PAGE_SIZE
from tailrace.pipeline import LocalRunner, count_log, scan_log
from tailrace.storage.segment_files import open_segments


@pytest.mark.parametrize("story", ["catalog_rewrite", "toast"])
def test_cuts_do_not_matter(story: str, tmp_path: Path) -> None:
    segments = open_segments(open_case(story, 16, "with_slot", tmp_path).wal_dir)
    whole = count_log(segments, LocalRunner(1))
    parts = count_log(segments, LocalRunner(2), 2 * PAGE_SIZE)
    scanned = scan_log(segments, LocalRunner(1))
    assert whole.managers.total_records == sum(part.records for part in scanned)
    assert whole.stop == parts.stop == scanned[-1].next_lsn
    for name in ("managers", "files", "transactions"):
        counted, again = getattr(whole, name), getattr(parts, name)
        assert sorted(counted.largest(10**6)) == sorted(again.largest(10**6))
        assert counted.total_records == sum(records for _, records, _ in counted.largest(10**6))


def test_counting_ends_where_reading_does(tmp_path: Path) -> None:
    segments = open_segments(open_case("catalog_rewrite", 16, "with_slot", tmp_path).wal_dir)
    counts, scanned = count_log(segments, LocalRunner(1), 8 * PAGE_SIZE), scan_log(segments, LocalRunner(1))
    assert counts.managers.total_records == sum(part.records for part in scanned)
    assert re.sub(r"\s", " ", counts.reason) == scanned[-1].reason != ""
