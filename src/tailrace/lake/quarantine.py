"""`_tailrace/quarantine`: a table of the changes that could not be applied, in the lake itself and in the format of its tables.

In: rows (`quarantine/quarantined_rows.py`). Out: a table of them, which anybody can query, and names of batches by which they count.

Two tables cannot be committed to at once. So rows are written here first, as a batch with a name, and count once somebody says that name:

    the change is left out of a commit of its table    the table's configuration says it, in the same commit (`NamedBatches`)
    no change of the table is applied any more         the lake's catalog says so, of all the table's changes since some LSN (`HeldTable`)

A run that is killed in between leaves a batch that nobody has named, and whose time is over once the table has the version, or the lake the LSN, that
it was written for: it is removed then. A run that does the same again takes it for its own. Rows are removed after the table, or the catalog, has
ceased to name them. So a change is in its table or here, once, whoever is killed or quicker.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Self

import numpy as np
import pyarrow as pa

from tailrace.changes import ORDER
from tailrace.dataclass import dataclass
from tailrace.delta_log.actions import DataFile
from tailrace.errors import Overtaken, TailraceError
from tailrace.feed import OrderKey
from tailrace.lake.files.file_changes import NO_CHANGES, FileChanges
from tailrace.lake.files.table_edit import TableEdit
from tailrace.lake.formats import DELTA, format_named
from tailrace.lake.position import QUARANTINE
from tailrace.lake.table import CommitNote, OpenTable, TableVersion
from tailrace.model import Lsn, Relation
from tailrace.quarantine.definitions import read_relation, write_relation
from tailrace.quarantine.quarantined_rows import QUARANTINE_SCHEMA
from tailrace.storage.store import Store

logger = logging.getLogger(__name__)

FOLDER = "_tailrace/quarantine"
_WITHOUT_STATISTICS = ("new", "old", "reason", "stored", "shape")
_KEPT_FOR = 86_400.0
"""Seconds: what was removed can be read in older versions for so long."""
_TRIES = 20
_MANY_FILES = 64
"""More than that become one when rows are removed."""
_MANY_BATCHES = 32
"""More than that a table does not name: they become one."""
_CLEAN_EVERY = 20


def batch_for(oid: int, version: int) -> str:
    """A new name, for what a table's commit of that version is to leave out."""
    return f"{oid}:v{version}:{uuid.uuid4().hex[:12]}"


def held_batch(oid: int, since: Lsn) -> str:
    """The name of what a table has from there on."""
    return f"{oid}:{since}"


def _version_of(batch: str) -> int | None:
    """That it was written for; None: it is one of a table that is held."""
    text = batch.split(":")[1]
    return int(text[1:]) if text.startswith("v") else None


def _since_of(batch: str) -> Lsn:
    return Lsn.parse(batch.split(":", 1)[1])


@dataclass(frozen=True, slots=True)
class NamedBatches:
    """What a table says of its changes that are in quarantine, and what it is, for whom the log is not at hand."""

    names: tuple[str, ...] = ()
    relation: Relation | None = None

    @classmethod
    def of(cls, table: OpenTable) -> Self:
        text = table.setting(QUARANTINE)
        if not text:
            return cls()
        said = json.loads(text)
        return cls(tuple(said["batches"]), read_relation(said["relation"]))

    @property
    def text(self) -> str:
        """As the table's configuration has it; empty if there are none."""
        if not self.names or self.relation is None:
            return ""
        return json.dumps({"batches": list(self.names), "relation": write_relation(self.relation)})


@dataclass(slots=True)
class Quarantine:
    """State: the version that was read or written last, and whether anything was written."""

    found: TableVersion
    is_touched: bool = False
    _looked: bool = field(default=False)

    @classmethod
    def of(cls, lake: Store, format: str = DELTA) -> Self:
        return cls(format_named(format).none(lake.below(FOLDER)))

    # -- read --------------------------------------------------------------------------------------------------------------------------

    def rows(
        self, oid: int | None = None, batches: Collection[str] | None = None, columns: Sequence[str] = QUARANTINE_SCHEMA.names, since: int = 0
    ) -> Iterator[pa.Table]:  # fmt: skip
        """The rows of a table (None: of all) in these batches (None: in all) that commit at `since` or later, file by file."""
        self.found = self.found.refreshed()
        if not self.found.is_there:
            return
        data = self._data()
        read = list(dict.fromkeys([*columns, "oid", "batch", "commit_lsn"]))
        for file in self.found.open().files:
            if _may_have(file, oid, since):
                for _, part in data.rows(file, read):
                    table = pa.Table.from_batches([part])
                    keep = table["commit_lsn"].to_numpy() >= since
                    if oid is not None:
                        keep &= table["oid"].to_numpy() == oid
                    if batches is not None:
                        keep &= np.array([name in batches for name in table["batch"].to_pylist()], np.bool_)
                    if keep.any():
                        yield table.filter(pa.array(keep)).select(columns)

    def in_order(self, oid: int, batches: Collection[str], since: int = 0) -> pa.Table:
        """The rows of a table in these batches, in the order of changes."""
        parts = list(self.rows(oid, batches, since=since)) if batches else []
        found = pa.concat_tables(parts) if parts else QUARANTINE_SCHEMA.empty_table()
        return found.sort_by([(name, "ascending") for name in ORDER])

    def counts(self) -> dict[tuple[int, str], int]:
        """How many rows there are, by the oid of the table and batch."""
        counts: dict[tuple[int, str], int] = {}
        for part in self.rows(columns=("oid", "batch")):
            for key in zip(part["oid"].to_pylist(), part["batch"].to_pylist(), strict=True):
                counts[key] = counts.get(key, 0) + 1
        return counts

    # -- written -----------------------------------------------------------------------------------------------------------------------

    def prepare(self, oid: int, version: int, rows: pa.Table) -> str:
        """The name of a batch of these rows, which counts once the table's commit of that version names it."""
        self.is_touched = True
        wanted = set(_places(rows))
        name = batch_for(oid, version)

        def added() -> pa.Table | None:
            nonlocal name
            there: dict[str, set[OrderKey]] = {}
            for part in self.rows(oid, columns=("batch", *ORDER)):
                for batch, place in zip(part["batch"].to_pylist(), _places(part), strict=True):
                    if _version_of(batch) == version:
                        there.setdefault(batch, set()).add(place)
            for batch, places in there.items():
                if places == wanted:  # a run was killed that was about to do this
                    name = batch
                    return None
            return _in_batch(rows, name)

        self._add(added)
        return name

    def add_of_held(self, batch: str, oid: int, parts: Iterable[pa.Table]) -> None:
        """Add to the batch of a table that is held what is not in it yet."""
        self.is_touched = True
        for rows in parts:

            def added(rows: pa.Table = rows) -> pa.Table | None:
                first = int(rows["commit_lsn"].to_numpy().min())
                there = {place for part in self.rows(oid, {batch}, ORDER, first) for place in _places(part)}
                keep = pa.array([place not in there for place in _places(rows)], pa.bool_())
                new = rows.filter(keep)
                return _in_batch(new, batch) if len(new) else None

            if len(rows):
                self._add(added)

    def _add(self, added: Callable[[], pa.Table | None]) -> None:
        def changes() -> FileChanges | None:
            if (rows := added()) is None:
                return None
            data = self._data()
            return FileChanges(added=tuple(data.write_all(rows)))

        self._commit(changes)

    def remove(self, batches: Collection[str]) -> None:
        """Rows that nobody names any more."""
        if not batches:
            return

        def changes() -> FileChanges | None:
            self.found = self.found.refreshed()
            if not self.found.is_there:
                return None
            files = self.found.open().files
            edit = TableEdit(self._data(), files, ("batch",), keeps_vectors=False)
            gone = edit.delete(pa.table({"batch": pa.array(sorted(batches), pa.string())}))
            if len(files) > _MANY_FILES:
                edit.gather([file.path for file in files])
            found, _ = edit.changes()
            return found if gone else None

        self._commit(changes)

    def tidy(self, named: Callable[[int], TableNames | None], complete: Lsn) -> None:
        """Remove what no table names and none will: `named` says of a table what it does."""
        if self._looked and not self.is_touched:
            return
        counts = self.counts()
        tables = {oid: named(oid) for oid in {oid for oid, _ in counts}}
        over = {batch for oid, batch in counts if _is_over(batch, tables[oid], complete)}
        self.remove(over)
        self._looked, self.is_touched = True, False
        if self.found.is_there and (self.found.version + 2) % _CLEAN_EVERY == 0:
            try:
                self.found = self.found.remove_unneeded()[0]
            except (TailraceError, OSError) as error:
                logger.warning("old versions of the table in %s stay: %s", self.found.store.url, error)

    def _commit(self, changes: Callable[[], FileChanges | None]) -> None:
        """Raises Overtaken where others keep coming in between."""
        for tries in range(_TRIES):
            self.found = self.found.refreshed()
            found = changes()
            if found is None or found == NO_CHANGES:
                return
            note = CommitNote(kept_for=_KEPT_FOR)
            try:
                if self.found.is_there:
                    self.found = self.found.commit("quarantine", found, note)
                else:
                    self.found = self.found.make("quarantine", "quarantine", QUARANTINE_SCHEMA, note, found)
                return
            except Overtaken:
                self.found.store.delete([file.path for file in found.added])
                if tries + 1 == _TRIES:
                    raise

    def _data(self) -> Any:
        return self.found.data_files(QUARANTINE_SCHEMA, uuid.uuid4().hex, _WITHOUT_STATISTICS)


@dataclass(frozen=True, slots=True)
class TableNames:
    """What counts of a table: batches that it names, at which version, and what it has had since it is `held`."""

    version: int
    names: tuple[str, ...]
    held: str = ""

    @property
    def all(self) -> set[str]:
        return {*self.names, *([self.held] if self.held else [])}


def _is_over(batch: str, table: TableNames | None, complete: Lsn) -> bool:
    """Whether a batch that is not named will never be."""
    if table is None:
        return True
    if batch in table.all:
        return False
    version = _version_of(batch)
    return table.version >= version if version is not None else complete > _since_of(batch)


def merged_names(quarantine: Quarantine, oid: int, version: int, names: tuple[str, ...]) -> tuple[str, ...]:
    """The same batches, as one if they are many."""
    if len(names) <= _MANY_BATCHES:
        return names
    return (quarantine.prepare(oid, version, quarantine.in_order(oid, set(names))),)


def _in_batch(rows: pa.Table, batch: str) -> pa.Table:
    return rows.set_column(
        QUARANTINE_SCHEMA.get_field_index("batch"), QUARANTINE_SCHEMA.field("batch"), pa.array([batch] * len(rows), pa.string())
    )


def _places(rows: pa.Table) -> list[OrderKey]:
    return list(zip(*(rows[name].to_pylist() for name in ORDER), strict=True))


def _may_have(file: DataFile, oid: int | None, since: int) -> bool:
    """As far as its statistics say."""
    said: Mapping[str, Any] = json.loads(file.statistics) if file.statistics else {}
    least, greatest = said.get("minValues", {}), said.get("maxValues", {})
    if oid is not None and not (least.get("oid", oid) <= oid <= greatest.get("oid", oid)):
        return False
    return bool(greatest.get("commit_lsn", since) >= since)
