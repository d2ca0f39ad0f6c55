"""A Delta table at the one version that a run found, read and goes on from: all that the lake does with delta-rs, beside statistics.

In: a folder. Out: `TableVersion`, which opens the table at that version and no other, and binds a commit to it: what is committed
becomes the very next version, or nothing does and `Overtaken` names who made that one. Left to itself delta-rs retries, up to 15
times, on a version that the run has not seen, and sometimes overlooks what came between (decision 13). So all commits of the lake
get their properties here. `OpenTable` is the table at that version: its columns and rows, what its commits said, and the commits
that go on from it.

`changelog`, `mirror`, `position` and `targets` open, read and write tables through these two classes alone. What else of Delta they
know is not behind them yet: `can_merge` and `new_file`; what finds tables in folders (`find`, `tables_in`, `is_begun`, `log_of`);
which errors reading one may raise; the columns of which Delta's statistics must say nothing (`statistics`, `CommitNote.unbounded`);
and the word Delta in messages, with what it forbids of names and columns (`targets`, `changelog`).

A table is the one found if its folder is, by device and inode: folders change names.
"""

from __future__ import annotations

import json
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction

from tailrace.dataclass import dataclass
from tailrace.errors import Overtaken, TailraceError
from tailrace.lake.reading import dataset_of, rows_of
from tailrace.lake.statistics import (
    delta_errors,
    files_that_are_wrong,
    schema_of,
    table_settings,
    wide_decimals,
    without_statistics,
    writer_settings,
)

TableError = DeltaError
"""What is raised where no table is, or none that can be read."""
TABLE_ERRORS = (TableError, pa.ArrowException, OSError, ValueError)
"""What reading and writing one may raise, beside errors of ours."""
METADATA = "tailrace"
"""Where a commit of ours says what it did, for people (`lake/position.py`)."""
_RUN = "tailrace.commit"
_LOG = "_delta_log"
_DELETED = "__tailrace_deleted"
_RECENT = 20
"""Commits that are looked through before all are: others may compact a table, but seldom more often than it changes."""
_Id = tuple[int, int]
"""Of a folder: device and inode."""


@dataclass(frozen=True, slots=True)
class TableVersion:
    """What a run goes on from: `version` of the table in `path`, or that there is none there (-1). `log` is which folders it and
    its log lie in."""

    path: Path
    version: int = -1
    log: tuple[_Id, _Id] | None = None

    @property
    def is_there(self) -> bool:
        return self.version >= 0

    def open(self) -> OpenTable:
        """The table at this version. Raises Overtaken if it lies elsewhere by now."""
        try:
            return OpenTable(self, DeltaTable(self.path, version=self.version))
        except (TableError, OSError) as error:
            self._check_same(self.path.name, error)
            raise

    def moved(self, path: Path) -> TableVersion:
        """The same table where its folder has been renamed to."""
        return replace(self, path=path)

    @contextmanager
    def next_version(self, name: str) -> Iterator[str]:
        """What is committed inside, with properties (`commit_properties`) that have what this gives, is the version behind this
        one, of the same table. Raises Overtaken if somebody else's is, or the folder is another; then nothing was committed."""
        mark = uuid.uuid4().hex
        try:
            self._check_same(name)
            with delta_errors():
                yield mark
        except TailraceError:
            raise
        except Exception as error:
            if self.is_followed_by(mark):
                raise  # the commit is there, and what follows it failed
            self._clean_up()
            self._check_same(name, error)
            if (winner := self._winner()) is not None:
                raise self._overtaken(name, winner) from error
            raise
        if not self.is_followed_by(mark):
            raise self._overtaken(name, self._winner())

    def make_table(self, name: str, schema: pa.Schema, note: CommitNote, rows: pa.Table | None = None) -> None:
        """Make the table that is not there. Its folder comes first, so that it can be told from one that holds something else until
        the first version is."""
        (self.path / _LOG).mkdir(parents=True, exist_ok=True)
        settings = table_settings(schema, note.unbounded)
        if rows is None:
            DeltaTable.create(self.path, schema, name=name, configuration=settings, commit_properties=note.properties)
        else:
            write_deltalake(self.path, rows, mode="error", name=name, configuration=settings, **note.how(schema))

    def next(self) -> TableVersion:
        """What the next commit goes on from, once this one's is made."""
        return TableVersion(self.path, self.version + 1, log_of(self.path))

    def with_settings(self, name: str, settings: Mapping[str, str], unbounded: frozenset[str] | None) -> TableVersion:
        """The version behind this one, with these properties in the table's configuration, and those that keep statistics out of
        columns that are `unbounded` (`CommitNote`)."""
        with self.next_version(name) as mark:
            table = self.open()
            table.handle.alter.set_table_properties(
                {**settings, **table_settings(table.schema, unbounded)}, raise_if_not_exists=False,
                commit_properties=commit_properties(mark),
            )  # fmt: skip
        return self.next()

    def put_right(self, name: str, paths: Sequence[str], unbounded: frozenset[str] = frozenset()) -> TableVersion:
        """The table without the statistics in these files that cannot be right, and with settings that keep them out. Raises
        UsageError where they cannot be taken out, and what `next_version` does."""
        table = self.open()
        actions = without_statistics(self.path, self.version, table.handle, paths, name)
        with self.next_version(name) as mark:
            table.add_files(actions, CommitNote(mark))
        return self.next().with_settings(name, {}, unbounded if wide_decimals(table.schema) else None)

    def is_followed_by(self, mark: str) -> bool:
        """Whether the commit with this mark is the next version."""
        commit = _commit_of(self.path, self.version + 1)
        return commit is not None and commit.get(_RUN) == mark and self.log in (None, log_of(self.path))

    def _check_same(self, name: str, cause: Exception | None = None) -> None:
        if self.log is not None and log_of(self.path) != self.log:
            raise Overtaken(
                f"table {name} is not in its folder any more",
                detail=f'Another run has moved what was in "{self.path.name}".',
                hint=AGAIN,
            ) from cause

    def _clean_up(self) -> None:
        """A folder that was renamed has been made again, by what delta-rs wrote into it before it found no log there."""
        if self.log is not None and _id_of(self.path) not in (None, self.log[0]) and not (self.path / _LOG).exists():
            shutil.rmtree(self.path, ignore_errors=True)

    def _winner(self) -> list[dict[str, Any]] | None:
        """What the log says of the versions behind this one, if there are any."""
        commits, version = [], self.version + 1
        while (commit := _commit_of(self.path, version)) is not None:
            commits.append(commit)
            version += 1
        if commits:
            return commits
        try:
            newest = DeltaTable(self.path).version()
        except TableError:
            return None
        return [{}] if newest > self.version else None

    def _overtaken(self, name: str, winner: Sequence[Mapping[str, Any]] | None) -> Overtaken:
        beginning = f"version {self.version}" if self.is_there else "nothing"
        return Overtaken(
            f"table {name} has a version {self.version + 1} that this run did not write, which goes on from {beginning}",
            detail=_said_of(winner or [{}]), hint=AGAIN,
        )  # fmt: skip


AGAIN = "Run this again: it goes on from where the table is."


@dataclass(frozen=True, slots=True)
class CommitNote:
    """What a commit says beside its rows: the mark by which it is known again (`next_version`), what people read of it, and numbers
    that the table keeps by their names. Columns that are `unbounded` get no statistics; None: the table is one of changes."""

    mark: str
    said: Mapping[str, str] = field(default_factory=dict)
    numbers: Mapping[str, int] = field(default_factory=dict)
    unbounded: frozenset[str] | None = frozenset()

    @property
    def properties(self) -> CommitProperties:
        return commit_properties(self.mark, self.said, [Transaction(name, number) for name, number in self.numbers.items()])

    def how(self, schema: pa.Schema) -> dict[str, Any]:
        """How delta-rs is to write rows with these columns."""
        return {"commit_properties": self.properties, "writer_properties": writer_settings(schema, self.unbounded)}


@dataclass(frozen=True, slots=True)
class OpenTable:
    """A table at the version that was `found`. Commits are made within its `next_version`."""

    found: TableVersion
    handle: DeltaTable

    @property
    def schema(self) -> pa.Schema:
        return schema_of(self.handle)

    def rows(self) -> pa.Table:
        return rows_of(self.handle, self.found.path)

    def dataset(self) -> pa.dataset.Dataset:
        return dataset_of(self.handle, self.found.path)

    def wrong_files(self) -> list[str]:
        """Those whose statistics need not be right (`TableVersion.put_right`)."""
        return files_that_are_wrong(self.handle)

    def setting(self, name: str) -> str:
        """A property of the table's configuration; empty if there is none."""
        return self.handle.metadata().configuration.get(name, "")

    def number(self, name: str) -> int | None:
        """The last number that a commit has kept by this name."""
        return self.handle.transaction_version(name)

    def said(self) -> dict[str, Any] | None:
        """What the last commit of ours says, if the log still has it."""
        commits = (commit for commit in chain(self.handle.history(_RECENT), self.handle.history()) if METADATA in commit)
        return next((json.loads(commit[METADATA]) for commit in commits), None)

    def add_files(self, files: Sequence[AddAction], note: CommitNote) -> None:
        """Make files that lie in the table's folder part of it; without any, the commit has nothing but what it says."""
        self.handle.create_write_transaction(list(files), "append", self.handle.schema(), commit_properties=note.properties)

    def append_rows(self, rows: pa.Table, note: CommitNote, *, new_columns: bool = False) -> None:
        more = {"schema_mode": "merge"} if new_columns else {}
        write_deltalake(self.handle, rows, mode="append", **more, **note.how(rows.schema))

    def replace_rows(self, rows: pa.Table, note: CommitNote, *, new_columns: bool = False) -> None:
        """All rows by these."""
        more = {"schema_mode": "overwrite"} if new_columns else {}
        write_deltalake(self.handle, rows, mode="overwrite", **more, **note.how(rows.schema))

    def merge_rows(self, upserts: pa.Table, deletes: pa.Table, key: Sequence[str], note: CommitNote) -> None:
        """Rows to be there and keys to go, in one MERGE."""
        gone = pa.table(
            {
                wanted.name: deletes[wanted.name] if wanted.name in key else pa.nulls(len(deletes), wanted.type)
                for wanted in upserts.schema
            }
        )
        parts = [
            part.append_column(_DELETED, pa.array([flag] * len(part), pa.bool_()))
            for part, flag in ((upserts, False), (gone, True))
        ]
        equal = " AND ".join(f"t.{_quoted(name)} = s.{_quoted(name)}" for name in key)
        (
            self.handle.merge(pa.concat_tables(parts), equal, source_alias="s", target_alias="t", **note.how(upserts.schema))
            .when_matched_delete(f"s.{_DELETED}")
            .when_matched_update_all(predicate=f"NOT s.{_DELETED}", except_cols=[_DELETED])
            .when_not_matched_insert_all(predicate=f"NOT s.{_DELETED}", except_cols=[_DELETED])
            .execute()
        )


def can_merge(schema: pa.Schema) -> bool:
    """delta-rs (1.6) takes a backtick in a column's name for a quote when it merges."""
    return not any("`" in name for name in schema.names)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def new_file(name: str, size: int, rows: int, first_commit: int, last_commit: int) -> AddAction:
    """A file of changes that `OpenTable.add_files` makes part of a table."""
    statistics = {
        "numRecords": rows,
        "minValues": {"commit_lsn": first_commit},
        "maxValues": {"commit_lsn": last_commit},
        "nullCount": {"commit_lsn": 0},
    }
    return AddAction(name, size, {}, int(time.time() * 1000), True, json.dumps(statistics))


def is_table(folder: Path) -> bool:
    """Whether there is a Delta table in it, in whatever version."""
    return any(file.suffix in {".json", ".parquet"} for file in (folder / _LOG).glob("*"))


def is_begun(folder: Path) -> bool:
    """Whether there is one that has no version yet, since who makes it is about to, or was killed."""
    return (folder / _LOG).is_dir() and not is_table(folder)


def tables_in(directory: Path) -> list[Path]:
    """The folders right below `directory` that are Delta tables."""
    return [log.parent for log in sorted(directory.glob(f"*/{_LOG}")) if is_table(log.parent)]


def find(path: Path) -> OpenTable:
    """The newest version of the table in `path`. Raises TableError if there is none."""
    log = log_of(path)
    table = DeltaTable(path)
    return OpenTable(TableVersion(path, table.version(), log), table)


def commit_properties(
    mark: str, said: Mapping[str, str] | None = None, transactions: Sequence[Transaction] = ()
) -> CommitProperties:
    """Of every commit that the lake makes: this version or none."""
    return CommitProperties(
        custom_metadata={**(said or {}), _RUN: mark}, app_transactions=list(transactions) or None, max_commit_retries=0
    )


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


def _commit_of(path: Path, version: int) -> dict[str, Any] | None:
    """What the log says of a commit; None if there is none of that version, or if it has gone into a checkpoint."""
    try:
        text = (path / _LOG / f"{version:020}.json").read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    for line in text.splitlines():
        action = json.loads(line)
        if "commitInfo" in action:
            commit: dict[str, Any] = action["commitInfo"]
            return commit
    return {}


def _said_of(commits: Sequence[Mapping[str, Any]]) -> str:
    """Who made the first of these, of what, and when."""
    if METADATA not in commits[0]:
        what = f" ({commits[0]['operation']})" if "operation" in commits[0] else ""
        return f"Another program{what} committed it{_when(commits[0])}."
    ours = [commit for commit in commits if METADATA in commit]
    first, last = (json.loads(commit[METADATA]) for commit in (ours[0], ours[-1]))
    return f"Another run committed what lies between {first['from']} and {last['to']}{_when(ours[-1])}."


def _when(commit: Mapping[str, Any]) -> str:
    at = commit.get("timestamp")
    return f", at {datetime.fromtimestamp(at / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC" if isinstance(at, int) else ""
