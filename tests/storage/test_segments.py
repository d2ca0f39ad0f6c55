"""Segments that are damaged, missing, of others, or none: one error that names file and record, and nothing half done."""

from __future__ import annotations

import gzip
import os
import random
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.cases import DBNAME, Case, open_case
from support.damage import PAGE, flip, flipped, segments_of, write_at
from support.decoding import opened, rows_of
from tailrace.cli import main
from tailrace.errors import CorruptWal, MissingHistory, TailraceError, UnsupportedWal
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner, Source, scan_log
from tailrace.plan.xids import all_xids
from tailrace.storage.segment_files import arrange, list_segments, open_segments
from tailrace.wal.framing import LENGTH, LSN, new_frame, next_record

SYSTEM = 24
"""Where a segment's first page has the system identifier."""


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return open_case("catalog_rewrite", 16, "with_slot", tmp_path)


@pytest.fixture
def small(tmp_path: Path) -> Case:
    return open_case("xact", 16, "with_slot", tmp_path)


def _start_of(segment: Path) -> Lsn:
    """Of a segment of 1 MB on the first timeline."""
    return Lsn(int(segment.name[16:24], 16) << 20)


# -- damage ----------------------------------------------------------------------------------------------------------------------


def test_a_flipped_bit_names_file_and_record(case: Case) -> None:
    segment = segments_of(case)[1]
    flip(segment, 5 * PAGE + 1234, 0x10)
    with pytest.raises(CorruptWal, match=r"checksum|prev-link|record length|resource manager ID") as caught:
        scan_log(Source.open(case.data_dir).segments, LocalRunner(1))
    assert caught.value.file == str(segment)
    assert caught.value.lsn is not None
    assert f'WAL record at {caught.value.lsn}, file "{segment}"' == caught.value.context


def test_damage_anywhere_in_a_record_is_noticed(case: Case) -> None:
    """Forty records of the log, one bit flipped in each: verification names the record, every time."""
    segments = Source.open(case.data_dir).segments
    wal = segments.read(segments.first_lsn, segments.stop_lsn)
    frame = new_frame(wal, segments.identity, segments.first_lsn, segments.stop_lsn)
    found = []
    while (at := next_record(wal.buf, frame)) >= 0:
        if at < wal.raw:  # lies in one piece
            found.append((int(frame[LSN]), int(frame[LENGTH])))
    tried = found[5 : -5 : len(found) // 40]
    assert len(tried) >= 39
    for lsn, length in tried:
        path = Path(segments.by_number[lsn // segments.segment_size].path)
        with flipped(path, lsn % segments.segment_size + 24 + (lsn // 8) % (length - 24)), pytest.raises(CorruptWal) as caught:
            scan_log(segments, LocalRunner(1))
        assert (caught.value.lsn, caught.value.file) == (lsn, str(path))
        assert str(Lsn(lsn)) in str(caught.value)


def test_noise_gives_our_errors_or_the_right_rows(small: Case) -> None:
    """Bytes changed at random, a few at a time: never a foreign exception, never other rows."""
    segment = segments_of(small)[0]
    sound = segment.read_bytes()
    used = int(Lsn.parse(small.meta["end_lsn"])) % len(sound)
    dice = random.Random(20)
    outcomes = []
    for _ in range(60):
        damaged = bytearray(sound)
        for _ in range(dice.randint(1, 3)):
            damaged[dice.randrange(40, used)] ^= dice.randint(1, 255)
        segment.write_bytes(damaged)
        try:
            outcomes.append(rows_of(small.data_dir, start_lsn=small.meta["start_lsn"]) == small.expected)
        except TailraceError:
            outcomes.append(None)
    assert False not in outcomes
    assert outcomes.count(None) > 30


@pytest.mark.parametrize("bytes_left", [0, 100_000])
def test_a_compressed_segment_in_the_middle_that_holds_too_little(bytes_left: int, case: Case) -> None:
    """Not one record fails its checksum, and yet this is not the end of the log."""
    segment = segments_of(case)[1]
    compressed = segment.with_name(f"{segment.name}.gz")
    compressed.write_bytes(gzip.compress(segment.read_bytes()[:bytes_left]))
    segment.unlink()
    with pytest.raises(CorruptWal, match=f"has {bytes_left} bytes, expected 1048576") as caught:
        scan_log(Source.open(case.data_dir).segments, LocalRunner(1))
    assert compressed.name in str(caught.value)


def test_a_compressed_segment_that_is_damaged(case: Case) -> None:
    segment = segments_of(case)[1]
    compressed = bytearray(gzip.compress(segment.read_bytes()))
    compressed[20:60] = b"\xff" * 40
    segment.with_name(f"{segment.name}.gz").write_bytes(compressed)
    segment.unlink()
    with pytest.raises(CorruptWal, match="could not decompress WAL segment"):
        opened(case.data_dir)


# -- missing, or another's -----------------------------------------------------------------------------------------------------------


def test_a_log_whose_beginning_is_missing(case: Case) -> None:
    """It is decoded from its first checkpoint on. What lies before that is counted, and refused to whoever asks for it."""
    whole = opened(case.data_dir)
    assert whole.warning == ""
    for segment in segments_of(case)[:2]:
        segment.unlink()
    first = Source.open(case.data_dir).segments.first_lsn
    rest = opened(case.data_dir)
    xids = all_xids(whole.log.indexes, whole.log.outcomes)
    with_rows = set(xids.ordinal[xids.rows > 0].tolist())
    commits = [int(whole.plan.transactions.commit_lsn[each]) for each in whole.plan.shown.tolist() if each in with_rows]
    lost = [Lsn(commit) for commit in commits if first <= commit < rest.plan.start_lsn]
    assert len(lost) > 1
    told = re.fullmatch(
        rf"left out are {len(lost)} transactions with (\d+) rows at hand, which commit from {lost[0]} to {lost[-1]}: the WAL at hand "
        rf"begins at 0/\w+, and what tables were is known from {Lsn(rest.catalogs.known_from)} on; .*",
        rest.warning,
    )
    assert told
    assert int(told[1]) > 0
    with pytest.raises(
        MissingHistory, match=f"what tables were is known from {Lsn(rest.catalogs.known_from)} on, and transaction"
    ):
        opened(case.data_dir, start_lsn=lost[0])
    run = [sys.executable, "-m", "tailrace", "decode", case.data_dir, "--database", DBNAME, "--on", "local"]
    done = subprocess.run(run, capture_output=True, text=True, check=True, timeout=300)
    assert f"tailrace: warning: {rest.warning}\n" in done.stderr


def test_a_missing_segment_in_the_middle(case: Case) -> None:
    missing = segments_of(case)[1]
    missing.unlink()
    with pytest.raises(CorruptWal, match="missing") as caught:
        opened(case.data_dir)
    assert missing.name in str(caught.value)
    assert (caught.value.lsn, caught.value.file) == (_start_of(missing), missing.name)


def test_a_truncated_segment_in_the_middle(case: Case) -> None:
    segment = segments_of(case)[1]
    segment.write_bytes(segment.read_bytes()[: 40 * PAGE])
    with pytest.raises(CorruptWal) as caught:
        opened(case.data_dir)
    assert segment.name in str(caught.value)
    assert (caught.value.lsn, caught.value.file) == (_start_of(segment), str(segment))


def test_an_unknown_page_magic_names_the_version(case: Case) -> None:
    for segment in segments_of(case):
        write_at(segment, 0, (0xD120).to_bytes(2, "little"))
    with pytest.raises(UnsupportedWal, match=r"D120.*PostgreSQL newer than 18"):
        opened(case.data_dir)


def test_another_systems_segment(case: Case) -> None:
    flip(segments_of(case)[1], SYSTEM, 0xFF)
    with pytest.raises(CorruptWal, match="different database system"):
        opened(case.data_dir)


def test_a_log_of_another_system_than_the_directorys(case: Case) -> None:
    for segment in segments_of(case):
        flip(segment, SYSTEM, 0xFF)
    with pytest.raises(CorruptWal, match="different database system"):
        opened(case.data_dir)


def test_another_versions_page_in_the_middle(case: Case) -> None:
    segment = segments_of(case)[1]
    write_at(segment, 3 * PAGE, (0xD118).to_bytes(2, "little"))
    with pytest.raises(CorruptWal, match="invalid magic number D118") as caught:
        opened(case.data_dir)
    assert segment.name in str(caught.value)


def test_a_first_segment_of_zeros(case: Case) -> None:
    """A start in there was taken for one where nothing had happened yet."""
    segment = segments_of(case)[0]
    segment.write_bytes(bytes(len(segment.read_bytes())))
    with pytest.raises(CorruptWal, match="invalid magic number 0000") as caught:
        opened(case.data_dir, start_lsn=Source.open(case.data_dir).segments.first_lsn)
    assert segment.name in str(caught.value)


@pytest.mark.parametrize("content", [b"no history", b"1", b"1\t0/1x\tno reason", b"\xff\xfe\0\1"])
def test_a_history_file_that_is_none(content: bytes, case: Case) -> None:
    (case.wal_dir / "00000001.history").write_bytes(content)
    with pytest.raises(CorruptWal, match=r"invalid data in history file .*00000001\.history"):
        opened(case.data_dir)


# -- what is found all the same ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["gz", "zst", "lz4"])
def test_compressed_segments_are_read_as_the_plain_ones(suffix: str, small: Case) -> None:
    codec = {"gz": "gzip", "zst": "zstd", "lz4": "lz4"}[suffix]
    for segment in segments_of(small):
        segment.with_name(f"{segment.name}.{suffix}").write_bytes(pa.compress(segment.read_bytes(), codec, asbytes=True))
        segment.unlink()
    assert rows_of(small.data_dir, start_lsn=small.meta["start_lsn"]) == small.expected


def test_segments_are_read_alike_in_any_pieces(small: Case) -> None:
    segments = open_segments(small.wal_dir)
    start = segments.first_lsn
    whole = segments.read(start, start + 8 * PAGE)
    parts = [segments.read(start + i * PAGE, start + (i + 1) * PAGE) for i in range(8)]
    assert b"".join(part.buf[: part.raw].tobytes() for part in parts) == whole.buf[: whole.raw].tobytes()


def test_a_sibling_is_not_of_the_newest_timelines_past(small: Case, tmp_path: Path) -> None:
    """Two standbys were promoted from one primary, and archive where it did: timeline 3 branched off 1, not off 2."""
    path = segments_of(small)[0]
    archive = tmp_path / "archive"
    archive.mkdir()
    number = int(path.name[16:], 16)
    for timeline, numbers in ((1, (0, 1)), (2, (1, 2, 3)), (3, (1,))):
        for each in numbers:
            (archive / f"{timeline:08X}{path.name[8:16]}{number + each:08X}").write_bytes(path.read_bytes())
    (archive / "00000002.history").write_text(f"1\t{Lsn((number + 1 << 20) + 64)}\tno recovery target specified\n")
    (archive / "00000003.history").write_text(f"1\t{Lsn((number + 1 << 20) + 32)}\tno recovery target specified\n")
    segments = open_segments(archive)
    assert [(each.timeline, position - number) for position, each in sorted(segments.by_number.items())] == [(1, 0), (3, 1)]


def _middle_missing(segment: Path) -> None:
    segment.unlink()


def _middle_zeroed(segment: Path) -> None:
    segment.write_bytes(bytes(len(segment.read_bytes())))


def _middle_page_zeroed(segment: Path) -> None:
    write_at(segment, 8 * PAGE, bytes(PAGE))


def _middle_of_another_system(segment: Path) -> None:
    flip(segment, SYSTEM, 0xFF)


@pytest.mark.parametrize("damage", [_middle_missing, _middle_zeroed, _middle_page_zeroed, _middle_of_another_system])
@pytest.mark.parametrize("verb", ["dump", "stat", "verify"])
def test_who_looks_at_the_log_learns_that_it_goes_on(
    verb: str, damage: Callable[[Path], None], case: Case, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Damage is not where the log ends; what lies before it can still be looked at."""
    first, middle = segments_of(case)[:2]
    damage(middle)
    assert _status("wal", verb, case.data_dir, monkeypatch=monkeypatch) == 1
    said = capfd.readouterr().err
    assert said.startswith("tailrace: error: ")
    assert middle.name in said
    assert _status("wal", "dump", case.data_dir, "--end", f"0/{int(first.name[16:], 16):X}80000", monkeypatch=monkeypatch) == 0


def _status(*words: object, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["tailrace", *map(str, words)])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_regular_file_is_named_and_not_read(make: Callable[[Path], None], case: Case) -> None:
    segment = segments_of(case)[1]
    segment.unlink()
    make(segment)
    with pytest.raises(CorruptWal, match=r"WAL segment .* is not a regular file") as caught:
        open_segments(case.wal_dir)
    assert segment.name in str(caught.value)
    assert [each.path for each in arrange(case.wal_dir).by_number.values() if each.size is None] == [str(segment)]


def test_a_history_file_that_is_a_pipe(case: Case) -> None:
    os.mkfifo(case.wal_dir / "00000001.history")
    with pytest.raises(CorruptWal, match=r"history file .* is not a regular file"):
        open_segments(case.wal_dir)


def test_a_partial_segment_that_becomes_whole_while_it_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is there all the time."""
    whole = tmp_path / "000000010000000000000001"
    partial = whole.with_name(f"{whole.name}.partial")
    partial.write_bytes(bytes(PAGE))
    stat = os.stat

    def become_whole(path: str | Path, **more: Any) -> os.stat_result:
        with suppress(FileNotFoundError):
            os.rename(partial, whole)
        return stat(path, **more)

    monkeypatch.setattr(os, "stat", become_whole)
    assert [(segment.path, segment.partial, segment.size) for segment in list_segments(tmp_path)] == [(str(whole), False, PAGE)]
