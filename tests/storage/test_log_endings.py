"""What the end of a log looks like, and what only looks like it: no damage passes for the end, and no end for damage."""

from __future__ import annotations

import gzip
import os
import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from support.cases import Case, open_case
from tailrace.cli import main
from tailrace.errors import CorruptWal, TailraceError, UnsupportedWal
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner, Source, capture, count_log, open_pipeline, scan_log
from tailrace.storage.segment_files import arrange, open_segments
from tailrace.wal.index import Index

PAGE = 8192
SEGMENT = 1 << 20


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return open_case("catalog_rewrite", 16, "with_slot", tmp_path)


def _segments(case: Case) -> list[Path]:
    return sorted(path for path in case.wal_dir.iterdir() if len(path.name) == 24)


def _scan(directory: Path) -> list[Index]:
    return scan_log(Source.open(directory).segments, LocalRunner(1))


def _end(directory: Path) -> tuple[Lsn, str, Lsn]:
    last = _scan(directory)[-1]
    return last.next_lsn, last.reason, last.place


def _next_to(last: Path) -> Path:
    return last.with_name(f"{int(last.name, 16) + 1:024X}")


# -- the end --------------------------------------------------------------------------------------------------------------------


def test_segments_made_ahead_are_no_damage(case: Case) -> None:
    """A server makes them of zeros, or renames old ones, which it writes over from the beginning."""
    sound = _end(case.wal_dir)
    first, last = _segments(case)[0], _segments(case)[-1]
    _next_to(last).write_bytes(first.read_bytes())
    _next_to(_next_to(last)).write_bytes(bytes(SEGMENT))
    assert _end(case.wal_dir) == sound
    used = int(sound[0]) % SEGMENT // PAGE * PAGE + PAGE
    last.write_bytes(last.read_bytes()[:used] + first.read_bytes()[used:])
    assert _end(case.wal_dir) == sound


def test_the_reason_is_that_of_the_place_where_the_log_ends(case: Case) -> None:
    """Whatever lies behind: it was told in the words of a page further on."""
    sound = _end(case.wal_dir)
    assert sound[1] == f"invalid record length at {sound[0]}: expected at least 24, got 0"
    first, last = _segments(case)[0], _segments(case)[-1]
    used = int(sound[0]) % SEGMENT // PAGE * PAGE + PAGE
    last.write_bytes(last.read_bytes()[:used] + first.read_bytes()[used:])
    assert _end(case.wal_dir)[1] == sound[1]
    last.unlink()
    last.write_bytes(first.read_bytes())
    end, reason, place = _end(case.wal_dir)
    assert place == Lsn(int(last.name[16:], 16) * SEGMENT)
    assert reason == f"unexpected pageaddr {Lsn(int(first.name[16:], 16) * SEGMENT)} in WAL page at {place}"
    assert end <= place


@pytest.mark.parametrize("length", [0, 100, 5 * PAGE, 5 * PAGE + 77])
@pytest.mark.parametrize("suffix", [".partial", ".partial.gz", ".gz.partial"])
def test_a_partial_segment_may_be_short(suffix: str, length: int, case: Case) -> None:
    last = _segments(case)[-1]
    data = last.read_bytes()[:length]
    last.with_name(last.name + suffix).write_bytes(gzip.compress(data) if "gz" in suffix else data)
    last.unlink()
    end, reason, _ = _end(case.wal_dir)
    assert Lsn(int(last.name[16:], 16) * SEGMENT - 2 * PAGE) < end <= Lsn(int(last.name[16:], 16) * SEGMENT + length)
    assert reason.startswith(("WAL ends inside the record at", "invalid record length")) or end % SEGMENT == 0


def test_a_compressed_partial_segment_may_break_off(case: Case) -> None:
    last = _segments(case)[-1]
    packed = gzip.compress(last.read_bytes())
    last.with_name(f"{last.name}.gz.partial").write_bytes(packed[: len(packed) // 2])
    last.unlink()
    assert _end(case.wal_dir)[0] > Lsn(int(last.name[16:], 16) * SEGMENT)


# -- what is none ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [0, 100, 5 * PAGE, 5 * PAGE + 77, SEGMENT + PAGE])
@pytest.mark.parametrize("compressed", [False, True])
def test_a_last_segment_of_another_length(length: int, compressed: bool, case: Case) -> None:
    """A copy that is damaged, or that somebody is still making."""
    last = _segments(case)[-1]
    data = (last.read_bytes() + bytes(PAGE))[:length]
    if compressed:
        last.unlink()
        last = last.with_name(f"{last.name}.gz")
    last.write_bytes(gzip.compress(data) if compressed else data)
    with pytest.raises(CorruptWal, match=f"has {length} bytes, expected {SEGMENT}") as caught:
        _scan(case.wal_dir)
    assert last.name in str(caught.value)
    with pytest.raises(CorruptWal, match="expected"):
        open_pipeline(case.data_dir, "app", runner=LocalRunner(1))


@pytest.mark.parametrize("where", ["last", "behind the last", "rest of the last"])
def test_noise_where_the_log_could_end(where: str, case: Case) -> None:
    last = _segments(case)[-1]
    noise = random.Random(6).randbytes(SEGMENT)
    if where == "last":
        last.write_bytes(noise)
    elif where == "behind the last":
        last = _next_to(last)
        last.write_bytes(noise)
    else:
        used = int(_end(case.wal_dir)[0]) % SEGMENT // PAGE * PAGE + PAGE
        last.write_bytes(last.read_bytes()[:used] + noise[used:])
    with pytest.raises(CorruptWal, match=r"invalid magic number|invalid page behind the end of the log") as caught:
        _scan(case.wal_dir)
    assert last.name in caught.value.context


@pytest.mark.parametrize("which", [0, 2, -1])
def test_a_segment_of_another_major(which: int, case: Case) -> None:
    """It ended the log, or was the log; the good ones beside it were passed over."""
    odd = _segments(case)[which]
    data = bytearray(odd.read_bytes())
    for at in range(0, len(data), PAGE):
        if data[at : at + 2] == b"\x13\xd1":
            data[at : at + 2] = b"\x10\xd1"
    odd.write_bytes(data)
    with pytest.raises((CorruptWal, UnsupportedWal), match="PostgreSQL 15") as caught:
        _scan(case.wal_dir)
    assert odd.name in str(caught.value)
    with pytest.raises(TailraceError):
        open_pipeline(case.data_dir, "app", runner=LocalRunner(1))


def test_noise_before_the_log(case: Case) -> None:
    first = _segments(case)[0]
    noise = first.with_name(f"{int(first.name, 16) - 1:024X}")
    noise.write_bytes(random.Random(7).randbytes(SEGMENT))
    with pytest.raises(CorruptWal, match="invalid magic number") as caught:
        _scan(case.wal_dir)
    assert noise.name in caught.value.context


@pytest.mark.parametrize("change", ["address", "magic", "flags"])
def test_damage_at_a_segments_start_names_that_segment(change: str, case: Case) -> None:
    middle = _segments(case)[2]
    data = bytearray(middle.read_bytes())
    data[{"magic": 1, "flags": 3, "address": 9}[change]] ^= 0x40
    middle.write_bytes(data)
    with pytest.raises(CorruptWal) as caught:
        _scan(case.wal_dir)
    assert middle.name in caught.value.context
    assert str(Lsn(int(middle.name[16:], 16) * SEGMENT)) in str(caught.value)


def test_a_stopped_directory_whose_last_records_are_damaged(case: Case) -> None:
    """Nothing follows them, but pg_control knows of them."""
    control = Source.open(case.data_dir).control
    assert control is not None
    last = _segments(case)[-1]
    data = bytearray(last.read_bytes())
    data[control.checkpoint % SEGMENT + 30] ^= 1
    last.write_bytes(data)
    with pytest.raises(CorruptWal, match=f"could not locate a valid checkpoint record at {control.checkpoint}") as caught:
        open_pipeline(case.data_dir, "app", runner=LocalRunner(1))
    assert "incorrect resource manager data checksum" in caught.value.context


def test_an_archive_whose_last_record_is_damaged(
    case: Case, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """That may be where a crash cut it off, so it is the end; but not without a word."""
    state = capture(Source.open(case.before_dir), LocalRunner(1), "app")
    assert open_pipeline(case.wal_dir, "app", runner=LocalRunner(1), catalog=state).warning == ""
    found = _scan(case.wal_dir)[-1]
    last = _segments(case)[-1]
    data = bytearray(last.read_bytes())
    data[found.last % SEGMENT + 30] ^= 1
    last.write_bytes(data)
    damaged = f"incorrect resource manager data checksum in record at {found.last}"
    warning = open_pipeline(case.wal_dir, "app", runner=LocalRunner(1), catalog=state).warning
    assert warning == f'the log ends at a record that is not whole, or damaged: {damaged}, file "{last}"'
    assert open_pipeline(case.wal_dir, "app", runner=LocalRunner(1), catalog=state, upto_lsn=found.last).warning == ""
    monkeypatch.setattr("sys.argv", ["tailrace", "wal", "verify", str(case.wal_dir)])
    with pytest.raises(SystemExit):
        main()
    last.write_bytes(_segments(case)[0].read_bytes())
    warning = open_pipeline(case.wal_dir, "app", runner=LocalRunner(1), catalog=state).warning
    assert f'and holds nothing of what "{last}" should' in warning
    assert f'; the log ends at a record that is not whole, or damaged: {damaged}, file "{last}"' in capfd.readouterr().out


# -- files that are none ----------------------------------------------------------------------------------------------------------


def _pipe(path: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize("make", [_pipe, Path.mkdir])
def test_what_is_no_regular_file_is_named_and_not_read(make: Callable[[Path], None], case: Case) -> None:
    segment = _segments(case)[1]
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


def test_counting_ends_where_reading_does(case: Case) -> None:
    counts, found = count_log(open_segments(case.wal_dir), LocalRunner(1), 1 << 16), _scan(case.wal_dir)
    assert counts.managers.total_records == sum(part.records for part in found)
    assert re.sub(r"\s", " ", counts.reason) == found[-1].reason
