"""A checkpoint of a Delta table's log, so that readers need not begin at its first commit.

In: a snapshot, and its store, whose log says which files were removed and when. Out: one file of the first specification, which every reader knows,
and `_last_checkpoint`, which says where it is. It has all that the table is, and the tombstones of files whose retention is not over: VACUUM deletes
what it finds in neither. Others may write one of the same version; then either is right.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

import pyarrow as pa

from tailrace.delta_log.actions import RemoveFile, read_actions
from tailrace.delta_log.checkpoint import sidecars_of, tombstone_columns, write_checkpoint, write_last_checkpoint
from tailrace.delta_log.log_files import LAST_CHECKPOINT, checkpoint_name, commit_name
from tailrace.delta_log.table_features import check_writable
from tailrace.delta_log.tombstones import columns_of, still_needed
from tailrace.errors import MissingHistory
from tailrace.lake.delta.commit import now
from tailrace.lake.delta.snapshot import DeltaSnapshot, listed_log
from tailrace.storage.store import Store

_RETENTION, _LOG_RETENTION = "delta.deletedFileRetentionDuration", "delta.logRetentionDuration"
_INTERVAL = re.compile(r"(?:interval )?(\d+) (second|minute|hour|day|week)s?")
_WEEK = "interval 1 week"
_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}


def make_checkpoint(store: Store, snapshot: DeltaSnapshot) -> str:
    """The name of the checkpoint that was written of this version. Raises MissingHistory if the log does not have what leads to it any more, and
    UnsupportedFile if writers of the table must know what we do not."""
    state = snapshot.state
    check_writable(state.protocol, state.metadata, state.schema, store.url)
    stays = retention(state.metadata.configuration)
    oldest = 0 if stays == math.inf else now() - int(1000 * stays)
    kept = still_needed(tombstones(store, snapshot.version), state.files.values(), oldest)
    data, count = write_checkpoint(state, kept)
    name = checkpoint_name(snapshot.version)
    store.put(name, data)
    store.put(LAST_CHECKPOINT, write_last_checkpoint(snapshot.version, count, len(data), len(state.files)))
    return name


def tombstones(store: Store, version: int) -> pa.StructArray:
    """Those of the last checkpoint before this version, and of the commits from there on, as columns; also of files that were added again."""
    parts: list[pa.StructArray] = []
    checkpoint = listed_log(store, version).newest_checkpoint(version)
    first = 0
    if checkpoint:
        first = checkpoint.version + 1
        for name in checkpoint.names:
            data = store.read(name)
            parts.append(tombstone_columns(data, name))
            parts += [tombstone_columns(store.read(part), part) for part in sidecars_of(data, name)]
    removed: list[RemoveFile] = []
    for name in map(commit_name, range(first, version + 1)):
        try:
            actions = read_actions(store.read(name), name)
        except FileNotFoundError:
            raise _gone(store, name) from None
        removed += [each for each in actions if isinstance(each, RemoveFile)]
    return pa.concat_arrays([*parts, columns_of(removed)])


def retention(configuration: Mapping[str, str]) -> float:
    """For how many seconds files stay that were removed. Where that is not plain, for ever."""
    return _seconds(configuration.get(_RETENTION, _WEEK))


def log_retention(configuration: Mapping[str, str]) -> float:
    """For how many seconds versions can be read. Where nothing is said, as long as their files are there."""
    return _seconds(configuration[_LOG_RETENTION]) if _LOG_RETENTION in configuration else retention(configuration)


def _seconds(interval: str) -> float:
    found = _INTERVAL.fullmatch(interval.lower())
    return int(found[1]) * _SECONDS[found[2]] if found else math.inf


def _gone(store: Store, name: str) -> MissingHistory:
    return MissingHistory(
        f"commits of Delta table {store.url} are not there any more", detail=f'"{name}" is missing.', context=name
    )
