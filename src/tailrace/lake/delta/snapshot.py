"""A Delta table as a store has it, at a version, and read on from there.

In: a `Store` whose names are relative to the table. Out: `DeltaSnapshot`, a value, from which `commit.py` goes on. The log is files named by
version: commits (`%020d.json`), and checkpoints, each of which stands for all commits up to its version. `_last_checkpoint` only says where to begin
to list; what it says may be old or wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from tailrace.dataclass import dataclass
from tailrace.delta_log.actions import Action, CommitInfo, DataFile, FileKey, TableMetadata, TableProtocol, damaged, read_actions
from tailrace.delta_log.checkpoint import read_checkpoint, read_last_checkpoint
from tailrace.delta_log.log_files import FOLDER, LAST_CHECKPOINT, LogFiles, before_version, commit_name, log_files
from tailrace.delta_log.table_state import Replay, TableState
from tailrace.errors import MissingHistory, UsageError
from tailrace.storage.store import Store


@dataclass(frozen=True, slots=True)
class DeltaSnapshot:
    """Version -1: there is no table, and so no state. `tag` is the store's, of the file of the commit of this version; empty if it is not there any
    more."""

    version: int = -1
    found: TableState | None = None
    tag: str = ""

    @classmethod
    def read(cls, store: Store, version: int | None = None) -> DeltaSnapshot:
        """The table at its newest version, or at an older one. Where no log is, its version is -1. Raises MissingHistory if there is no such version
        any more, UsageError if there is none yet, CorruptFile if the log has a gap or is damaged, and UnsupportedFile if reading it needs what we do
        not have."""
        files = listed_log(store, version)
        checkpoint = files.newest_checkpoint(version)
        first = checkpoint.version + 1 if checkpoint else 0
        last = _last_version(store, files, first, version)
        if last < 0:
            return cls()
        replay, name = Replay.of(), commit_name(last)
        if checkpoint:
            for name in checkpoint.names:
                _replay_checkpoint(store, name, replay)
        for name in map(commit_name, range(first, last + 1)):
            replay.apply(_actions(store, name))
        state = replay.state(name)
        state.check_readable(store.url)
        return cls(last, state, files.commits.get(last, ""))

    def refreshed(self, store: Store) -> DeltaSnapshot:
        """The newest version, by what has been committed behind this one; the same object if nothing has. If the log has no commit of this version
        any more, or another, the table is read anew. Raises as `read` does."""
        if not self.is_there:
            return DeltaSnapshot.read(store)
        files = log_files(_named(store, before_version(self.version)))
        last = max(files.commits, default=self.version)
        is_there = self.version in files.commits or any(each.version == self.version for each in files.checkpoints)
        has_gap = not files.commits.keys() >= set(range(self.version + 1, last + 1))
        if not is_there or has_gap or files.commits.get(self.version, "") != self.tag:
            return DeltaSnapshot.read(store)
        if last == self.version:
            return self
        replay = Replay.of(self.state)
        try:
            for name in map(commit_name, range(self.version + 1, last + 1)):
                replay.apply(read_actions(store.read(name), name))
        except FileNotFoundError:  # the log is being cleaned up
            return DeltaSnapshot.read(store)
        state = replay.state(commit_name(last), self.state)
        state.check_readable(store.url)
        return DeltaSnapshot(last, state, files.commits[last])

    @property
    def is_there(self) -> bool:
        return self.version >= 0

    @property
    def state(self) -> TableState:
        """Raises UsageError where there is no table."""
        if self.found is None:
            raise UsageError("there is no Delta table yet")
        return self.found

    @property
    def schema(self) -> pa.Schema:
        return self.state.schema

    @property
    def metadata(self) -> TableMetadata:
        return self.state.metadata

    @property
    def protocol(self) -> TableProtocol:
        return self.state.protocol

    @property
    def files(self) -> Mapping[FileKey, DataFile]:
        return self.state.files

    def transaction(self, app_id: str) -> int | None:
        """The last number that this application has committed."""
        found = self.state.transactions.get(app_id)
        return found.version if found else None


def commit_info(store: Store, version: int) -> CommitInfo | None:
    """What a commit says of itself; None if it says nothing. Raises FileNotFoundError if the log does not have it (any more)."""
    name = commit_name(version)
    return next((action for action in read_actions(store.read(name), name) if isinstance(action, CommitInfo)), None)


def commits_before(store: Store, version: int) -> Iterator[tuple[int, CommitInfo]]:
    """What commits say of themselves, from this version on backwards, as far as the log has them."""
    for number in range(version, -1, -1):
        try:
            info = commit_info(store, number)
        except FileNotFoundError:
            return
        if info is not None:
            yield number, info


def listed_log(store: Store, version: int | None) -> LogFiles:
    """The log's files, from the last checkpoint on if there is one to begin with."""
    try:
        hint = read_last_checkpoint(store.read(LAST_CHECKPOINT))
    except FileNotFoundError:
        hint = None
    if hint is not None and (version is None or hint <= version):
        files = log_files(_named(store, before_version(hint)))
        if files.newest_checkpoint(version) is not None:
            return files
    return log_files(_named(store))


def _named(store: Store, after: str = "") -> Iterator[tuple[str, str]]:
    return ((each.name, each.tag) for each in store.list(FOLDER, after))


def _last_version(store: Store, files: LogFiles, first: int, wanted: int | None) -> int:
    """The version that is read, where commits from `first` on are; -1 if the log is empty."""
    there = sorted(number for number in files.commits if number >= first)
    for expected, number in enumerate(there, first):
        if wanted is not None and expected > wanted:
            break
        if number != expected:
            if first == 0 and expected == 0:
                raise _gone(store, number, wanted)
            raise damaged(commit_name(expected), f'It is not there, and "{commit_name(number)}" is.')
    newest = there[-1] if there else first - 1
    if wanted is None or (newest < 0 and wanted < 0):
        return newest
    if wanted > newest or wanted < 0:
        raise UsageError(f"Delta table {store.url} has no version {wanted}", detail=f"Its newest is {newest}.")
    return wanted


def _gone(store: Store, oldest: int, wanted: int | None) -> MissingHistory:
    what = "its log" if wanted is None else f"version {wanted}"
    return MissingHistory(
        f"{what} of Delta table {store.url} is not there any more",
        detail=f"There is no checkpoint to begin with, and the first commit that there is made version {oldest}.",
    )


def _replay_checkpoint(store: Store, name: str, replay: Replay) -> None:
    actions, sidecars = read_checkpoint(_there(store, name), name)
    replay.apply(actions)
    for sidecar in sidecars:
        replay.apply(read_checkpoint(_there(store, sidecar), sidecar)[0])


def _actions(store: Store, name: str) -> Sequence[Action]:
    return read_actions(_there(store, name), name)


def _there(store: Store, name: str) -> bytes:
    """Raises CorruptFile, for what the log names and does not have."""
    try:
        return store.read(name)
    except FileNotFoundError:
        raise damaged(name, "It is not there.") from None
