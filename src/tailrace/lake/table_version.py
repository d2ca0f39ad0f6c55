"""A Delta table at the one version that a run found, read and goes on from.

In: a folder. Out: `TableVersion`, which opens the table at that version and no other, and binds a commit to it: what is committed
becomes the very next version, or nothing does and `Overtaken` names who made it. delta-rs would else retry, up to 15 times, on a
version that nobody has planned from, and sometimes does not see what came between (decision 13). So all commits of the lake get
their properties here.

A table is the one found if its folder is, by device and inode: folders change names.
"""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import DeltaError

from tailrace.errors import Overtaken, TailraceError

METADATA = "tailrace"
"""Where a commit of ours says what it did, for people (`lake/position.py`)."""
_RUN = "tailrace.commit"
_LOG = "_delta_log"
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

    def open(self) -> DeltaTable:
        """The table at this version. Raises Overtaken if it lies elsewhere by now."""
        try:
            return DeltaTable(self.path, version=self.version)
        except (DeltaError, OSError) as error:
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

    def begin(self) -> None:
        """Make the folder of a table that is not there, so that it can be told from one that holds something else until its first
        version is."""
        (self.path / _LOG).mkdir(parents=True, exist_ok=True)

    def next(self) -> TableVersion:
        """What the next commit goes on from, once this one's is made."""
        return TableVersion(self.path, self.version + 1, log_of(self.path))

    def with_settings(self, name: str, settings: Mapping[str, str]) -> TableVersion:
        """The version behind this one, with these properties in the table's configuration."""
        with self.next_version(name) as mark:
            self.open().alter.set_table_properties(
                dict(settings), raise_if_not_exists=False, commit_properties=commit_properties(mark)
            )
        return self.next()

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
        except DeltaError:
            return None
        return [{}] if newest > self.version else None

    def _overtaken(self, name: str, winner: Sequence[Mapping[str, Any]] | None) -> Overtaken:
        beginning = f"version {self.version}" if self.is_there else "nothing"
        return Overtaken(
            f"table {name} has a version {self.version + 1} that this run did not write, which goes on from {beginning}",
            detail=_said_of(winner or [{}]), hint=AGAIN,
        )  # fmt: skip


AGAIN = "Run this again: it goes on from where the table is."


def is_table(folder: Path) -> bool:
    """Whether there is a Delta table in it, in whatever version."""
    return any(file.suffix in {".json", ".parquet"} for file in (folder / _LOG).glob("*"))


def is_begun(folder: Path) -> bool:
    """Whether there is one that has no version yet, since who makes it is about to, or was killed."""
    return (folder / _LOG).is_dir() and not is_table(folder)


def tables_in(directory: Path) -> list[Path]:
    """The folders right below `directory` that are Delta tables."""
    return [log.parent for log in sorted(directory.glob(f"*/{_LOG}")) if is_table(log.parent)]


def find(path: Path) -> tuple[TableVersion, DeltaTable]:
    """The newest version of the table in `path`. Raises DeltaError if there is none."""
    log = log_of(path)
    table = DeltaTable(path)
    return TableVersion(path, table.version(), log), table


@contextmanager
def delta_errors() -> Iterator[None]:
    """What delta-rs raises inside is a DeltaError, also what has no class of its own there: an error of Arrow's comes through
    pyo3-arrow as a bare Exception."""
    try:
        yield
    except Exception as error:
        if type(error) is Exception:
            raise DeltaError(str(error)) from error
        raise


def schema_of(table: DeltaTable) -> pa.Schema:
    """The columns of a table as an Arrow schema."""
    with delta_errors():
        return pa.schema(table.schema().to_arrow())


def files_of(table: DeltaTable) -> pa.Table:
    """Its files as the log has them: path, size_bytes, modification_time, statistics."""
    with delta_errors():
        return pa.table(table.get_add_actions())


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
