"""The bytes of WAL segments.

In: files of one line of history, plain or compressed (`storage.segment_files` finds them). Out: `Segments`, which reads any range
of the log as an array with spare room for framing. Files are opened when read, so a `Segments` travels to Spark's workers as a
few paths.
"""

from __future__ import annotations

import errno
import os
from dataclasses import field
from io import FileIO
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from tailrace.dataclass import dataclass
from tailrace.errors import CorruptWal, FailedWrite, MissingHistory
from tailrace.model import PAGE_SIZE, Lsn
from tailrace.storage.segment import Segment, segment_name
from tailrace.wal.pages import LogIdentity, WalBytes, spacious
from tailrace.wal.versions import FORMATS

_ON_DISK_ALREADY = (errno.ENOENT, errno.EROFS, errno.EINVAL)
"""It is complete by now, and was synced before it was renamed; or it lies where nobody writes, or nothing can be synced."""


class UnfinishedCopy(CorruptWal):
    """The newest segment of a directory is shorter than a segment is: it is still being copied, or the copy was given up."""

    @classmethod
    def of(cls, error: CorruptWal) -> Self:
        """The same, known to be of the newest segment."""
        unfinished = cls(error.message)
        vars(unfinished).update(vars(error))
        return unfinished


@dataclass(slots=True)
class Segments:
    """The segments that make up one line of history, by segment number. `system` 0 means unknown."""

    directory: str
    segment_size: int
    system: int
    major: int
    by_number: dict[int, Segment]
    history: list[tuple[int, Lsn]] = field(default_factory=list)

    @property
    def first_lsn(self) -> Lsn:
        return Lsn(min(self.by_number) * self.segment_size)

    @property
    def stop_lsn(self) -> Lsn:
        """End of the last segment that follows the first without a gap."""
        number = min(self.by_number)
        while number in self.by_number:
            number += 1
        return Lsn(number * self.segment_size)

    def sync(self, upto: Lsn) -> None:
        """What lies before `upto` outlives a crash when this returns: of a segment that somebody still receives, it may have been read before it was
        on disk. Raises FailedWrite."""
        segment = self.by_number.get((upto - 1) // self.segment_size)
        if segment is None or not segment.partial:
            return
        try:
            file = os.open(segment.path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fdatasync(file)
            finally:
                os.close(file)
        except OSError as error:
            if error.errno not in _ON_DISK_ALREADY:
                raise FailedWrite(f'could not fsync file "{segment.path}": {error.strerror}', file=segment.path) from error

    @property
    def gaps(self) -> list[tuple[int, int]]:
        """(first missing, next present) segment numbers."""
        numbers = sorted(self.by_number)
        return [(a + 1, b) for a, b in zip(numbers, numbers[1:], strict=False) if b != a + 1]

    @property
    def gap(self) -> str:
        """What is missing where the log ends for now, though there is more behind; empty if nothing is. It may be on its way."""
        if not self.gaps:
            return ""
        missing, present = self.gaps[0]
        name = Path(self.name_at(missing * self.segment_size)).name
        return f'WAL segment {name} is missing, but "{self.by_number[present].path}" is there: the log ends at {self.stop_lsn} for now'

    @property
    def written_upto(self) -> Lsn:
        """No record that was at hand when the segments were listed begins here or behind."""
        last = self.by_number[self.stop_lsn // self.segment_size - 1]
        if last.settled is None:
            return self.stop_lsn
        return Lsn(self.stop_lsn - self.segment_size + last.settled + len(last.filling))

    @property
    def identity(self) -> LogIdentity:
        """What every page of it must be of."""
        return LogIdentity(FORMATS[self.major], self.segment_size, self.system, self.timeline)

    @property
    def timeline(self) -> int:
        return max(segment.timeline for segment in self.by_number.values())

    def name_at(self, lsn: int) -> str:
        """Path of the segment that holds `lsn`, or the name that it would have."""
        number = int(lsn) // self.segment_size
        segment = self.by_number.get(number)
        return segment.path if segment else segment_name(self.timeline, number, self.segment_size)

    def read(self, start: int, stop: int, extra: int = 0) -> WalBytes:
        """Bytes of `[start, stop)`, as far as files follow one another, with spare room behind (`extra` more if asked)."""
        size = self.segment_size
        wanted = max(0, stop - start)
        # Of a segment that is begun most is not there yet: zeros that nobody looks at cost nothing.
        buf = (np.zeros if self._is_begun(start, stop) else np.empty)(spacious(wanted) + extra, np.uint8)
        got = 0
        files: list[tuple[int, str]] = []
        while got < wanted:
            number, within = divmod(start + got, size)
            segment = self.by_number.get(number)
            if segment is None:
                break
            files.append((number * size, segment.path))
            take = min(size - within, wanted - got)
            done = self._read_into(segment, within, buf[got : got + take])
            got += done
            if done < take:
                if number < max(self.by_number) or not segment.partial:
                    raise self.wrong_size(segment, within + done)
                break
        return WalBytes(buf, start, got // PAGE_SIZE * PAGE_SIZE, tuple(files))

    def _is_begun(self, start: int, stop: int) -> bool:
        """Whether a segment of this range is a partial one."""
        numbers = range(start // self.segment_size, -(-stop // self.segment_size))
        return any((segment := self.by_number.get(number)) is not None and segment.partial for number in numbers)

    def _read_into(self, segment: Segment, offset: int, target: NDArray[np.uint8]) -> int:
        """Fill `target`, which is of zeros if the segment is partial, from `offset` of the segment on; how much there was."""
        try:
            if segment.compression:
                whole = self._expanded(segment)
                if len(whole) > self.segment_size:
                    raise self.wrong_size(segment, len(whole))
                data = whole[offset : offset + len(target)]
                target[: len(data)] = data
                return len(data)
            return _read_plain(segment, offset, target)
        except FileNotFoundError as error:
            renamed = segment.completed()
            if segment.partial and renamed.path != segment.path and Path(renamed.path).exists():
                return self._read_into(renamed, offset, target)
            raise MissingHistory(
                f"requested WAL segment {Path(segment.path).name} has already been removed",
                hint="Whatever keeps WAL here removed it while it was being read. Read from an archive, or begin again.",
                context=f'LSN {Lsn(segment.number * self.segment_size)}, file "{segment.path}"',
                lsn=Lsn(segment.number * self.segment_size),
                file=segment.path,
            ) from error

    def _expanded(self, segment: Segment) -> NDArray[np.uint8]:
        """The bytes of a compressed segment."""
        try:
            return np.frombuffer(segment.read(), np.uint8)
        except CorruptWal as error:
            if segment.number == max(self.by_number) and _is_cut_short(error.__cause__):
                raise UnfinishedCopy.of(error) from error
            raise

    def wrong_size(self, segment: Segment, length: int) -> CorruptWal:
        """The error for a segment of `length` bytes that is neither whole nor partial."""
        lsn = Lsn(segment.number * self.segment_size)
        error = CorruptWal(
            f'WAL segment "{segment.path}" has {length} bytes, expected {self.segment_size}',
            hint="Take the segment from another copy or the archive; name it .partial to have it read as far as it goes.",
            context=f"LSN {lsn}",
            lsn=lsn,
            file=segment.path,
        )
        is_newest = segment.number == max(self.by_number) and length < self.segment_size
        return UnfinishedCopy.of(error) if is_newest else error


def _read_plain(segment: Segment, offset: int, target: NDArray[np.uint8]) -> int:
    """From the file, as far as it is settled, and from the page that was still being filled."""
    settled = segment.settled if segment.settled is not None else offset + len(target)
    done = 0
    with open(segment.path, "rb", buffering=0) as file:
        view = memoryview(target[: max(0, settled - offset)])  # type: ignore[arg-type]
        there = _written(file, offset, len(view)) if segment.partial else len(view)
        file.seek(offset)
        while done < there and (n := file.readinto(view[done:there])):
            done += n
        if done == there < len(view):
            done = len(view)
    if segment.filling and done == max(0, settled - offset):
        rest = segment.filling[offset + done - settled :][: len(target) - done]
        target[done : done + len(rest)] = np.frombuffer(rest, np.uint8)
        done += len(rest)
    return done


def _written(file: FileIO, offset: int, length: int) -> int:
    """How many of these bytes of a file there are before a hole that reaches to its end: the others read as zeros."""
    number = file.fileno()
    if not length or os.fstat(number).st_size < offset + length:
        return length
    hole = os.lseek(number, offset, os.SEEK_HOLE)
    if hole < offset + length:
        try:
            os.lseek(number, hole, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return hole - offset
            raise
    return length


def _is_cut_short(error: BaseException | None) -> bool:
    return isinstance(error, EOFError) or "Truncated" in str(error)
