"""The slots of one system's log, in a state location: a folder each (`replication/slot.c`; docs/state_location.md).

    slots/NAME/slot, slots/NAME/owner what `slots.slot` says; the lock of who consumes it
    marks/                            `replication.marks`

A change of the set of slots counts from the moment when a folder is renamed, so a process that is killed has made it or has not.
What it leaves besides has a dot in its name, which no slot has; whoever comes next removes it. The system lets go of a dead
owner's lock, so its slot is free, or gone if it was temporary.
"""

from __future__ import annotations

import os
import shutil
import stat
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from pathlib import Path

from tailrace.dataclass import dataclass
from tailrace.errors import TailraceError, UsageError
from tailrace.majors import FREE_A_SLOT, NEWEST, said_by
from tailrace.model import Lsn
from tailrace.plan.carried import Carried
from tailrace.replication.marks import MarkFile, Marks, any_mark
from tailrace.slots.location import Settings
from tailrace.slots.slot import Slot, check_name, copy_of, read_slot, write_slot
from tailrace.sources.named import restore_with
from tailrace.sources.source_name import is_stored
from tailrace.storage.file_lock import FileLock
from tailrace.storage.location_folder import is_received
from tailrace.storage.state_location import StateLocation
from tailrace.storage.synchronous_slots import OWNER, SLOT
from tailrace.storage.whole_file import Written, as_written, make_folder, remove_unfinished, sync_folder, write_whole

_BEING_MADE, _DROPPED = ".made", ".dropped"
_REMEMBERED = 4096
_lasting: dict[str, Written] = {}
"""Of slots that are not temporary, the files that said so."""


@dataclass(frozen=True, slots=True)
class SlotLocation(StateLocation):
    """The slots of a state location, and their marks. May be used by threads; each that consumes a slot owns it for itself. Others
    see it owned by `pid`: this process, or of a server that has many consumers, the number of one."""

    pid: int = field(default_factory=os.getpid, compare=False)
    _owned: dict[str, FileLock] = field(default_factory=dict, repr=False, compare=False)

    def _prepare(self, settings: Settings) -> None:
        """The logs of its slots are brought by its command, if it has one, unless another user could have said what that is."""
        status, command = self._file.stat(), settings.restore_command
        if not command:
            return
        if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & (stat.S_IWGRP | stat.S_IWOTH):
            self.warn(
                f'restore_command is not run: another user could have written "{self._file}"\n'
                f"HINT:  tailrace slot set restore_command='…' --state {self.path} writes it anew, for this user alone."
            )
            return
        with suppress(TailraceError):  # a slot that is damaged is told of by who uses it
            for slot in self.slots():
                if not is_received(slot.source) and not is_stored(slot.source):
                    restore_with(slot.source, command)

    @property
    def mark_store(self) -> Marks:
        return Marks(self.path / "marks", self.warn)

    def slots(self) -> list[Slot]:
        """All, by name. Raises CorruptFile if the file of one is damaged."""
        with self._locked():
            return self._slots()

    def slot(self, name: str) -> Slot:
        with self._locked():
            self._sweep()
            return self._read(name)

    def check_free(self, name: str, major: int = NEWEST) -> None:
        """Raise UsageError, in the words of this major, unless a slot of this name can be created as things are."""
        with self._locked():
            self._check_free(name, major)

    def create_slot(self, slot: Slot, mark: Carried | None = None) -> None:
        """A new slot, which nobody owns, and the mark where it begins."""
        if slot.temporary:
            raise ValueError("a temporary slot is gone at once if nobody owns it")
        with self._locked():
            self._make(slot, mark).release()

    def copy(self, name: str, new: str) -> Slot:
        """A slot of the `new` name that stands where this one does, whoever consumes that; marks are not removed meanwhile."""
        with self._locked():
            slot = copy_of(self._read(name), new, new_identity())
            self._make(slot, None).release()
        return slot

    @contextmanager
    def created(self, slot: Slot, mark: Carried | None = None) -> Iterator[Slot]:
        """A new slot, owned until the block ends; one that is temporary is gone then."""
        with self._locked():
            lock = self._make(slot, mark)
        yield from self._owning(slot.name, lock)

    @contextmanager
    def owned(self, name: str) -> Iterator[Slot]:
        """The slot, which is the caller's alone until the block ends."""
        with self._locked():
            self._sweep()
            self._check_defined(name)
            lock = self._signed(self._take(name))
        yield from self._owning(name, lock)

    def save(self, slot: Slot) -> None:
        """What the slot is from now on; on disk when this returns. For the owner alone."""
        lock = self._owned.get(slot.name)
        if lock is None or not lock.is_held:
            raise ValueError(f'replication slot "{slot.name}" can be saved by its owner only')
        write_whole(self._folder(slot.name) / SLOT, write_slot(slot))

    def active_pid(self, name: str) -> int | None:
        """The process that owns the slot, None if nobody does."""
        with self._locked():
            if not self._folder(name).is_dir():
                raise _undefined(name)
            return self._owner(name)

    def drop(self, name: str) -> None:
        """Works for a slot whose file is damaged, too."""
        with self._locked():
            self._sweep()
            self._check_defined(name)
            lock = self._take(name)
            try:
                self._remove(name)
            finally:
                lock.release()

    def rename(self, old: str, new: str) -> None:
        """A slot is called what its folder is, whatever the file in it says, so it has one name at every moment. The file is written
        first: where that fails, as on a full disk, the slot has its old name, and nothing else has changed."""
        check_name(new)
        with self._locked():
            self._sweep()
            self._check_defined(old)
            if self._folder(new).exists():
                raise _duplicate(new)
            lock = self._take(old)
            try:
                write_whole(self._folder(old) / SLOT, write_slot(replace(self._read(old), name=new)))
                self._folder(old).rename(self._folder(new))
                sync_folder(self._folder(new).parent)
            finally:
                lock.release()

    def save_mark(self, carried: Carried) -> None:
        """Write a mark; it is on disk when this returns."""
        self.check_system(carried.state.system)
        self.mark_store.save(carried)

    def marks(self, database_oid: int) -> list[MarkFile]:
        """The marks of a database, by LSN, then timeline."""
        return self.mark_store.of(database_oid)

    def mark_upto(
        self, database_oid: int, lsn: Lsn, left: Mapping[int, Lsn] | None = None, fits: Callable[[Carried], bool] = any_mark
    ) -> Carried:  # fmt: skip
        """As `Marks.upto` does."""
        return self.mark_store.upto(database_oid, lsn, left, fits)

    def prune(self) -> None:
        """Remove marks and indexes that no slot needs. Slots are created with their mark, so one that is new has its."""
        with self._locked():
            slots = self._slots()
            self.mark_store.prune(slots)
            needed = [slot.restart_lsn for slot in slots if not slot.invalidation_reason]
            self.index_store.prune(self.settings.system, min(needed, default=Lsn(0)))

    # What follows is for who holds the lock.

    def _slots(self) -> list[Slot]:
        self._sweep()
        return [self._read(name) for name in self._names()]

    def _names(self) -> list[str]:
        folder = self.path / "slots"
        return sorted(each.name for each in folder.iterdir() if "." not in each.name) if folder.is_dir() else []

    def _read(self, name: str) -> Slot:
        self._check_defined(name)
        file = self._folder(name) / SLOT
        return replace(read_slot(file.read_bytes(), str(file)), name=name)

    def _make(self, slot: Slot, mark: Carried | None) -> FileLock:
        """The new slot's lock, which is taken before anybody can see the slot."""
        self._check_free(slot.name)
        self.check_system(slot.system)
        folder = self._folder(slot.name)
        if mark is not None:
            self.save_mark(mark)
        made = folder.with_name(slot.name + _BEING_MADE)
        make_folder(made)
        lock = self._signed(FileLock.wait(made / OWNER))
        try:
            write_whole(made / SLOT, write_slot(slot))
            made.rename(folder)
            sync_folder(folder.parent)
        except BaseException:
            lock.release()
            raise
        return lock

    def _check_free(self, name: str, major: int = NEWEST) -> None:
        check_name(name)
        self._sweep()
        if self._folder(name).exists():
            raise _duplicate(name)
        if len(self._names()) >= self.settings.max_replication_slots:
            raise UsageError("all replication slots are in use", hint=said_by(major, FREE_A_SLOT), sqlstate="53400")

    def _take(self, name: str) -> FileLock:
        lock = FileLock.take(self._folder(name) / OWNER)
        if lock is None:
            raise UsageError(f'replication slot "{name}" is active for PID {self._owner(name)}', sqlstate="55006")
        return lock

    def _signed(self, lock: FileLock) -> FileLock:
        """The owner's lock, which says to others who that is."""
        try:
            lock.write(str(self.pid))
        except BaseException:
            lock.release()
            raise
        return lock

    def _owner(self, name: str) -> int | None:
        """Nobody is disturbed: who wants to own the slot waits for the location's lock first."""
        file = self._folder(name) / OWNER
        lock = FileLock.take(file)
        if lock is None:
            return int(file.read_text() or 0)
        lock.release()
        return None

    def _sweep(self) -> None:
        """Remove temporary slots of the dead, and what is left of changes that were not finished, or not wholly."""
        remove_unfinished(self.path)
        slots = self.path / "slots"
        for name in os.listdir(slots) if slots.is_dir() else ():
            if "." in name:
                shutil.rmtree(slots / name)
            elif self._is_temporary(name) and self._owner(name) is None:
                self._remove(name)

    def _is_temporary(self, name: str) -> bool:
        """What it is said to be, once for each file that says so: everybody who comes asks it of every slot."""
        file = os.path.join(self.path, "slots", name, SLOT)
        try:
            if (said := as_written(file)) is None or _lasting.get(file) == said:
                return False
            if self._read(name).temporary:
                return True
        except (TailraceError, FileNotFoundError):
            return False  # to be dropped by who knows what it was
        if len(_lasting) >= _REMEMBERED:
            _lasting.clear()
        _lasting[file] = said
        return False

    def _remove(self, name: str) -> None:
        dropped = self._folder(name).with_name(name + _DROPPED)
        self._folder(name).rename(dropped)
        sync_folder(dropped.parent)
        shutil.rmtree(dropped)

    # And this is not.

    def _owning(self, name: str, lock: FileLock) -> Iterator[Slot]:
        """What it is by then, since the owner before may have saved it until its lock was taken."""
        self._owned[name] = lock
        try:
            remove_unfinished(self._folder(name))
            yield self._read(name)
        finally:
            if lock.is_held:  # in a forked child it is not
                self._disown(name, lock)

    def _disown(self, name: str, lock: FileLock) -> None:
        del self._owned[name]
        try:
            if self._is_temporary(name):
                with self._locked():
                    self._remove(name)
        finally:
            lock.release()

    def _folder(self, name: str) -> Path:
        return self.path / "slots" / name

    def _check_defined(self, name: str) -> None:
        check_name(name)
        if not self._folder(name).is_dir():
            raise _undefined(name)


def new_identity() -> str:
    """For a slot that is created."""
    return uuid.uuid4().hex


def _undefined(name: str) -> UsageError:
    return UsageError(f'replication slot "{name}" does not exist', sqlstate="42704")


def _duplicate(name: str) -> UsageError:
    return UsageError(f'replication slot "{name}" already exists', sqlstate="42710")
