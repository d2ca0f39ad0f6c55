"""What nobody can ask an Iceberg table for any more is removed: snapshots that are old, and the files that only they had; what dead runs left; and
metadata of versions far behind.

In: a table, and how old a file must be that no snapshot names. Out: the version of it that has forgotten old snapshots, and a store without their
files. Of files only ours are removed. The store is listed before the metadata is read: what is committed in between, that then names, and what is not
committed yet is young.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator, Sequence

from pyiceberg.table.metadata import TableMetadataV2

from tailrace.lake.files.data_files import is_ours
from tailrace.lake.files.unneeded_files import unneeded_files
from tailrace.lake.iceberg.commit import VersionChanges, commit
from tailrace.lake.iceberg.snapshot import IcebergSnapshot, Manifest, listed_manifests, read_manifest, version_of
from tailrace.lake.iceberg.store_io import name_in
from tailrace.lake.table import DAY, Removed
from tailrace.storage.store import Store, StoredObject
from tailrace.threads import Threads

MAX_AGE, MIN_KEPT, MAX_VERSIONS = (
    "history.expire.max-snapshot-age-ms",
    "history.expire.min-snapshots-to-keep",
    "write.metadata.previous-versions-max",
)
_HOUR = 3_600_000
"""Milliseconds."""
_OF_METADATA = re.compile(r"metadata/(?:snap-\d+-\d+-[0-9a-f-]{36}|[0-9a-f-]{36}-m\d+)\.avro")
_THREADS = 8


def remove_unneeded(
    store: Store, name: str, found: IcebergSnapshot, orphans_older_than: float = DAY
) -> tuple[IcebergSnapshot, Removed]:
    """The table's newest version, and what was removed. Raises Overtaken where somebody else commits meanwhile."""
    at = time.time()
    there = list(store.list())
    found = found.refreshed(store)
    old, due = _old_snapshots(found.metadata, at)
    released: set[str] = set()
    if old:
        before = found
        found = commit(store, name, found, VersionChanges(forgotten=old))
        released = set(_names_of(store, before.metadata, old, found.manifests))
    needed = set(_names_of(store, found.metadata, [each.snapshot_id for each in found.metadata.snapshots], found.manifests))
    unneeded, waits = _unneeded(there, needed, released - needed, at, orphans_older_than)
    unneeded += _old_versions(there, found)
    store.delete(each.name for each in unneeded)
    return found, Removed(len(unneeded), sum(each.size for each in unneeded), min(due, waits))


def _old_snapshots(metadata: TableMetadataV2, at: float) -> tuple[list[int], float]:
    """Those that may be forgotten, as the table's properties say; and when others may."""
    age, least = (int(metadata.properties.get(name, default)) for name, default in ((MAX_AGE, _HOUR), (MIN_KEPT, 1)))
    referred = {each.snapshot_id for each in metadata.refs.values()}
    newest_first = sorted(metadata.snapshots, key=lambda each: -each.sequence_number if each.sequence_number else 0)
    ends = {
        each.snapshot_id: each.timestamp_ms + age for each in newest_first[max(1, least) :] if each.snapshot_id not in referred
    }
    old = [number for number, end in ends.items() if end < at * 1000]
    return old, min((end / 1000 for end in ends.values() if end >= at * 1000), default=math.inf)


def _names_of(store: Store, metadata: TableMetadataV2, snapshots: Sequence[int], known: Sequence[Manifest]) -> Iterator[str]:
    """All files of these snapshots, as names in the store: lists, manifests, and files of rows."""
    manifests = {each.file.manifest_path: each for each in known}
    with Threads(_THREADS) as threads:
        lists = threads.map(lambda number: listed_manifests(store, metadata, number), snapshots)
        for number, listed in zip(snapshots, lists, strict=True):
            snapshot = metadata.snapshot_by_id(number)
            assert snapshot is not None
            yield name_in(store, snapshot.manifest_list)
            for each in listed:
                if each.manifest_path not in manifests:
                    manifests[each.manifest_path] = read_manifest(store, each, metadata.schema())
                    yield name_in(store, each.manifest_path)
                    yield from manifests[each.manifest_path].entries
    for manifest in known:
        yield name_in(store, manifest.file.manifest_path)
        yield from manifest.entries


def _unneeded(
    there: Sequence[StoredObject], needed: set[str], released: set[str], at: float, orphans_older_than: float
) -> tuple[list[StoredObject], float]:
    """Files of ours that no snapshot has, and when others may be removed."""
    ours = (each for each in there if is_ours(each.name) or _OF_METADATA.fullmatch(each.name))
    unneeded = [each for each in ours if each.name not in needed]
    return unneeded_files(unneeded, there, dict.fromkeys(released, -math.inf), at, orphans_older_than)


def _old_versions(there: Sequence[StoredObject], found: IcebergSnapshot) -> list[StoredObject]:
    """Metadata of versions that the newest does not name any more."""
    kept = int(found.properties.get(MAX_VERSIONS, "100"))
    return [each for each in there if 0 < (version_of(each.name) or 0) < found.version - kept]
