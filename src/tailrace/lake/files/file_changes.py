"""What one commit does to the files of a table, whatever its format."""

from __future__ import annotations

from tailrace.dataclass import dataclass
from tailrace.delta_log.actions import DataFile


@dataclass(frozen=True, slots=True)
class FileChanges:
    """Files go out of the table, and others become part of it; one that gets another deletion vector does both. Without `data_change`, no row comes
    or goes."""

    removed: tuple[DataFile, ...] = ()
    added: tuple[DataFile, ...] = ()
    data_change: bool = True

    def __add__(self, other: FileChanges) -> FileChanges:
        return FileChanges(self.removed + other.removed, self.added + other.added, self.data_change or other.data_change)


NO_CHANGES = FileChanges()


@dataclass(frozen=True, slots=True)
class EditedFiles:
    """What an edit wrote, for people."""

    files: int = 0
    rewritten: int = 0
    vectors: int = 0
    bytes: int = 0
