"""Framing: however the bytes arrive, the records are the same; and positions read as they are printed.

The log is cut behind every single byte; what lies behind the cut is poison, so that a look beyond it would show.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numba import njit

from support.cases import open_case
from tailrace.model import PAGE_SIZE, Lsn
from tailrace.storage.segment_files import open_segments
from tailrace.wal import framing
from tailrace.wal.crc import crc32c
from tailrace.wal.framing import END, LENGTH, LSN, NEED_MORE, POSITION, PREVIOUS, RECORD_HEADER, new_frame, next_record
from tailrace.wal.pages import LogIdentity, WalBytes, spacious

PAGES = 3
LARGER = 40
POISON = 0xAA


@njit(nogil=True)
def frame_all(buf, frame, at, lsn, end):  # type: ignore[no-untyped-def]
    """Walk to the end, writing each record's offset, LSN and end LSN. Returns how many, and the reason that ended the walk."""
    count = 0
    while count < len(at):
        record = next_record(buf, frame)
        if record < 0:
            return count, record
        at[count] = record
        lsn[count] = frame[LSN]
        end[count] = frame[END]
        count += 1
    return count, NEED_MORE


class Log(NamedTuple):
    """The first pages of a real log."""

    pages: np.ndarray
    base: int
    identity: LogIdentity


class Record(NamedTuple):
    """What a walk gives."""

    lsn: int
    end: int
    data: bytes


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Log:
    return _first_pages("xact", PAGES, tmp_path_factory.mktemp("case"))


@pytest.fixture(scope="module")
def larger(tmp_path_factory: pytest.TempPathFactory) -> Log:
    return _first_pages("toast", LARGER, tmp_path_factory.mktemp("case"))


def _first_pages(story: str, pages: int, directory: Path) -> Log:
    segments = open_segments(open_case(story, 16, "with_slot", directory).wal_dir)
    wal = segments.read(segments.first_lsn, segments.first_lsn + pages * PAGE_SIZE)
    return Log(wal.buf[: wal.raw].copy(), segments.first_lsn, segments.identity)


def walk(log: Log, raw: int, start: int, previous: int) -> tuple[list[Record], int, int, int]:
    """Records in the first `raw` bytes; what lies behind those is poison. Also the reason, and where to go on from."""
    buf = np.full(spacious(raw), POISON, np.uint8)
    buf[:raw] = log.pages[:raw]
    stop = log.base + len(log.pages)
    frame = new_frame(WalBytes(buf, log.base, raw), log.identity, start, stop, previous=previous)
    at, lsn, end = (np.zeros(raw // RECORD_HEADER + 1, np.int64) for _ in range(3))
    count, reason = frame_all(buf, frame, at, lsn, end)
    records = []
    for i in range(count):
        length = int(buf[at[i] : at[i] + 4].view("<u4")[0])
        records.append(Record(int(lsn[i]), int(end[i]), buf[at[i] : at[i] + length].tobytes()))
    return records, reason, int(frame[POSITION]), int(frame[PREVIOUS])


def test_records_are_the_same_wherever_the_bytes_are_cut(log: Log) -> None:
    whole, _, _, _ = walk(log, len(log.pages), log.base, 0)
    assert len(whole) > 10
    assert any(record.lsn // PAGE_SIZE != (record.end - 1) // PAGE_SIZE for record in whole), "none crosses a page"
    for cut in range(len(log.pages) + 1):
        before, reason, position, previous = walk(log, cut, log.base, 0)
        assert reason == framing.NEED_MORE or cut == len(log.pages), cut
        after, _, _, _ = walk(log, len(log.pages), position, previous)
        assert before + after == whole, f"cut at {cut}"


def test_a_walk_may_start_inside_a_record(larger: Log) -> None:
    """From any page on, the records are those of the whole log that start there or later."""
    whole, _, _, _ = walk(larger, len(larger.pages), larger.base, 0)
    assert len(whole) > 60
    for page in range(1, LARGER - 1):
        start = larger.base + page * PAGE_SIZE
        part = larger._replace(pages=larger.pages[page * PAGE_SIZE :], base=start)
        later, _, _, _ = walk(part, len(part.pages), start, 0)
        assert later == [record for record in whole if record.lsn >= start]


def test_framing_one_by_one_is_framing_all(larger: Log) -> None:
    whole, _, _, _ = walk(larger, len(larger.pages), larger.base, 0)
    wal = WalBytes.of(larger.pages, larger.base)
    frame = new_frame(wal, larger.identity, larger.base, 1 << 62)
    found = []
    while (at := next_record(wal.buf, frame)) >= 0:
        found.append(Record(int(frame[LSN]), int(frame[END]), wal.buf[at : at + frame[LENGTH]].tobytes()))
    assert at == framing.NEED_MORE
    assert found == whole
    assert all(record.end % 8 == 0 for record in found)


def test_a_checksum_is_castagnolis() -> None:
    assert crc32c(b"123456789") == 0xE3069283


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


@example("0x1/0")
@example("1_0/0")
@example("+1/0")
@example(" 1/0")
@given(st.text(alphabet="0123456789abcdefABCDEFxX/_+- g", max_size=20))
def test_what_is_not_an_lsn_is_refused_in_postgresqls_words(text: str) -> None:
    high, slash, low = text.partition("/")
    hexadecimal = all(part and len(part) <= 8 and set(part) <= set("0123456789abcdefABCDEF") for part in (high, low))
    if slash and hexadecimal:
        assert Lsn.parse(text) == int(high, 16) << 32 | int(low, 16)
        return
    with pytest.raises(ValueError, match="invalid input syntax for type pg_lsn"):
        Lsn.parse(text)
