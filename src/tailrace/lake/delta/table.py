"""Delta tables as a lake uses them (`lake/table.py`): found at a version, and gone on from by one commit.

A table is the one found if its folder is, by device and inode: folders change names. The log itself is read and written by `snapshot` and `commit`;
which columns have statistics says `statistics`.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa

from tailrace.dataclass import dataclass
from tailrace.delta_log.actions import Action, AddFile, AppTransaction, CommitInfo, DataFile, RemoveFile
from tailrace.delta_log.table_features import DELETION_VECTORS, ENABLE_DELETION_VECTORS, TIMESTAMP_NTZ, with_features
from tailrace.delta_log.table_schema import format_schema, has_timestamps_without_zone
from tailrace.errors import CorruptFile, MissingHistory, Overtaken, TailraceError
from tailrace.lake.delta.checkpoint import make_checkpoint
from tailrace.lake.delta.commit import commit, first_actions, new_metadata, now, when_committed, who_committed
from tailrace.lake.delta.removal import remove_unneeded
from tailrace.lake.delta.snapshot import DeltaSnapshot, commit_info, commits_before
from tailrace.lake.delta.statistics import corrected, files_that_are_wrong, table_settings
from tailrace.lake.files.comments import COMMENTED, commented_columns, commented_table, uncommented
from tailrace.lake.files.data_files import DataFiles, is_ours
from tailrace.lake.files.file_changes import NO_CHANGES, FileChanges
from tailrace.lake.files.known_bounds import KnownBounds
from tailrace.lake.files.statistics import wide_decimals
from tailrace.lake.table import AGAIN, DAY, METADATA, CommitNote, Removed, overtaken
from tailrace.storage.local_store import LocalStore
from tailrace.storage.store import Store

logger = logging.getLogger(__name__)

_LOG = "_delta_log"
_CHECKPOINT_EVERY = 20
"""Versions, of which each is a file to read for who opens the table."""
_RETENTIONS = ("delta.deletedFileRetentionDuration", "delta.logRetentionDuration")
_Id = tuple[int, int]
"""Of a folder: device and inode."""


@dataclass(frozen=True, slots=True)
class DeltaVersion:
    """What a run goes on from: `snapshot` is the table in `store`, or that there is none there. Of one in a directory that others may rename,
    `log` is which folders it and its log lie in."""

    store: Store
    snapshot: DeltaSnapshot = DeltaSnapshot(-1)
    log: tuple[_Id, _Id] | None = None
    bounds: KnownBounds = field(default_factory=KnownBounds, compare=False, repr=False)

    @property
    def version(self) -> int:
        return self.snapshot.version

    @property
    def keeps_vectors(self) -> bool:
        return True

    @property
    def is_there(self) -> bool:
        return self.snapshot.is_there

    def open(self) -> OpenDeltaTable:
        return OpenDeltaTable(self)

    @property
    def path(self) -> Path:
        assert isinstance(self.store, LocalStore)
        return self.store.folder

    def moved(self, path: Path) -> DeltaVersion:
        """The same table where its folder has been renamed to."""
        return replace(self, store=LocalStore(path))

    def data_files(self, schema: pa.Schema, run: str, without_statistics: Iterable[str] = ()) -> DataFiles:
        return DataFiles(self.store, uncommented(schema), run, without_statistics, self.bounds)

    def make(
        self, name: str, described: str, schema: pa.Schema, note: CommitNote, changes: FileChanges = NO_CHANGES
    ) -> DeltaVersion:
        columns = commented_columns(schema, None, note.comments)
        metadata = new_metadata(columns, described, _settings(schema, note), commented_table(note.comments, "", ""))
        beginning = first_actions(metadata, schema)
        return self.commit_actions(name, [*beginning, *_actions_of(changes)], note, "CREATE TABLE")

    def commit(self, name: str, changes: FileChanges, note: CommitNote) -> DeltaVersion:
        return self.commit_actions(name, _actions_of(changes), note, "WRITE" if changes.data_change else "OPTIMIZE")

    def commit_actions(self, name: str, actions: Sequence[Action], note: CommitNote, operation: str) -> DeltaVersion:
        self._check_same(name)
        numbers = [AppTransaction(app_id, number, now()) for app_id, number in note.numbers.items()]
        said = {"operation": operation, "operationParameters": {}, **note.said}
        try:
            snapshot = commit(self.store, self.snapshot, [*actions, *numbers], said)
        except Overtaken as error:
            self._check_same(name, error)
            raise overtaken(name, self.version, _said_of(self._winner() or [CommitInfo({})])) from error
        self._check_same(name)
        self._make_checkpoint(snapshot)
        log = log_of(self.path) if isinstance(self.store, LocalStore) else None
        return replace(self, snapshot=snapshot, log=log)

    @contextmanager
    def going_on(self, name: str) -> Iterator[None]:
        try:
            yield
        except CorruptFile as error:
            if not (commits := self._winner()):
                raise
            raise overtaken(name, self.version, _said_of(commits)) from error

    def refreshed(self) -> DeltaVersion:
        return replace(self, snapshot=self.snapshot.refreshed(self.store))

    def remove_unneeded(self, orphans_older_than: float = DAY) -> tuple[DeltaVersion, Removed]:
        snapshot, removed = remove_unneeded(self.store, self.snapshot, orphans_older_than)
        return replace(self, snapshot=snapshot), removed

    def _make_checkpoint(self, snapshot: DeltaSnapshot) -> None:
        """Now and then, so that nobody has to read all commits; without it the table is as right as with it."""
        if (snapshot.version + 1) % _CHECKPOINT_EVERY == 0:
            try:
                make_checkpoint(self.store, snapshot)
            except (TailraceError, OSError) as error:
                logger.warning("no checkpoint of version %s of the table in %s: %s", snapshot.version, self.store.url, error)

    def _check_same(self, name: str, cause: Exception | None = None) -> None:
        if self.log is not None and log_of(self.path) != self.log:
            self._clean_up()
            raise Overtaken(
                f"table {name} is not in its folder any more",
                detail=f'Another run has moved what was in "{self.path.name}".',
                hint=AGAIN,
            ) from cause

    def _clean_up(self) -> None:
        """A folder that was renamed has been made again, by what was written into it before that was seen."""
        if self.log is not None and _id_of(self.path) not in (None, self.log[0]) and not is_table(self.path):
            shutil.rmtree(self.path, ignore_errors=True)

    def _winner(self) -> list[CommitInfo]:
        """What the log says of the versions behind this one."""
        commits: list[CommitInfo] = []
        with suppress(FileNotFoundError):
            for version in count(self.version + 1):
                commits.append(commit_info(self.store, version) or CommitInfo({}))
        return commits


@dataclass(frozen=True, slots=True)
class OpenDeltaTable:
    """What is in a table at the version that was `found`."""

    found: DeltaVersion

    @property
    def schema(self) -> pa.Schema:
        return self.found.snapshot.schema

    @property
    def files(self) -> list[DataFile]:
        return list(self.found.snapshot.files.values())

    @property
    def is_partitioned(self) -> bool:
        return bool(self.found.snapshot.metadata.partition_columns)

    def setting(self, name: str) -> str:
        return self.found.snapshot.metadata.configuration.get(name, "")

    def number(self, name: str) -> int | None:
        return self.found.snapshot.transaction(name)

    def said(self) -> dict[str, Any] | None:
        """As long as the log has it."""
        for _, info in commits_before(self.found.store, self.found.version):
            if METADATA in info.said:
                said: dict[str, Any] = json.loads(info.said[METADATA])
                return said
        return None

    def wrong_files(self) -> list[str]:
        """Those whose statistics need not be right (`put_right`)."""
        return files_that_are_wrong(self.files, self.schema)

    def put_right(self, name: str, paths: Sequence[str], unbounded: frozenset[str] = frozenset()) -> DeltaVersion:
        """The table without the statistics in these files that cannot be right, and with settings that keep them out."""
        files = [file for file in self.files if file.path in set(paths)]
        actions: list[Action] = [AddFile(corrected(file, self.schema), data_change=False) for file in files]
        note = CommitNote(unbounded=unbounded if wide_decimals(self.schema) else None)
        return self.found.commit_actions(name, [*actions, *self._metadata(self.schema, note)], note, "COMPUTE STATS")

    def commit(self, name: str, changes: FileChanges, note: CommitNote, schema: pa.Schema | None = None) -> DeltaVersion:
        actions = [*self._metadata(schema or self.schema, note), *_actions_of(changes)]
        return self.found.commit_actions(name, actions, note, "WRITE")

    def _metadata(self, schema: pa.Schema, note: CommitNote) -> list[Action]:
        """What is to change of the table's protocol and metadata."""
        before, protocol = self.found.snapshot.metadata, self.found.snapshot.protocol
        configuration = {**before.configuration, **_settings(schema, note)}
        said = self.setting(COMMENTED)
        columns = commented_columns(self.schema if schema == self.schema else schema, self.schema, note.comments, said)
        text = before.schema_text if columns.equals(self.schema, check_metadata=True) else format_schema(columns)
        description = commented_table(note.comments, before.description or "", said) or None
        needs = {TIMESTAMP_NTZ} if has_timestamps_without_zone(schema) else set()
        if configuration.get(ENABLE_DELETION_VECTORS) == "true":
            needs.add(DELETION_VECTORS)
        metadata = replace(before, configuration=configuration, schema_text=text, description=description)
        needed = with_features(protocol, frozenset(needs))
        return [*([needed] if needed != protocol else []), *([metadata] if metadata != before else [])]

    @property
    def keeps_vectors(self) -> bool:
        return self.setting(ENABLE_DELETION_VECTORS) == "true"


def _settings(schema: pa.Schema, note: CommitNote) -> dict[str, str]:
    """Entries of the configuration of a table with these columns."""
    vectors = {ENABLE_DELETION_VECTORS: "true"} if note.vectors else {}
    kept = {} if note.kept_for is None else dict.fromkeys(_RETENTIONS, f"interval {note.kept_for:.0f} seconds")
    return {**table_settings(schema, note.unbounded), **vectors, **kept, **note.settings}


def _actions_of(changes: FileChanges) -> list[Action]:
    removed: list[Action] = [RemoveFile.of(file, now(), data_change=changes.data_change) for file in changes.removed]
    return [*removed, *(AddFile(file, changes.data_change) for file in changes.added)]


def is_table(folder: Path) -> bool:
    """Whether there is a Delta table in it, in whatever version."""
    return any(file.suffix in {".json", ".parquet"} and not file.name.startswith(".") for file in (folder / _LOG).glob("*"))


def is_begun(folder: Path) -> bool:
    """Whether there is one that has no version yet, since who makes it is about to, or was killed: it has an empty log, or none and files of rows."""
    if is_table(folder):
        return False
    return (folder / _LOG).is_dir() or all(is_ours(each.name) for each in LocalStore(folder).list())


def tables_in(directory: Path) -> list[Path]:
    """The folders right below `directory` that are Delta tables."""
    return [log.parent for log in sorted(directory.glob(f"*/{_LOG}")) if is_table(log.parent)]


def find(path: Path) -> OpenDeltaTable:
    """The newest version of the table in `path`. Raises MissingHistory if there is none."""
    log, found = log_of(path), DeltaVersion(LocalStore(path)).refreshed()
    if not found.is_there:
        raise MissingHistory(f'there is no Delta table in "{path}"')
    return OpenDeltaTable(replace(found, log=log))


def log_of(path: Path) -> tuple[_Id, _Id] | None:
    """Which folder the table's is, and which its log's; None if there is none."""
    folder, log = _id_of(path), _id_of(path / _LOG)
    return None if folder is None or log is None else (folder, log)


def _id_of(path: Path) -> _Id | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def _said_of(commits: Sequence[CommitInfo]) -> str:
    """Who made the first of these, of what, and when."""
    if METADATA not in commits[0].said:
        return who_committed(commits[0])
    ours = [commit for commit in commits if METADATA in commit.said]
    begin, end = (json.loads(commit.said[METADATA]) for commit in (ours[0], ours[-1]))
    return f"Another run committed what lies between {begin['from']} and {end['to']}{when_committed(ours[-1])}."
