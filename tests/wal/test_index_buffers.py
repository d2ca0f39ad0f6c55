"""A stretch that names more transactions than there was room for is scanned with more, and the next ones begin so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from support.cases import open_case
from tailrace.pipeline import LocalRunner, scan_log
from tailrace.storage.segment_files import open_segments
from tailrace.wal.index_buffers import Room
from tailrace.wal.indexfile import content_of_index


def test_many_transactions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    segments = open_segments(open_case("subxact_many", 16, "no_slot", tmp_path).data_dir / "pg_wal")
    monkeypatch.setattr(Room, "share", 1.0)
    roomy = [content_of_index(part) for part in scan_log(segments, LocalRunner(1))]
    assert Room.share == 1.0
    monkeypatch.setattr(Room, "share", 1e-6)
    tight = [content_of_index(part) for part in scan_log(segments, LocalRunner(1))]
    assert 1e-6 < Room.share <= 1.0
    for (facts, arrays), (expected, whole) in zip(tight, roomy, strict=True):
        assert facts == expected
        assert arrays.keys() == whole.keys()
        for name, column in arrays.items():
            assert np.array_equal(column, whole[name]), name
