"""What somebody may go back to by an archive, and from where on that needs its WAL: base backups, and captured catalog states.

In: the directory of the archive, and what else was named. Out: `WalNeed`. What cannot be read is an error: in doubt nothing is removed.
"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tailrace.catalog.state.state_file import STATE_FILE, read_state
from tailrace.dataclass import dataclass
from tailrace.errors import UnsupportedFile, UsageError
from tailrace.model import Lsn
from tailrace.storage.segments import Segments

BACKUP_HISTORY = re.compile(r"([0-9A-F]{8})([0-9A-F]{8})([0-9A-F]{8})\.[0-9A-F]{8}\.backup")
"""Left in the archive by `pg_backup_stop`, compressed or with whatever else an archiver puts behind the name."""
BACKUP_LABEL = "backup_label"
_TARS = "base.tar*"
_START = re.compile(rb"^START WAL LOCATION: ([0-9A-F]+/[0-9A-F]+) ", re.MULTILINE)
_HEAD = 64


@dataclass(frozen=True, slots=True)
class WalNeed:
    """Somebody needs WAL from `lsn` on."""

    lsn: Lsn
    who: str


def needs_of_backups(segments: Segments, named: Sequence[Path]) -> Iterator[WalNeed]:
    """Backups of which the archive has the history file, those that lie in it in folders of their own, and those that are `named`: directories, their
    backup_label, or the base.tar that pg_basebackup writes. Raises UsageError for what is none."""
    archive = Path(segments.directory)
    for path in archive.iterdir():
        if match := BACKUP_HISTORY.match(path.name):
            number = int(match[2], 16) * ((1 << 32) // segments.segment_size) + int(match[3], 16)
            yield _of_backup(path.name, Lsn(number * segments.segment_size))
        elif path.is_dir() and ((path / BACKUP_LABEL).is_file() or any(path.glob(_TARS))):
            yield _of_backup(str(path), start_of_backup(path))
    for path in named:
        yield _of_backup(str(path), start_of_backup(path))


def needs_of_states(segments: Segments, named: Sequence[Path]) -> Iterator[WalNeed]:
    """Catalog states that lie in the archive, if they are of its system, and those that are `named`. Raises as `read_state` does."""
    lying = [path for path in sorted(Path(segments.directory).iterdir()) if _is_state(path)]
    for path in [*named, *lying]:
        try:
            state = read_state(path.read_bytes(), str(path))
        except UnsupportedFile:
            if path in named:
                raise
            continue  # no version that reads it needs WAL for it
        if state.system == segments.system:
            yield WalNeed(state.needs_wal_from, f'the catalog state "{path}" needs WAL from {state.needs_wal_from}')
        elif path in named:
            raise UsageError(f'the catalog state "{path}" is of system {state.system}, the WAL of {segments.system}')


def _of_backup(name: str, lsn: Lsn) -> WalNeed:
    return WalNeed(lsn, f'the backup of "{name}" needs WAL from {lsn}')


def _is_state(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return STATE_FILE.is_kind(file.read(_HEAD))


def start_of_backup(backup: Path) -> Lsn:
    """Where a base backup's log begins (`backup_label`, written by `build_backup_content` of `access/transam/xlogbackup.c`)."""
    if backup.is_dir():
        tars = sorted(backup.glob(_TARS))
        label = (backup / BACKUP_LABEL).read_bytes() if (backup / BACKUP_LABEL).is_file() else _label_in(tars[0]) if tars else b""
    elif backup.is_file():
        label = backup.read_bytes() if backup.name == BACKUP_LABEL else _label_in(backup)
    else:
        raise UsageError(f'could not open backup "{backup}": No such file or directory', sqlstate="58P01")
    found = _START.search(label)
    if found is None:
        raise UsageError(
            f'"{backup}" is no base backup: it has no backup_label that says where it began',
            hint="Give a directory that pg_basebackup wrote, its backup_label, or its base.tar.",
        )
    return Lsn.parse(found[1].decode())


def _label_in(tar: Path) -> bytes:
    """It is the first member that pg_basebackup writes."""
    try:
        with tarfile.open(tar) as archive:
            for member in archive:
                if member.name.removeprefix("./") == BACKUP_LABEL and (file := archive.extractfile(member)) is not None:
                    return file.read()
    except tarfile.TarError as error:
        raise UsageError(f'could not read "{tar}": {error}') from error
    return b""
