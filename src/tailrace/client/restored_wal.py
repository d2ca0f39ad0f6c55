"""What a server has removed of its log, fetched from its own archive by a `restore_command`, into the directory into which the rest is received.

In: from where on the log is missing. Out: whole segments and history files under their names. Each is brought under another name, checked for what it
says of itself (size, system, place, timeline), compared with what was received of it before, synced, and renamed; what fails a check is removed, and
is an error.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tailrace.client.restore_command import RestoreCommand
from tailrace.client.wal_archive import ResumePoint, WalArchive
from tailrace.dataclass import dataclass
from tailrace.errors import CorruptWal, TailraceError
from tailrace.model import PAGE_SIZE, Lsn
from tailrace.storage.segment import Segment, segment_name
from tailrace.storage.segment_files import history_of, identity_of, parse_history
from tailrace.storage.wal_files import PARTIAL, WalDirectory
from tailrace.storage.whole_file import sync_folder
from tailrace.wal.page_header import LongPageHeader

_PIECE = 1 << 20
_DAMAGED = "The file is not used. Put a sound copy of it into the server's archive, or take one from another."


@dataclass(frozen=True, slots=True)
class RestoredWal:
    """`system` is whose log it must be; `newest`, the timeline on which the server is. `tell` hears of each file, `reached` of each end of a
    segment. `oldest` is what `%r` means, where that is not what was received."""

    command: RestoreCommand
    archive: WalArchive
    system: int
    newest: int
    is_stopping: Callable[[], bool]
    tell: Callable[[str], None]
    reached: Callable[[Lsn], None]
    oldest: str = ""

    def add_history(self, timeline: int) -> bool:
        """The history file of a timeline. Whether it is there; raises as `WalArchive.add_history`."""
        name = f"{timeline:08X}.history"
        path = self._brought(name)
        if path is None:
            return (self.archive.directory / name).exists()
        content = path.read_bytes()
        path.unlink()
        if not parse_history(content.decode(errors="replace"), name):
            raise CorruptWal(f'history file "{name}" of the archive is empty', hint=_DAMAGED, file=name)
        self.archive.add_history(timeline, content)
        self.tell(f'restored log file "{name}" from archive')
        return True

    def add_segments(self, where: ResumePoint, upto: Lsn | None) -> int:
        """Those that follow one another from there on, as many as there are, or up to an LSN; how many are new. One that is there already is compared
        with the archive's. Raises CorruptWal for one that is not what it ought to be."""
        number, added = where.lsn // self.archive.segment_size, 0
        left = self._timelines(where.timeline)
        while (upto is None or number * self.archive.segment_size < upto) and not self.is_stopping():
            is_there = any(self._named(timeline, number).exists() for timeline, _, _ in left)
            if not self._add(number, left) and not is_there:
                break
            added += not is_there
            number += 1
            self.reached(Lsn(number * self.archive.segment_size))
        return added

    def _timelines(self, first: int) -> list[tuple[int, Lsn, Lsn | None]]:
        """Each from the newest on down to the `first`: its number, where it began, and where it was left."""
        if self.newest > first and not (self.archive.directory / f"{self.newest:08X}.history").exists():
            self.add_history(self.newest)
        found: list[tuple[int, Lsn, Lsn | None]] = []
        began = Lsn(0)
        for timeline, left in history_of(self.archive.directory, self.newest) if self.newest > first else ():
            found.append((timeline, began, left))
            began = left
        found = [each for each in found if each[0] >= first]
        if not found:
            return [(first, Lsn(0), None)]
        return [(self.newest, began, None), *reversed(found)]

    def _add(self, number: int, timelines: list[tuple[int, Lsn, Lsn | None]]) -> bool:
        """The segment of this number on the newest timeline that has it."""
        size = self.archive.segment_size
        for timeline, began, _ in timelines:
            if began >= (number + 1) * size:
                continue
            name = segment_name(timeline, number, size)
            path = self._brought(name)
            if path is not None:
                self._check(path, name, Lsn(number * size), {each for each, _, _ in timelines if each <= timeline})
                for older, _, left in timelines:
                    if older <= timeline:
                        self._check_same(
                            path, self._named(older, number), Lsn(number * size), None if older == timeline else left
                        )
                self._put(path, name)
                return True
        return False

    def _brought(self, name: str) -> Path | None:
        return self.command.bring(name, self.archive.directory, self._oldest(), self.is_stopping)

    def _oldest(self) -> str:
        """What `%r` means: the first segment that is still needed."""
        if self.oldest:
            return self.oldest
        where = self.archive.resume_point()
        if where is None:
            return segment_name(1, 0, self.archive.segment_size)
        return segment_name(where.timeline, where.lsn // self.archive.segment_size, self.archive.segment_size)

    def _named(self, timeline: int, number: int) -> Path:
        return self.archive.directory / segment_name(timeline, number, self.archive.segment_size)

    def _check(self, path: Path, name: str, at: Lsn, timelines: set[int]) -> None:
        """Raise CorruptWal, or UnsupportedWal, unless it is this segment of this system's."""
        try:
            self._check_header(path, name, at, timelines)
        except TailraceError as error:
            path.unlink(missing_ok=True)
            error.message, error.hint = error.message.replace(str(path), name), error.hint or _DAMAGED
            error.lsn, error.file, error.context = int(at), name, f'file "{name}" of the server\'s archive'
            raise

    def _check_header(self, path: Path, name: str, at: Lsn, timelines: set[int]) -> None:
        size, expected = path.stat().st_size, self.archive.segment_size
        if size != expected:
            raise CorruptWal(f'archive file "{name}" has wrong size: {size} instead of {expected}')
        place = WalDirectory(str(path.parent))
        identity = identity_of(Segment(max(timelines), at // expected, place, path.name, "", partial=False, size=size))
        if identity is None:
            raise CorruptWal(f'archive file "{name}" has no WAL')
        with path.open("rb") as file:
            header = LongPageHeader.read(file.read(PAGE_SIZE))
        if header.system != self.system:
            raise CorruptWal(
                f"WAL file is from different database system: WAL file database system identifier is {header.system}, that of the server is "
                f"{self.system}"
            )
        if header.segment_size != expected:
            raise CorruptWal(f'archive file "{name}" is of segments of {header.segment_size} bytes, not of {expected}')
        if header.address != at:
            raise CorruptWal(f"unexpected pageaddr {header.address} in WAL segment {name}, LSN {at}, offset 0")
        if header.timeline not in timelines and header.timeline > min(timelines):
            raise CorruptWal(f"unexpected timeline ID {header.timeline} in WAL segment {name}, LSN {at}, offset 0")

    def _check_same(self, path: Path, whole: Path, at: Lsn, left: Lsn | None) -> None:
        """Raise CorruptWal where something else was received before in its place, whole or in part, up to where the timeline was `left`."""
        ours = next((each for each in (whole, whole.with_name(whole.name + PARTIAL)) if each.exists()), None)
        if ours is None:
            return
        size = self.archive.segment_size if left is None else min(self.archive.segment_size, max(0, left - at))
        with path.open("rb") as restored, ours.open("rb") as received:
            for offset in range(0, size, _PIECE):
                there = np.frombuffer(received.read(min(_PIECE, size - offset)), np.uint8)
                come = np.frombuffer(restored.read(len(there)), np.uint8)
                other = np.flatnonzero((there != come) & ((there != 0) if ours.name.endswith(PARTIAL) else True))
                if len(other):
                    path.unlink()
                    lsn = Lsn(at + offset + int(other[0]))
                    raise CorruptWal(
                        f"the server's archive has other bytes at {lsn} than were received from there before",
                        hint="The server was put back to an earlier copy of itself, or the segment was damaged. Receive into another directory, and "
                        "begin there with a new catalog state.",
                        context=f'file "{ours}"', lsn=lsn, file=str(ours),
                    )  # fmt: skip

    def _put(self, path: Path, name: str) -> None:
        """It has its name once it is on disk; what was received of it goes."""
        target = self.archive.directory / name
        if target.exists():
            path.unlink()
            return
        path.chmod(0o600)
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
        path.rename(target)
        sync_folder(self.archive.directory)
        target.with_name(name + PARTIAL).unlink(missing_ok=True)
        self.tell(f'restored log file "{name}" from archive')
