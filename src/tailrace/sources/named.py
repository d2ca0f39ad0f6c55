"""The files that a SOURCE stands for: what is read of a directory, or of an archive in a store.

This imports nothing that takes time to load, so that a wrong name is refused at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.client.restore_command import RestoreCommand
from tailrace.errors import UsageError
from tailrace.sources.dsn import existing_directory, is_dsn, without_password
from tailrace.sources.source_name import SourceName, absolute, is_stored, path_of
from tailrace.storage.store_urls import is_store_url

if TYPE_CHECKING:
    from tailrace.storage.directory import DataDirectory
    from tailrace.storage.wal_files import WalFiles

_COMMANDS: dict[str, RestoreCommand] = {}
"""What brings the rest of logs, by the names of their directories."""


def existing(source: SourceName) -> SourceName:
    """The name, of a directory its whole path. Raises UsageError for a directory that is not there, and for URLs that cannot be one."""
    if is_stored(source):
        _archive_of(str(source))
        return source
    is_url = is_store_url(str(source))
    return existing_directory(path_of(source) if is_url else source).absolute()


def files_of(source: SourceName) -> WalFiles:
    """Where the segments of a source lie: in its pg_wal if it is a data directory."""
    if is_stored(source):
        return _archive_of(str(source))
    from tailrace.storage.wal_files import WalDirectory  # noqa: PLC0415 - see the module

    directory = directory_of(source)
    own = WalDirectory(str(directory.wal if directory else path_of(source)))
    command = _COMMANDS.get(absolute(source))
    if command is None:
        return own
    from tailrace.sources.restored_files import RestoredFiles  # noqa: PLC0415 - few have one

    return RestoredFiles.of(own, command, str(directory.path) if directory else "")


def restore_with(source: SourceName, restore_command: str) -> None:
    """What the directory lacks of its log this command brings from now on in this process. Nothing changes where it is empty. Raises UsageError for
    what is no such command, and for sources that are no directory."""
    if not restore_command:
        return
    command = RestoreCommand.parse(restore_command)
    if is_stored(source) or is_dsn(str(source)):
        raise UsageError(
            f'a restore_command goes on from a directory, and "{without_password(str(source))}" is none',
            hint="Give a base backup, or a directory that has at least one segment of the log.",
        )
    _COMMANDS[absolute(source)] = command


def directory_of(source: SourceName) -> DataDirectory | None:
    """The data directory, if that is what it is."""
    from tailrace.storage.directory import DataDirectory  # noqa: PLC0415 - see the module

    return None if is_stored(source) else DataDirectory.at(path_of(source))


def _archive_of(url: str) -> WalFiles:
    from tailrace.sources.stored import archive_of  # noqa: PLC0415 - who has a directory waits for no store's client

    return archive_of(url)
