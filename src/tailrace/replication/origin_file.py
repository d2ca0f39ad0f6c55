"""The file `origins` of a state location: replication origins that are kept there (docs/state_location.md).

It is replaced as a whole, so a reader sees the origins before a change or after it. One at a time changes them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.slots.origins import Origins, read_origins, write_origins
from tailrace.storage.file_lock import FileLock
from tailrace.storage.whole_file import write_whole


@dataclass(frozen=True, slots=True)
class OriginFile:
    """In a state location of this system, whose lock it shares."""

    location: Path
    system: int

    def read(self) -> Origins:
        """None, if there is no file. Raises as `read_origins`, and UsageError for another system's."""
        file = self.location / "origins"
        try:
            data = file.read_bytes()
        except FileNotFoundError:
            return Origins(self.system)
        found = read_origins(data, str(file))
        if found.system != self.system:
            raise UsageError(
                f'the origins in "{file}" are of system {found.system}, not of {self.system}',
                hint="Each system needs a state location of its own.",
            )
        return found

    def change(self, how: Callable[[Origins], Origins]) -> None:
        """Make of the origins what `how` makes of them. If that raises, they stay as they are."""
        with FileLock.wait(self.location / "lock"):
            write_whole(self.location / "origins", write_origins(how(self.read())))
