"""An Iceberg table as a store has it, at a version of its metadata, and read on from there.

In: a `Store` whose names are relative to the table. Out: `IcebergSnapshot`, a value, from which `commit.py` goes on. Each version is one object,
`metadata/v<n>.metadata.json`, as tables without a catalog's server have it; `version-hint.text` tells readers which is the newest, and may be old. It
names the list of manifests of each snapshot, and a manifest names files of rows. Tables of version 2 of the format are read and written, that are not
partitioned, and whose rows go by rewriting their files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field

import pyarrow as pa
from pyiceberg.manifest import ManifestContent, ManifestEntry, ManifestFile
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil, TableMetadataV2

from tailrace.dataclass import dataclass
from tailrace.delta_log.actions import DataFile
from tailrace.errors import CorruptFile, TailraceError, UnsupportedFile, UsageError
from tailrace.lake.iceberg.columns import arrow_schema
from tailrace.lake.iceberg.data_files import from_manifest
from tailrace.lake.iceberg.manifest_files import entries_in, manifests_in
from tailrace.lake.iceberg.store_io import location_of, name_in, read_file
from tailrace.storage.store import Store

FOLDER = "metadata/"
HINT = "metadata/version-hint.text"
_TOTAL = "total-data-files"
_VERSION = re.compile(r"metadata/v(\d+)\.metadata\.json")


@dataclass(frozen=True, slots=True)
class Manifest:
    """`entries` are its files that are in the table, by their names."""

    file: ManifestFile
    entries: Mapping[str, tuple[ManifestEntry, DataFile]]


@dataclass(frozen=True, slots=True)
class IcebergSnapshot:
    """Version 0: there is no table, and so no metadata."""

    version: int = 0
    found: TableMetadataV2 | None = None
    manifests: tuple[Manifest, ...] = field(default=(), repr=False)

    @classmethod
    def read(cls, store: Store, known: tuple[Manifest, ...] = ()) -> IcebergSnapshot:
        """The newest version; manifests that are `known` are not read again. Raises CorruptFile where it is damaged, and UnsupportedFile where the
        table needs what we do not have."""
        while True:
            version = newest_version(store)
            if not version:
                return cls()
            try:
                metadata = read_metadata(store, version)
                return cls(version, metadata, _manifests(store, metadata, known))
            except FileNotFoundError:  # there are newer ones, and it was removed
                continue
            except CorruptFile:
                if newest_version(store) == version:
                    raise

    def refreshed(self, store: Store) -> IcebergSnapshot:
        """The newest version; the same object if nothing has been committed behind this one."""
        if self.version and newest_version(store) == self.version:
            return self
        return IcebergSnapshot.read(store, self.manifests)

    @property
    def is_there(self) -> bool:
        return self.version > 0

    @property
    def metadata(self) -> TableMetadataV2:
        """Raises UsageError where there is no table."""
        if self.found is None:
            raise UsageError("there is no Iceberg table yet")
        return self.found

    @property
    def columns(self) -> Schema:
        return self.metadata.schema()

    @property
    def schema(self) -> pa.Schema:
        return arrow_schema(self.columns)

    @property
    def files(self) -> list[DataFile]:
        return [file for manifest in self.manifests for _, file in manifest.entries.values()]

    @property
    def properties(self) -> Mapping[str, str]:
        return self.metadata.properties


def metadata_name(version: int) -> str:
    return f"{FOLDER}v{version}.metadata.json"


def version_of(name: str) -> int | None:
    """The version that a file is, if it is one."""
    found = _VERSION.fullmatch(name)
    return int(found[1]) if found else None


def newest_version(store: Store) -> int:
    """0 if there is none."""
    return max((version_of(each.name) or 0 for each in store.list(f"{FOLDER}v")), default=0)


def read_metadata(store: Store, version: int) -> TableMetadataV2:
    """Raises FileNotFoundError, CorruptFile, and UnsupportedFile for a table that we do not go on from."""
    name = metadata_name(version)
    data = store.read(name)
    with _read_from(location_of(store, name)):
        metadata: TableMetadata = TableMetadataUtil.parse_raw(data.decode())
    if not isinstance(metadata, TableMetadataV2):
        raise _unsupported(store, f"It is of version {metadata.format_version} of the format; only version 2 is supported.")
    if metadata.spec().fields:
        raise _unsupported(store, "It is partitioned.")
    return metadata


def _manifests(store: Store, metadata: TableMetadataV2, known: tuple[Manifest, ...]) -> tuple[Manifest, ...]:
    there = {each.file.manifest_path: each for each in known}
    manifests = tuple(
        there.get(each.manifest_path) or read_manifest(store, each, metadata.schema())
        for each in listed_manifests(store, metadata)
    )
    snapshot = metadata.current_snapshot()
    if snapshot is not None and snapshot.summary is not None:
        _check_whole(snapshot.manifest_list, sum(len(each.entries) for each in manifests), snapshot.summary[_TOTAL])
    return manifests


def listed_manifests(store: Store, metadata: TableMetadataV2, snapshot_id: int | None = None) -> list[ManifestFile]:
    """Of a snapshot, the current one unless told otherwise."""
    snapshot = metadata.current_snapshot() if snapshot_id is None else metadata.snapshot_by_id(snapshot_id)
    if snapshot is None:
        return []
    with _read_from(snapshot.manifest_list):
        return manifests_in(read_file(store, snapshot.manifest_list))


def read_manifest(store: Store, file: ManifestFile, schema: Schema) -> Manifest:
    """Raises UnsupportedFile for one of rows that are deleted by a file of their own."""
    if file.content == ManifestContent.DELETES:
        if file.has_added_files() or file.has_existing_files():
            raise _unsupported(
                store, "Rows of it are deleted by files of their own.", "Rewrite its files, as rewrite_data_files does."
            )
        return Manifest(file, {})
    columns = arrow_schema(schema)
    with _read_from(file.manifest_path):
        entries = {
            name_in(store, each.data_file.file_path): (each, from_manifest(each.data_file, store, schema, columns))
            for each in entries_in(read_file(store, file.manifest_path), file)
        }
        _check_whole(file.manifest_path, len(entries), (file.added_files_count or 0) + (file.existing_files_count or 0))
        return Manifest(file, entries)


def _check_whole(location: str, found: int, said: str | int | None) -> None:
    """Raise CorruptFile where files are missing that others say are named there: an Avro file that is cut between two blocks reads as a whole one."""
    if said is not None and found < int(said):
        raise CorruptFile(
            f'file "{location}" of an Iceberg table cannot be read', detail=f"It names {found} of {said} files.", file=location
        )


def _unsupported(store: Store, detail: str, hint: str = "Make the table anew.") -> UnsupportedFile:
    return UnsupportedFile(f'Iceberg table "{store.url}" cannot be gone on from', detail=detail, hint=hint)


@contextmanager
def _read_from(location: str) -> Iterator[None]:
    """What pyiceberg raises for a file that is damaged may be anything."""
    try:
        yield
    except TailraceError:
        raise
    except Exception as error:
        what = str(error).split("\n", 1)[0] or type(error).__name__
        raise CorruptFile(f'file "{location}" of an Iceberg table cannot be read', detail=f"{what}.", file=location) from error
