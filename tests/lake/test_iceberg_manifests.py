"""Manifests, and lists of them, whose bytes are not as they were written: they are read, or refused; the process goes on."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from pyiceberg.manifest import ManifestFile, write_manifest, write_manifest_list
from pyiceberg.partitioning import PartitionSpec

from lake.test_iceberg import _made
from tailrace.lake.iceberg.manifest_files import entries_in, manifests_in
from tailrace.lake.iceberg.snapshot import listed_manifests
from tailrace.lake.iceberg.store_io import NewFiles, read_file
from tailrace.storage.local_store import LocalStore

_FILES = 3


@dataclass
class Plain:
    """Without compression: what is changed there is in the records."""

    manifest: ManifestFile
    """Of `_FILES` times the same file."""
    entries: bytes
    listed: bytes


@pytest.fixture(name="plain", scope="module")
def fixture_plain(tmp_path_factory: pytest.TempPathFactory) -> Plain:
    folder = tmp_path_factory.mktemp("plain")
    made = _made(folder / "table")
    table = made.snapshot.metadata
    ours = listed_manifests(made.store, table)[0]
    (entry,) = entries_in(read_file(made.store, ours.manifest_path), ours)
    store = LocalStore(folder / "plain")
    new = NewFiles(store)
    with write_manifest(2, PartitionSpec(), table.schema(), new.output(f"{store.url}/m.avro"), 7, "null") as writer:
        for _ in range(_FILES):
            writer.existing(entry)
    manifest = writer.to_manifest_file()
    with write_manifest_list(2, new.output(f"{store.url}/l.avro"), 7, None, 1, "null") as lists:
        lists.add_manifests([manifest])
    return Plain(manifest, store.read("m.avro"), store.read("l.avro"))


def test_whole_ones(plain: Plain) -> None:
    assert manifests_in(plain.listed) == [plain.manifest]
    assert len(list(entries_in(plain.entries, plain.manifest))) == _FILES


def _changed(data: bytes) -> Iterator[bytes]:
    """Each byte, once as another that is more than a byte of a number alone, and once as any."""
    chance = random.Random(25)
    for at in range(len(data)):
        for bits in (0x80, chance.randrange(1, 256)):
            yield data[:at] + bytes([data[at] ^ bits]) + data[at + 1 :]


@pytest.mark.parametrize("what", ["entries", "listed"])
def test_each_byte_changed(plain: Plain, what: str) -> None:
    """pyiceberg's decoder in C ended the process of many of these."""
    refused = read = 0
    for data in _changed(getattr(plain, what)):
        try:
            if what == "listed":
                manifests_in(data)
            else:
                list(entries_in(data, plain.manifest))
            read += 1
        except Exception:
            refused += 1
    assert refused > read / 10
    assert read > 0


@pytest.mark.parametrize("what", ["entries", "listed"])
def test_cut_anywhere(plain: Plain, what: str) -> None:
    """Refused, unless between two blocks, where `_check_whole` sees that fewer files are named than there are."""
    data: bytes = getattr(plain, what)
    mark = data[-16:]  # which ends the header, and each block
    between = [at + 16 for at in range(len(data) - 16) if data[at : at + 16] == mark]
    read = []
    for size in range(len(data)):
        try:
            found = manifests_in(data[:size]) if what == "listed" else list(entries_in(data[:size], plain.manifest))
        except Exception:
            continue
        assert len(found) == len(read)
        read.append(size)
    assert read == between


def test_a_block_with_more_than_its_records(plain: Plain) -> None:
    mark = plain.listed[-16:]
    header, _, block = plain.listed.partition(mark)
    count, size, rest = block[:1], block[1:3], block[3:-16]
    length = (size[0] & 0x7F | size[1] << 7) >> 1
    # One record, as a zigzag number of one byte, and the block's size as one of two.
    assert (count, length) == (b"\x02", len(rest))
    longer = (length + 1) << 1
    data = header + mark + count + bytes([longer & 0x7F | 0x80, longer >> 7]) + rest + b"\0" + mark
    with pytest.raises(ValueError, match="1 bytes are left behind the last record"):
        manifests_in(data)
