"""Framing: however the bytes arrive, the records are the same; and positions read as they are printed."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.cases import open_case
from tailrace.model import PAGE_SIZE, Lsn
from tailrace.storage.segments import open_segments
from tailrace.wal import framing
from tailrace.wal.framing import POSITION, PREVIOUS, WalBytes, frame_all, new_frame

PAGES = 4
POISON = 0xAA


class Log(NamedTuple):
    """The first pages of a real log."""

    pages: np.ndarray
    base: int
    segment_size: int
    magic: int


class Record(NamedTuple):
    """What a walk gives."""

    lsn: int
    end: int
    data: bytes


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Log:
    golden = open_case("xact", 16, "with_slot", tmp_path_factory.mktemp("case"))
    segments = open_segments(golden.wal_dir)
    start = segments.first_lsn
    wal = segments.read(start, start + PAGES * PAGE_SIZE)
    return Log(wal.buf[: wal.raw].copy(), start, segments.segment_size, segments.magic)


def walk(log: Log, raw: int, start: int, previous: int) -> tuple[list[Record], int, int, int]:
    """Records in the first `raw` bytes; what lies behind those is poison. Also the reason, and where to go on from."""
    buf = np.full(framing.spacious(raw), POISON, np.uint8)
    buf[:raw] = log.pages[:raw]
    stop = log.base + len(log.pages)
    frame = new_frame(WalBytes(buf, log.base, raw), start, stop, log.segment_size, log.magic, check_crc=True, previous=previous)
    at, lsn, end = (np.zeros(raw // framing.RECORD_HEADER + 1, np.int64) for _ in range(3))
    count, reason = frame_all(buf, frame, at, lsn, end)
    records = []
    for i in range(count):
        length = int(buf[at[i] : at[i] + 4].view("<u4")[0])
        records.append(Record(int(lsn[i]), int(end[i]), buf[at[i] : at[i] + length].tobytes()))
    return records, reason, int(frame[POSITION]), int(frame[PREVIOUS])


def test_records_are_the_same_wherever_the_bytes_are_cut(log: Log) -> None:
    whole, _, _, _ = walk(log, len(log.pages), log.base, 0)
    assert len(whole) > 20
    assert any(record.lsn // PAGE_SIZE != (record.end - 1) // PAGE_SIZE for record in whole), "none crosses a page"
    for cut in range(len(log.pages) + 1):
        before, reason, position, previous = walk(log, cut, log.base, 0)
        assert reason == framing.NEED_MORE or cut == len(log.pages), cut
        after, _, _, _ = walk(log, len(log.pages), position, previous)
        assert before + after == whole, f"cut at {cut}"


def test_a_flipped_bit_is_seen_wherever_it_is(log: Log) -> None:
    whole, _, _, _ = walk(log, len(log.pages), log.base, 0)
    record = next(each for each in whole[3:] if each.lsn // PAGE_SIZE == (each.end - 1) // PAGE_SIZE and len(each.data) < 200)
    start = record.lsn - log.base
    number = whole.index(record)
    for byte in range(len(record.data)):
        for bit in range(8):
            damaged = log.pages.copy()
            damaged[start + byte] ^= 1 << bit
            found, reason, position, _ = walk(log._replace(pages=damaged), len(damaged), log.base, 0)
            assert found == whole[:number], f"byte {byte}, bit {bit}"
            assert reason < framing.REACHED_STOP or reason == framing.NEED_MORE
            assert position == record.lsn


@given(st.integers(0, 2**64 - 1))
def test_an_lsn_reads_as_it_prints(number: int) -> None:
    assert Lsn.parse(str(Lsn(number))) == number


@given(st.text(alphabet="0123456789abcdefABCDEFxX/_+- g", max_size=20))
def test_what_is_not_an_lsn_is_refused_in_postgresqls_words(text: str) -> None:
    high, slash, low = text.partition("/")
    hexadecimal = all(part and len(part) <= 8 and set(part) <= set("0123456789abcdefABCDEF") for part in (high, low))
    if slash and hexadecimal:
        assert Lsn.parse(text) == int(high, 16) << 32 | int(low, 16)
        return
    with pytest.raises(ValueError, match="invalid input syntax for type pg_lsn"):
        Lsn.parse(text)


def test_segments_are_read_alike_in_any_pieces(tmp_path: Path) -> None:
    golden = open_case("xact", 16, "with_slot", tmp_path)
    segments = open_segments(golden.wal_dir)
    start = segments.first_lsn
    whole = segments.read(start, start + 8 * PAGE_SIZE)
    parts = [segments.read(start + i * PAGE_SIZE, start + (i + 1) * PAGE_SIZE) for i in range(8)]
    assert b"".join(part.buf[: part.raw].tobytes() for part in parts) == whole.buf[: whole.raw].tobytes()
