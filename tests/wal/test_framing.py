"""Framing: the same records however the bytes arrive."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import open_case

from tailrace.model import PAGE_SIZE, Lsn
from tailrace.river import Source
from tailrace.wal.crc import crc32c
from tailrace.wal.framing import END, LENGTH, LSN, NEED_MORE, POSITION, PREVIOUS, WalBytes, frame_all, new_frame, next_record

PAGES = 40


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, int, int, int]:
    """The first pages of a real log: bytes, base, segment size, magic."""
    case = open_case("toast", 16, "with_slot", tmp_path_factory.mktemp("case"))
    segments = Source.open(case.data_dir).segments
    base = int(segments.first_lsn)
    wal = segments.read(base, base + PAGES * PAGE_SIZE)
    return wal.buf[: wal.raw].tobytes(), base, segments.segment_size, segments.magic


def _records(data: bytes, base: int, start: int, segment_size: int, magic: int, previous: int = 0) -> tuple[list[tuple[int, bytes]], np.ndarray]:
    wal = WalBytes.of(data, base)
    frame = new_frame(wal, start, base + (1 << 40), segment_size, magic, check_crc=True, previous=previous)
    found = []
    while (at := next_record(wal.buf, frame)) >= 0:
        found.append((int(frame[LSN]), wal.buf[at : at + frame[LENGTH]].tobytes()))
        assert frame[END] % 8 == 0
    assert at == NEED_MORE
    return found, frame


def test_cut_anywhere(log: tuple[bytes, int, int, int]) -> None:
    """Fed up to any cut, framing stops where the cut record begins, and goes on from there as if nothing had been."""
    data, base, size, magic = log
    whole, _ = _records(data, base, base, size, magic)
    assert len(whole) > 60
    for cut in range(PAGE_SIZE, len(data), 157):
        head, frame = _records(data[:cut], base, base, size, magic)
        assert head == whole[: len(head)]
        tail, _ = _records(data, base, int(frame[POSITION]), size, magic, int(frame[PREVIOUS]))
        assert head + tail == whole


def test_start_inside_a_record(log: tuple[bytes, int, int, int]) -> None:
    """From any page on, the records are those of the whole log that start there or later."""
    data, base, size, magic = log
    whole, _ = _records(data, base, base, size, magic)
    for page in range(1, PAGES - 1):
        start = base + page * PAGE_SIZE
        later, _ = _records(data[page * PAGE_SIZE :], start, start, size, magic)
        assert later == [record for record in whole if record[0] >= start]


def test_frame_all_is_next_record(log: tuple[bytes, int, int, int]) -> None:
    data, base, size, magic = log
    whole, _ = _records(data, base, base, size, magic)
    wal = WalBytes.of(data, base)
    at, lsn, end = (np.zeros(len(whole) + 10, np.int64) for _ in range(3))
    count, reason = frame_all(wal.buf, new_frame(wal, base, base + (1 << 40), size, magic, check_crc=True), at, lsn, end)
    assert reason == NEED_MORE
    assert lsn[:count].tolist() == [position for position, _ in whole]


def test_crc() -> None:
    assert crc32c(b"123456789") == 0xE3069283


@given(st.integers(0, 2**64 - 1))
def test_lsn_round_trip(number: int) -> None:
    assert Lsn.parse(str(Lsn(number))) == number


@pytest.mark.parametrize("text", ["", "0", "/", "0/", "G/0", "0/123456789", "0x1/0/0"])
def test_lsn_refuses(text: str) -> None:
    with pytest.raises(ValueError, match="invalid input syntax for type pg_lsn"):
        Lsn.parse(text)


def test_paths_are_not_needed(tmp_path: Path) -> None:
    """Framing is pure: bytes are enough, and too few are not an error."""
    wal = WalBytes.of(b"\0" * 16, 0)
    frame = new_frame(wal, 0, 1 << 40, 1 << 20, 0xD113, check_crc=True)
    assert next_record(wal.buf, frame) == NEED_MORE
    assert not list(tmp_path.iterdir())
