"""The files of a directory, and what a `restore_command` brings of an archive that it lacks: any archiver is a SOURCE so, as it is for a server that
recovers.

In: a directory (a data directory or base backup, or one of segments), the command, and from where on the log is wanted. Out: the segments of both. As
in recovery history files come first, a file of the archive is taken before the directory's own, unless that is surely whole, and all ends at the
first segment that neither has. What the archive has behind it is asked for again after a while (`wal_retrieve_retry_interval`).

What is brought lies in a folder of the spool, one for each directory and command, where each file is checked before it has its name
(`client/restored_wal.py`). Who reads holds a lease on it; whoever comes next removes folders that nobody has held for a while.
"""

from __future__ import annotations

import os
import shutil
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tailrace.client.restore_command import RestoreCommand
from tailrace.client.restored_wal import RestoredWal
from tailrace.client.wal_archive import ResumePoint, WalArchive
from tailrace.dataclass import dataclass
from tailrace.errors import MissingHistory, TailraceError
from tailrace.model import Lsn
from tailrace.storage.backups import BACKUP_LABEL, start_of_backup
from tailrace.storage.directory import DataDirectory
from tailrace.storage.file_lock import FileLock
from tailrace.storage.lease import Lease, first_leased
from tailrace.storage.segment import Segment, in_place, segment_name
from tailrace.storage.segment_files import history_name, history_of, identity_of, list_segments, place_of_name
from tailrace.storage.spool import spool_directory
from tailrace.storage.wal_files import WalDirectory, WalFile
from tailrace.storage.whole_file import make_folder, write_whole
from tailrace.wal.page_header import SHORT_PAGE_HEADER, page_address

_FOLDER, _LOCK = "restored", ".lock"
_RETRY = 5.0
"""Seconds, as the default of wal_retrieve_retry_interval."""
_UNUSED = 3600.0
_SIZES = tuple(1 << shift for shift in (24, 20, 21, 22, 23, 25, 26, 27, 28, 29, 30))
"""That segments may have, PostgreSQL's default first."""
_KEEP_ALL = segment_name(1, 0, 16 << 20)
"""What `%r` says: nothing may be removed of the archive on our account."""
_BEGINNINGS = (
    "It goes on from a base backup, from a directory that has a segment, or, in an empty directory, from where a catalog state "
    "(--catalog) needs WAL."
)
_ASKED: dict[tuple[str, int], float] = {}
"""When the archive was last asked for what follows, by folder and beginning."""
_LEASES: dict[str, Lease] = {}
"""Of folders that this process reads from."""
_WANTED: dict[str, dict[int, float]] = {}
"""From where on, and when that was asked for last, by folder."""


@dataclass(frozen=True, slots=True)
class RestoredFiles:
    """`own` are the directory's, which belong to the data directory `data`, if that is said; `kept` those that were brought."""

    own: WalDirectory
    kept: WalDirectory
    command: RestoreCommand
    data: str = ""

    @classmethod
    def of(cls, own: WalDirectory, command: RestoreCommand, data: str = "") -> RestoredFiles:
        """Nothing is brought yet."""
        key = f"{zlib.crc32(os.fsencode(os.path.realpath(own.directory))):08x}-{zlib.crc32(command.text.encode()):08x}"
        return cls(own, WalDirectory(str(spool_directory() / _FOLDER / key)), command, data)

    @property
    def where(self) -> str:
        return self.own.where

    def named(self, name: str) -> str:
        return self.own.named(name)

    def segments(self, since: int | None = None) -> Iterator[WalFile]:
        """All that there is by now."""
        self._bring(since)
        kept = {each.name: WalFile(each.name, each.size, self.kept) for each in self.kept.segments()}
        own = {each.name: WalFile(each.name, each.size, self.own) for each in self.own.segments() if each.name not in kept}
        yield from (each for _, each in sorted((own | kept).items()))

    def read_into(self, name: str, offset: int, target: NDArray[np.uint8], *, is_partial: bool) -> int:
        return self.own.read_into(name, offset, target, is_partial=is_partial)

    def head(self, name: str, most: int) -> bytes:
        return self.own.head(name, most)

    def packed(self, name: str, most: int) -> str:
        return self.own.packed(name, most)

    def history(self, name: str) -> str | None:
        found = self.kept.history(name)
        return self.own.history(name) if found is None else found

    def sync(self, name: str) -> None:
        self.own.sync(name)

    def _bring(self, since: int | None) -> None:
        home = Path(self.kept.directory)
        key = self.kept.directory, since or 0
        if time.monotonic() - _ASKED.get(key, -_RETRY) < _RETRY and home.is_dir():
            return
        make_folder(home)
        _remove_unused(home)
        with FileLock.wait(home / _LOCK):
            os.utime(home)
            restoring = _Restoring.begun(self, home, since)
            _hold(home, restoring.size, since or 0)
            restoring.all(since)
        _ASKED[key] = time.monotonic()


@dataclass(slots=True)
class _Restoring:
    """What is known of the log, and what brings more of it."""

    files: RestoredFiles
    wal: RestoredWal
    at_hand: list[Segment]
    begins: Lsn | None
    """Where recovery of the data directory would begin, if there is one."""

    @classmethod
    def begun(cls, files: RestoredFiles, home: Path, since: int | None) -> _Restoring:
        """Raises MissingHistory where nothing says of which log it is."""
        listed = [*list_segments(files.kept), *list_segments(files.own)]
        control = DataDirectory(Path(files.data)).control() if files.data else None
        if control is not None:
            size, system = control.segment_size, control.system
        else:
            identity = next((found for each in listed if (found := _identity(each)) is not None), None)
            if not listed and since is not None:
                identity = _identity_of_first(files.command, home, since)
            if identity is None:
                raise MissingHistory(
                    f'no WAL segments in "{files.where}", and none that is wanted comes by the restore_command',
                    hint=_BEGINNINGS if since is None else f"WAL is wanted from {Lsn(since)}: see that the command brings the segment that has it.",
                    context=f"restore_command: {files.command.text}",
                )  # fmt: skip
            size, system = identity
        newest = max([control.timeline if control is not None else 1, *(each.timeline for each in listed)])
        wal = RestoredWal(
            files.command, WalArchive(home, size), system, newest, lambda: False, lambda _: None, lambda _: None, oldest=_KEEP_ALL
        )
        begins = None if control is None else _begins(files.data, control.redo)
        return cls(files, wal, [in_place(each, size) for each in listed], begins)

    @property
    def size(self) -> int:
        """Of segments."""
        return self.wal.archive.segment_size

    def all(self, since: int | None) -> None:
        """The newest timeline that the archive has, and its past; then segments, from there on or from where the log at hand begins."""
        self._find_newest()
        first = self._first(since)
        self.at_hand = [each for each in self.at_hand if each.number >= first]
        kept = {each.number for each in self.at_hand if each.lies_in == self.files.kept and self._is_on_line(each)}
        own = {each.number: each for each in self.at_hand if each.lies_in != self.files.kept and self._begins_in_place(each)}
        number = first
        while number in kept or self._goes_on(own, number) or self._brought(number) or number in own:
            number += 1

    def _goes_on(self, own: dict[int, Segment], number: int) -> bool:
        """Whether the directory's own segment is whole, as the log goes on behind it there, and of the timeline that the log has there."""
        segment = own.get(number)
        return segment is not None and number + 1 in own and not segment.partial and self._is_on_line(segment)

    def _brought(self, number: int) -> bool:
        at = Lsn(number * self.size)
        return self.wal.add_segments(ResumePoint(self._oldest_timeline(), at), Lsn(at + 1)) > 0

    def _find_newest(self) -> None:
        newest, home = self.wal.newest, self.wal.archive.directory
        if newest > 1 and not self.wal.add_history(newest) and (text := self.files.own.history(history_name(newest))) is not None:
            write_whole(home / history_name(newest), text.encode("utf-8", "surrogateescape"))
        while self.wal.add_history(newest + 1):
            newest += 1
        self.wal = replace(self.wal, newest=newest)

    def _first(self, since: int | None) -> int:
        if since is not None:
            return int(since) // self.size
        if self.begins is not None:
            return int(self.begins) // self.size
        return min((each.number for each in self.at_hand), default=0)

    @property
    def _past(self) -> list[tuple[int, Lsn]]:
        return history_of(WalDirectory(str(self.wal.archive.directory)), self.wal.newest)

    def _oldest_timeline(self) -> int:
        return min([self.wal.newest, *(timeline for timeline, _ in self._past)])

    def _is_on_line(self, segment: Segment) -> bool:
        """Whether it is of the newest timeline that has begun by its end."""
        wanted = self.wal.newest
        for timeline, left in sorted(self._past, key=lambda each: each[1], reverse=True):
            if left // self.size <= segment.number:
                break
            wanted = timeline
        return segment.timeline == wanted

    def _begins_in_place(self, segment: Segment) -> bool:
        """Servers make segments ahead from old ones."""
        with suppress(TailraceError, OSError):
            return page_address(segment.read(SHORT_PAGE_HEADER)) == segment.number * self.size
        return False


def _begins(data: str, redo: Lsn) -> Lsn:
    """Where a backup was begun, which its label says, as pg_control may know of a later checkpoint (`read_backup_label`)."""
    is_backup = (Path(data) / BACKUP_LABEL).is_file()
    return min(redo, start_of_backup(Path(data))) if is_backup else redo


def _identity_of_first(command: RestoreCommand, home: Path, since: int) -> tuple[int, int] | None:
    """Of the segment that holds `since`, which the archive is asked for by the names that it may have: on the newest timeline of which there is a
    history file, or one before, in any size. It is not kept, as nobody knows yet what it has to be."""

    def brought(name: str) -> Path | None:
        return command.bring(name, home, _KEEP_ALL, lambda: False)

    newest = 1
    while brought(history_name(newest + 1)) is not None:
        newest += 1
    for size in _SIZES:
        for timeline in range(newest, 0, -1):
            path = brought(segment_name(timeline, since // size, size))
            if path is not None:
                place = WalDirectory(str(home))
                identity = _identity(
                    Segment(timeline, since // size, place, path.name, "", partial=False, size=path.stat().st_size)
                )
                path.unlink()
                if identity is not None and identity[0] == size:
                    return identity
    return None


def _hold(home: Path, size: int, since: int) -> None:
    """Hold what this process has lately asked for, and remove what comes before all that anybody holds. For who has the folder's lock."""
    now, key = time.monotonic(), str(home)
    wanted = _WANTED.setdefault(key, {})
    wanted[since] = now
    for each in [each for each, asked in wanted.items() if now - asked > _UNUSED]:
        del wanted[each]
    first = segment_name(1, min(wanted) // size, size)[8:]
    if key not in _LEASES or _LEASES[key].first != first:
        before, _LEASES[key] = _LEASES.get(key), Lease.take(home, first)
        if before is not None:
            before.end()
    held = first_leased(home)
    for path in home.iterdir():
        if held is not None and (place := place_of_name(path.name)) is not None and place < held:
            path.unlink()


def _identity(segment: Segment) -> tuple[int, int] | None:
    """Size and system."""
    with suppress(TailraceError, OSError):
        found = identity_of(segment)
        return None if found is None else (found.segment_size, found.system)
    return None


def _remove_unused(own: Path) -> None:
    """Folders that nobody holds, and nobody has come to for a while."""
    for home in own.parent.iterdir():
        with suppress(OSError):
            if home == own or time.time() - home.stat().st_mtime < _UNUSED or (lock := FileLock.take(home / _LOCK)) is None:
                continue
            if first_leased(home) is None:
                shutil.rmtree(home, ignore_errors=True)
            lock.release()
