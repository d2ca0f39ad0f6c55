"""A commit of ours to an Iceberg table: the version behind the one that was read, or nothing.

In: a snapshot of the table, and what changes: files, columns, properties, which snapshots are forgotten. Out: the table with that, which nobody needs
to read again. The metadata of a version is put where none is, and of those who try at once the store lets one; there is no retry on a version that
was not read (decision 13). Versions that are far behind are removed, so who was very slow finds his place free: he looks once more which is the
newest, and takes his own back.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from typing import Any, Literal

from pyiceberg.manifest import ManifestEntry, ManifestEntryStatus, write_manifest, write_manifest_list
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadataV2
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.sorting import SortOrder
from pyiceberg.table.update import (
    AddSchemaUpdate,
    AddSnapshotUpdate,
    RemoveSnapshotsUpdate,
    SetCurrentSchemaUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableUpdate,
    update_table_metadata,
)

from tailrace.dataclass import dataclass
from tailrace.delta_log.actions import DataFile
from tailrace.errors import Overtaken
from tailrace.lake.files.file_changes import NO_CHANGES, FileChanges
from tailrace.lake.iceberg.columns import arrow_schema
from tailrace.lake.iceberg.data_files import to_manifest
from tailrace.lake.iceberg.snapshot import (
    FOLDER,
    HINT,
    IcebergSnapshot,
    Manifest,
    metadata_name,
    newest_version,
    read_metadata,
)
from tailrace.lake.iceberg.store_io import NewFiles, location_of
from tailrace.lake.table import overtaken
from tailrace.storage.store import Store

MARK = "tailrace.mark"
"""The property by which who made a version knows it again."""
_CODEC: Literal["deflate"] = "deflate"
_SMALL, _MOST_SMALL = 500, 20
"""Manifests with fewer files are written together once there are more of them."""


@dataclass(frozen=True, slots=True)
class VersionChanges:
    """`schema` are new columns, with the greatest id that was given; `forgotten` the ids of snapshots that nobody is to read any more; `summary` is
    what the snapshot says for people."""

    files: FileChanges = NO_CHANGES
    schema: tuple[Schema, int] | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    forgotten: Sequence[int] = ()
    summary: Mapping[str, str] = field(default_factory=dict)


def new_metadata(store: Store, schema: Schema, last_id: int) -> TableMetadataV2:
    """Of a table that is about to be made."""
    return TableMetadataV2.model_validate(
        {
            "format-version": 2, "location": store.url, "table-uuid": uuid.uuid4(), "last-column-id": last_id, "schemas": [schema],
            "current-schema-id": schema.schema_id, "partition-specs": [PartitionSpec()], "default-spec-id": 0,
            "last-partition-id": PARTITION_FIELD_ID_START - 1, "sort-orders": [SortOrder(order_id=0)], "default-sort-order-id": 0,
            "properties": {}, "last-updated-ms": int(time.time() * 1000),
        }
    )  # fmt: skip


def commit(store: Store, name: str, snapshot: IcebergSnapshot, changes: VersionChanges) -> IcebergSnapshot:
    """Make `changes` the version behind `snapshot`, and give that. Raises Overtaken if that version is there and is another's; then nothing of them
    is in the table."""
    version, new = snapshot.version + 1, NewFiles(store)
    mark = uuid.uuid4().hex
    try:
        after = _applied(new, snapshot, changes, mark)
        data = after.metadata.model_dump_json().encode()
        try:
            store.put_new(metadata_name(version), data)
        except Exception as error:
            if not _is_mine(store, version, mark):
                if isinstance(error, FileExistsError):
                    raise _overtaken(store, name, version) from error
                raise
    except BaseException:
        new.abandon()
        raise
    if (newest := newest_version(store)) > version:
        store.delete([metadata_name(version)])
        new.abandon()
        raise _overtaken(store, name, newest)
    with suppress(OSError):  # readers look for newer ones themselves, or read an older one
        store.put(HINT, str(version).encode())
    return after


def _is_mine(store: Store, version: int, mark: str) -> bool:
    """Whether the version was made though the store said that it failed."""
    try:
        return read_metadata(store, version).properties.get(MARK) == mark
    except FileNotFoundError:
        return False


def _overtaken(store: Store, name: str, version: int) -> Overtaken:
    return overtaken(name, version - 1, who_committed(store, version), first=1)


def who_committed(store: Store, version: int) -> str:
    """Whose version it is."""
    try:
        metadata = read_metadata(store, version)
    except FileNotFoundError:
        return "It has been removed since."
    at = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(metadata.last_updated_ms / 1000))
    who = "Another run" if MARK in metadata.properties else "Another program"
    return f"{who} committed it, at {at}."


# -- what the version is made of ---------------------------------------------------------------------------------------------------------


def _applied(new: NewFiles, before: IcebergSnapshot, changes: VersionChanges, mark: str) -> IcebergSnapshot:
    store = new.store
    updates: list[TableUpdate] = []
    base = before.found
    if base is None:
        assert changes.schema is not None, "a table that is made has columns"
        base = new_metadata(store, *changes.schema)
    elif changes.schema is not None and changes.schema[0].schema_id != base.current_schema_id:
        updates += [AddSchemaUpdate(schema=changes.schema[0]), SetCurrentSchemaUpdate()]
    columns = changes.schema[0] if changes.schema is not None else base.schema()
    manifests = before.manifests
    if changes.files.removed or changes.files.added:
        number, sequence = base.new_snapshot_id(), base.next_sequence_number()
        manifests = _written(new, before, changes.files, columns, (number, sequence))
        updates += _snapshot(new, base, changes, columns, manifests, (number, sequence))
    if changes.forgotten:
        updates.append(RemoveSnapshotsUpdate.model_validate({"snapshot-ids": list(changes.forgotten)}))
    updates.append(SetPropertiesUpdate(updates={**changes.properties, MARK: mark}))
    previous = location_of(store, metadata_name(before.version)) if before.version else None
    after = update_table_metadata(base, tuple(updates), metadata_location=previous)
    assert isinstance(after, TableMetadataV2)
    return IcebergSnapshot(before.version + 1, after, tuple(each for each in manifests if each.entries))


def _snapshot(
    new: NewFiles, base: TableMetadataV2, changes: VersionChanges, columns: Schema, manifests: Sequence[Manifest], place: tuple[int, int]
) -> list[TableUpdate]:  # fmt: skip
    """The snapshot of these manifests, and that it is the current one. `place` is its id, and its number in the sequence."""
    number, sequence = place
    parent = base.current_snapshot_id
    location = location_of(new.store, f"{FOLDER}snap-{number}-1-{uuid.uuid4()}.avro")
    with write_manifest_list(
        format_version=2, output_file=new.output(location), snapshot_id=number, parent_snapshot_id=parent,
        sequence_number=sequence, avro_compression=_CODEC,
    ) as writer:  # fmt: skip
        writer.add_manifests([each.file for each in manifests])
    made = {
        "snapshot-id": number, "parent-snapshot-id": parent, "manifest-list": location, "sequence-number": sequence,
        "summary": Summary(_operation(changes.files), **_counts(changes.files, manifests), **changes.summary),
        "schema-id": columns.schema_id,
    }  # fmt: skip
    branch = {"snapshot-id": number, "ref-name": MAIN_BRANCH, "type": SnapshotRefType.BRANCH}
    return [
        AddSnapshotUpdate(snapshot=Snapshot.model_validate(made)),
        SetSnapshotRefUpdate.model_validate(branch),
    ]


def _operation(files: FileChanges) -> Operation:
    if not files.data_change:
        return Operation.REPLACE
    if files.removed:
        return Operation.OVERWRITE if files.added else Operation.DELETE
    return Operation.APPEND


def _counts(files: FileChanges, manifests: Sequence[Manifest]) -> dict[str, str]:
    """The numbers that a summary has by the format's own names."""
    entries = [entry.data_file for manifest in manifests for entry, _ in manifest.entries.values()]
    return {
        "added-data-files": str(len(files.added)), "added-files-size": str(sum(file.size for file in files.added)),
        "deleted-data-files": str(len(files.removed)), "removed-files-size": str(sum(file.size for file in files.removed)),
        "total-data-files": str(len(entries)), "total-records": str(sum(each.record_count for each in entries)),
        "total-files-size": str(sum(each.file_size_in_bytes for each in entries)), "total-delete-files": "0",
        "total-position-deletes": "0", "total-equality-deletes": "0",
    }  # fmt: skip


def _written(
    new: NewFiles, before: IcebergSnapshot, files: FileChanges, columns: Schema, place: tuple[int, int]
) -> tuple[Manifest, ...]:
    """The manifests of the table with these changes: one that is new, for all that came and for what stays of manifests of which a file went; and
    those of before in which nothing changed."""
    number, sequence = place
    gone = {file.path for file in files.removed}
    touched = [each for each in before.manifests if not gone.isdisjoint(each.entries)]
    missing = gone - {name for each in touched for name in each.entries}
    if missing:
        raise Overtaken(f"file {min(missing)} is not in the table any more")
    kept = [each for each in before.manifests if each.entries and gone.isdisjoint(each.entries)]
    small = [each for each in kept if len(each.entries) < _SMALL]
    if len(small) > _MOST_SMALL:
        touched += small
        kept = [each for each in kept if each not in small]
    entries: dict[str, tuple[ManifestEntry, DataFile]] = {}
    writer = write_manifest(
        format_version=2, spec=PartitionSpec(), schema=columns,
        output_file=new.output(location_of(new.store, f"{FOLDER}{uuid.uuid4()}-m0.avro")), snapshot_id=number, avro_compression=_CODEC,
    )  # fmt: skip
    arrow = arrow_schema(columns)
    with writer:
        for manifest in touched:
            for name, (entry, file) in manifest.entries.items():
                if name in gone:
                    writer.delete(entry)
                else:
                    writer.existing(entry)
                    entries[name] = (entry, file)
        for file in files.added:
            added = to_manifest(file, new.store, columns, arrow)
            writer.add_entry(_entry(ManifestEntryStatus.ADDED, number, None, added))
            entries[file.path] = (_entry(ManifestEntryStatus.ADDED, number, sequence, added), file)
    made = writer.to_manifest_file()
    made.sequence_number = sequence
    made.min_sequence_number = min((entry.sequence_number or 0 for entry, _ in entries.values()), default=sequence)
    return (Manifest(made, entries), *kept)


def _entry(status: ManifestEntryStatus, number: int, sequence: int | None, file: Any) -> ManifestEntry:
    """An entry of a file that this snapshot has added; on disk it has the sequence number of its manifest."""
    return ManifestEntry.from_args(
        status=status, snapshot_id=number, sequence_number=sequence, file_sequence_number=sequence, data_file=file
    )
