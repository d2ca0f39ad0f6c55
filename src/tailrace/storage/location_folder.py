"""By what a state location is told from any other directory. It imports nothing that takes time to load, so that a wrong one is
refused at once."""

from __future__ import annotations

from pathlib import Path

from tailrace.errors import UsageError
from tailrace.storage.store_urls import is_store_url

LOCATION = "location"
RECEIVED, SERVER = "received", ".server"


def check_is_location(path: Path) -> None:
    """Raise UsageError if it is none."""
    if not (path / LOCATION).is_file():
        raise UsageError(
            f'"{path}" is not a state location', hint="Name the directory in which slots were created, or create one there."
        )


def is_received(source: str | Path) -> bool:
    """Whether this is the directory of a location into which a server's log is received."""
    return not is_store_url(str(source)) and (Path(source) / SERVER).is_file()
