"""The files into which a log is received: what they are named when, and what counts as there before."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from support.cases import open_case
from tailrace.client import wal_archive
from tailrace.client.wal_archive import WalArchive
from tailrace.errors import CorruptWal, FailedWrite
from tailrace.model import PAGE_SIZE, Lsn
from tailrace.storage.segment import segment_name
from tailrace.storage.segment_files import list_segments

SIZE = 1 << 20
WAL = b"".join(number.to_bytes(8, "little") for number in range(1, 3 * SIZE // 8 + 1))
"""Three segments; every eight bytes of them have a byte that is no zero."""


def _name(number: int) -> str:
    return segment_name(1, number, SIZE)


def _opened(directory: Path) -> WalArchive:
    archive = WalArchive(directory, SIZE)
    archive.begin(1, Lsn(0))
    return archive


def test_none_gets_its_name_behind_one_that_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the log would be received from behind that one on when it comes again."""
    sync, may_fail = os.fsync, threading.Event()

    def fsync(file: int) -> None:
        if Path(f"/proc/self/fd/{file}").readlink().name == f"{_name(1)}.partial":
            may_fail.wait()
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(file)

    monkeypatch.setattr(os, "fsync", fsync)
    archive = _opened(tmp_path)
    archive.write(Lsn(0), memoryview(WAL))
    may_fail.set()
    with pytest.raises(FailedWrite, match=rf'could not fsync file ".*{_name(1)}\.partial": Input/output error'):
        archive.sync()
    archive.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == [_name(0), f"{_name(1)}.partial", f"{_name(2)}.partial"]
    assert archive.flushed == SIZE


def test_what_is_durable_has_its_name(tmp_path: Path) -> None:
    archive = _opened(tmp_path)
    archive.write(Lsn(0), memoryview(WAL)[: 2 * SIZE + 5])
    archive.sync()
    assert archive.flushed == 2 * SIZE + 5
    archive.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == [_name(0), _name(1), f"{_name(2)}.partial"]


@pytest.mark.parametrize("there", [
    b"", WAL[:5000], WAL[: SIZE // 2].ljust(SIZE, b"\0"), bytes(SIZE),
    WAL[:PAGE_SIZE] + bytes(3 * PAGE_SIZE) + WAL[4 * PAGE_SIZE : 6 * PAGE_SIZE] + bytes(SIZE - 6 * PAGE_SIZE),
], ids=["nothing", "cut short", "half", "zeros", "pages that a crash has lost"])  # fmt: skip
@pytest.mark.parametrize("message", [128 << 10, 3000])
def test_a_partial_segment_is_filled(tmp_path: Path, there: bytes, message: int) -> None:
    (tmp_path / f"{_name(0)}.partial").write_bytes(there)
    archive = _opened(tmp_path)
    for at in range(0, SIZE, message):
        archive.write(Lsn(at), memoryview(WAL)[at : min(at + message, SIZE)])
    archive.sync()
    archive.close()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {_name(0): WAL[:SIZE]}


def _allocated_is_data(folder: Path) -> bool:
    """As in memory."""
    path = folder / "allocated"
    with open(path, "wb", buffering=0) as file:
        for _ in range(2):
            file.write(WAL[: SIZE // 2])
            os.posix_fallocate(file.fileno(), 0, SIZE)
            file.seek(0)
        try:
            os.lseek(file.fileno(), SIZE // 2, os.SEEK_DATA)
        except OSError:
            return False
        finally:
            path.unlink()
    return True


def test_what_was_never_received_is_not_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind what was received the file is a hole, though its blocks are allocated; where a file system takes these for data, they are compared."""
    received = SIZE if _allocated_is_data(tmp_path) else SIZE // 2
    archive = _opened(tmp_path)
    archive.write(Lsn(0), memoryview(WAL)[: SIZE // 2])
    archive.close()
    compared = []
    read = os.pread
    monkeypatch.setattr(os, "pread", lambda file, count, offset: compared.append(offset) or read(file, count, offset))
    archive = _opened(tmp_path)
    for at in range(0, SIZE, 128 << 10):
        archive.write(Lsn(at), memoryview(WAL)[at : at + (128 << 10)])
    archive.sync()
    archive.close()
    assert compared == list(range(0, received, 128 << 10))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {_name(0): WAL[:SIZE]}


def test_other_bytes_behind_a_hole_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / f"{_name(0)}.partial"
    with open(path, "wb") as file:
        file.write(WAL[:50_000])
        file.seek(600_000)
        file.write(b"another")
    archive = _opened(tmp_path)
    for at in range(0, 600_000, 100_000):
        archive.write(Lsn(at), memoryview(WAL)[at : at + 100_000])
    with pytest.raises(CorruptWal) as caught:
        archive.write(Lsn(600_000), memoryview(WAL)[600_000:700_000])
    archive.close()
    assert caught.value.lsn == 600_000
    with open(path, "rb") as file:
        file.seek(600_000)
        assert file.read(7) == b"another"


def test_the_blocks_of_a_segment_are_there_when_it_is_begun(tmp_path: Path) -> None:
    """Who is out of space learns of it before a segment is begun."""
    archive = _opened(tmp_path)
    archive.write(Lsn(0), memoryview(WAL)[:5])
    archive.close()
    status = (tmp_path / f"{_name(0)}.partial").stat()
    assert (status.st_size, status.st_blocks * 512 >= SIZE) == (SIZE, True)


@pytest.mark.parametrize("suffix", ["", ".partial"])
def test_a_timeline_begins_with_what_its_ancestor_has(tmp_path: Path, suffix: str) -> None:
    """Who reads the newest timeline would miss what was there, until it is received again."""
    (tmp_path / f"{_name(1)}{suffix}").write_bytes(WAL[SIZE : 2 * SIZE])
    archive = WalArchive(tmp_path, SIZE)
    archive.add_history(2, f"1\t0/{SIZE + 700_000:X}\tno recovery target specified\n".encode())
    archive.begin(2, Lsn(SIZE))
    begun = tmp_path / f"{segment_name(2, 1, SIZE)}.partial"
    assert begun.read_bytes() == WAL[SIZE : SIZE + 700_000]
    other = WAL[SIZE : SIZE + 700_000] + WAL[: SIZE - 700_000]
    archive.write(Lsn(SIZE), memoryview(other)[:800_000])
    assert begun.read_bytes() == other[:800_000].ljust(SIZE, b"\0")
    archive.begin(2, Lsn(SIZE))  # as who connects again
    archive.write(Lsn(SIZE), memoryview(other))
    archive.sync()
    archive.close()
    assert begun.with_suffix("").read_bytes() == other


@pytest.mark.parametrize("suffix", ["", ".partial"])
def test_other_bytes_are_left_alone(tmp_path: Path, suffix: str) -> None:
    there = bytearray(WAL[:SIZE])
    there[300_000] ^= 0xFF
    there[300_001:] = bytes(SIZE - 300_001) if suffix else there[300_001:]
    path = tmp_path / f"{_name(0)}{suffix}"
    path.write_bytes(there)
    archive = _opened(tmp_path)
    with pytest.raises(CorruptWal) as caught:
        archive.write(Lsn(0), memoryview(WAL)[:SIZE])
    archive.close()
    assert caught.value.lsn == 300_000
    assert path.read_bytes() == there


def test_a_whole_segment_that_is_cut_short(tmp_path: Path) -> None:
    (tmp_path / _name(0)).write_bytes(WAL[:5000])
    archive = _opened(tmp_path)
    with pytest.raises(CorruptWal) as caught:
        archive.write(Lsn(0), memoryview(WAL)[:SIZE])
    archive.close()
    assert caught.value.lsn == 5000


def test_one_becomes_whole_while_it_is_asked_where_the_log_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look into the folder and that into the file, which then has another name."""
    wal_dir = open_case("catalog_rewrite", 16, "with_slot", tmp_path).wal_dir
    last = max(list_segments(wal_dir), key=lambda each: each.number)
    partial = Path(last.path).rename(f"{last.path}.partial")
    stop, arranged, renamed = (last.number + 1) * SIZE, wal_archive.arrange, list[Path]()
    assert wal_archive.written_upto(wal_dir) < stop  # type: ignore[operator]

    def arrange(directory: Path) -> object:
        found = arranged(directory)
        if not renamed:
            renamed.append(partial.rename(last.path))
        return found

    monkeypatch.setattr(wal_archive, "arrange", arrange)
    assert wal_archive.written_upto(wal_dir) == stop
    assert renamed
