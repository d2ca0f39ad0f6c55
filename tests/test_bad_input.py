"""Bad input gets one clear error, and nothing half done."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.cases import Case, open_case

from tailrace.errors import CorruptWal, MissingHistory, TailraceError, UnsupportedWal, UsageError
from tailrace.model import Lsn
from tailrace.river import LocalRunner, Source, open_river, scan_log
from tailrace.wal.framing import LENGTH, LSN, new_frame, next_record

PAGE = 8192


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return open_case("catalog_rewrite", 16, "with_slot", tmp_path)


def _segments(case: Case) -> list[Path]:
    return sorted(path for path in case.wal_dir.iterdir() if len(path.name) == 24)


def _open(case: Case, **options: object) -> None:
    open_river(case.data_dir, "app", runner=LocalRunner(1), **options)  # type: ignore[arg-type]


def test_a_flipped_bit_names_file_and_record(case: Case) -> None:
    segment = _segments(case)[1]
    damaged = bytearray(segment.read_bytes())
    damaged[5 * PAGE + 1234] ^= 0x10
    segment.write_bytes(damaged)
    with pytest.raises(CorruptWal, match=r"incorrect resource manager data checksum|prev-link|record length|resource manager ID") as caught:
        scan_log(Source.open(case.data_dir).segments, LocalRunner(1))
    assert segment.name in caught.value.context
    assert re.search(r"[0-9A-F]+/[0-9A-F]+", caught.value.context)


def test_damage_anywhere_in_a_record_is_noticed(case: Case) -> None:
    """Forty records of the log, one bit flipped in each: verification names the record, every time."""
    segments = Source.open(case.data_dir).segments
    wal = segments.read(segments.first_lsn, segments.stop_lsn)
    frame = new_frame(wal, segments.first_lsn, segments.stop_lsn, segments.segment_size, segments.magic, check_crc=True)
    found = []
    while (at := next_record(wal.buf, frame)) >= 0:
        if at < wal.raw:  # lies in one piece
            found.append((int(frame[LSN]), int(frame[LENGTH])))
    for lsn, length in found[5 : -5 : len(found) // 40]:
        path = Path(segments.by_number[lsn // segments.segment_size].path)
        sound = path.read_bytes()
        damaged = bytearray(sound)
        damaged[lsn % segments.segment_size + 24 + (lsn // 8) % (length - 24)] ^= 0x01
        path.write_bytes(damaged)
        with pytest.raises(CorruptWal) as caught:
            scan_log(segments, LocalRunner(1))
        assert path.name in caught.value.context
        assert str(Lsn(lsn)) in str(caught.value)
        path.write_bytes(sound)


def test_a_missing_segment_in_the_middle(case: Case) -> None:
    missing = _segments(case)[1]
    missing.unlink()
    with pytest.raises(CorruptWal, match="missing") as caught:
        _open(case)
    assert missing.name in str(caught.value)


def test_a_truncated_segment_in_the_middle(case: Case) -> None:
    segment = _segments(case)[1]
    segment.write_bytes(segment.read_bytes()[: 40 * PAGE])
    with pytest.raises(CorruptWal) as caught:
        _open(case)
    assert segment.name in str(caught.value)


def test_an_unknown_page_magic_names_the_version(case: Case) -> None:
    for segment in _segments(case):
        data = bytearray(segment.read_bytes())
        data[0:2] = (0xD120).to_bytes(2, "little")
        segment.write_bytes(data)
    with pytest.raises(UnsupportedWal, match="D120"):
        _open(case)


def test_another_systems_segment(case: Case) -> None:
    segment = _segments(case)[1]
    data = bytearray(segment.read_bytes())
    data[24] ^= 0xFF
    segment.write_bytes(data)
    with pytest.raises(CorruptWal, match="different database system"):
        _open(case)


def test_a_database_that_does_not_exist(case: Case) -> None:
    with pytest.raises(UsageError, match='database "nowhere" does not exist') as caught:
        open_river(case.data_dir, "nowhere", runner=LocalRunner(1))
    assert caught.value.sqlstate == "3D000"


def test_positions_outside_of_the_log(case: Case) -> None:
    with pytest.raises(UsageError, match="outside of the WAL"):
        _open(case, start_lsn=Lsn.parse("7F/0"))
    with pytest.raises(TailraceError, match="outside|removed"):
        _open(case, start_lsn=Lsn.parse("0/1000000") if _first(case) > Lsn.parse("0/1000000") else Lsn(1))


def _first(case: Case) -> Lsn:
    return Source.open(case.data_dir).segments.first_lsn


def test_an_archive_without_catalogs(case: Case) -> None:
    with pytest.raises(UsageError, match="does not say what its tables are"):
        open_river(case.wal_dir, "app", runner=LocalRunner(1))


def test_no_checkpoint_to_start_from(case: Case) -> None:
    for segment in _segments(case)[:1]:
        segment.unlink()
    with pytest.raises(TailraceError) as caught:
        _open(case, start_lsn=Lsn.parse(case.meta["start_lsn"]))
    assert isinstance(caught.value, MissingHistory | UsageError)


def test_the_command_line_says_one_thing(case: Case) -> None:
    run = [sys.executable, "-m", "tailrace", "decode", str(case.data_dir), "--local", "--database"]
    done = subprocess.run([*run, "nowhere"], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr == 'tailrace: error: database "nowhere" does not exist\n'
