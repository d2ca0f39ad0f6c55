"""Iceberg tables as a lake uses them (`lake/table.py`): found at a version, and gone on from by one commit.

Position and identity stand in the table's properties, which are part of the same version as the rows. A row goes by writing its file anew, since
version 2 of the format knows deletion vectors only as files of their own, which pyiceberg cannot write.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from tailrace.dataclass import dataclass
from tailrace.delta_log.actions import DataFile
from tailrace.errors import CorruptFile
from tailrace.lake.files.comments import COMMENTED, commented_columns, commented_table
from tailrace.lake.files.data_files import DataFiles
from tailrace.lake.files.file_changes import NO_CHANGES, FileChanges
from tailrace.lake.files.known_bounds import KnownBounds
from tailrace.lake.iceberg.columns import arrow_schema, described_schema, iceberg_schema
from tailrace.lake.iceberg.commit import VersionChanges, commit, who_committed
from tailrace.lake.iceberg.removal import MAX_AGE, MAX_VERSIONS, remove_unneeded
from tailrace.lake.iceberg.snapshot import IcebergSnapshot, newest_version
from tailrace.lake.table import DAY, METADATA, CommitNote, Removed, overtaken
from tailrace.storage.local_store import LocalStore
from tailrace.storage.store import Store

DATA = "data/"
_SAID = "tailrace.commit"
"""The property with what the last commit of ours says, for people."""
_NUMBER = "tailrace.number."
_COMMENT = "comment"
"""The property with the table's comment; the source's name of the table, where that has none."""
_KEPT_FOR = 3600.0
_DEFAULTS = {MAX_VERSIONS: "100", "write.metadata.delete-after-commit.enabled": "false", "commit.retry.num-retries": "0"}
"""Of a table that is made. Who retries a commit on a version that he did not read may apply rows twice; old metadata is removed with old files."""


@dataclass(frozen=True, slots=True)
class IcebergVersion:
    """What a run goes on from: `snapshot` is the table in `store`, or that there is none there."""

    store: Store
    snapshot: IcebergSnapshot = IcebergSnapshot()
    bounds: KnownBounds = field(default_factory=KnownBounds, compare=False, repr=False)

    @property
    def version(self) -> int:
        return self.snapshot.version or -1

    @property
    def is_there(self) -> bool:
        return self.snapshot.is_there

    @property
    def keeps_vectors(self) -> bool:
        return False

    @property
    def path(self) -> Path:
        assert isinstance(self.store, LocalStore)
        return self.store.folder

    def open(self) -> OpenIcebergTable:
        return OpenIcebergTable(self)

    def data_files(self, schema: pa.Schema, run: str, without_statistics: Iterable[str] = ()) -> DataFiles:
        columns = arrow_schema(self._columns(schema)[0])
        return DataFiles(self.store, columns, run, without_statistics, self.bounds, folder=DATA, packs_integers=False)

    def make(
        self, name: str, described: str, schema: pa.Schema, note: CommitNote, changes: FileChanges = NO_CHANGES
    ) -> IcebergVersion:
        kept = _KEPT_FOR if note.kept_for is None else note.kept_for
        comment = commented_table(note.comments, "", "") or described
        first = {**_DEFAULTS, MAX_AGE: f"{kept * 1000:.0f}", _COMMENT: comment}
        columns = self._columns(commented_columns(schema, None, note.comments))
        return self._committed(name, VersionChanges(changes, columns, {**first, **_properties(note)}))

    def commit(self, name: str, changes: FileChanges, note: CommitNote) -> IcebergVersion:
        return self._committed(name, VersionChanges(changes, properties=_properties(note, settings=False)))

    def commit_columns(self, name: str, changes: FileChanges, note: CommitNote, schema: pa.Schema | None) -> IcebergVersion:
        """The same with the note's settings, and in these columns if they are others."""
        properties, said = self.snapshot.properties, self.snapshot.properties.get(COMMENTED, "")
        columns = None
        if schema is not None:
            there = described_schema(self.snapshot.columns)
            columns = self._columns(commented_columns(schema, there, note.comments, said))
        comment = commented_table(note.comments, properties.get(_COMMENT, ""), said) or name
        is_said = note.comments is not None and comment != properties.get(_COMMENT)
        return self._committed(
            name, VersionChanges(changes, columns, {**_properties(note), **({_COMMENT: comment} if is_said else {})})
        )

    @contextmanager
    def going_on(self, name: str) -> Iterator[None]:
        try:
            yield
        except CorruptFile as error:
            newest = newest_version(self.store)
            if newest <= self.snapshot.version:
                raise
            raise overtaken(name, newest - 1, who_committed(self.store, newest), first=1) from error

    def refreshed(self) -> IcebergVersion:
        return replace(self, snapshot=self.snapshot.refreshed(self.store))

    def remove_unneeded(self, orphans_older_than: float = DAY) -> tuple[IcebergVersion, Removed]:
        name = self.store.url.rsplit("/", 1)[-1]
        snapshot, removed = remove_unneeded(self.store, name, self.snapshot, orphans_older_than)
        return replace(self, snapshot=snapshot), removed

    def _committed(self, name: str, changes: VersionChanges) -> IcebergVersion:
        return replace(self, snapshot=commit(self.store, name, self.snapshot, changes))

    def _columns(self, schema: pa.Schema) -> Any:
        """The columns with the ids that the table gives them."""
        if not self.is_there:
            return iceberg_schema(schema)
        metadata = self.snapshot.metadata
        return iceberg_schema(schema, metadata.schema(), metadata.last_column_id)


@dataclass(frozen=True, slots=True)
class OpenIcebergTable:
    """What is in a table at the version that was `found`."""

    found: IcebergVersion

    @property
    def schema(self) -> pa.Schema:
        return self.found.snapshot.schema

    @property
    def files(self) -> list[DataFile]:
        return self.found.snapshot.files

    @property
    def keeps_vectors(self) -> bool:
        return False

    @property
    def is_partitioned(self) -> bool:
        return False  # of such no version is found

    def setting(self, name: str) -> str:
        return self.found.snapshot.properties.get(name, "")

    def number(self, name: str) -> int | None:
        text = self.found.snapshot.properties.get(_NUMBER + name)
        return int(text) if text is not None else None

    def said(self) -> dict[str, Any] | None:
        text = self.setting(_SAID)
        said: dict[str, Any] | None = json.loads(text) if text else None
        return said

    def commit(self, name: str, changes: FileChanges, note: CommitNote, schema: pa.Schema | None = None) -> IcebergVersion:
        return self.found.commit_columns(name, changes, note, schema)


def _properties(note: CommitNote, *, settings: bool = True) -> Mapping[str, str]:
    said = {_SAID: note.said[METADATA]} if METADATA in note.said else {}
    numbers = {_NUMBER + name: str(number) for name, number in note.numbers.items()}
    return {**(note.settings if settings else {}), **numbers, **said}
