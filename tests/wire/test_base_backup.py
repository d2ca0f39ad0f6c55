"""A base backup's CopyData: cut anywhere it says the same, and what is no tar archive is refused."""

from __future__ import annotations

import tarfile

import pytest

from support.tars import tar_of
from tailrace.errors import PeerError
from tailrace.majors import MAJORS
from tailrace.wire.base_backup import NewArchive, TarMember, TarStream, backup_command, read_backup_message

FILES = {"backup_label": b"START", "base/5/1259": bytes(range(256)) * 40, "base/5/empty": b"", "global/pg_control": b"c" * 512}


def read(pieces: list[bytes]) -> dict[str, bytes]:
    stream, found, name = TarStream(), dict[str, bytes](), ""
    for piece in pieces:
        for each in stream.feed(memoryview(piece)):
            if not isinstance(each, TarMember):
                found[name] += each
            elif each.is_file:
                name = each.name
                found[name] = b""
    stream.end()
    return found


def test_cut_anywhere() -> None:
    content = tar_of(FILES.items())
    for size in (1, 7, 511, 512, 513, 10_000, len(content)):
        assert read([content[at : at + size] for at in range(0, len(content), size)]) == FILES


@pytest.mark.parametrize(
    ("at", "byte", "words"),
    [
        (0, 0, "incorrect checksum"),  # of a name
        (148, ord("x"), "invalid number in tar header"),
        (149, ord("9"), "invalid number in tar header"),
    ],
)
def test_a_header_that_is_none(at: int, byte: int, words: str) -> None:
    content = bytearray(tar_of(FILES.items()))
    content[at] = byte
    with pytest.raises(PeerError, match=words) as caught:
        read([bytes(content)])
    assert caught.value.sqlstate == "08P01"


def test_members_of_other_kinds() -> None:
    """A server sends files, folders and links."""
    hard_link = tarfile.TarInfo("base/5/1259")
    hard_link.type, hard_link.linkname = tarfile.LNKTYPE, "/etc/passwd"
    with pytest.raises(PeerError, match='tar member "base/5/1259" has unexpected type 49'):
        read([hard_link.tobuf(tarfile.USTAR_FORMAT)])
    with pytest.raises(PeerError, match="tar member has empty name"):
        read([tarfile.TarInfo("").tobuf(tarfile.USTAR_FORMAT)])


def test_an_archive_that_ends_too_early() -> None:
    content = tar_of(FILES.items())
    for stop in (100, 2 * 512 + 511, 3 * 512 + 3):
        with pytest.raises(PeerError, match="COPY stream ended before last file was finished"):
            read([content[:stop]])
    with pytest.raises(PeerError, match="tar file trailer exceeds 2 blocks"):
        read([content, content])


def test_a_file_of_more_than_8_gb() -> None:
    """Its size has no room in octal digits."""
    member = tarfile.TarInfo("core")
    member.size = 9 << 30
    assert list(TarStream().feed(memoryview(member.tobuf(tarfile.GNU_FORMAT)))) == [TarMember("core", 9 << 30, is_file=True)]


def test_messages_of_one_copy() -> None:
    assert read_backup_message(memoryview(b"n16385.tar\0/spaces\0")) == NewArchive("16385.tar", "/spaces")
    assert read_backup_message(memoryview(b"dcontent")) == b"content"
    assert read_backup_message(memoryview(b"p" + bytes(8))) is None
    for broken, words in (
        (b"", "empty COPY message"),
        (b"m", "malformed COPY message of type 109, length 1"),
        (b"nbase.tar", "invalid string in message"),
        (b"nbase.tar\0\0more", "invalid message format"),
    ):
        with pytest.raises(PeerError, match=words):
            read_backup_message(memoryview(broken))


def test_the_command_of_each_major() -> None:
    commands = {backup_command(major, 32) for major in MAJORS}
    assert commands == {
        "BASE_BACKUP LABEL 'tailrace' FAST MAX_RATE 32 NOWAIT MANIFEST 'no' NOVERIFY_CHECKSUMS",
        "BASE_BACKUP ( LABEL 'tailrace', CHECKPOINT 'fast', WAIT 0, WAL 0, MANIFEST 'no', VERIFY_CHECKSUMS 0, MAX_RATE 32 )",
    }
