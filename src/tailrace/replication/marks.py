"""Where marks are kept: a directory, one file per database, timeline and LSN.

One that is damaged costs time and not the slot: the mark before it serves as well, with more of the log to plan anew. So of those
below what a slot has confirmed, two are kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import NamedTuple
from weakref import WeakValueDictionary

from tailrace.dataclass import dataclass
from tailrace.errors import MissingHistory, TailraceError
from tailrace.model import Lsn
from tailrace.plan.carried import Carried
from tailrace.slots.mark import read_mark, write_mark
from tailrace.slots.slot import Slot
from tailrace.storage.file_lock import FileLock
from tailrace.storage.whole_file import Written, as_written, make_folder, remove_unfinished, write_whole

_NAME = re.compile(r"([0-9A-F]{8})-([0-9A-F]{16})\.mark")
_KEPT = 2
_LOCK = "lock"
_REMEMBERED = 64
_written: dict[Path, Written | None] = {}
"""Of the marks that this process wrote last, the files."""
_reading = Lock()
_in_use: WeakValueDictionary[tuple[Path, bytes], Carried] = WeakValueDictionary()
"""What slots of this process go on from, by the place and the hash of its file: those that begin together read it once."""


def any_mark(_: Carried) -> bool:
    """Accept a mark of any log."""
    return True


class MarkFile(NamedTuple):
    """The file of a mark, whose name says its database, timeline and LSN."""

    timeline: int
    lsn: Lsn
    path: Path


@dataclass(frozen=True, slots=True)
class Marks:
    """Marks of any number of databases of one system below one directory."""

    directory: Path
    warn: Callable[[str], None]
    """Is told of a file that cannot be used."""

    def save(self, carried: Carried) -> None:
        """It is on disk when this returns. What another slot of this process wrote of this place, and is there as it was, is not written again."""
        state = carried.state
        path = self.directory / str(state.database) / f"{state.timeline:08X}-{int(carried.lsn):016X}.mark"
        if (there := as_written(path)) is not None and _written.get(path) == there:
            return
        data = write_mark(carried)
        with self._locked():
            make_folder(path.parent)
            write_whole(path, data)
            _written[path] = as_written(path)
            while len(_written) > _REMEMBERED:
                del _written[next(iter(_written))]

    def of(self, database: int) -> list[MarkFile]:
        """By LSN, then timeline. Raises OSError for a folder that may not be read: `glob` would find nothing in it, as if all
        marks were gone."""
        folder = self.directory / str(database)
        found = []
        for path in folder.iterdir() if folder.is_dir() else ():
            if match := _NAME.fullmatch(path.name):
                found.append(MarkFile(int(match[1], 16), Lsn(int(match[2], 16)), path))
        return sorted(found, key=lambda mark: (mark.lsn, mark.timeline))

    def upto(
        self, database: int, lsn: Lsn, left: Mapping[int, Lsn] | None = None, fits: Callable[[Carried], bool] = any_mark
    ) -> Carried:  # fmt: skip
        """The latest at `lsn` or before that can be believed, and that `fits` the log. `left` says where each timeline was
        left of those that count; without it all count. Raises MissingHistory if there is none."""
        for mark in reversed(self.of(database)):
            if mark.lsn > lsn or (left is not None and mark.lsn > left.get(mark.timeline, -1)):
                continue
            with suppress(FileNotFoundError):  # one that no slot needs any more may go meanwhile
                carried = self._read(mark, database)
                if carried is not None and fits(carried):
                    return carried
        raise MissingHistory(
            f"no mark of database {database} at {lsn} or before can be used",
            hint="Drop the slot, and create it again: it then begins where the log is now.",
            file=str(self.directory / str(database)),
            lsn=lsn,
        )

    def prune(self, slots: Sequence[Slot]) -> None:
        """Remove the marks that none of the slots needs, and what writers left that were killed."""
        with self._locked():
            for folder in self.directory.iterdir():
                if not folder.is_dir():
                    continue
                remove_unfinished(folder)
                marks = self.of(int(folder.name)) if folder.name.isdecimal() else []
                mine = [slot for slot in slots if str(slot.database_oid) == folder.name and not slot.invalidation_reason]
                needed = {mark for slot in mine for mark in _needed(slot, marks)}
                for mark in marks:
                    if mark not in needed:
                        mark.path.unlink()

    def _read(self, mark: MarkFile, database: int) -> Carried | None:
        try:
            carried = _made_of(mark.path.read_bytes(), mark.path)
        except TailraceError as error:
            self.warn(f"{error.message}; the mark before it is used")
            return None
        state = carried.state
        if (state.database, state.timeline, carried.lsn) != (database, mark.timeline, mark.lsn):
            self.warn(
                f'"{mark.path}" is a mark of database {state.database} at {carried.lsn} on timeline {state.timeline}, not what its name says; '
                "the mark before it is used"
            )
            return None
        return carried

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One at a time writes and removes."""
        make_folder(self.directory)
        with FileLock.wait(self.directory / _LOCK):
            yield


def _made_of(data: bytes, path: Path) -> Carried:
    """Raises as `read_mark` does."""
    key = path, sha256(data).digest()
    with _reading:
        carried = _in_use.get(key)
        if carried is None:
            carried = _in_use[key] = read_mark(data, str(path))
    return carried


def _needed(slot: Slot, marks: Sequence[MarkFile]) -> Iterator[MarkFile]:
    """What is ahead of the slot, for it will get there, and its restart_lsn may count on it; and the last ones that it has
    passed. Of those on earlier timelines some may lie beyond where they were left, so while its own has too few, as many are
    kept of each."""
    yield from (mark for mark in marks if mark.lsn > slot.confirmed_flush_lsn)
    passed = [mark for mark in marks if mark.lsn <= slot.confirmed_flush_lsn]
    own = [mark for mark in passed if mark.timeline == slot.timeline]
    yield from own[-_KEPT:]
    if len(own) < _KEPT:
        for timeline in {mark.timeline for mark in passed if mark.timeline < slot.timeline}:
            yield from [mark for mark in passed if mark.timeline == timeline][-_KEPT:]
