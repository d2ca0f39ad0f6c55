"""What tells a state location from a copy of it: the host that it lies on, and the directory's device, inode and birth, which a file says.

A reboot may number devices anew, and a volume may be attached to another host; so the device counts only within one boot of one host, and a host that
has no machine-id (containers often have none) is like any other. Whoever renames the directory, or mounts it elsewhere, still has the same one.
What cannot be told: a whole volume that was copied block by block, once the machine has been started anew; and, where a copy is taken over, whether
another copy was, or the location was renamed since.
"""

from __future__ import annotations

import os
import uuid
from contextlib import suppress
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import get_type_hints

from tailrace.checksummed_file import FileKind, fact
from tailrace.dataclass import dataclass
from tailrace.errors import TailraceError, UsageError
from tailrace.storage.birth_time import as_time, born
from tailrace.storage.whole_file import write_whole

PLACE_FILE = FileKind(
    "place", "the place of a state location", version=1, compression="zstd",
    hint="If nobody uses a copy of the location, take it over: tailrace slot set --moved.",
)  # fmt: skip
_FILE = "place"
_ELSEWHERE = "55000"
_MACHINE, _BOOT = "/etc/machine-id", "/proc/sys/kernel/random/boot_id"


@dataclass(frozen=True, slots=True)
class Place:
    """`identity` is the directory's own, anew for each place that it is given."""

    identity: str
    path: str
    host: str
    boot: str
    device: int
    inode: int
    born: int

    @classmethod
    def of(cls, directory: Path, identity: str) -> Place:
        """As it is now."""
        status = directory.stat()
        return cls(
            identity, os.path.realpath(directory), _line(_MACHINE), _line(_BOOT), status.st_dev, status.st_ino, born(directory)
        )

    def difference(self, now: Place) -> str:
        """What tells that the directory, which is at `now`, is another than the one that was here; empty if nothing does."""
        if self.host and now.host and self.host != now.host:
            return f"it was on another host (machine-id {self.host}, here {now.host})"
        if self.inode != now.inode:
            return f"it was another directory (inode {self.inode}, here {now.inode})"
        if self.born and now.born and self.born != now.born:
            return f"it was another directory (made at {as_time(self.born)}, here at {as_time(now.born)})"
        if self.device != now.device and self.boot == now.boot:
            return f"it was on another file system (device {self.device}, here {now.device})"
        return ""


_FACTS = get_type_hints(Place)


def write_place(place: Place) -> bytes:
    """The bytes of the file."""
    return PLACE_FILE.write(asdict(place), {})


@lru_cache(64)  # whoever opens a location reads it
def read_place(data: bytes, where: str) -> Place:
    """Raises UnsupportedFile, CorruptFile."""
    return PLACE_FILE.read_as(
        data, where, {}, lambda facts, _: Place(**{name: fact(facts[name], kind) for name, kind in _FACTS.items()})
    )


def settle(directory: Path) -> None:
    """Write down that the state location belongs where it is now."""
    write_whole(directory / _FILE, write_place(Place.of(directory, uuid.uuid4().hex)))


def check_place(directory: Path) -> None:
    """Raise UsageError if this is a copy: it and what it is a copy of would each confirm for itself. One of before there were places belongs where it
    is met first."""
    before = _said(directory)
    if before is None:
        settle(directory)
        return
    now = Place.of(directory, before.identity)
    if why := before.difference(now):
        raise UsageError(
            f'the state location "{directory}" is a copy, or was moved: {why}',
            detail=f'It lay at "{before.path}".',
            hint="Copies would go on each by itself, and each would confirm for itself. Use the one that it was copied from; or, if that one is "
            f"gone, take this one over: tailrace slot set --moved --state {directory}",
            sqlstate=_ELSEWHERE,
            file=str(directory / _FILE),
        )
    if now != before:  # renamed, mounted elsewhere, or the machine was started anew
        write_whole(directory / _FILE, write_place(now))


def move_here(directory: Path) -> None:
    """It belongs where it is from now on. Raises UsageError if what it is a copy of is still there."""
    before, now = _said(directory), Place.of(directory, "")
    if before is not None and before.path != now.path and before.difference(now) and _is_there(before):
        raise UsageError(
            f'the state location "{before.path}", of which "{directory}" is a copy, is still there',
            hint="Both would go on, each by itself. Remove one of them.",
            sqlstate=_ELSEWHERE,
            file=before.path,
        )
    settle(directory)


def _said(directory: Path) -> Place | None:
    file = directory / _FILE
    return read_place(file.read_bytes(), str(file)) if file.exists() else None


def _is_there(place: Place) -> bool:
    with suppress(OSError, TailraceError):
        there = _said(Path(place.path))
        return there is not None and there.identity == place.identity and Path(place.path).stat().st_ino == place.inode
    return False


def _line(path: str) -> str:
    with suppress(OSError):
        return Path(path).read_text().strip()
    return ""
