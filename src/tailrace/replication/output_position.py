"""How far an output file is what a slot gave: two small files beside it, `FILE.position` and, while somebody writes,
`FILE.writing`.

The position is written once the file is synced: which file it is (device, inode and birth, since rotation renames it), how many
of its bytes count, a checksum over the last of these, and the LSN up to which they are all that the slot gave. `FILE.writing`
says before each write how far that will reach. So of bytes behind those that count it can be told whether they are of a writer
that was killed, and come again, or somebody else's. It is not synced: after a crash of the whole machine nobody can tell, and it
says so itself, by the boot that it is of.
"""

from __future__ import annotations

import os
import zlib
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import Any

from tailrace.checksummed_file import FileKind, fact
from tailrace.dataclass import dataclass
from tailrace.model import Lsn
from tailrace.slots.consumer_session import ConsumerSession
from tailrace.slots.slot import Slot
from tailrace.storage.birth_time import born

POSITION_FILE = FileKind(
    "position", "an output file's position", version=3, compression="zstd",
    hint="Compare the end of the file with what the slot has confirmed; --resume-at-end then goes on where the file ends.",
)  # fmt: skip
POSITION, WRITING = ".position", ".writing"
_TAIL = 1 << 16
_DIGITS = 20
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_FACTS: dict[str, Any] = {
    "device": int, "inode": int, "birth": int, "length": int, "checksum": int, "lsn": Lsn, "slot": str, "system": int, "identity": str,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Position:
    """Of the file with this `inode`, made at `birth` (ns; 0 where nobody knows), the first `length` bytes are what a slot gave
    before `lsn`; `checksum` is the CRC-32 of the last 64 kB of them. `device` is where it was: told, and not believed, since a
    reboot may number devices anew. `slot` is the name that it had, `identity` what it is known by. `session` is what the
    consumer knew there."""

    device: int
    inode: int
    birth: int
    length: int
    checksum: int
    lsn: Lsn
    slot: str
    system: int
    identity: str
    session: ConsumerSession = field(default_factory=ConsumerSession)

    def is_at(self, path: Path) -> bool:
        """Whether that is the file. An inode of a file that was removed is given to the next one, which is born later. Raises
        FileNotFoundError."""
        return path.stat().st_ino == self.inode and (self.birth in (0, birth := born(path)) or birth == 0)

    def is_of(self, slot: Slot) -> bool:
        return self.identity == slot.identity and self.system == slot.system

    def write(self) -> bytes:
        facts = {name: getattr(self, name) for name in _FACTS}
        return POSITION_FILE.write({**facts, "lsn": int(self.lsn), "session": self.session.facts()}, {})

    @classmethod
    def read(cls, data: bytes, where: str) -> Position:
        """Raises UnsupportedFile, CorruptFile."""

        def position_from(facts: dict[str, Any], _: object) -> Position:
            return cls(
                **{name: fact(facts[name], kind) for name, kind in _FACTS.items()}, session=ConsumerSession.of(facts["session"])
            )

        return POSITION_FILE.read_as(data, where, {}, position_from)


def checksum_before(file: int, length: int) -> int:
    """CRC-32 of the last bytes before `length` of an open file."""
    start = max(0, length - _TAIL)
    return zlib.crc32(os.pread(file, length - start, start))


@dataclass(slots=True)
class Reach:
    """`FILE.writing`, which is there while somebody writes, and after a kill."""

    path: Path
    _file: int = -1

    def begin(self) -> None:
        """Make it; what it said before is gone."""
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)

    def upto(self, length: int) -> None:
        """What is written next ends there."""
        os.pwrite(self._file, _written(length), 0)

    def end(self) -> None:
        """Say that nothing lies behind the bytes that count."""
        self.let_go()
        self.path.unlink(missing_ok=True)

    def let_go(self) -> None:
        """Leave it to whoever comes next."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def said(self) -> int | None:
        """How far the last writer can have come since the machine was started; None if nobody can tell. -1 if that writer
        ended in order."""
        with suppress(FileNotFoundError):
            data = self.path.read_bytes()
            digits = data[:_DIGITS]
            return int(digits) if digits.isdigit() and data == _written(int(digits)) else None
        return -1


def _written(length: int) -> bytes:
    """A line of one length: how far, since which boot of the machine, and a checksum of both."""
    boot = "unknown"
    with suppress(OSError):
        boot = _BOOT.read_text().strip()
    head = f"{length:0{_DIGITS}} {boot}"
    return f"{head} {zlib.crc32(head.encode()):08X}\n".encode()
