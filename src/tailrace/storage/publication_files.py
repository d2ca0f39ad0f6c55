"""The folder of a state location with the publications that are defined there: one file a database, by its oid (docs/state_location.md).

A file is replaced as a whole, so a reader sees the definitions before a statement or after it. One at a time changes them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.publications.commands.definition_file import Definitions, read_definitions, write_definitions
from tailrace.storage.file_lock import FileLock
from tailrace.storage.whole_file import make_folder, write_whole

_LOCK = "lock"


@dataclass(frozen=True, slots=True)
class PublicationFiles:
    path: Path

    def read(self, system: int, database_oid: int, database: str) -> Definitions:
        """What is defined for a database; nothing if there is no file. Raises as `read_definitions`, and UsageError for another system's."""
        file = self._file(database_oid)
        try:
            data = file.read_bytes()
        except FileNotFoundError:
            return Definitions(system, database_oid, database)
        found = read_definitions(data, str(file))
        if (found.system, found.database_oid) != (system, database_oid):
            raise UsageError(
                f'the publications in "{file}" are of system {found.system}, not of {system}',
                hint="Each system needs a state location of its own.",
            )
        return found

    def change(self, system: int, database_oid: int, database: str, how: Callable[[Definitions], Definitions]) -> Definitions:
        """Make of the definitions what `how` makes of them, and say what they are then. If that raises, they stay as they are."""
        make_folder(self.path)
        with FileLock.wait(self.path / _LOCK):
            changed = how(self.read(system, database_oid, database))
            write_whole(self._file(database_oid), write_definitions(changed))
        return changed

    def _file(self, database_oid: int) -> Path:
        return self.path / str(database_oid)
