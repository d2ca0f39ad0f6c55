"""A commit of ours to a Delta table: the version behind the one that was read, or nothing.

In: a snapshot, and the actions that lead on from it. Out: the snapshot with them, which nobody needs to read again. The log's file for a version is
put where none is, and of those who try at once the store lets one; there is no retry on a version that was not read (decision 13).
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from tailrace.delta_log.actions import Action, CommitInfo, TableMetadata, read_actions, write_actions
from tailrace.delta_log.log_files import commit_name
from tailrace.delta_log.table_features import ENABLE_DELETION_VECTORS, protocol_for
from tailrace.delta_log.table_schema import format_schema
from tailrace.delta_log.table_state import Replay
from tailrace.lake.delta.snapshot import DeltaSnapshot
from tailrace.lake.table import overtaken
from tailrace.storage.store import Store
from tailrace.version import __version__

MARK = "tailrace.commit"
"""Below this name a commit has the mark by which who made it knows it again."""


def commit(
    store: Store, snapshot: DeltaSnapshot, actions: Sequence[Action], said: Mapping[str, Any], mark: str = ""
) -> DeltaSnapshot:
    """Make `actions` the version behind `snapshot`, and give that. `said` goes into `commitInfo`: `operation`, `operationParameters`, and what is to
    be read again. Raises Overtaken if that version is there and is another's; then nothing of these actions is in the table. A commit is known again
    by its `mark`: one that was made, though the store said that it failed, is not made twice, also not by another call with the same mark. Raises
    UsageError for actions that break the protocol, and UnsupportedFile where writers must know what we do not."""
    version, mark = snapshot.version + 1, mark or uuid.uuid4().hex
    info = CommitInfo(
        {
            "timestamp": now(),
            **({"readVersion": snapshot.version} if snapshot.is_there else {}),
            "engineInfo": f"tailrace/{__version__}",
            **said,
            MARK: mark,
        }
    )
    made = _applied(store, snapshot, [info, *actions])
    name = commit_name(version)
    try:
        tag = store.put_new(name, write_actions([info, *actions]))
    except Exception as error:
        theirs = _found(store, name)
        if theirs is None:
            raise
        found, tag = theirs
        if _mark(found) != mark:
            raise overtaken(store.url, snapshot.version, who_committed(CommitInfo(_info(found)))) from error
        made = _applied(store, snapshot, found)
    return DeltaSnapshot(version, made.found, tag)


def now() -> int:
    """In milliseconds of Unix's clock, as the log has times."""
    return int(time.time() * 1000)


def first_actions(metadata: TableMetadata, schema: Any) -> list[Action]:
    """What version 0 begins with, of a table with these columns and settings: the least protocol that does, and the metadata."""
    vectors = metadata.configuration.get(ENABLE_DELETION_VECTORS) == "true"
    return [protocol_for(schema, deletion_vectors=vectors), metadata]


def new_metadata(schema: Any, name: str, configuration: Mapping[str, str], description: str = "") -> TableMetadata:
    """Of a new table, with an id of its own."""
    made = TableMetadata(str(uuid.uuid4()), format_schema(schema), name, configuration=configuration, created=now())
    return replace(made, description=description) if description else made


def _applied(store: Store, snapshot: DeltaSnapshot, actions: Sequence[Action]) -> DeltaSnapshot:
    """The snapshot behind this one, if these actions may follow it."""
    if snapshot.is_there:
        snapshot.state.check_commit(actions, store.url)
    replay = Replay.of(snapshot.found)
    replay.apply(actions)
    state = replay.state(commit_name(snapshot.version + 1), snapshot.found)
    state.check_features(actions, store.url)
    return DeltaSnapshot(snapshot.version + 1, state)


def _found(store: Store, name: str) -> tuple[list[Action], str] | None:
    try:
        data, tag = store.read_tagged(name)
    except FileNotFoundError:
        return None
    return read_actions(data, name), tag


def _info(actions: Sequence[Action]) -> Mapping[str, Any]:
    return next((action.said for action in actions if isinstance(action, CommitInfo)), {})


def _mark(actions: Sequence[Action]) -> Any:
    return _info(actions).get(MARK)


def who_committed(info: CommitInfo) -> str:
    """Whose commit says this, of what, and when."""
    who = "Another run" if MARK in info.said else "Another program"
    what = f" ({info.said['operation']})" if "operation" in info.said else ""
    return f"{who}{what} committed it{when_committed(info)}."


def when_committed(info: CommitInfo) -> str:
    at = info.timestamp
    return f", at {datetime.fromtimestamp(at / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC" if at is not None else ""
