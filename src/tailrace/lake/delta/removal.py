"""What nobody can ask a table for any more is removed: files that its versions have let go of, what dead runs left, and the beginning of its log.

In: a table, and how old a file must be that no commit names. Out: a store without them. Of files only ours are removed: those that the log released
longer ago than the table's retention, and those of runs that died, all of whose files are older than any run may take. Of the log, versions stay as
long as its retention says, with a checkpoint to read them from.

The store is listed before the log is read: what is committed in between, the log then names, and what is not committed yet is young.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tailrace.delta_log.log_files import FOLDER, CheckpointFiles, LogFiles, checkpoint_name, commit_name, log_files
from tailrace.delta_log.tombstones import kept_until
from tailrace.lake.delta.checkpoint import log_retention, make_checkpoint, retention, tombstones
from tailrace.lake.delta.snapshot import DeltaSnapshot
from tailrace.lake.files.data_files import is_ours
from tailrace.lake.files.unneeded_files import unneeded_files
from tailrace.lake.table import DAY, Removed
from tailrace.storage.local_store import LocalStore
from tailrace.storage.store import Store, StoredObject

_HOUR = 3600.0
_CHECKPOINTS_APART = 500
"""Versions between checkpoints that are older than an hour: each is as large as the table has files, and commits lead on from one."""
_SHARES = 10
"""So many parts of the log's retention have a checkpoint at least, if there are as many: a log is cut at one."""
_FARTHEST_CHECKPOINT = 40


def remove_unneeded(store: Store, found: DeltaSnapshot, orphans_older_than: float = DAY) -> tuple[DeltaSnapshot, Removed]:
    """The table's newest version, and what was removed."""
    at = time.time()
    there = list(store.list())
    found = found.refreshed(store)
    log = log_files((each.name, each.tag) for each in there if each.name.startswith(FOLDER))
    _keep_readable(store, found, log)
    unneeded, due = _unneeded_files(store, found, there, at, orphans_older_than)
    kept = log_retention(found.metadata.configuration)
    unneeded += _unneeded_log(store, log, {each.name: each for each in there}, at, kept)
    store.delete(each.name for each in unneeded)
    if isinstance(store, LocalStore):
        _remove_unfinished(store.folder, at - orphans_older_than)
    if len(log.commits) > _FARTHEST_CHECKPOINT:
        due = min(due, at + kept)
    return found, Removed(len(unneeded), sum(each.size for each in unneeded), due)


def remove_dead_runs(store: Store) -> int:
    """Files that no version which is there names, of runs that are dead as whoever calls this knows; how many."""
    there = [each for each in store.list() if is_ours(each.name)]
    found = DeltaSnapshot.read(store)
    unneeded = there
    if found.is_there:
        unneeded, _ = _unneeded_files(store, found, there, time.time(), -math.inf)
    store.delete(each.name for each in unneeded)
    if isinstance(store, LocalStore):
        _remove_unfinished(store.folder, math.inf)
    return len(unneeded)


def _unneeded_files(
    store: Store, snapshot: DeltaSnapshot, there: Sequence[StoredObject], at: float, orphans_older_than: float
) -> tuple[list[StoredObject], float]:
    """Files of ours that no version within the retention needs, and when others will be."""
    needed = _needed(snapshot)
    released = kept_until(tombstones(store, snapshot.version), retention(snapshot.metadata.configuration))
    ours = [each for each in there if is_ours(each.name) and each.name not in needed]
    return unneeded_files(ours, there, released, at, orphans_older_than)


def _needed(snapshot: DeltaSnapshot) -> set[str]:
    """Files of the table as it is."""
    vectors = (file.deletion_vector.file_name for file in snapshot.files.values() if file.deletion_vector)
    return {file.path for file in snapshot.files.values()} | set(filter(None, vectors))


def _keep_readable(store: Store, snapshot: DeltaSnapshot, log: LogFiles) -> None:
    """A checkpoint could not be made when its turn was: without one the log cannot be cut."""
    newest = log.newest_checkpoint(None)
    if snapshot.version - (newest.version if newest else 0) > _FARTHEST_CHECKPOINT:
        make_checkpoint(store, snapshot)


def _unneeded_log(store: Store, log: LogFiles, there: Mapping[str, StoredObject], at: float, kept: float) -> list[StoredObject]:
    """Commits and checkpoints before the newest checkpoint that is older than the log's retention; behind it, checkpoints that stand close to
    others."""
    old = [each for each in log.checkpoints if all(there[name].modified < at - kept for name in each.names)]
    first = old[-1] if old else None
    gone: list[str] = []
    if first is not None:
        gone += [commit_name(version) for version in log.commits if version < first.version]
        gone += [name for each in old if each.version < first.version for name in each.names]
        if gone:
            DeltaSnapshot.read(store, first.version)  # raises if that checkpoint cannot be read
    left = [each for each in log.checkpoints if first is None or each.version >= first.version]
    gone += _close_to_others(left, there, at, kept)
    return [there[name] for name in gone]


def _close_to_others(
    checkpoints: Sequence[CheckpointFiles], there: Mapping[str, StoredObject], at: float, kept: float
) -> list[str]:
    """Those that are few versions, and a small part of the retention, behind another that stays."""
    gone: list[str] = []
    last, since = -math.inf, -math.inf
    for each in checkpoints[:-2]:
        name, made = checkpoint_name(each.version), there[each.names[0]].modified
        is_close = each.version - last < _CHECKPOINTS_APART and made - since < kept / _SHARES
        if each.names == (name,) and made < at - _HOUR and is_close:
            gone.append(name)
        else:
            last, since = each.version, made
    return gone


def _remove_unfinished(folder: Path, before: float) -> None:
    """Files of ours in a directory that their writer was killed over: they have no names yet by which a store lists them."""
    for path in (*folder.glob(".part-*.parquet.*.new"), *folder.glob("_dv/.deletion_vector_*.bin.*.new")):
        name = path.relative_to(folder).with_name(path.name[1:].rsplit(".", 2)[0]).as_posix()
        try:
            if is_ours(name) and path.stat().st_mtime < before:
                path.unlink()
        except FileNotFoundError:
            continue
