"""A lake maintained: which of its tables need it, the cheapest first, for as long as there is time.

In: a lake's store, and its catalog. Out: tables that were maintained. Idle tables are not opened: one object beside the catalog,
`_tailrace/maintained`, says at which version each was left, and when something in it may be removed. It is only a hint. A lost one costs that tables
are looked at, so whoever writes it last is right; the catalog itself, which runs compare and swap, is not touched, and nobody is overtaken.
"""

from __future__ import annotations

import logging
import math
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tailrace.catalog.names.qualified_names import read_table_name, write_table_name
from tailrace.checksummed_file import FileKind, fact
from tailrace.dataclass import dataclass
from tailrace.errors import CorruptFile, TailraceError, UnsupportedFile, UsageError
from tailrace.lake.catalog import LakeCatalog, LakeTable
from tailrace.lake.maintenance import maintain
from tailrace.lake.position import layout_of
from tailrace.lake.table import DAY, Gathered, Removed, TableVersion
from tailrace.storage.store import Store

logger = logging.getLogger(__name__)

MAINTAINED = "_tailrace/maintained"
_FILE = FileKind("upkeep", "what is known of maintenance of a lake", version=1, compression="zstd", hint="Remove the object.")
_MANY_COMMITS = 10
_URGENT = 500
"""Commits; a table with so many comes before those that are cheaper."""
_STAGING = "_staging/"


@dataclass(frozen=True, slots=True)
class TableMaintained:
    """What was done to a table. With `trouble`, something kept it from being done: another time may do."""

    table: str
    folder: str
    gathered: Gathered = Gathered()
    removed: Removed = Removed()
    trouble: TailraceError | None = None


@dataclass(frozen=True, slots=True)
class _Left:
    """How a table was left: at which version, when, and when something in it may be removed (0: nothing waits)."""

    version: int = -1
    at: float = 0.0
    due: float = 0.0

    def needs_it(self, version: int, now: float) -> bool:
        commits = version - self.version
        return commits >= _MANY_COMMITS or (commits > 0 and now - self.at > DAY) or 0 < self.due <= now


@dataclass(slots=True)
class Upkeep:
    """Of the lake in `store`; `opened` finds a table's newest version, and `keep` is told of what it has become."""

    store: Store
    catalog: LakeCatalog
    opened: Callable[[LakeTable], TableVersion]
    keep: Callable[[LakeTable, TableVersion], None]
    orphans_older_than: float = DAY

    def run(self, budget: float | None, names: Sequence[str] | None, *, everything: bool) -> list[TableMaintained]:
        """Maintain tables until `budget` seconds are over, but one at least. Raises UsageError for names that no table has."""
        deadline = math.inf if budget is None else time.monotonic() + budget
        left = _read(self.store)
        wanted = self._wanted(names) if names is not None else self._in_need(left, everything=everything)
        done = []
        after = dict(left)
        for table in wanted:
            maintained, after[table.oid] = self._maintained(table, left.get(table.oid, _Left()), deadline)
            done.append(maintained)
            if time.monotonic() > deadline:
                break
        self._note_new(after)
        if after != left:
            _write(self.store, after)
        if names is None and (everything or done):
            _remove_staged(self.store, time.time() - self.orphans_older_than)
        return done

    def _wanted(self, names: Sequence[str]) -> list[LakeTable]:
        by_name = {(each.schema, each.name): each for each in self.catalog.tables.values() if each.dropped is None}
        found = []
        for name in names:
            table = by_name.get(read_table_name(name))
            if table is None:
                raise UsageError(f'lake "{self.store.url}" has no table {name}', sqlstate="42P01")
            found.append(table)
        return found

    def _in_need(self, left: Mapping[int, _Left], *, everything: bool) -> list[LakeTable]:
        """Cheapest first, but for those that have waited long."""
        now = time.time()
        tables = [
            (table.version - left.get(oid, _Left()).version, table)
            for oid, table in self.catalog.tables.items()
            if table.version >= 0 and (everything or _of(left, table, now).needs_it(table.version, now))
        ]
        return [table for _, table in sorted(tables, key=lambda each: (each[0] < _URGENT, each[0], each[1].oid))]

    def _note_new(self, left: dict[int, _Left]) -> None:
        """From when on tables that were made since have waited."""
        now = time.time()
        for oid, table in self.catalog.tables.items():
            if oid not in left and table.version >= 0:
                left[oid] = _of(left, table, now)

    def _maintained(self, table: LakeTable, before: _Left, deadline: float) -> tuple[TableMaintained, _Left]:
        name, now = write_table_name(table.schema, table.name), time.time()
        try:
            found = self.opened(table)
            if not found.is_there:
                return TableMaintained(name, table.folder), before
            with found.going_on(name):
                done = maintain(
                    found, name, layout_of(found.open()), deadline=deadline, orphans_older_than=self.orphans_older_than
                )
        except TailraceError as error:
            logger.warning("table %s of lake %s was not maintained: %s", name, self.store.url, error)
            return TableMaintained(name, table.folder, trouble=error), before
        self.keep(table, done.version)
        is_over = time.monotonic() <= deadline
        due = done.removed.due if is_over else now
        after = _Left(done.version.version, now, 0.0 if due == math.inf else due)
        return TableMaintained(name, table.folder, done.gathered, done.removed), after


def _of(left: Mapping[int, _Left], table: LakeTable, now: float) -> _Left:
    """Of a table that nothing is known of and that is new: it has waited from now on."""
    known = left.get(table.oid)
    return known or (_Left(-1, now) if table.version < _MANY_COMMITS else _Left())


def _remove_staged(store: Store, before: float) -> None:
    """Changes that dead runs staged on the store."""
    youngest: dict[str, float] = {}
    names: dict[str, list[str]] = {}
    for each in store.list(_STAGING):
        run = each.name.split("/")[1]
        youngest[run] = max(youngest.get(run, 0.0), each.modified)
        names.setdefault(run, []).append(each.name)
    store.delete(name for run, at in youngest.items() if at < before for name in names[run])


def _read(store: Store) -> dict[int, _Left]:
    try:
        data = store.read(MAINTAINED)
        return _FILE.read_as(data, f"{store.url}/{MAINTAINED}", {}, _left_from)
    except FileNotFoundError:
        return {}
    except (CorruptFile, UnsupportedFile) as error:
        logger.warning("all tables of lake %s are looked at: %s", store.url, error)
        return {}


def _write(store: Store, left: Mapping[int, _Left]) -> None:
    tables = [[oid, each.version, each.at, each.due] for oid, each in left.items()]
    store.put(MAINTAINED, _FILE.write({"written": uuid.uuid4().hex, "tables": tables}, {}))


def _left_from(facts: dict[str, Any], _: object) -> dict[int, _Left]:
    return {
        fact(oid, int): _Left(fact(version, int), float(at), float(due)) for oid, version, at, due in fact(facts["tables"], list)
    }
