"""A base backup as a walsender sends it (manual, "Streaming Replication Protocol", BASE_BACKUP): the command, and what is in its CopyData.

In: the bytes of CopyData, as they come. Out: which archive begins, and of a tar archive its members, each with its content in pieces; or PeerError
(08P01). Nothing is put together here: a file of any size passes by.
"""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.dataclass import dataclass
from tailrace.errors import PeerError
from tailrace.majors import BACKUPS_IN_ONE_COPY, supports
from tailrace.wire.fields import VIOLATION, Body, read_string, read_u8

_NEW_ARCHIVE, _CONTENT, _PROGRESS = ord("n"), ord("d"), ord("p")

# A tar header (`include/pgtar.h`): where fields begin, and how long they are.
_BLOCK = 512
_NAME, _SIZE, _CHECKSUM, _TYPE = slice(0, 100), slice(124, 136), slice(148, 156), 156
_PLAIN, _FOLDERS_AND_LINKS = b"0\0", b"25"
_BASE_256 = 0x80
"""In the first byte of a number that is binary, since it is too large to be written in octal digits."""


def backup_command(major: int, max_rate: int | None = None) -> str:
    """BASE_BACKUP without WAL and manifest. The checksums of pages are not verified: nobody looks at most of them. `max_rate` is in kB/s."""
    if supports(major, BACKUPS_IN_ONE_COPY):
        limit = "" if max_rate is None else f", MAX_RATE {max_rate}"
        return f"BASE_BACKUP ( LABEL 'tailrace', CHECKPOINT 'fast', WAIT 0, WAL 0, MANIFEST 'no', VERIFY_CHECKSUMS 0{limit} )"
    limit = "" if max_rate is None else f" MAX_RATE {max_rate}"
    return f"BASE_BACKUP LABEL 'tailrace' FAST{limit} NOWAIT MANIFEST 'no' NOVERIFY_CHECKSUMS"


@dataclass(frozen=True, slots=True)
class NewArchive:
    """What comes next is of this archive: a file's name, and the path of the tablespace, which of the data directory is empty."""

    name: str
    tablespace: str


def read_backup_message(data: memoryview) -> NewArchive | memoryview | None:
    """What a CopyData says where all archives come in one COPY: that one begins, or more of it; None for how far the server is."""
    if not len(data):
        raise PeerError("empty COPY message", sqlstate=VIOLATION)
    kind = data[0]
    if kind == _CONTENT:
        return data[1:]
    if kind == _NEW_ARCHIVE:
        body = Body(bytes(data))
        read_u8(body)
        archive = NewArchive(read_string(body), read_string(body))
        body.end()
        return archive
    if kind == _PROGRESS:
        return None
    raise PeerError(f"malformed COPY message of type {kind}, length {len(data)}", sqlstate=VIOLATION)


@dataclass(frozen=True, slots=True)
class TarMember:
    """What an archive has: a file with its size in bytes, or something without content."""

    name: str
    size: int
    is_file: bool


@dataclass(slots=True)
class TarStream:
    """An archive that is read as it comes. State: what is there of a header, how much of a member's content is still to come, and how many bytes fill
    its last block; whether the archive's end was there."""

    header: bytes = b""
    content_left: int = 0
    filling_left: int = 0
    has_ended: bool = False

    def feed(self, data: memoryview) -> Iterator[TarMember | memoryview]:
        """Members that begin, and behind each of them its content."""
        while len(data):
            if self.content_left:
                part = data[: self.content_left]
                self.content_left -= len(part)
                yield part
            elif self.filling_left:
                part = data[: self.filling_left]
                self.filling_left -= len(part)
            else:
                part = data[: _BLOCK - len(self.header)]
                self.header += part
                if len(self.header) == _BLOCK:
                    block, self.header = self.header, b""
                    if (member := self._member(block)) is not None:
                        yield member
            data = data[len(part) :]

    def end(self) -> None:
        """Raise unless the last member came to its end."""
        if self.content_left or self.filling_left or self.header:
            raise PeerError("COPY stream ended before last file was finished", sqlstate=VIOLATION)

    def _member(self, block: bytes) -> TarMember | None:
        """The member that a header begins; None for a block of the archive's end."""
        if not any(block):
            self.has_ended = True
            return None
        if self.has_ended:
            raise PeerError("tar file trailer exceeds 2 blocks", sqlstate=VIOLATION)
        member = _read_header(block)
        self.content_left, self.filling_left = member.size, -member.size % _BLOCK
        return member


def _read_header(block: bytes) -> TarMember:
    blank = block[: _CHECKSUM.start] + b" " * (_CHECKSUM.stop - _CHECKSUM.start) + block[_CHECKSUM.stop :]
    if _number(block[_CHECKSUM]) != sum(blank):
        raise PeerError("incorrect checksum in tar header", sqlstate=VIOLATION)
    name = block[_NAME].partition(b"\0")[0].decode("utf-8", "surrogateescape")
    if not name:
        raise PeerError("tar member has empty name", sqlstate=VIOLATION)
    kind, size = block[_TYPE], _number(block[_SIZE])
    if kind in _PLAIN:
        return TarMember(name, size, is_file=True)
    if kind in _FOLDERS_AND_LINKS and not size:
        return TarMember(name, 0, is_file=False)
    raise PeerError(f'tar member "{name}" has unexpected type {kind}', sqlstate=VIOLATION)


def _number(field: bytes) -> int:
    """Octal digits, or a binary number behind the mark of one (`print_tar_number` of `port/tar.c`)."""
    if field[0] == _BASE_256:
        return int.from_bytes(field[1:], "big")
    digits = field.rstrip(b"\0 ").lstrip(b" ")
    if not digits.isdigit() or b"8" in digits or b"9" in digits:
        raise PeerError(f"invalid number in tar header: {field!r}", sqlstate=VIOLATION)
    return int(digits, 8)
