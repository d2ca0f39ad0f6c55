"""Both ways of counting CRC-32C (`pg_crc32c_sse42.c`, `pg_crc32c_sb8.c`) give the same, in one go and in pieces."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tailrace.wal import crc

WAYS = [crc._extend_by_table, *([crc._extend_by_instruction] if crc._has_sse42() else [])]


@pytest.mark.parametrize("extend", WAYS, ids=lambda way: way.py_func.__name__)
def test_the_check_value_of_crc32c(extend: Any) -> None:
    """RFC 3720, B.4."""
    for data, expected in ((b"123456789", 0xE3069283), (bytes(32), 0x8A9136AA), (b"\xff" * 32, 0x62A8AB43), (b"", 0)):
        buf = np.frombuffer(data, np.uint8)
        assert int(extend(np.uint32(0xFFFFFFFF), buf, 0, len(buf))) ^ 0xFFFFFFFF == expected


@pytest.mark.skipif(len(WAYS) < 2, reason="this processor has no instruction for it")
def test_both_ways_agree_wherever_bytes_are_cut() -> None:
    dice = random.Random(1)
    buf = np.frombuffer(dice.randbytes(300), np.uint8)
    for _ in range(200):
        start, cut, stop = sorted(dice.randrange(len(buf) + 1) for _ in range(3))
        whole = {int(way(np.uint32(7), buf, start, stop)) for way in WAYS}
        pieces = {int(way(way(np.uint32(7), buf, start, cut), buf, cut, stop)) for way in WAYS}
        assert len(whole | pieces) == 1
