"""A state location: the directory in which what is known of one system's log is kept (docs/state_location.md).

location                          whose log, and how many slots
place                             where the directory lies, so that a copy of it is told
index/                            `storage.index_store`
publications/                     `storage.publication_files`
lock                              one at a time changes what is there
slots/, marks/                    `replication.slot_location`
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.publications.publishing.entry_timeline import Definitions
from tailrace.slots.location import Settings, parse_settings, read_location, write_location
from tailrace.storage.file_lock import FileLock
from tailrace.storage.index_store import IndexStore
from tailrace.storage.location_folder import LOCATION, check_is_location
from tailrace.storage.location_identity import check_place, move_here, settle
from tailrace.storage.publication_files import PublicationFiles
from tailrace.storage.whole_file import make_folder, remove_unfinished, write_whole

_LOCK = "lock"
_OURS_TO_WRITE = 0o644
"""It may say what is run."""


@dataclass(frozen=True, slots=True)
class StateLocation:
    """One that is there. `warn` is told of files in it that cannot be used; of a cache a copy does no harm."""

    path: Path
    warn: Callable[[str], None] = warnings.warn
    is_cache: bool = False

    @classmethod
    def create(
        cls, path: Path, system: int, *, max_replication_slots: int = 10, max_slot_wal_keep_size: int = -1,
        warn: Callable[[str], None] = warnings.warn, is_cache: bool = False,
    ) -> Self:  # fmt: skip
        """A new one, in a directory that is empty or not there."""
        make_folder(path)
        location = cls(path, warn, is_cache)
        with location._locked():
            if location._file.exists():
                hint = "Name another directory, or use the slots of this one."
                raise UsageError(f'"{path}" is a state location already', hint=hint)
            if any(not each.name.startswith(".") and each.name != _LOCK for each in path.iterdir()):
                raise UsageError(
                    f'directory "{path}" exists but is not empty', hint="A state location needs a directory of its own."
                )
            if not is_cache:
                settle(path)
            write_whole(location._file, write_location(Settings(system, max_replication_slots, max_slot_wal_keep_size)))
        return location

    @classmethod
    def open(cls, path: Path, *, warn: Callable[[str], None] = warnings.warn, is_cache: bool = False) -> Self:
        """Raises UsageError if there is none, or if it is a copy, and as `read_location` does. Removes what processes left
        that were killed."""
        location = cls._found(path, warn, is_cache)
        with location._locked():
            if not is_cache:
                check_place(path)
            location._sweep()
        return location

    @classmethod
    def take_over(cls, path: Path, *, warn: Callable[[str], None] = warnings.warn) -> Self:
        """One that was moved here, or restored: it belongs here from now on. Raises UsageError if the one that it is a copy of
        is still there."""
        location = cls._found(path, warn, False)
        with location._locked():
            move_here(path)
        return location

    @classmethod
    def _found(cls, path: Path, warn: Callable[[str], None], is_cache: bool) -> Self:
        location = cls(path, warn, is_cache)
        check_is_location(path)
        location._prepare(location.settings)
        return location

    def _prepare(self, settings: Settings) -> None:
        """What its settings ask for before it is used."""

    @classmethod
    def open_or_create(
        cls, path: Path, system: int, *, warn: Callable[[str], None] = warnings.warn, is_cache: bool = False
    ) -> Self:  # fmt: skip
        """Of this system, whichever it is."""
        if not (path / LOCATION).exists():
            try:
                return cls.create(path, system, warn=warn, is_cache=is_cache)
            except UsageError:
                if not (path / LOCATION).exists():  # or else somebody was faster
                    raise
        location = cls.open(path, warn=warn, is_cache=is_cache)
        location.check_system(system)
        return location

    @property
    def settings(self) -> Settings:
        return read_location(self._file.read_bytes(), str(self._file))

    def configure(self, pairs: Mapping[str, str | None]) -> Settings:
        """Change the settings that are named (`parse_settings`); what they are then."""
        with self._locked():
            settings = parse_settings(self.settings, pairs)
            write_whole(self._file, write_location(settings), _OURS_TO_WRITE)
        return settings

    def check_system(self, system: int) -> None:
        """Raise UsageError unless this is the system whose slots are kept here."""
        if (mine := self.settings.system) != system:
            raise UsageError(
                f'the slots in "{self.path}" are of system {mine}, not of {system}',
                hint="Each system needs a state location of its own.",
            )

    @property
    def publications(self) -> PublicationFiles:
        return PublicationFiles(self.path / "publications")

    @property
    def index_store(self) -> IndexStore:
        return IndexStore(self.path / "index", self.warn)

    def _sweep(self) -> None:
        """Remove what processes left that were killed. For who holds the lock."""
        remove_unfinished(self.path)

    @property
    def _file(self) -> Path:
        return self.path / LOCATION

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with FileLock.wait(self.path / _LOCK):
            yield

    def lock_if_free(self) -> FileLock | None:
        """For who cannot wait."""
        return FileLock.take(self.path / _LOCK)


def definitions_in(state: str | Path, system: int, database: int) -> Definitions:
    """The publications that are defined in a location for a database, which is known by its oid, in the order of their LSNs."""
    return StateLocation.open(Path(state)).publications.read(system, database, "").in_order
