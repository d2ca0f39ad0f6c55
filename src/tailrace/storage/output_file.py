"""The file that a consumer writes, so that every line is in it exactly once whatever is killed when.

Beside the file lies its position: which file (its inode, since rotation renames it), how much of it counts, and the LSN up to which that is what
the slot gave. It is written once the file is synced, and the slot confirms after that. So whoever comes next cuts the file to what counts and goes
on from there, and what was written behind it comes again.

    write … write │ fsync of the file │ position, synced │ slot confirmed

Standard output and pipes cannot be cut: there a line may come again after a crash.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from tailrace.checksummed_file import FileKind, fact
from tailrace.errors import UsageError
from tailrace.model import Lsn
from tailrace.plugins.printing import Printed, as_lines
from tailrace.slots.session import Session
from tailrace.slots.slot import Slot
from tailrace.storage.whole_file import write_whole
from tailrace.storage.writers import Rows, Writer

POSITION_FILE = FileKind(
    "position", "an output file's position", version=1, compression="zstd",
    hint="Without it the next line goes where the file ends: compare that with what the slot has confirmed, and remove the position.",
)  # fmt: skip
SUFFIX = ".position"


_FACTS: dict[str, Any] = {"inode": int, "length": int, "lsn": Lsn, "slot": str, "system": int, "identity": str}


@dataclass(frozen=True, slots=True)
class Position:
    """Of the file with this `inode` the first `length` bytes are what a slot gave before `lsn`. `slot` is the name that it had; `identity`, by which
    it is known again, is empty in files of before there was one, when the name told. `session` is what the consumer knew there."""

    inode: int
    length: int
    lsn: Lsn
    slot: str
    system: int
    identity: str
    session: Session = field(default_factory=Session)

    def is_of(self, slot: Slot) -> bool:
        mine, its = (self.identity, slot.identity) if self.identity and slot.identity else (self.slot, slot.name)
        return mine == its and self.system == slot.system

    def write(self) -> bytes:
        facts = {name: getattr(self, name) for name in _FACTS}
        return POSITION_FILE.write({**facts, "lsn": int(self.lsn), "session": self.session.facts()}, {})

    @classmethod
    def read(cls, data: bytes, where: str) -> Position:
        """Raises UnsupportedFile, CorruptFile."""

        def position_from(facts: dict[str, Any], _: object) -> Position:
            facts = {"identity": "", **facts}
            session = Session.of(facts["session"]) if "session" in facts else Session()
            return cls(**{name: fact(facts[name], kind) for name, kind in _FACTS.items()}, session=session)

        return POSITION_FILE.read_as(data, where, {}, position_from)


@contextmanager
def output_to(name: str, slot: Slot, printed: Printed = as_lines) -> Iterator[Writer]:
    """A writer to the file of that name, `-` being standard output, of rows as they are `printed`."""
    if name == "-":
        yield _begun(_Stream(sys.stdout.buffer, printed), slot)
        return
    path = Path(name).absolute()
    with suppress(FileNotFoundError):
        mode = path.stat().st_mode
        if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
            with path.open("wb", buffering=1 << 16) as file:
                yield _begun(_Stream(file, printed), slot)
            return
        if not stat.S_ISREG(mode):
            raise UsageError(f'"{path}" is no regular file', hint="Name a file, a pipe, or - for standard output.")
    output = _begun(_File(path, printed), slot)
    try:
        yield output
    finally:
        output.close()


def _begun(writer: Writer, slot: Slot) -> Writer:
    writer.begin(slot)
    return writer


class _Stream(Writer):
    """Standard output, or a pipe."""

    def __init__(self, file: BinaryIO, printed: Printed) -> None:
        super().__init__({})
        self._file, self._printed = file, printed

    def write(self, rows: Rows) -> None:
        self._file.write(self._printed(rows.lines, rows.plugin).data)

    def flush(self) -> None:
        self._file.flush()

    def durable_upto(self) -> Lsn:
        self._file.flush()
        return self._whole


class _File(Writer):
    def __init__(self, path: Path, printed: Printed) -> None:
        super().__init__({})
        self._path, self._printed = path, printed
        self._position = path.with_name(path.name + SUFFIX)

    def begin(self, slot: Slot) -> None:
        super().begin(slot)
        self._slot = slot
        if (said := self._said()) is not None:
            self._cut(said)
            # If the slot was moved on by others, what came between is not in the file.
            if said.lsn >= self.begins_at:
                self.begins_at, self.session = said.lsn, said.session
        self._file = self._path.open("ab", buffering=1 << 16)
        self._counts = (self._length(), self.begins_at, self.session)
        self.durable_upto()

    def write(self, rows: Rows) -> None:
        self._file.write(self._printed(rows.lines, rows.plugin).data)

    def flush(self) -> None:
        self._file.flush()

    def whole(self, lsn: Lsn, session: Session) -> None:
        self._counts = (self._file.tell(), lsn, session)

    def durable_upto(self) -> Lsn:
        self._file.flush()
        os.fsync(self._file.fileno())
        length, lsn, session = self._counts
        position = Position(
            os.fstat(self._file.fileno()).st_ino, length, lsn, self._slot.name, self._slot.system, self._slot.identity, session
        )
        write_whole(self._position, position.write())
        return lsn

    def reopen(self) -> None:
        self._end()
        self._file = self._path.open("ab", buffering=1 << 16)
        self._counts = (self._length(), *self._counts[1:])
        self.durable_upto()

    def close(self) -> None:
        self._end()

    def _end(self) -> None:
        """No half of a transaction stays in a file that is given up."""
        self._file.flush()
        self._file.truncate(self._counts[0])
        self.durable_upto()
        self._file.close()

    def _length(self) -> int:
        return os.fstat(self._file.fileno()).st_size

    def _said(self) -> Position | None:
        if not self._position.exists():
            return None
        said = Position.read(self._position.read_bytes(), str(self._position))
        if not said.is_of(self._slot):
            another = "another " if (said.slot, said.system) == (self._slot.name, self._slot.system) else ""
            raise UsageError(
                f'"{self._path}" is written from {another}replication slot "{said.slot}" of system {said.system}',
                hint=f'Name another file; or remove "{self._position}" to go on in this one.',
                file=str(self._position),
            )
        return said

    def _cut(self, said: Position) -> None:
        """What was written behind the position comes again, so it goes; also from a file that was moved away and not given up in time."""
        for path in self._path.parent.iterdir():
            with suppress(FileNotFoundError):
                if path.is_file() and not path.is_symlink() and path.stat().st_ino == said.inode:
                    break
        else:
            return
        with path.open("r+b") as file:
            if file.seek(0, os.SEEK_END) < said.length:
                raise UsageError(
                    f'"{path}" has {file.tell()} bytes, of which {said.length} have been written up to {said.lsn}',
                    hint=f'Somebody cut it. Remove "{self._position}" to go on behind what is there.',
                    file=str(path),
                )
            file.truncate(said.length)
            os.fsync(file.fileno())
