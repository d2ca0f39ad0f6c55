"""The bytes of WAL segments.

In: files of one line of history, plain or compressed (`storage.segment_files` finds them). Out: `Segments`, which reads any range
of the log as an array with spare room for framing. Files are opened when read, so a `Segments` travels to Spark's workers as a
few names.
"""

from __future__ import annotations

from dataclasses import field
from typing import Self

import numpy as np
from numpy.typing import NDArray

from tailrace.dataclass import dataclass
from tailrace.errors import CorruptWal, MissingHistory
from tailrace.model import PAGE_SIZE, Lsn
from tailrace.storage.segment import Segment, segment_name
from tailrace.storage.wal_files import WalFiles
from tailrace.wal.pages import LogIdentity, WalBytes, spacious
from tailrace.wal.versions import FORMATS


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
    """The segments that make up one line of history, by segment number. `system` 0 means unknown. Single ones may lie elsewhere than most, as copies
    of theirs do."""

    lies_in: WalFiles
    segment_size: int
    system: int
    major: int
    by_number: dict[int, Segment]
    history: list[tuple[int, Lsn]] = field(default_factory=list)

    @property
    def directory(self) -> str:
        """As messages have it."""
        return self.lies_in.where

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
        if segment is not None and segment.partial:
            segment.lies_in.sync(segment.name)

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
        name = segment_name(self.timeline, missing, self.segment_size)
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
            if segment.partial and segment.completed().name != segment.name:
                try:
                    return self._read_into(segment.completed(), offset, target)
                except MissingHistory:
                    pass  # told of the name that was listed
            raise MissingHistory(
                f"requested WAL segment {segment.name} has already been removed",
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
    wanted = max(0, settled - offset)
    done = segment.lies_in.read_into(segment.name, offset, target[:wanted], is_partial=segment.partial)
    if segment.filling and done == wanted:
        rest = segment.filling[offset + done - settled :][: len(target) - done]
        target[done : done + len(rest)] = np.frombuffer(rest, np.uint8)
        done += len(rest)
    return done


def _is_cut_short(error: BaseException | None) -> bool:
    return isinstance(error, EOFError) or "Truncated" in str(error)
