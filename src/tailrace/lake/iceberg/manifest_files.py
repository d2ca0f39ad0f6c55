"""Manifests, and lists of them, as files of Avro: what they say, whatever their bytes are.

The readers of records are pyiceberg's. Its decoder in C is not used: that believes the counts in a file and reads behind the end of what it was
given, so one byte that has changed may end the process (SIGSEGV). What is read here ends where the file says that it does, or the file is damaged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

from pyiceberg.avro.decoder import StreamingBinaryDecoder
from pyiceberg.avro.file import META_SCHEMA, SYNC_SIZE, AvroFileHeader
from pyiceberg.avro.resolver import construct_reader, resolve_reader
from pyiceberg.manifest import (
    DEFAULT_READ_VERSION,
    MANIFEST_ENTRY_SCHEMAS,
    MANIFEST_LIST_FILE_SCHEMAS,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    PartitionFieldSummary,
)
from pyiceberg.schema import Schema
from pyiceberg.typedef import StructProtocol

# what the structs and the integers with these ids of fields are made; -1 is the record (Iceberg's specification, "Manifests")
_Types = dict[int, Callable[..., StructProtocol]]
_Enums = dict[int, Callable[..., Enum]]
_LIST_TYPES: _Types = {-1: ManifestFile, 508: PartitionFieldSummary}
_LIST_ENUMS: _Enums = {517: ManifestContent}
_ENTRY_TYPES: _Types = {-1: ManifestEntry, 2: DataFile}
_ENTRY_ENUMS: _Enums = {0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent}


def manifests_in(data: bytes) -> list[ManifestFile]:
    """What a list names. Raises anything where it is damaged."""
    return list(_records(data, MANIFEST_LIST_FILE_SCHEMAS[DEFAULT_READ_VERSION], _LIST_TYPES, _LIST_ENUMS))


def entries_in(data: bytes, manifest: ManifestFile) -> Iterator[ManifestEntry]:
    """The files of a manifest that are in the table. Raises anything where it is damaged."""
    for entry in _records(data, MANIFEST_ENTRY_SCHEMAS[DEFAULT_READ_VERSION], _ENTRY_TYPES, _ENTRY_ENUMS):
        if entry.status != ManifestEntryStatus.DELETED:
            _inherit(entry, manifest)
            yield entry


def _inherit(entry: ManifestEntry, manifest: ManifestFile) -> None:
    """What was not known when the manifest was written is as of it ("Sequence Number Inheritance"); a table that was of version 1 has 0."""
    entry.data_file.spec_id = manifest.partition_spec_id
    if entry.snapshot_id is None and manifest.added_snapshot_id is not None:
        entry.snapshot_id = manifest.added_snapshot_id
    if entry.status == ManifestEntryStatus.ADDED or manifest.sequence_number == 0:
        if entry.sequence_number is None:
            entry.sequence_number = manifest.sequence_number
        if entry.file_sequence_number is None:
            entry.file_sequence_number = manifest.sequence_number


def _records(data: bytes, schema: Schema, types: _Types, enums: _Enums) -> Iterator[Any]:
    """Of an Avro object container file (Avro 1.11, "Object Container Files"), with the fields of `schema`."""
    file = _Decoder(data)
    header = construct_reader(META_SCHEMA, {-1: AvroFileHeader}).read(file)
    reader = resolve_reader(header.get_schema(), schema, types, enums)
    codec = header.compression_codec()
    while file.left:
        count, block = file.read_int(), file.read_bytes()
        if file.read(SYNC_SIZE) != header.sync:
            raise ValueError("a block does not end where it says that it does")
        decoder = _Decoder(codec.decompress(block) if codec else block)
        for _ in range(count):
            yield reader.read(decoder)
        if decoder.left:
            raise ValueError(f"{decoder.left} bytes are left behind the last record of a block")


class _Decoder(StreamingBinaryDecoder):
    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self._size = len(data)

    @property
    def left(self) -> int:
        """Bytes that were not read."""
        return self._size - self.tell()

    def skip(self, n: int) -> None:
        if not 0 <= n <= self.left:
            raise EOFError(f"{n} bytes are to be passed over, {self.left} are left")
        super().skip(n)
