"""The directory into which a server's log is received: segments as pg_receivewal writes them (`bin/pg_basebackup/receivelog.c`).

In: the bytes of the log, in order. Out: segment files; the one that is being written ends in `.partial` and has its full size, so that whoever reads
the directory sees each record once it is there. What is there already is compared with what comes, and never changed: a server that was put back to
an earlier copy of itself writes another history under the same names.

A segment that is full is synced and renamed by a thread, while the next is written: `flushed` is behind that. They get their names in their order,
and none behind one that failed: what lies before a whole segment is not received again.
"""

from __future__ import annotations

import errno
import os
from collections import deque
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from threading import Thread

from tailrace.dataclass import dataclass
from tailrace.errors import CorruptWal, FailedWrite, PeerError, UsageError
from tailrace.model import PAGE_SIZE, Lsn
from tailrace.storage.segment import Segment, in_place, segment_name
from tailrace.storage.segment_files import arrange, history_of, list_segments
from tailrace.storage.wal_files import PARTIAL
from tailrace.storage.whole_file import sync_folder, write_whole

_CANNOT_ALLOCATE = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
"""What is said where a file system does not know how."""
_MODE = 0o600
_ALIGNED = 8
"""Bytes, by which all records begin (MAXALIGN)."""
_MOST_FINISHING = 2
"""Segments that are being finished while another is written; beyond that it is waited for the disk."""


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """From where the log is to be received again: the beginning of the last whole segment, or of the partial one if there is no other."""

    timeline: int
    lsn: Lsn


@dataclass(slots=True)
class WalArchive:
    """`written` is behind the last byte, `flushed` behind the last that survives a crash. State: the segment that is open, and those that are being
    finished, each with its end."""

    directory: Path
    segment_size: int
    timeline: int = 0
    written: Lsn = Lsn(0)
    flushed: Lsn = Lsn(0)
    _file: int = -1
    _path: Path = field(default_factory=Path)
    _is_compared: bool = False
    """Whether there were bytes in the open segment before."""
    _appended_below: int = 0
    """Where the open segment ends, if what comes is only appended to it; else 0, and `_write_parts` sees what is to be done."""
    _is_new: bool = False
    """Whether the open segment's name may not be on disk yet."""
    _finishing: deque[_Finishing] = field(default_factory=deque)

    def resume_point(self, *, is_behind_whole: bool = False) -> ResumePoint | None:
        """None where nothing was received yet. If it `is_behind_whole`, the last whole segment is not received again."""
        listed = self._listed()
        if not listed:
            return None
        last = max([each for each in listed if not each.partial] or listed, key=lambda each: (each.number, each.timeline))
        # One that was compressed since is not taken apart to be compared.
        is_passed = not last.partial and (bool(last.compression) or is_behind_whole)
        return ResumePoint(last.timeline, Lsn((last.number + is_passed) * self.segment_size))

    def begin(self, timeline: int, at: Lsn) -> None:
        """What comes next begins there, which is the beginning of a segment."""
        if at % self.segment_size:
            raise UsageError(f"{at} is not the beginning of a WAL segment", lsn=at)
        self.close()
        self.timeline, self.written, self.flushed = timeline, at, at
        self._branch_off(at // self.segment_size)

    def write(self, at: int, data: memoryview) -> None:
        """Raises PeerError where it does not follow what is there, CorruptWal where the directory has other bytes in its place, FailedWrite for what
        the file system refuses; nothing is damaged by any of them."""
        if at != self.written:
            raise PeerError(f"got WAL from {Lsn(at)}, but {self.written} was expected", sqlstate="08P01", lsn=Lsn(at))
        try:
            if at + len(data) < self._appended_below:
                _write_all(self._file, data, at % self.segment_size)
                self.written = Lsn(at + len(data))
            else:
                self._write_parts(data)
        except OSError as error:
            raise FailedWrite(f'could not write to file "{self._path}": {error.strerror}', file=str(self._path)) from error
        if self._finishing:
            self._take_finished(_MOST_FINISHING)

    def _write_parts(self, data: memoryview) -> None:
        """A part for each segment, which is opened and completed, and compared where there was something."""
        while len(data):
            number, offset = divmod(self.written, self.segment_size)
            part = data[: self.segment_size - offset]
            if self._file < 0:
                self._open(number)
            self._is_compared = self._is_compared and self._may_have_more(offset)
            if not self._is_compared or not self._is_there(offset, part):
                _write_all(self._file, part, offset)
            self._appended_below = 0 if self._is_compared else (number + 1) * self.segment_size
            self.written = Lsn(self.written + len(part))
            if self.written % self.segment_size == 0:
                self._complete()
            data = data[len(part) :]

    def sync(self) -> None:
        """What was written survives a crash when this returns."""
        self._take_finished(0)
        if self._file >= 0 and self.flushed < self.written:
            try:
                os.fdatasync(self._file)
                if self._is_new:
                    sync_folder(self.directory)
                    self._is_new = False
            except OSError as error:
                raise FailedWrite(f'could not fsync file "{self._path}": {error.strerror}', file=str(self._path)) from error
        self.flushed = self.written

    def add_history(self, timeline: int, content: bytes) -> None:
        """A timeline's history file. Raises UsageError where the directory has another of this number."""
        path = self.directory / f"{timeline:08X}.history"
        with suppress(FileNotFoundError):
            if path.read_bytes() == content:
                return
            raise UsageError(
                f'timeline {timeline} of the server is another than that in "{self.directory}"',
                detail=f'"{path.name}" says otherwise than the server\'s.',
                hint="Receive into another directory, and begin there with a new catalog state.", sqlstate="55000", file=str(path),
            )  # fmt: skip
        try:
            write_whole(path, content)
        except OSError as error:
            raise FailedWrite(f'could not write to file "{path}": {error.strerror}', file=str(path)) from error

    def close(self) -> None:
        """Of the open segment what was written stays, as a partial one."""
        if self._file >= 0:
            file, self._file, self._appended_below = self._file, -1, 0
            os.close(file)
        for each in self._finishing:
            each.join()

    def _branch_off(self, number: int) -> None:
        """A timeline's first segment begins with what its ancestor has there, as on the server that was promoted (`XLogInitNewTimeline`): who reads
        the newest timeline has at no time less than before. Raises FailedWrite."""
        if not (left := dict(history_of(self.directory, self.timeline))):
            return
        there = [each for each in self._listed() if each.number == number]
        ancestors = [each for each in there if left.get(each.timeline, -1) // self.segment_size == number]
        if not ancestors or any(each.timeline == self.timeline for each in there):
            return
        last = max(ancestors, key=lambda each: (each.timeline, not each.partial))
        path = self.directory / (segment_name(self.timeline, number, self.segment_size) + PARTIAL)
        try:
            write_whole(path, last.read(left[last.timeline] % self.segment_size), _MODE)
        except OSError as error:
            raise FailedWrite(f'could not write to file "{path}": {error.strerror}', file=str(path)) from error

    def _listed(self) -> list[Segment]:
        return [in_place(each, self.segment_size) for each in list_segments(self.directory)]

    def _open(self, number: int) -> None:
        """The segment: a whole one is there to be compared, one that is begun to be compared and filled, and else it is made."""
        whole = self.directory / segment_name(self.timeline, number, self.segment_size)
        partial = whole.with_name(whole.name + PARTIAL)
        self._is_compared = True
        if whole.exists():
            self._path = whole
            self._file = os.open(whole, os.O_RDONLY | os.O_CLOEXEC)
            return
        self._is_compared, self._path = partial.exists(), partial
        self._file = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _MODE)
        os.ftruncate(self._file, self.segment_size)
        _allocate(self._file, self.segment_size)
        self._is_new = True

    def _may_have_more(self, offset: int) -> bool:
        """Whether the file may have bytes from there on that came before: behind what was received a partial one is a hole, as `_open` left it."""
        if not self._path.name.endswith(PARTIAL):
            return True
        try:
            os.lseek(self._file, offset, os.SEEK_DATA)
        except OSError as error:
            return error.errno != errno.ENXIO  # others say that this file system does not know
        return True

    def _is_there(self, offset: int, data: memoryview) -> bool:
        """Whether the file has these bytes. Raises CorruptWal where it has others: zeros of a partial segment are what was not received yet."""
        there, come = os.pread(self._file, len(data), offset), bytes(data)
        if there == come:
            return True
        is_partial = self._path.name.endswith(PARTIAL)
        if is_partial and come.startswith(there.rstrip(b"\0")):
            return False
        other = _first_other(there, come, is_partial=is_partial)
        if other is None:
            return False
        lsn = Lsn(self.written + other)
        raise CorruptWal(
            f"the server's log has other bytes at {lsn} than were received from there before",
            hint="The server was put back to an earlier copy of itself, or the segment was damaged. Receive into another directory, and begin there "
            "with a new catalog state.",
            context=f'file "{self._path}"', lsn=lsn, file=str(self._path),
        )  # fmt: skip

    def _complete(self) -> None:
        """The segment is full: it will have its own name."""
        file, self._file, self._appended_below = self._file, -1, 0
        if not self._path.name.endswith(PARTIAL):
            os.close(file)
            self._take_finished(0)
            self.flushed = self.written
            return
        finishing = _Finishing(file, self._path, self.written, self._finishing[-1] if self._finishing else None)
        self._finishing.append(finishing)
        finishing.start()

    def _take_finished(self, most: int) -> None:
        """See how far it is flushed, and wait until no more than so many are being finished. Raises FailedWrite for one that failed."""
        while self._finishing and (len(self._finishing) > most or not self._finishing[0].is_alive()):
            first = self._finishing[0]
            first.join()
            if isinstance(first.failure, OSError):
                raise FailedWrite(
                    f'could not fsync file "{first.path}": {first.failure.strerror}', file=str(first.path)
                ) from first.failure
            if first.failure is not None:
                raise first.failure
            self._finishing.popleft()
            self.flushed = first.end


class _Finishing(Thread):
    """A full segment on its way to the disk, and to its own name, behind the one `before` it. `failure` is why it has not got there."""

    def __init__(self, file: int, path: Path, end: Lsn, before: _Finishing | None) -> None:
        super().__init__(name="tailrace segment")
        self.path, self.end = path, end
        self.failure: Exception | None = None
        self._file, self._before = file, before

    def run(self) -> None:
        before, self._before = self._before, None
        if before is not None:
            before.join()
            if before.failure is not None:
                self.failure = before.failure
                os.close(self._file)
                return
        try:
            _finish(self._file, self.path)
        except Exception as error:
            self.failure = error


def _finish(file: int, path: Path) -> None:
    """Have a full segment on disk, with its own name."""
    try:
        os.fsync(file)
    finally:
        os.close(file)
    path.rename(path.with_name(path.name.removesuffix(PARTIAL)))
    sync_folder(path.parent)


def _first_other(there: bytes, come: bytes, *, is_partial: bool) -> int | None:
    """Where the first byte lies that is not what has come, or is missing; in a partial segment zeros are what has not come yet."""
    import numpy as np  # noqa: PLC0415 - seldom called, and receiving has no other use for arrays

    ours, theirs = np.frombuffer(there, np.uint8), np.frombuffer(come, np.uint8)[: len(there)]
    other = np.flatnonzero((ours != theirs) & ((ours != 0) if is_partial else True))
    if len(other):
        return int(other[0])
    return None if is_partial else len(there)


def written_upto(directory: Path) -> Lsn | None:
    """Where the log ends that was received into a directory, or a little before: where nothing but zeros follows. None where there is nothing."""
    if not list_segments(directory):
        return None
    segments = arrange(directory)
    stop = segments.stop_lsn
    last = segments.by_number[stop // segments.segment_size - 1]
    if not last.partial or last.compression:
        return stop
    try:
        file = open(last.path, "rb")  # noqa: SIM115 - what is read of it may fail otherwise
    except FileNotFoundError:  # it has just become whole, and got its own name
        return written_upto(directory)
    with file:
        first, behind = 0, segments.segment_size // PAGE_SIZE  # pages are written one after the other
        while first < behind:
            middle = (first + behind) // 2
            file.seek(middle * PAGE_SIZE)
            first, behind = (middle + 1, behind) if any(file.read(PAGE_SIZE)) else (first, middle)
        file.seek(max(0, first - 1) * PAGE_SIZE)
        within = max(0, first - 1) * PAGE_SIZE + len(file.read(PAGE_SIZE).rstrip(b"\0"))
    return Lsn(last.number * segments.segment_size + -(-within // _ALIGNED) * _ALIGNED)


def _allocate(file: int, size: int) -> None:
    """Have the blocks of a file at once: that costs less than to find each when it is written, and a full disk is met before the segment is begun.
    They read as zeros, and are a hole still for who looks for data."""
    if not hasattr(os, "posix_fallocate"):
        return
    try:
        os.posix_fallocate(file, 0, size)
    except OSError as error:
        if error.errno not in _CANNOT_ALLOCATE:
            raise


def _write_all(file: int, data: memoryview, offset: int) -> None:
    while (done := os.pwrite(file, data, offset)) < len(data):
        data, offset = data[done:], offset + done
