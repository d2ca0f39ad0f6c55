"""The file that a consumer writes, so that every line is in it exactly once whatever is killed when.

Beside the file lies its position (`replication.output_position`). It is written once the file is synced, and the slot confirms
after that. So whoever comes next cuts the file to what counts and goes on from there, and what was written behind it comes again.

    write … write │ fsync of the file │ position, synced │ slot confirmed

One process writes a file, and holds a lock on it. What is not as the position says is an error that touches nothing: another file
in its place, one that was cut, lines that somebody appended, a slot that has moved on without it.

Standard output and pipes cannot be cut: there a line may come again after a crash.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from tailrace.errors import FailedWrite, UsageError
from tailrace.model import Lsn
from tailrace.plugins.printing import RowPrinter, as_lines
from tailrace.replication.output_position import POSITION, WRITING, Position, Reach, checksum_before
from tailrace.replication.writers import Rows, Writer
from tailrace.slots.consumer_session import ConsumerSession
from tailrace.slots.slot import Slot
from tailrace.storage.birth_time import as_time, born
from tailrace.storage.file_lock import FileLock
from tailrace.storage.whole_file import write_whole

_DISAGREES, _IN_USE = "55000", "55006"


class OutputWarning(UserWarning):
    """Bytes of an output file that were removed."""


@contextmanager
def output_to(name: str, slot: Slot, printed: RowPrinter = as_lines, *, at_end: bool = False) -> Iterator[Writer]:
    """A writer to the file of that name, `-` being standard output, of rows as they are `printed`. `at_end` goes on where the
    file ends, whatever its position says of it. Raises UsageError where somebody else writes the file, or it is not what its
    position says."""
    if name == "-":
        yield _begun(_Stream(sys.stdout.buffer, printed), slot)
        return
    path = Path(os.path.realpath(name))  # the position lies beside the file, by whichever link it is named
    with suppress(FileNotFoundError):
        mode = path.stat().st_mode
        if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
            with path.open("wb", buffering=1 << 16) as file:
                yield _begun(_Stream(file, printed), slot)
            return
        if not stat.S_ISREG(mode):
            raise UsageError(f'"{path}" is no regular file', hint="Name a file, a pipe, or - for standard output.")
    output = _File(path, printed, at_end)
    output.begin(slot)
    try:
        yield output
    finally:
        output.close()


def _begun(writer: Writer, slot: Slot) -> Writer:
    writer.begin(slot)
    return writer


class _Stream(Writer):
    """Writes to standard output, or to a pipe."""

    def __init__(self, file: BinaryIO, printed: RowPrinter) -> None:
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
    def __init__(self, path: Path, printed: RowPrinter, at_end: bool) -> None:
        super().__init__({})
        self._path, self._printed, self._takes_end = path, printed, at_end
        self._position = path.with_name(path.name + POSITION)
        self._reach = Reach(path.with_name(path.name + WRITING))
        self._is_alone = True
        self._at = 0

    def begin(self, slot: Slot) -> None:
        super().begin(slot)
        self._slot = slot
        found = self._check(self._said())
        if found is not None and found != self._path:
            # Whoever is refused has made no new file by then, nor kept it from the one who still writes the old one.
            _Locked.of(found).release()
        with self._opening():
            said = self._said()  # whoever had the lock until now may have written it
            self._cut(said)
        if said is not None and said.is_of(slot) and said.lsn >= self.begins_at:
            self.begins_at, self.session = said.lsn, said.session
        self._counts = (self._at, self.begins_at, self.session)
        self.durable_upto()

    def write(self, rows: Rows) -> None:
        data = memoryview(self._printed(rows.lines, rows.plugin).data).cast("B")
        self._check_alone()
        self._reach.upto(self._at + len(data))
        try:
            while data:
                count = os.write(self._file.number, data)
                data, self._at = data[count:], self._at + count
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            raise FailedWrite(
                f'could not write to file "{self._path}": {error.strerror}',
                sqlstate="53100" if full else "",
                file=str(self._path),
            ) from error

    def whole(self, lsn: Lsn, session: ConsumerSession) -> None:
        self._counts = (self._at, lsn, session)

    def durable_upto(self) -> Lsn:
        os.fsync(self._file.number)
        length, lsn, session = self._counts
        status = os.fstat(self._file.number)
        checksum = checksum_before(self._file.number, length)
        slot = self._slot
        file = status.st_dev, status.st_ino, born(self._file.number)
        position = Position(*file, length, checksum, lsn, slot.name, slot.system, slot.identity, session)
        write_whole(self._position, position.write())
        return lsn

    def reopen(self) -> None:
        """Unless the file still has its name."""
        with suppress(FileNotFoundError):
            if self._path.stat().st_ino == os.fstat(self._file.number).st_ino:
                return
        self._end()
        with self._opening():
            self._cut(None)
        self._counts = (self._at, *self._counts[1:])
        self.durable_upto()

    def close(self) -> None:
        self._end()

    def _end(self) -> None:
        """No half of a transaction stays in a file that is given up."""
        if not self._is_alone:
            self._reach.let_go()
            self._file.release()
            return
        self._check_alone()
        os.ftruncate(self._file.number, self._counts[0])
        self.durable_upto()
        self._reach.end()
        self._file.release()

    @contextmanager
    def _opening(self) -> Iterator[None]:
        """Lock the file, which is made if there is none; the block cuts it to what counts, and then it is written to."""
        self._file = _Locked.of(self._path, made=True)
        try:
            yield
            self._at = os.fstat(self._file.number).st_size
            self._reach.begin()
            self._reach.upto(self._at)
        except BaseException:
            self._file.release()
            raise

    def _said(self) -> Position | None:
        return Position.read(self._position.read_bytes(), str(self._position)) if self._position.exists() else None

    def _check(self, said: Position | None) -> Path | None:
        """The file that the position is of. Raises UsageError unless it is this slot's. None if nothing is said, or does not matter."""
        if said is None or self._takes_end:
            return None
        self._check_slot(said)
        return self._find(said)

    def _cut(self, said: Position | None) -> None:
        """Cut the locked file to what counts, or the one that rotation took away from its place."""
        found = self._check(said)
        if said is not None and found == self._path:
            self._file.cut(said, self._reach.said())
        elif said is not None and found is not None:
            with _Locked.of(found) as moved:
                if self._said() != said:  # its writer went on until it was locked
                    raise _in_use(self._path)
                moved.cut(said, self._reach.said())
        elif said is None and (status := os.fstat(self._file.number)).st_size and status.st_nlink > 1 and not self._takes_end:
            raise _disagrees(
                f'"{self._path}" has other names, and nobody knows how far it is: the position may lie beside one of those',
                self._path,
            )

    def _check_alone(self) -> None:
        """Raise if the file does not end where this writer has ended it."""
        size = os.fstat(self._file.number).st_size
        if size != self._at:
            self._is_alone = False
            raise UsageError(
                f'"{self._path}" has {size} bytes, and {self._at} were written: somebody else writes to it',
                hint="What counts is in it. Put right what was done, or go on where it ends with --resume-at-end.",
                sqlstate=_DISAGREES,
                file=str(self._path),
            )

    def _check_slot(self, said: Position) -> None:
        """Raise unless the file is this slot's, and has all that the slot has given."""
        if not said.is_of(self._slot):
            another = "another " if (said.slot, said.system) == (self._slot.name, self._slot.system) else ""
            raise UsageError(
                f'"{self._path}" is written from {another}replication slot "{said.slot}" of system {said.system}',
                hint="Name another file; or go on where this one ends with --resume-at-end.",
                file=str(self._position),
            )
        confirmed = self._slot.confirmed_flush_lsn
        if said.lsn < confirmed:
            raise _disagrees(
                f'"{self._path}" has what replication slot "{said.slot}" gave before {said.lsn}, but the slot has confirmed {confirmed}: '
                "what lies between was given to somebody else",
                self._path,
                lsn=said.lsn,
            )

    def _find(self, said: Position) -> Path:
        """The file that the position is of: in its place, or in its folder under a name that rotation gave it."""
        with suppress(FileNotFoundError):
            if said.is_at(self._path):
                return self._path
            status = self._path.stat()
            if status.st_size:
                raise _disagrees(
                    f'"{self._path}" is another file (inode {status.st_ino}, made at {as_time(born(self._path))}) than was written up to '
                    f"{said.lsn} (inode {said.inode}, made at {as_time(said.birth)})",
                    self._path,
                    lsn=said.lsn,
                )
        for path in self._path.parent.iterdir():
            with suppress(FileNotFoundError):
                if path.is_file() and not path.is_symlink() and said.is_at(path):
                    return path
        raise _disagrees(
            f'the file that was written up to {said.lsn} as "{self._path}" (inode {said.inode}) is not in its folder any more', self._path,
            lsn=said.lsn,
        )  # fmt: skip


class _Locked:
    """An open file that nobody else writes."""

    def __init__(self, path: Path, number: int, lock: FileLock) -> None:
        self.path, self.number, self._lock = path, number, lock

    @classmethod
    def of(cls, path: Path, *, made: bool = False) -> _Locked:
        """Raises UsageError (55006) while somebody has it."""
        number = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | (os.O_CREAT if made else 0), 0o666)
        lock = FileLock.take(path)
        if lock is None or os.fstat(number).st_ino != path.stat().st_ino:
            os.close(number)
            if lock is not None:
                lock.release()
            raise _in_use(path)
        return cls(path, number, lock)

    def __enter__(self) -> _Locked:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        os.close(self.number)
        self._lock.release()

    def cut(self, said: Position, reach: int | None) -> None:
        """Cut it to what counts by its position, if all that lies behind is of a writer that can have come that far
        (`Reach.said`)."""
        size = os.fstat(self.number).st_size
        if size < said.length:
            raise _disagrees(
                f'"{self.path}" has {size} bytes, of which {said.length} have been written up to {said.lsn}: somebody cut it', self.path,
                lsn=said.lsn,
            )  # fmt: skip
        if checksum_before(self.number, said.length) != said.checksum:
            raise _disagrees(
                f'"{self.path}" is not what was written up to {said.lsn}: the last of its first {said.length} bytes are others', self.path,
                lsn=said.lsn,
            )  # fmt: skip
        if size == said.length:
            return
        if reach is not None and size > reach:
            raise _disagrees(
                f'"{self.path}" has {size - said.length} bytes behind what was written up to {said.lsn}: somebody appended to it', self.path,
                lsn=said.lsn,
            )  # fmt: skip
        if reach is None:
            warnings.warn(
                f'{size - said.length} bytes of "{self.path}" behind what was written up to {said.lsn} are removed: they were written before '
                "the machine was started, and come again",
                OutputWarning,
                stacklevel=2,
            )
        os.ftruncate(self.number, said.length)
        os.fsync(self.number)


def _in_use(path: Path) -> UsageError:
    return UsageError(
        f'"{path}" is being written by another process', hint="Name another file.", sqlstate=_IN_USE, file=str(path)
    )


def _disagrees(message: str, path: Path, lsn: Lsn | None = None) -> UsageError:
    return UsageError(
        message,
        hint="Nothing was touched. Put right what was done; or name another file; or go on where the file ends, with --resume-at-end.",
        sqlstate=_DISAGREES,
        lsn=None if lsn is None else int(lsn),
        file=str(path),
    )
