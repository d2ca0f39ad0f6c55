"""Changes on their way into tables: files that workers write where decoding happens, and what they could not write.

In: stretches with their plans, and which tables are wanted as of which version. Out: a file per stretch and version of a table,
below a folder that the driver made and removes. A worker may run twice: files have names of their own, and only those that a
result names are used. What one table's values do not fit is told of that table (`RefusedChanges`), and keeps no other from being
written.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from tailrace.apply.net_change import NET_COLUMNS
from tailrace.dataclass import dataclass
from tailrace.feed import ChangesOf, Feed, OrderKey, PassedOver, QuarantinedChanges, RefusedChanges, TableChanges, WantedTable
from tailrace.lake.files.changes_file import ARROW, PARQUET, ChangesWriter, open_changes_file
from tailrace.publications.publishing.published_relation import warn_of_missing
from tailrace.storage.allocator import give_back
from tailrace.storage.local_store import LocalStore
from tailrace.storage.scratch_folder import scratch_folder
from tailrace.storage.store import Store
from tailrace.transactions.seen_transactions import SeenTransactions

_NONE_YET = 2**63 - 1
_PREFIX = "_staging-"
_QUARANTINED = "_staging/kept"
"""Where changes wait that go into quarantine: never in the folder of a table."""
_LARGE = 32 << 20
"""Bytes of changes from which on what they took elsewhere is worth to be given back."""

Progress = Callable[[int, int], None]
"""Told how much is done, and of how much."""


def counting(progress: Progress | None, of: int) -> Callable[[int], None]:
    """To be told of every few of so many steps: tells `progress`."""
    done = 0

    def step(more: int) -> None:
        nonlocal done
        done += more
        if progress and more:
            progress(done, of)

    return step


@dataclass(frozen=True, slots=True)
class FileWritten:
    """A file of one table's changes (`lake/files/changes_file.py`); `path` is its name in the store that it was staged in, `first_commit` to
    `last_commit` what it holds, and `first_lsn` the first record; `size` is the file's, `memory` what its rows take once they are read. `rewrite` is
    the transient heap of the ALTER TABLE that wrote all its rows anew (0: they are changes). Those that go into quarantine are `is_quarantined`."""

    oid: int
    path: str
    size: int
    memory: int
    rows: int
    first_commit: int
    last_commit: int
    first_lsn: int
    rewrite: int = 0
    is_quarantined: bool = False


@dataclass(frozen=True, slots=True)
class ChangesFiles:
    """How workers write files: `new_name` gives a file of a table (by oid) its name, which no other has; the `schemas` of tables may say more of
    columns than rows do, as ids. Some `columns` may be all that is wanted of rows."""

    new_name: Callable[[int], str]
    schemas: Mapping[int, pa.Schema] = field(default_factory=dict)
    columns: Sequence[str] = ()

    def name(self, oid: int) -> str:
        return self.new_name(oid)

    def shaped(self, oid: int, rows: pa.RecordBatch) -> pa.RecordBatch:
        rows = rows.select(self.columns) if self.columns else rows
        return rows.cast(self.schemas[oid]) if oid in self.schemas else rows


@dataclass(slots=True)
class Staged:
    """What all workers wrote of one table, could not write, and left to the quarantine."""

    files: list[FileWritten] = field(default_factory=list)
    refused: list[RefusedChanges] = field(default_factory=list)
    quarantined: list[FileWritten] = field(default_factory=list)

    @property
    def rewrites(self) -> list[OrderKey]:
        """Where the rows of the table were written anew: before the first of each rewrite's."""
        firsts: dict[int, OrderKey] = {}
        for file in (*self.files, *self.quarantined):
            if file.rewrite:
                here = (file.first_commit, file.first_lsn, -1)
                firsts[file.rewrite] = min(here, firsts.get(file.rewrite, here))
        return list(firsts.values())

    def seen_by_others(self, dropped: int) -> Staged:
        """Without what only the transaction saw that dropped the table, at `dropped`: rows that it wrote anew, and columns of its
        own."""
        files, quarantined = (
            [file for file in written if not file.rewrite or file.last_commit != dropped]
            for written in (self.files, self.quarantined)
        )
        return Staged(
            files, [each for each in self.refused if (each.first_commit, each.last[0]) != (dropped, dropped)], quarantined
        )

    def check(self, swept: OrderKey | None = None) -> None:
        """Raise what was refused, unless all rows of before `swept` are gone anyway."""
        for each in self.refused:
            if swept is None or each.last > swept:
                raise each.error


def staging(directory: Path) -> AbstractContextManager[Path]:
    """A folder below `directory`, on the same file system, for as long as it is needed. Those whose runs were killed are
    removed."""
    return scratch_folder(directory, _PREFIX)


def has_staging(directory: Path) -> bool:
    """Whether there is a folder of a run that lives, or was killed."""
    return any(directory.glob(f"{_PREFIX}*"))


def stage_changes(
    feed: Feed,
    oids: frozenset[int],
    wanted: Mapping[int, WantedTable],
    store: Store,
    done: Callable[[int], None],
    how: ChangesFiles,
    copied: Mapping[int, SeenTransactions] | None = None,
) -> dict[int, Staged]:
    """Decode the changes of these relations, wherever the feed's workers are, into `store`, which they reach as well: by oid, what became of each
    table. `done` is told of how many stretches. What is in a table's copy already, which has seen the transactions of `copied`, is left out.
    """
    if feed.span.stop - feed.span.start >= _LARGE:
        give_back()  # what scanning had
    if copied:
        wanted = {oid: replace(each, copied=copied.get(oid)) for oid, each in wanted.items()}
    staged: dict[int, Staged] = {oid: Staged() for oid in wanted}
    passed_over: set[str] = set()
    work = partial(write_changes, store, wanted, feed.changes, how)
    for part in feed.parts(oids, min((each.since for each in wanted.values()), default=0)):
        done(part.stretches - len(part.pieces))
        for results in feed.run(work, part.pieces):
            for each in results:
                if isinstance(each, PassedOver):
                    passed_over |= each.names
                    continue
                of_table = staged[each.oid]
                if isinstance(each, RefusedChanges):
                    of_table.refused.append(each)
                else:
                    (of_table.quarantined if each.is_quarantined else of_table.files).append(each)
            done(1)
    if passed_over:
        warn_of_missing(passed_over)
    if sum(file.memory for each in staged.values() for file in each.files) >= _LARGE:
        give_back()  # what decoding had is of no use for what comes next
    return staged


def write_changes(
    store: Store,
    wanted: Mapping[int, WantedTable],
    changes_of: ChangesOf,
    how: ChangesFiles,
    piece: Any,
) -> list[FileWritten | RefusedChanges | PassedOver]:
    """Write the changes that a piece has for the tables `wanted` (by oid), a file for each table and rewrite, and one for what goes
    into quarantine of a table. Runs in a worker."""
    written: list[FileWritten | RefusedChanges | PassedOver] = []
    with ExitStack() as stack, ExitStack() as beside:
        file: _ChangesFile | None = None
        quarantined: dict[tuple[int, int], _ChangesFile] = {}
        for each in changes_of(piece, wanted):
            if isinstance(each, QuarantinedChanges):
                here = each.oid, each.rewrite
                if here not in quarantined:
                    name = f"{_QUARANTINED}/{_staged_name(each.oid)}"
                    quarantined[here] = beside.enter_context(_ChangesFile(store, name, *here, written, is_quarantined=True))
                if len(rows := _not_copied(each, wanted)):
                    quarantined[here].add(rows)
                continue
            if not isinstance(each, TableChanges):
                written.append(each)
                continue
            rows = _not_copied(each, wanted)
            if not len(rows):
                continue
            if file is None or (file.oid, file.rewrite) != (each.oid, each.rewrite):
                stack.close()
                file = stack.enter_context(_ChangesFile(store, how.name(each.oid), each.oid, each.rewrite, written))
            file.add(how.shaped(each.oid, rows))
    return written


def _not_copied(changes: TableChanges | QuarantinedChanges, wanted: Mapping[int, WantedTable]) -> pa.RecordBatch:
    """Feeds may give what is copied already."""
    copied = wanted[changes.oid].copied
    return changes.rows if copied is None else copied.without(changes.rows)


def stage_rows(store: Store, oid: int, rewrite: int, batches: Sequence[pa.RecordBatch], how: ChangesFiles) -> list[FileWritten]:
    """A file of these changes of a table, as a worker writes it."""
    written: list[FileWritten | RefusedChanges | PassedOver] = []
    with _ChangesFile(store, how.name(oid), oid, rewrite, written) as file:
        for each in batches:
            if len(each):
                file.add(how.shaped(oid, each))
    return [each for each in written if isinstance(each, FileWritten)]


@contextmanager
def quarantine_file(
    store: Store, oid: int, written: list[FileWritten | RefusedChanges | PassedOver]
) -> Iterator[Callable[[pa.RecordBatch], None]]:
    """Takes rows of a table that go into quarantine, batch by batch, to a file, if there are any; `written` is then told of it."""
    with _ChangesFile(store, f"{_QUARANTINED}/{_staged_name(oid)}", oid, 0, written, is_quarantined=True) as file:
        yield file.add


def _staged_name(oid: int) -> str:
    return f"{oid}/part-{uuid.uuid4()}{ARROW}"


def _parquet_name(oid: int) -> str:
    return f"{oid}/part-{uuid.uuid4()}{PARQUET}"


STAGED, STAGED_NET = ChangesFiles(_staged_name), ChangesFiles(_staged_name, columns=NET_COLUMNS)
STAGED_PARQUET = ChangesFiles(_parquet_name)
"""For who makes them a table's own himself."""


class _ChangesFile:
    """A file that is written a batch at a time, and is there only if there was one; `written` is then told of it."""

    def __init__(
        self, store: Store, name: str, oid: int, rewrite: int, written: list[FileWritten | RefusedChanges | PassedOver], *,
        is_quarantined: bool = False,
    ) -> None:  # fmt: skip
        self.oid, self.rewrite = oid, rewrite
        self._store, self._written = store, written
        self._stack = ExitStack()
        self._path = Path()
        self._writer: ChangesWriter | None = None
        self._so_far = FileWritten(oid, name, 0, 0, 0, _NONE_YET, 0, _NONE_YET, rewrite, is_quarantined)

    def __enter__(self) -> _ChangesFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._stack:
            if self._writer is not None and kind is None:
                self._writer.close()
                self._written.append(replace(self._so_far, size=self._path.stat().st_size))
                if not isinstance(self._store, LocalStore):
                    self._store.put_file(self._so_far.path, self._path)

    def add(self, changes: pa.RecordBatch) -> None:
        """Rows in the columns of `tailrace.changes`."""
        of = self._so_far
        if self._writer is None:
            if isinstance(self._store, LocalStore):
                self._path = self._store.folder / of.path
                self._path.parent.mkdir(parents=True, exist_ok=True)
            else:
                self._path = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="tailrace-"))) / "part"
            self._writer = self._stack.enter_context(open_changes_file(self._path, of.path, changes.schema))
        self._writer.write_batch(changes)
        commits, lsns = changes["commit_lsn"].to_numpy(), changes["lsn"].to_numpy()
        self._so_far = replace(
            of, memory=of.memory + changes.nbytes, rows=of.rows + len(changes), first_lsn=min(of.first_lsn, int(lsns.min())),
            first_commit=min(of.first_commit, int(commits.min())), last_commit=max(of.last_commit, int(commits.max())),
        )  # fmt: skip
