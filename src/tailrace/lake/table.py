"""The door between a lake and the format of its tables.

In: the folder of a table. Out: `TableVersion`, the version that a run has found, and `OpenTable`, what is in it. A commit is the version behind the
one that was found, of the table that was found, or nothing: where somebody else was quicker it is refused with `Overtaken`, which names who was
(decision 13). A format is a room that has these two; `lake/formats.py` knows all by their names.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from tailrace.dataclass import dataclass
from tailrace.delta_log.actions import DataFile
from tailrace.errors import Overtaken
from tailrace.lake.files.comments import LakeComments
from tailrace.lake.files.data_files import DataFiles
from tailrace.lake.files.file_changes import NO_CHANGES, FileChanges
from tailrace.lake.files.known_bounds import KnownBounds
from tailrace.storage.store import Store

TABLE_ERRORS = (pa.ArrowException, OSError, ValueError)
"""What reading and writing one may raise, beside errors of ours."""
METADATA = "tailrace"
"""Where a commit of ours says what it did, for people (`lake/position.py`)."""
AGAIN = "Run this again: it goes on from where the table is."
DAY = 86_400.0
"""Seconds. What an uncommitted file of ours must be older than to be taken for a dead run's."""


@dataclass(frozen=True, slots=True)
class CommitNote:
    """What a commit says beside its rows: what people read of it, numbers that the table keeps by their names, and entries of the table's
    configuration. Columns that are `unbounded` get no statistics; None: the table is one of changes. With `vectors`, readers of the table are to know
    deletion vectors."""

    said: Mapping[str, str] = field(default_factory=dict)
    numbers: Mapping[str, int] = field(default_factory=dict)
    unbounded: frozenset[str] | None = frozenset()
    settings: Mapping[str, str] = field(default_factory=dict)
    vectors: bool = False
    comments: LakeComments | None = None
    """What the table and its columns are to say; None: what they do."""
    kept_for: float | None = None
    """Seconds that versions behind the newest can be read; None: as long as the format has it by default."""

    def with_vectors(self) -> CommitNote:
        return replace(self, vectors=True)


@dataclass(frozen=True, slots=True)
class FileLayout:
    """`by` are the columns in whose order rows lie in files, none where rows are told apart only by all they have; `without_statistics` are columns
    that get none."""

    by: tuple[str, ...] = ()
    without_statistics: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Gathered:
    """How many files became how many."""

    files: int = 0
    into: int = 0

    def __add__(self, other: Gathered) -> Gathered:
        return Gathered(self.files + other.files, self.into + other.into)


@dataclass(frozen=True, slots=True)
class Removed:
    """Objects that were removed, and their bytes; `due` is when the next may be, in seconds of Unix's clock (infinite: nothing waits)."""

    objects: int = 0
    bytes: int = 0
    due: float = math.inf


class TableVersion(Protocol):
    """What a run goes on from: the table in `store`, or that there is none there (version -1)."""

    @property
    def store(self) -> Store: ...

    @property
    def bounds(self) -> KnownBounds:
        """What was read of the values in its files. It goes along from version to version."""
        ...

    @property
    def version(self) -> int: ...

    @property
    def is_there(self) -> bool: ...

    @property
    def path(self) -> Path:
        """Of one in a directory."""
        ...

    @property
    def keeps_vectors(self) -> bool:
        """Whether a table that is made may have deletion vectors: whether the format has them."""
        ...

    def open(self) -> OpenTable: ...

    def data_files(self, schema: pa.Schema, run: str, without_statistics: Iterable[str] = ()) -> DataFiles:
        """What reads the table's files, and writes others that this run's commit makes its own, in these columns."""
        ...

    def make(
        self, name: str, described: str, schema: pa.Schema, note: CommitNote, changes: FileChanges = NO_CHANGES
    ) -> TableVersion:
        """Make the table that is not there, with these files in it."""
        ...

    def commit(self, name: str, changes: FileChanges, note: CommitNote) -> TableVersion:
        """These changes of files, and what the note says and its numbers, as the version behind this one, of the same table. Raises Overtaken if
        somebody else's is, or the folder is another; then nothing was committed."""
        ...

    def going_on(self, name: str) -> AbstractContextManager[None]:
        """For who reads this version to go on from it. If files of it are gone because there is a newer one, as they may be after a vacuum, that is
        what is said: who goes on from the newest version does not need them."""
        ...

    def refreshed(self) -> TableVersion:
        """The newest version."""
        ...

    def remove_unneeded(self, orphans_older_than: float = DAY) -> tuple[TableVersion, Removed]:
        """The newest version, and what nobody can ask for any more and so was removed from the store: files that versions have let go of, what runs
        left that died, and the beginning of the log."""
        ...


class OpenTable(Protocol):
    """What is in a table at the version that was found."""

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def files(self) -> list[DataFile]: ...

    @property
    def keeps_vectors(self) -> bool:
        """Whether its readers know deletion vectors."""
        ...

    @property
    def is_partitioned(self) -> bool:
        """Whether somebody has cut it by values of columns."""
        ...

    def setting(self, name: str) -> str:
        """A property of the table's configuration; empty if there is none."""
        ...

    def number(self, name: str) -> int | None:
        """The last number that a commit has kept by this name."""
        ...

    def said(self) -> dict[str, Any] | None:
        """What the last commit of ours says, if that is still known."""
        ...

    def commit(self, name: str, changes: FileChanges, note: CommitNote, schema: pa.Schema | None = None) -> TableVersion:
        """These changes of files as the next version, in these columns if they are others, with all that the note has."""
        ...


def overtaken(what: str, version: int, detail: str, first: int = 0) -> Overtaken:
    """The error of who wanted to go on from that version of a table, whose `first` has that number."""
    beginning = f"version {version}" if version >= first else "nothing"
    return Overtaken(
        f"table {what} has a version {version + 1} that this run did not write, which goes on from {beginning}",
        detail=detail, hint=AGAIN,
    )  # fmt: skip
