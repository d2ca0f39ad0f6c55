"""Bad input gets one clear error, and nothing half done."""

from __future__ import annotations

import gzip
import os
import random
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from support.cases import Case, open_case
from support.decoding import text_of
from tailrace.catalog.layouts import layouts_by_oid
from tailrace.catalog.pages import IN_PROGRESS
from tailrace.catalog.statefile import read_state, write_state
from tailrace.cli import main
from tailrace.errors import CorruptFile, CorruptWal, MissingHistory, TailraceError, UnsupportedWal, UsageError
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner, Scanning, Source, capture, open_pipeline, scan_log
from tailrace.storage.index_store import IndexStore
from tailrace.wal.crc import record_crc
from tailrace.wal.framing import LENGTH, LSN, new_frame, next_record

PAGE = 8192


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return open_case("catalog_rewrite", 16, "with_slot", tmp_path)


def _segments(case: Case) -> list[Path]:
    return sorted(path for path in case.wal_dir.iterdir() if len(path.name) == 24)


def _open(case: Case, **options: object) -> None:
    open_pipeline(case.data_dir, "app", runner=LocalRunner(1), **options)  # type: ignore[arg-type]


def test_a_flipped_bit_names_file_and_record(case: Case) -> None:
    segment = _segments(case)[1]
    damaged = bytearray(segment.read_bytes())
    damaged[5 * PAGE + 1234] ^= 0x10
    segment.write_bytes(damaged)
    with pytest.raises(CorruptWal, match=r"checksum|prev-link|record length|resource manager ID") as caught:
        scan_log(Source.open(case.data_dir).segments, LocalRunner(1))
    assert segment.name in caught.value.context
    assert re.search(r"[0-9A-F]+/[0-9A-F]+", caught.value.context)


def test_a_log_whose_beginning_is_missing(case: Case) -> None:
    """It is decoded from its first checkpoint on. What lies before that is counted, and refused to whoever asks for it."""
    whole = open_pipeline(case.data_dir, "app", runner=LocalRunner(1))
    assert whole.warning == ""
    for segment in _segments(case)[:2]:
        segment.unlink()
    first = Source.open(case.data_dir).segments.first_lsn
    rest = open_pipeline(case.data_dir, "app", runner=LocalRunner(1))
    commits = [int(whole.plan.transactions.commit_lsn[ordinal]) for ordinal in whole.plan.shown.tolist()]
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
        _open(case, start_lsn=lost[0])
    run = [sys.executable, "-m", "tailrace", "decode", case.data_dir, "--database", "app", "--on", "local"]
    done = subprocess.run(run, capture_output=True, text=True, check=True, timeout=300)
    assert f"tailrace: warning: {rest.warning}\n" in done.stderr


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
    with pytest.raises(UnsupportedWal, match=r"D120.*PostgreSQL newer than 18"):
        _open(case)


def test_another_systems_segment(case: Case) -> None:
    segment = _segments(case)[1]
    data = bytearray(segment.read_bytes())
    data[24] ^= 0xFF
    segment.write_bytes(data)
    with pytest.raises(CorruptWal, match="different database system"):
        _open(case)


def test_another_versions_page_in_the_middle(case: Case) -> None:
    segment = _segments(case)[1]
    data = bytearray(segment.read_bytes())
    data[3 * PAGE : 3 * PAGE + 2] = (0xD118).to_bytes(2, "little")
    segment.write_bytes(data)
    with pytest.raises(CorruptWal, match="invalid magic number D118") as caught:
        _open(case)
    assert segment.name in str(caught.value)


def _middle_missing(segment: Path) -> None:
    segment.unlink()


def _middle_zeroed(segment: Path) -> None:
    segment.write_bytes(bytes(len(segment.read_bytes())))


def _middle_page_zeroed(segment: Path) -> None:
    data = segment.read_bytes()
    segment.write_bytes(data[: 8 * PAGE] + bytes(PAGE) + data[9 * PAGE :])


def _middle_of_another_system(segment: Path) -> None:
    data = bytearray(segment.read_bytes())
    data[24] ^= 0xFF
    segment.write_bytes(data)


@pytest.mark.parametrize("damage", [_middle_missing, _middle_zeroed, _middle_page_zeroed, _middle_of_another_system])
@pytest.mark.parametrize("verb", ["dump", "stat", "verify"])
def test_who_looks_at_the_log_learns_that_it_goes_on(
    verb: str, damage: Callable[[Path], None], case: Case, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Damage is not where the log ends; what lies before it can still be looked at."""
    first, middle = _segments(case)[:2]
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


def test_a_first_segment_of_zeros(case: Case) -> None:
    """A start in there was taken for one where nothing had happened yet."""
    segment = _segments(case)[0]
    segment.write_bytes(bytes(len(segment.read_bytes())))
    with pytest.raises(CorruptWal, match="invalid magic number 0000") as caught:
        _open(case, start_lsn=_first(case))
    assert segment.name in str(caught.value)


@pytest.mark.parametrize("bytes_left", [0, 100_000])
def test_a_compressed_segment_in_the_middle_that_holds_too_little(bytes_left: int, case: Case) -> None:
    """Not one record fails its checksum, and yet this is not the end of the log."""
    segment = _segments(case)[1]
    compressed = segment.with_name(f"{segment.name}.gz")
    compressed.write_bytes(gzip.compress(segment.read_bytes()[:bytes_left]))
    segment.unlink()
    with pytest.raises(CorruptWal, match=f"has {bytes_left} bytes, expected 1048576") as caught:
        scan_log(Source.open(case.data_dir).segments, LocalRunner(1))
    assert compressed.name in str(caught.value)


def test_a_compressed_segment_that_is_damaged(case: Case) -> None:
    segment = _segments(case)[1]
    compressed = bytearray(gzip.compress(segment.read_bytes()))
    compressed[20:60] = b"\xff" * 40
    segment.with_name(f"{segment.name}.gz").write_bytes(compressed)
    segment.unlink()
    with pytest.raises(CorruptWal, match="could not decompress WAL segment"):
        _open(case)


@pytest.mark.parametrize("content", [b"no history", b"1", b"1\t0/1x\tno reason", b"\xff\xfe\0\1"])
def test_a_history_file_that_is_none(content: bytes, case: Case) -> None:
    (case.wal_dir / "00000001.history").write_bytes(content)
    with pytest.raises(CorruptWal, match=r"invalid data in history file .*00000001\.history"):
        _open(case)


def test_a_relation_map_that_was_cut_off(case: Case) -> None:
    for file in case.data_dir.glob("base/*/pg_filenode.map"):
        file.write_bytes(file.read_bytes()[:5])
    with pytest.raises(CorruptFile, match=r"relation mapping file .* contains invalid data"):
        _open(case)


def test_a_relation_map_with_a_bit_flipped(case: Case) -> None:
    for file in case.data_dir.glob("base/*/pg_filenode.map"):
        data = bytearray(file.read_bytes())
        data[12] ^= 1
        file.write_bytes(data)
    with pytest.raises(CorruptFile, match=r"relation mapping file .* contains incorrect checksum"):
        _open(case)


@pytest.mark.parametrize("name", ["pg_xact/0000", "base/*/pg_filenode.map", "base/*/[0-9]*"])
def test_a_pipe_in_place_of_a_file_is_not_waited_for(name: str, case: Case) -> None:
    for file in case.data_dir.glob(name):
        file.unlink()
        os.mkfifo(file)
    with pytest.raises(CorruptFile, match="is not a regular file"):
        _open(case)


def test_a_file_of_another_name_in_pg_xact(case: Case) -> None:
    (case.data_dir / "pg_xact" / "copy").write_bytes(b"")
    _open(case)


def test_a_log_of_another_system_than_the_directorys(case: Case) -> None:
    for segment in _segments(case):
        data = bytearray(segment.read_bytes())
        data[24] ^= 0xFF
        segment.write_bytes(data)
    with pytest.raises(CorruptWal, match="different database system"):
        _open(case)


def test_a_database_that_does_not_exist(case: Case) -> None:
    with pytest.raises(UsageError, match='database "nowhere" does not exist') as caught:
        open_pipeline(case.data_dir, "nowhere", runner=LocalRunner(1))
    assert caught.value.sqlstate == "3D000"


def test_positions_outside_of_the_log(case: Case) -> None:
    with pytest.raises(UsageError, match="outside of the WAL"):
        _open(case, start_lsn=Lsn.parse("7F/0"))
    with pytest.raises(TailraceError, match=r"outside|removed"):
        _open(case, start_lsn=Lsn.parse("0/1000000") if _first(case) > Lsn.parse("0/1000000") else Lsn(1))


def _first(case: Case) -> Lsn:
    return Source.open(case.data_dir).segments.first_lsn


def test_an_archive_without_catalogs(case: Case) -> None:
    with pytest.raises(UsageError, match="does not say what its tables are"):
        open_pipeline(case.wal_dir, "app", runner=LocalRunner(1))


def test_no_checkpoint_to_start_from(case: Case) -> None:
    for segment in _segments(case)[:1]:
        segment.unlink()
    with pytest.raises(TailraceError) as caught:
        _open(case, start_lsn=Lsn.parse(case.meta["start_lsn"]))
    assert isinstance(caught.value, MissingHistory | UsageError)


def test_the_command_line_says_one_thing(case: Case) -> None:
    run = [sys.executable, "-m", "tailrace", "decode", str(case.data_dir), "--on", "local", "--database"]
    done = subprocess.run([*run, "nowhere"], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr == 'tailrace: error: database "nowhere" does not exist\n'


# -- records that this server never wrote --------------------------------------------------------------------------------------


@pytest.fixture
def small(tmp_path: Path) -> Case:
    return open_case("xact", 16, "with_slot", tmp_path)


def _append_record(case: Case, manager: int, info: int, main: bytes) -> Lsn:
    """A sound record at the end of the log."""
    segments = Source.open(case.data_dir).segments
    last = scan_log(segments, LocalRunner(1))[-1]
    length = 24 + 2 + len(main)
    record = bytearray(length.to_bytes(4, "little") + bytes(4) + int(last.last).to_bytes(8, "little"))
    record += bytes([info, manager]) + bytes(6) + bytes([255, len(main)]) + main
    record[20:24] = int(record_crc(np.frombuffer(record, np.uint8), 0, length)).to_bytes(4, "little")
    path = Path(segments.by_number[last.next_lsn // segments.segment_size].path)
    data = bytearray(path.read_bytes())
    at = last.next_lsn % segments.segment_size
    assert at % PAGE + length < PAGE, "no room in the page"
    data[at : at + length] = record
    path.write_bytes(data)
    assert scan_log(segments, LocalRunner(1))[-1].last == last.next_lsn
    return last.next_lsn


def _parameter_change(wal_level: int) -> bytes:
    """xl_parameter_change: five limits, wal_level, wal_log_hints, track_commit_timestamp."""
    return b"".join(number.to_bytes(4, "little") for number in (100, 8, 10, 0, 64, wal_level)) + bytes(4)


def _rows(case: Case, **options: object) -> str:
    pipeline = open_pipeline(case.data_dir, "app", runner=LocalRunner(1), start_lsn=Lsn.parse(case.meta["start_lsn"]), **options)  # type: ignore[arg-type]
    return text_of(pipeline, {})


def test_wal_level_lowered_inside_the_range(small: Case) -> None:
    changed = _append_record(small, 0, 0x60, _parameter_change(wal_level=1))
    with pytest.raises(UsageError, match="logical decoding requires wal_level >= logical") as caught:
        _rows(small)
    assert str(changed) in caught.value.context
    assert _rows(small, upto_lsn=changed) == small.expected


def test_wal_level_that_stays_logical(small: Case) -> None:
    _append_record(small, 0, 0x60, _parameter_change(wal_level=2))
    assert _rows(small) == small.expected


def test_records_of_a_custom_resource_manager_are_passed_over_by_name(small: Case) -> None:
    assert open_pipeline(small.data_dir, "app", runner=LocalRunner(1)).warning == ""
    there = _append_record(small, 130, 0x10, b"whatever an extension logs")
    assert _rows(small) == small.expected
    warning = open_pipeline(small.data_dir, "app", runner=LocalRunner(1)).warning
    assert warning == f"records of custom resource manager custom130, the first at {there}, are not decoded"


def test_a_resource_manager_that_cannot_be(small: Case) -> None:
    """Behind the last sound record, that is where the log ends, as for PostgreSQL."""
    with pytest.raises(AssertionError):
        _append_record(small, 99, 0x10, b"no extension may have this number")
    assert _rows(small) == small.expected


def test_noise_gives_our_errors_or_the_right_rows(small: Case) -> None:
    """Bytes changed at random, a few at a time: never a foreign exception, never other rows."""
    segment = _segments(small)[0]
    sound = segment.read_bytes()
    used = int(Lsn.parse(small.meta["end_lsn"])) % len(sound)
    dice = random.Random(20)
    for _ in range(60):
        damaged = bytearray(sound)
        for _ in range(dice.randint(1, 3)):
            damaged[dice.randrange(40, used)] ^= dice.randint(1, 255)
        segment.write_bytes(damaged)
        try:
            assert small.expected.startswith(_rows(small))
        except TailraceError:
            continue


# -- catalog states ------------------------------------------------------------------------------------------------------------


def test_states_of_another_database_or_system(small: Case) -> None:
    state = capture(Source.open(small.before_dir), LocalRunner(1), "app")
    with pytest.raises(UsageError, match='the catalog state is of database "app", not "postgres"'):
        open_pipeline(small.data_dir, "postgres", runner=LocalRunner(1), catalog=state)
    state.system += 1
    with pytest.raises(UsageError, match="the catalog state is of system"):
        _rows(small, catalog=state)


def test_a_file_that_is_no_state(small: Case) -> None:
    written = write_state(capture(Source.open(small.before_dir), LocalRunner(1), "app"))
    for data in (b"", b"no", bytes(100), b"ARROW1\0\0" + bytes(100)):
        with pytest.raises(UsageError, match='"here" is not a catalog state') as caught:
            read_state(data, "here")
        assert "tailrace catalog capture" in caught.value.hint
    with pytest.raises(CorruptFile, match=f'catalog state "here" has {len(written) // 2} bytes, expected {len(written)}'):
        read_state(written[: len(written) // 2], "here")


def test_a_state_with_one_byte_changed_is_never_believed(small: Case) -> None:
    """Of 400 such, one lost a row without a word, and nine ended the process."""
    written = write_state(capture(Source.open(small.before_dir), LocalRunner(1), "app"))
    dice = random.Random(9)
    for at in [*range(32), *(dice.randrange(len(written)) for _ in range(200))]:
        damaged = bytearray(written)
        damaged[at] ^= dice.randint(1, 255)
        with pytest.raises(UsageError if at < 20 else CorruptFile, match='"here"'):
            read_state(bytes(damaged), "here")


def test_a_state_whose_checksum_is_right_and_whose_content_is_not(small: Case) -> None:
    state = capture(Source.open(small.before_dir), LocalRunner(1), "app")
    columns = state.versions.columns
    for name, value in (("at", -8), ("length", 1 << 40), ("length", 30), ("catalog", 5), ("xmin", -5)):
        column = getattr(columns, name).copy()
        column[7] = value
        damaged = replace(state.versions, columns=columns._replace(**{name: column}))
        with pytest.raises(CorruptFile, match='"here" is no sound catalog state: '):
            read_state(write_state(replace(state, versions=damaged)), "here")


def test_what_is_wrong_with_a_state_is_said_whatever_else_would_fail(small: Case) -> None:
    """Of a state of another system it was said that WAL is missing."""
    state = capture(Source.open(small.before_dir), LocalRunner(1), "app")
    with pytest.raises(UsageError, match="the catalog state is of system"):
        _rows(small, catalog=replace(state, system=state.system + 1, lsn=Lsn(8), xids_open={}))


# -- indexes -------------------------------------------------------------------------------------------------------------------


def _index_files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.index"))


def _indexed(case: Case, folder: Path, stretch_bytes: int = 1 << 15) -> tuple[str, list[str]]:
    """What is decoded with indexes kept in `folder`, and what was warned of."""
    warned: list[str] = []
    return _rows(case, scanning=Scanning(stretch_bytes, IndexStore(folder, warned.append))), warned


def test_an_index_that_cannot_be_believed_is_made_again(small: Case, tmp_path: Path) -> None:
    """One changed byte gave 222 of 36,247 lines, and exit status 0."""
    assert _indexed(small, tmp_path) == (small.expected, [])
    files = _index_files(tmp_path / str(Source.open(small.data_dir).segments.system))
    assert len(files) > 2
    sound = {path: path.read_bytes() for path in files}
    dice = random.Random(10)
    for path in files:
        at = dice.randrange(len(sound[path]))
        path.write_bytes(sound[path][:at] + bytes([sound[path][at] ^ 0x20]) + sound[path][at + 1 :])
    text, warned = _indexed(small, tmp_path)
    assert text == small.expected
    assert len(warned) == len(files)
    assert all(str(path) in said and said.endswith("; it is made again") for path, said in zip(files, warned, strict=True))
    assert {path: path.read_bytes() for path in files} == sound
    assert _indexed(small, tmp_path) == (small.expected, [])


def test_index_files_that_were_swapped(small: Case, tmp_path: Path) -> None:
    _indexed(small, tmp_path)
    first, second = _index_files(tmp_path)[:2]
    first.write_bytes(second.read_bytes())
    text, warned = _indexed(small, tmp_path)
    assert text == small.expected
    assert len(warned) == 1
    assert f'"{first}" is the index of ' in warned[0]


def test_what_is_not_written_yet_is_not_indexed(small: Case, tmp_path: Path) -> None:
    """A segment that is being archived has nothing in it at first. An index that said so was believed when it had."""
    path = _segments(small)[-1]
    sound = path.read_bytes()
    used = int(Lsn.parse(small.meta["end_lsn"])) % len(sound)
    for left in (b"", sound[: used // PAGE * PAGE], sound[: used // 2 // PAGE * PAGE].ljust(len(sound), b"\0")):
        path.write_bytes(left)
        with pytest.raises(TailraceError):
            _indexed(small, tmp_path)
        path.write_bytes(sound)
        assert _indexed(small, tmp_path) == (small.expected, [])


def test_wal_that_was_damaged_after_it_was_indexed(small: Case, tmp_path: Path) -> None:
    """Of forty flipped bits, 28 gave other rows or none, and exit status 0."""
    segments = Source.open(small.data_dir).segments
    _indexed(small, tmp_path)
    wal = segments.read(segments.first_lsn, segments.stop_lsn)
    frame = new_frame(wal, segments.first_lsn, segments.stop_lsn, segments.segment_size, segments.magic, check_crc=True)
    start, stop = (Lsn.parse(small.meta[name]) for name in ("start_lsn", "end_lsn"))
    found = []
    while (at := next_record(wal.buf, frame)) >= 0:
        if start <= frame[LSN] < stop and at < wal.raw:
            found.append((int(frame[LSN]), int(frame[LENGTH])))
    assert len(found) > 40
    noticed = 0
    for lsn, length in found[:: len(found) // 40]:
        path = Path(segments.by_number[lsn // segments.segment_size].path)
        sound = path.read_bytes()
        damaged = bytearray(sound)
        damaged[lsn % segments.segment_size + (lsn // 8) % length] ^= 0x01
        path.write_bytes(damaged)
        try:
            assert _indexed(small, tmp_path) == (small.expected, [])
        except CorruptWal as error:
            noticed += path.name in error.context
        path.write_bytes(sound)
    assert noticed > 20, "where rows are, all of it is read again"
    assert _indexed(small, tmp_path) == (small.expected, [])


# -- catalogs of a data directory ----------------------------------------------------------------------------------------------


def _catalog_file(case: Case, number: int) -> Path:
    return next(path for path in sorted(case.data_dir.glob(f"base/*/{number}")))


def _with_bytes(path: Path, at: int, noise: bytes) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:at] + noise + data[at + len(noise) :])


def test_a_page_whose_checksum_is_wrong(tmp_path: Path) -> None:
    """PostgreSQL 18's clusters have checksums: any byte of a page that counts is noticed, and file and block are named."""
    case = open_case("xact", 18, "with_slot", tmp_path)
    path = _catalog_file(case, 1249)
    for block, at in ((3, 100), (7, 8000), (10, 13)):
        sound = path.read_bytes()
        _with_bytes(path, block * PAGE + at, bytes([sound[block * PAGE + at] ^ 4]))
        with pytest.raises(CorruptFile, match=f"invalid page in block {block} of catalog file .*/1249") as caught:
            _open(case)
        assert re.match(r"page verification failed, calculated checksum \d+ but expected \d+", caught.value.context)
        path.write_bytes(sound)
    _open(case)


@pytest.mark.parametrize(
    ("at", "noise", "why"),
    [
        (12, b"\xff\xff", "its header is damaged"),  # pd_lower
        (16, b"\x00\x00", "its header is damaged"),  # pd_special
        (24, b"\x00\xf0\xfe\xff", "line pointer 1 points out of it"),
        (27, b"\x00", "line pointer 1 points out of it"),  # a length of next to nothing
    ],
)
def test_a_page_that_cannot_be_one(at: int, noise: bytes, why: str, small: Case) -> None:
    """Without checksums. Some of these ended in a traceback, some lost rows."""
    _with_bytes(_catalog_file(small, 1249), 3 * PAGE + at, noise)
    with pytest.raises(CorruptFile, match=r"invalid page in block 3 of catalog file .*/1249") as caught:
        _open(small)
    assert caught.value.context == why


def test_a_tuple_that_is_longer_than_its_place(small: Case) -> None:
    path = _catalog_file(small, 1249)
    page = path.read_bytes()[3 * PAGE : 4 * PAGE]
    offset = int.from_bytes(page[24:28], "little") & 0x7FFF
    _with_bytes(path, 3 * PAGE + offset + 22, b"\xff")  # t_hoff
    with pytest.raises(CorruptFile, match=r"invalid page in block 3 of catalog file .*/1249") as caught:
        _open(small)
    assert caught.value.context == "tuple 1 does not have the layout of its catalog"


def test_a_page_of_zeros_is_a_new_one(small: Case) -> None:
    path = _catalog_file(small, 1249)
    path.write_bytes(path.read_bytes() + bytes(PAGE))
    _open(small)


def test_a_page_that_is_just_being_written(tmp_path: Path) -> None:
    """A server writes pages while they are read: read again, they are whole."""
    case = open_case("xact", 18, "with_slot", tmp_path)
    directory = Source.open(case.data_dir).directory
    assert directory is not None
    database = int(_catalog_file(case, 1249).parent.name)
    pages = directory.pages({(database, 1249): 1249})
    assert pages.checksums
    sound = pages.files[database, 1249].copy()
    pages.files[database, 1249][2, 4096:] = 0
    layout = layouts_by_oid(18)[1249]
    with pytest.raises(CorruptFile, match="invalid page in block 2"):
        pages.believed((database, 1249), np.arange(len(sound)), layout)
    pages.read_again = lambda _, block: sound[block]
    assert (pages.believed((database, 1249), np.arange(len(sound)), layout) == sound).all()


@pytest.mark.parametrize("left", [None, b"", bytes(100)])
def test_commit_status_that_is_gone(left: bytes | None, small: Case) -> None:
    """Rows whose transaction nobody knows of were taken for rows that nobody committed."""
    for path in (small.data_dir / "pg_xact").iterdir():
        path.unlink()
        if left is not None:
            path.write_bytes(left)
    directory = Source.open(small.data_dir).directory
    assert directory is not None
    with pytest.raises(CorruptFile, match="could not access status of transaction 735") as caught:
        directory.commit_status().of(np.array([735, 736]))
    assert "pg_xact/0000" in caught.value.context
    assert directory.commit_status().of(np.array([directory.control().next_xid])) == IN_PROGRESS


def test_a_relation_map_that_is_gone(small: Case) -> None:
    (small.data_dir / "global/pg_filenode.map").unlink()
    with pytest.raises(CorruptFile, match=r"could not open relation mapping file .*global/pg_filenode\.map"):
        _open(small)
