"""Indexes that are kept: read instead of the log, and never where they are not to be believed.

A log is cut into stretches, and what has a sealed index is not scanned again. Nothing but the work that it saves shows that; so here it is counted.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tailrace.cli.decode
from support.cases import DBNAME, Case, open_case
from support.damage import PAGE, flip, flipped, segments_of
from support.decoding import opened, rows_of
from tailrace.cli import main
from tailrace.errors import CorruptWal, TailraceError
from tailrace.model import Lsn, Stretch
from tailrace.pipeline import LocalRunner, Scanning, Source, scan_log
from tailrace.storage.index_store import IndexStore
from tailrace.wal.framing import LENGTH, LSN, new_frame, next_record

STRETCH = 1 << 15


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return open_case("xact", 16, "with_slot", tmp_path)


def _index_files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.index"))


def _indexed(case: Case, folder: Path) -> tuple[str, list[str]]:
    """What is decoded with indexes kept in `folder`, and what was warned of."""
    warned: list[str] = []
    store = IndexStore(folder, warned.append)
    return rows_of(case.data_dir, start_lsn=case.meta["start_lsn"], index_store=store, stretch_bytes=STRETCH), warned


class Counting(LocalRunner):
    """Notes which stretches are given to a stage."""

    def __init__(self) -> None:
        super().__init__(1)
        self.stretches: list[Stretch] = []

    def run(self, work: Callable[..., Any], items: Iterable[Any], **options: Any) -> Iterator[Any]:
        given = list(items)
        self.stretches += given
        return super().run(work, given, **options)


def test_what_has_an_index_is_not_scanned_again(case: Case, tmp_path: Path) -> None:
    segments = Source.open(case.data_dir).segments
    every, again, less = Counting(), Counting(), Counting()
    found = scan_log(segments, every, None, Scanning(STRETCH, IndexStore(tmp_path)))
    sealed = [index.stretch for index in found if index.sealed and index.records]
    assert set(sealed) < set(every.stretches)
    assert len(sealed) == len(_index_files(tmp_path)) > 2
    assert [index.fingerprint for index in scan_log(segments, again, None, Scanning(STRETCH, IndexStore(tmp_path)))] == [
        index.fingerprint for index in found
    ]
    assert again.stretches == [stretch for stretch in every.stretches if stretch not in sealed]
    _index_files(tmp_path)[1].unlink()
    scan_log(segments, less, None, Scanning(STRETCH, IndexStore(tmp_path)))
    assert less.stretches == [sealed[1], *again.stretches]


def test_the_command_line_keeps_indexes_and_reads_them(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Where no rows are, an index is all that is needed, and what stands at the end of its stretch: damage there is noticed as without."""
    monkeypatch.setattr(tailrace.cli.decode, "Scanning", lambda **given: Scanning(STRETCH, **given))

    def decoded(*words: str) -> tuple[int, str, str]:
        command = (
            "tailrace",
            "decode",
            str(case.data_dir),
            "--database",
            DBNAME,
            "--on",
            "local",
            "--start-lsn",
            case.meta["start_lsn"],
        )
        monkeypatch.setattr("sys.argv", [*command, *words])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0), *capfd.readouterr()

    pipeline = opened(case.data_dir, start_lsn=case.meta["start_lsn"], stretch_bytes=STRETCH)
    with_rows = {plan.stretch for plan in pipeline.plan.stretches}
    idle = next(found for found in pipeline.log.indexes if found.sealed and found.records > 1 and found.stretch not in with_rows)
    segment = pipeline.source.segments.by_number[idle.last // pipeline.source.segments.segment_size]

    assert decoded("--index", str(tmp_path)) == (0, case.expected, "")
    with flipped(Path(segment.path), idle.last % pipeline.source.segments.segment_size + 20):
        assert decoded()[0] == 1
        assert decoded("--index", str(tmp_path))[0] == 1
    made = {path: path.stat().st_mtime_ns for path in _index_files(tmp_path)}
    assert decoded("--index", str(tmp_path)) == (0, case.expected, "")
    assert {path: path.stat().st_mtime_ns for path in _index_files(tmp_path)} == made


def test_an_index_that_cannot_be_believed_is_made_again(case: Case, tmp_path: Path) -> None:
    """One changed byte gave 222 of 36,247 lines, and exit status 0."""
    assert _indexed(case, tmp_path) == (case.expected, [])
    files = _index_files(tmp_path / str(Source.open(case.data_dir).segments.system))
    assert len(files) > 2
    sound = {path: path.read_bytes() for path in files}
    dice = random.Random(10)
    for path in files:
        flip(path, dice.randrange(len(sound[path])), 0x20)
    text, warned = _indexed(case, tmp_path)
    assert text == case.expected
    assert len(warned) == len(files)
    assert all(str(path) in said and said.endswith("; it is made again") for path, said in zip(files, warned, strict=True))
    assert {path: path.read_bytes() for path in files} == sound
    assert _indexed(case, tmp_path) == (case.expected, [])


def test_index_files_that_were_swapped(case: Case, tmp_path: Path) -> None:
    _indexed(case, tmp_path)
    first, second = _index_files(tmp_path)[:2]
    first.write_bytes(second.read_bytes())
    text, warned = _indexed(case, tmp_path)
    assert text == case.expected
    assert len(warned) == 1
    assert f'"{first}" is the index of ' in warned[0]


def test_what_is_not_written_yet_is_not_indexed(case: Case, tmp_path: Path) -> None:
    """A segment that is being archived has nothing in it at first. An index that said so was believed when it had."""
    path = segments_of(case)[-1]
    sound = path.read_bytes()
    used = int(Lsn.parse(case.meta["end_lsn"])) % len(sound)
    for left in (b"", sound[: used // PAGE * PAGE], sound[: used // 2 // PAGE * PAGE].ljust(len(sound), b"\0")):
        path.write_bytes(left)
        with pytest.raises(TailraceError):
            _indexed(case, tmp_path)
        path.write_bytes(sound)
        assert _indexed(case, tmp_path) == (case.expected, [])


def test_wal_that_was_damaged_after_it_was_indexed(case: Case, tmp_path: Path) -> None:
    """Of forty flipped bits, 28 gave other rows or none, and exit status 0."""
    segments = Source.open(case.data_dir).segments
    _indexed(case, tmp_path)
    wal = segments.read(segments.first_lsn, segments.stop_lsn)
    frame = new_frame(wal, segments.identity, segments.first_lsn, segments.stop_lsn)
    start, stop = (Lsn.parse(case.meta[name]) for name in ("start_lsn", "end_lsn"))
    found = []
    while (at := next_record(wal.buf, frame)) >= 0:
        if start <= frame[LSN] < stop and at < wal.raw:
            found.append((int(frame[LSN]), int(frame[LENGTH])))
    assert len(found) > 40
    tried = found[:: len(found) // 40]
    noticed = 0
    for lsn, length in tried:
        path = Path(segments.by_number[lsn // segments.segment_size].path)
        with flipped(path, lsn % segments.segment_size + (lsn // 8) % length):
            try:
                assert _indexed(case, tmp_path) == (case.expected, [])
            except CorruptWal as error:
                noticed += error.file == str(path)
    assert noticed == len(tried), "where rows are, all of it is read again; elsewhere the end, which here is all of a stretch"
    assert _indexed(case, tmp_path) == (case.expected, [])


def test_indexes_that_nobody_uses_are_forgotten(case: Case, tmp_path: Path) -> None:
    """By when they were made or loaded last, and by how large all are together; never one of the last day."""
    folder, day = tmp_path / "index", 86400
    text, _ = _indexed(case, folder)
    store, files = IndexStore(folder), _index_files(folder)
    assert len(files) > 3
    now = time.time()
    for number, path in enumerate(files):
        os.utime(path, (now - 40 * day, now - (40 if number else 2) * day))
    assert _indexed(case, folder) == (text, [])
    store.forget_unused(30, 1 << 30)
    assert _index_files(folder) == files, "all were loaded just now"
    store.forget_unused(30, 0)
    assert _index_files(folder) == files
    for number, path in enumerate(files):
        os.utime(path, (now, now - (2 + number) * day))
    total = sum(path.stat().st_size for path in files)
    store.forget_unused(30, total - 1)
    assert _index_files(folder) == files[:-1], "the one that was used the longest time ago"
    store.forget_unused(3.5, total)
    assert _index_files(folder) == files[:2]
    assert _indexed(case, folder) == (text, [])
    assert len(_index_files(folder)) == len(files)
