"""What the end of a log looks like, and what only looks like it: no damage passes for the end, and no end for damage."""

from __future__ import annotations

import gzip
import random
import struct
from pathlib import Path

import pytest

from support.cases import DBNAME, Case, open_case
from support.damage import PAGE, flip, segments_of
from support.decoding import opened
from tailrace.cli import main
from tailrace.errors import CorruptWal, TailraceError, UnsupportedWal
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner, Scanning, Source, capture, scan_log
from tailrace.wal.index import Index

SEGMENT = 1 << 20


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return open_case("catalog_rewrite", 16, "with_slot", tmp_path)


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
    first, last = segments_of(case)[0], segments_of(case)[-1]
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
    first, last = segments_of(case)[0], segments_of(case)[-1]
    used = int(sound[0]) % SEGMENT // PAGE * PAGE + PAGE
    last.write_bytes(last.read_bytes()[:used] + first.read_bytes()[used:])
    assert _end(case.wal_dir)[1] == sound[1]
    last.unlink()
    last.write_bytes(first.read_bytes())
    end, reason, place = _end(case.wal_dir)
    assert place == Lsn(int(last.name[16:], 16) * SEGMENT)
    assert reason == f"unexpected pageaddr {Lsn(int(first.name[16:], 16) * SEGMENT)} in WAL page at {place}"
    assert end <= place


def test_what_an_old_page_holds_does_not_matter(case: Case) -> None:
    """Be it what a record would have that names the page's new place as its predecessor: none begins there."""
    first, last = segments_of(case)[0], segments_of(case)[-1]
    old = bytearray(first.read_bytes())
    old[1024:1048] = struct.pack("<IIQQ", 100, 0, int(last.name[16:], 16) * SEGMENT, 0)
    last.unlink()
    last.write_bytes(old)
    parts = scan_log(Source.open(case.wal_dir).segments, LocalRunner(1), how=Scanning(stretch_bytes=SEGMENT))
    assert parts[-1].next_lsn <= int(last.name[16:], 16) * SEGMENT


@pytest.mark.parametrize("length", [0, 100, 5 * PAGE, 5 * PAGE + 77])
@pytest.mark.parametrize("suffix", [".partial", ".partial.gz", ".gz.partial"])
def test_a_partial_segment_may_be_short(suffix: str, length: int, case: Case) -> None:
    last = segments_of(case)[-1]
    data = last.read_bytes()[:length]
    last.with_name(last.name + suffix).write_bytes(gzip.compress(data) if "gz" in suffix else data)
    last.unlink()
    end, reason, _ = _end(case.wal_dir)
    assert Lsn(int(last.name[16:], 16) * SEGMENT - 2 * PAGE) < end <= Lsn(int(last.name[16:], 16) * SEGMENT + length)
    assert reason.startswith(("WAL ends inside the record at", "invalid record length")) or end % SEGMENT == 0


def test_a_compressed_partial_segment_may_break_off(case: Case) -> None:
    last = segments_of(case)[-1]
    packed = gzip.compress(last.read_bytes())
    last.with_name(f"{last.name}.gz.partial").write_bytes(packed[: len(packed) // 2])
    last.unlink()
    assert _end(case.wal_dir)[0] > Lsn(int(last.name[16:], 16) * SEGMENT)


# -- what is none ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [0, 100, 5 * PAGE, 5 * PAGE + 77, SEGMENT + PAGE])
@pytest.mark.parametrize("compressed", [False, True])
def test_a_last_segment_of_another_length(length: int, compressed: bool, case: Case) -> None:
    """A copy that is damaged, or that somebody is still making."""
    last = segments_of(case)[-1]
    data = (last.read_bytes() + bytes(PAGE))[:length]
    if compressed:
        last.unlink()
        last = last.with_name(f"{last.name}.gz")
    last.write_bytes(gzip.compress(data) if compressed else data)
    with pytest.raises(CorruptWal, match=f"has {length} bytes, expected {SEGMENT}") as caught:
        _scan(case.wal_dir)
    assert caught.value.file == str(last)
    with pytest.raises(CorruptWal, match="expected"):
        opened(case.data_dir)


@pytest.mark.parametrize("where", ["last", "behind the last", "rest of the last"])
def test_noise_where_the_log_could_end(where: str, case: Case) -> None:
    last = segments_of(case)[-1]
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
    assert caught.value.file == str(last)
    assert last.name in caught.value.context


@pytest.mark.parametrize("which", [0, 2, -1])
def test_a_segment_of_another_major(which: int, case: Case) -> None:
    """It ended the log, or was the log; the good ones beside it were passed over."""
    odd = segments_of(case)[which]
    data = bytearray(odd.read_bytes())
    for at in range(0, len(data), PAGE):
        if data[at : at + 2] == b"\x13\xd1":
            data[at : at + 2] = b"\x10\xd1"
    odd.write_bytes(data)
    with pytest.raises((CorruptWal, UnsupportedWal), match="PostgreSQL 15") as caught:
        _scan(case.wal_dir)
    assert odd.name in str(caught.value)
    with pytest.raises(TailraceError):
        opened(case.data_dir)


def test_noise_before_the_log(case: Case) -> None:
    first = segments_of(case)[0]
    noise = first.with_name(f"{int(first.name, 16) - 1:024X}")
    noise.write_bytes(random.Random(7).randbytes(SEGMENT))
    with pytest.raises(CorruptWal, match="invalid magic number") as caught:
        _scan(case.wal_dir)
    assert noise.name in caught.value.context
    assert caught.value.file == str(noise)


@pytest.mark.parametrize("change", ["address", "magic", "flags"])
def test_damage_at_a_segments_start_names_that_segment(change: str, case: Case) -> None:
    middle = segments_of(case)[2]
    flip(middle, {"magic": 1, "flags": 3, "address": 9}[change], 0x40)
    with pytest.raises(CorruptWal) as caught:
        _scan(case.wal_dir)
    assert middle.name in caught.value.context
    assert caught.value.file == str(middle)
    assert str(Lsn(int(middle.name[16:], 16) * SEGMENT)) in str(caught.value)


def test_a_stopped_directory_whose_last_records_are_damaged(case: Case) -> None:
    """Nothing follows them, but pg_control knows of them."""
    control = Source.open(case.data_dir).control
    assert control is not None
    last = segments_of(case)[-1]
    flip(last, control.checkpoint % SEGMENT + 30)
    with pytest.raises(CorruptWal, match=f"could not locate a valid checkpoint record at {control.checkpoint}") as caught:
        opened(case.data_dir)
    assert "incorrect resource manager data checksum" in caught.value.context
    assert caught.value.lsn == control.checkpoint


def test_an_archive_whose_last_record_is_damaged(
    case: Case, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """That may be where a crash cut it off, so it is the end; but not without a word."""
    state = capture(Source.open(case.before_dir), LocalRunner(1), DBNAME)
    assert opened(case.wal_dir, catalog=state).warning == ""
    found = _scan(case.wal_dir)[-1]
    last = segments_of(case)[-1]
    flip(last, found.last % SEGMENT + 30)
    damaged = f"incorrect resource manager data checksum in record at {found.last}"
    warning = opened(case.wal_dir, catalog=state).warning
    assert warning == f'the log ends at a record that is not whole, or damaged: {damaged}, file "{last}"'
    assert opened(case.wal_dir, catalog=state, upto_lsn=found.last).warning == ""
    monkeypatch.setattr("sys.argv", ["tailrace", "wal", "verify", str(case.wal_dir)])
    with pytest.raises(SystemExit):
        main()
    last.write_bytes(segments_of(case)[0].read_bytes())
    warning = opened(case.wal_dir, catalog=state).warning
    assert f'and holds nothing of what "{last}" should' in warning
    assert f'; the log ends at a record that is not whole, or damaged: {damaged}, file "{last}"' in capfd.readouterr().out
