"""Which of the names that regclass and its kin print change over a span of WAL, and where to what.

To look all names up anew at every LSN where a catalog changes would take too long. Here only those are that a change can affect.
In: a history, and the catalog rows that came or went within the span. Out: `Changes`.

A row comes or goes when an object is created, dropped, renamed or moved to another schema. That may change the name of

- the object itself;
- objects of the same name in schemas on the search path, since only the first of them is printed without its schema;
- if it is a type: arrays of it, and functions and operators that are printed with either as an argument;
- if it is a schema: everything in it.

Read the other way, these are the objects that a name depends on (`_dependencies`). An affected name is looked up anew only where one of them changed,
and of their rows alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.names.oid_names import ALIASES, PREFIXES, Names, catalogs_of, looked_up, names_at
from tailrace.catalog.rows.column_values import oid_vector
from tailrace.dataclass import dataclass
from tailrace.types.format_type import ARRAY_SUBSCRIPT_HANDLER

if TYPE_CHECKING:
    from tailrace.catalog.history.history import History
    from tailrace.catalog.rows.catalog_rows import CatalogTable

Changes = dict[tuple[int, int], tuple[tuple[int, ...], tuple[str | None, ...]]]
"""(oid of the reg type, oid) -> LSNs, and what it prints after each of them until the next (None: the object is gone)."""
ObjectAddress = tuple[str, int]
"""A catalog, and the oid of an object that has its rows there."""


class NamingCatalogs:
    """The catalogs on which the names of some reg types depend, and what is known of them at all LSNs."""

    def __init__(self, history: History, reg_types: frozenset[int]) -> None:
        self.history = history
        self.reg_types = reg_types
        self.catalogs = sorted(catalogs_of(reg_types))
        self._texts: dict[str, str] = {}
        namespaces = history.table("pg_namespace")
        schemas = [namespaces["oid"][namespaces.where("nspname", name)] for name in history.search_path]
        self._schemas_on_path = np.concatenate([np.zeros(0, np.int64), *schemas])
        self._on_path: dict[str, NDArray[np.bool_]] = {}
        # The catalogs whose objects are printed with types
        self._labelled = [name for name in ("pg_proc", "pg_operator") if {name, "pg_type"} <= set(self.catalogs)]

    def table(self, catalog: str) -> CatalogTable:
        return self.history.table(catalog)

    def columns(self, catalog: str) -> tuple[str, str]:
        """The column of the name, and that of the schema, empty if there is none."""
        if catalog in PREFIXES:
            return f"{PREFIXES[catalog]}name", f"{PREFIXES[catalog]}namespace"
        return {"pg_namespace": "nspname", "pg_authid": "rolname"}[catalog], ""

    def on_path(self, catalog: str) -> NDArray[np.bool_]:
        """By row, whether it is in a schema that was ever on the search path."""
        if catalog not in self._on_path:
            self._on_path[catalog] = np.isin(self.table(catalog)[self.columns(catalog)[1]], self._schemas_on_path)
        return self._on_path[catalog]

    @cached_property
    def with_argument(self) -> dict[int, list[tuple[str, int]]]:
        """By type, the functions and operators that are printed with it: catalog and row number."""
        printed_with: dict[int, list[tuple[str, int]]] = {}
        for catalog in self._labelled:
            for row in range(len(self.table(catalog).rows)):
                for argument in set(self._arguments(catalog, row)):
                    printed_with.setdefault(argument, []).append((catalog, row))
        return printed_with

    def types_of(self, catalog: str, row: int) -> tuple[int, ...]:
        """The types that the object is printed with: a function's arguments, an array's element."""
        if catalog in self._labelled:
            return self._arguments(catalog, row)
        if catalog == "pg_type" and self.table(catalog)["typsubscript"][row] == ARRAY_SUBSCRIPT_HANDLER:
            return (int(self.table(catalog)["typelem"][row]),)
        return ()

    def _arguments(self, catalog: str, row: int) -> tuple[int, ...]:
        table = self.table(catalog)
        if catalog == "pg_proc":
            return oid_vector(table["proargtypes"][row])
        return int(table["oprleft"][row]), int(table["oprright"][row])

    def names_at(self, lsn: int, ordinal: int, rows: Mapping[str, NDArray[np.int64]]) -> Names:
        """As `lookup.names_at`. Equal texts are one object, so that they are pickled once."""
        names = names_at(self.history, self.reg_types, lsn, ordinal, rows)
        return {key: self._texts.setdefault(text, text) for key, text in names.items()}


@dataclass(frozen=True, slots=True)
class Lifetime:
    """An object within the span: its `rows` in their order; the LSNs where it was created, dropped, renamed or moved; the `first` and the `last`
    LSN at which it was there; the `names` that it had in schemas on the search path, and its `schemas`."""

    rows: NDArray[np.int64]
    changed_at: tuple[int, ...]
    first: int
    last: int
    names: frozenset[str]
    schemas: frozenset[int]


class CatalogSpan:
    """The catalogs from LSN `first` up to `last`, as changes of transaction `ordinal` saw them (-1: changes of those that changed no catalog)."""

    def __init__(self, catalogs: NamingCatalogs, ordinal: int, first: int, last: int) -> None:
        self._catalogs = catalogs
        self._ordinal = ordinal
        self._first = first
        self._last = last
        self._lifetimes: dict[ObjectAddress, Lifetime] = {}
        self._dependencies_of: dict[ObjectAddress, tuple[ObjectAddress, ...]] = {}

    def changes(self, came_or_went: Mapping[str, NDArray[np.int64]], common: Names) -> Changes:
        """The names that rows (by catalog) affected which came or went within the span. Before its first change a name is as in `common`; but of a
        transaction that changed catalogs itself, all names that it affected are listed from the span's beginning on."""
        affected = self._affected(came_or_went)
        spans: dict[tuple[int, int], tuple[list[int], list[str | None]]] = {}
        by_lsn: dict[int, list[ObjectAddress]] = {}
        if affected and self._ordinal >= 0:
            by_lsn[self._first - 1] = affected
        for address in affected:
            for lsn in self._changed_at(address):
                by_lsn.setdefault(lsn, []).append(address)
        wanted = looked_up(self._catalogs.reg_types)
        for lsn, addresses in sorted(by_lsn.items()):
            names = self._catalogs.names_at(lsn + 1, self._ordinal, self._rows_of_dependencies(addresses))
            for key in ((alias, oid) for catalog, oid in addresses for alias in ALIASES[catalog] if alias in wanted):
                text = names.get(key)
                if key in spans:
                    is_new = spans[key][1][-1] != text
                else:
                    is_new = self._ordinal >= 0 or common.get(key) != text
                if is_new:
                    starts, texts = spans.setdefault(key, ([], []))
                    starts.append(lsn)
                    texts.append(text)
        return {key: (tuple(starts), tuple(texts)) for key, (starts, texts) in spans.items()}

    # -- which objects are affected ------------------------------------------------------------------------------------------------

    def _affected(self, came_or_went: Mapping[str, NDArray[np.int64]]) -> list[ObjectAddress]:
        """Every object whose name these rows may have changed, once each."""
        schemas = self._changed("pg_namespace", came_or_went["pg_namespace"])
        affected: dict[ObjectAddress, None] = dict.fromkeys(("pg_namespace", oid) for oid in schemas)
        for catalog in self._catalogs.catalogs:
            if catalog == "pg_namespace":
                continue
            oids = dict.fromkeys(self._changed(catalog, came_or_went[catalog]))
            if self._catalogs.columns(catalog)[1]:
                oids |= dict.fromkeys(self._in_schemas(catalog, schemas))
                oids |= dict.fromkeys(self._of_same_names(catalog, list(oids)))
            affected |= dict.fromkeys((catalog, oid) for oid in oids)
        types = [oid for catalog, oid in affected if catalog == "pg_type"]
        return list(affected | dict.fromkeys(self._printed_with(types)))

    def _changed(self, catalog: str, rows: NDArray[np.int64]) -> list[int]:
        """Of the objects of these rows, those that got another name or schema, came or went. Most rows come and go for another reason: a TRUNCATE, a
        GRANT."""
        oids = np.unique(self._catalogs.table(catalog)["oid"][rows]).tolist()
        return [oid for oid in oids if self._lifetime((catalog, oid)).changed_at or self._differs(catalog, oid)]

    def _differs(self, catalog: str, oid: int) -> bool:
        """Whether the transaction itself calls the object otherwise than others do where the span begins."""
        if self._ordinal < 0:
            return False
        table = self._catalogs.table(catalog)
        fields = [column for column in self._catalogs.columns(catalog) if column]
        mine, others = (
            [[table[column][row] for column in fields] for row in table.seen_where("oid", oid, self._first, ordinal).tolist()]
            for ordinal in (self._ordinal, -1)
        )
        return mine != others

    def _in_schemas(self, catalog: str, schemas: Iterable[int]) -> Iterator[int]:
        table, namespace = self._catalogs.table(catalog), self._catalogs.columns(catalog)[1]
        for schema in schemas:
            yield from table["oid"][self._seen(catalog, table.where(namespace, schema))].tolist()

    def _of_same_names(self, catalog: str, oids: list[int]) -> Iterator[int]:
        """What has a name that one of these objects ever had on the search path."""
        table, name = self._catalogs.table(catalog), self._catalogs.columns(catalog)[0]
        rows = np.concatenate([table.where("oid", oid) for oid in oids]) if oids else np.zeros(0, np.int64)
        for shared in set(table[name][rows[self._catalogs.on_path(catalog)[rows]]].tolist()):
            yield from table["oid"][self._namesakes(catalog, shared)].tolist()

    def _printed_with(self, types: list[int]) -> Iterator[ObjectAddress]:
        """Arrays of these types, and functions and operators that take either."""
        if not types:
            return
        table = self._catalogs.table("pg_type")
        array_rows = np.concatenate([table.where("typelem", oid) for oid in types])
        arrays = table["oid"][self._seen("pg_type", array_rows)].tolist()
        yield from (("pg_type", oid) for oid in arrays)
        for oid in (*types, *arrays):
            for catalog, row in self._catalogs.with_argument.get(oid, ()):
                if len(self._seen(catalog, np.array([row]))):
                    yield catalog, int(self._catalogs.table(catalog)["oid"][row])

    # -- what a name depends on ----------------------------------------------------------------------------------------------------

    def _changed_at(self, address: ObjectAddress) -> list[int]:
        """The LSNs where the object's name may change: while it is there, and where it goes."""
        life = self._lifetime(address)
        lsns = {lsn for each in self._dependencies(address) for lsn in self._lifetime(each).changed_at}
        return [lsn for lsn in lsns if life.first <= lsn <= life.last]

    def _rows_of_dependencies(self, addresses: list[ObjectAddress]) -> dict[str, NDArray[np.int64]]:
        """By catalog, the rows on which the names of these objects depend."""
        rows: dict[str, list[NDArray[np.int64]]] = {}
        for dependency in dict.fromkeys(each for address in addresses for each in self._dependencies(address)):
            rows.setdefault(dependency[0], []).append(self._lifetime(dependency).rows)
        return {catalog: np.concatenate(parts) for catalog, parts in rows.items()}

    def _dependencies(self, address: ObjectAddress) -> tuple[ObjectAddress, ...]:
        if address not in self._dependencies_of:
            self._dependencies_of[address] = tuple(dict.fromkeys(self._find_dependencies(address)))
        return self._dependencies_of[address]

    def _find_dependencies(self, address: ObjectAddress) -> Iterator[ObjectAddress]:
        """The object itself, those of the same name on the search path while it is there, its schema and theirs, and the types printed with it."""
        catalog, _ = address
        life = self._lifetime(address)
        table = self._catalogs.table(catalog)
        yield address
        namesakes = [self._namesakes(catalog, name, life.first, life.last) for name in life.names]
        for oid in set(table["oid"][np.concatenate(namesakes)].tolist()) if namesakes else ():
            yield catalog, oid
            yield from (("pg_namespace", schema) for schema in self._lifetime((catalog, oid)).schemas)
        yield from (("pg_namespace", schema) for schema in life.schemas)
        for row in life.rows[:1].tolist():  # neither a function's arguments nor an array's element ever change
            for oid in self._catalogs.types_of(catalog, row):
                if oid:
                    yield from self._dependencies(("pg_type", oid))

    def _namesakes(self, catalog: str, name: str, first: int | None = None, last: int | None = None) -> NDArray[np.int64]:
        """Rows of that name in schemas on the search path that were seen within the span, or between two LSNs."""
        rows = self._catalogs.table(catalog).where(self._catalogs.columns(catalog)[0], name)
        return self._seen(catalog, rows[self._catalogs.on_path(catalog)[rows]], first, last)

    def _seen(
        self, catalog: str, rows: NDArray[np.int64], first: int | None = None, last: int | None = None
    ) -> NDArray[np.int64]:
        """Those of the rows that were seen within the span, or between two LSNs."""
        begin, end = self._catalogs.table(catalog).rows.lifetimes(rows, self._ordinal)
        since, until = self._first if first is None else first, self._last if last is None else last
        return rows[(begin < end) & (begin < until) & (end >= since)]

    def _lifetime(self, address: ObjectAddress) -> Lifetime:
        if address not in self._lifetimes:
            self._lifetimes[address] = self._find_lifetime(*address)
        return self._lifetimes[address]

    def _find_lifetime(self, catalog: str, oid: int) -> Lifetime:
        table = self._catalogs.table(catalog)
        rows = self._seen(catalog, table.where("oid", oid))
        begins, ends = table.rows.lifetimes(rows, self._ordinal)
        order = np.argsort(begins, kind="stable")
        rows, begins, ends = rows[order], begins[order], ends[order]
        name, namespace = self._catalogs.columns(catalog)
        names = table[name][rows].tolist()
        schemas = table[namespace][rows].tolist() if namespace else [0] * len(rows)
        on_path = self._catalogs.on_path(catalog)[rows].tolist() if namespace else [False] * len(rows)
        changed_at = _changes_between(begins.tolist(), ends.tolist(), list(zip(names, schemas, strict=True)))
        return Lifetime(
            rows=rows,
            changed_at=tuple(lsn for lsn in changed_at if self._first <= lsn < self._last),
            first=max(self._first, int(begins.min(initial=self._last))),
            last=min(self._last, int(ends.max(initial=self._first))),
            names=frozenset(each for each, is_on_path in zip(names, on_path, strict=True) if is_on_path),
            schemas=frozenset(schemas) if namespace else frozenset(),
        )


def _changes_between(begins: list[int], ends: list[int], names: list[tuple[str, int]]) -> Iterator[int]:
    """Where an object came, went, or got another name or schema, whose rows follow each other so."""
    before, until = None, None
    for begin, end, name in zip(begins, ends, names, strict=True):
        if until is not None and until != begin:
            yield until
        if until != begin or before != name:
            yield begin
        before, until = name, end
    if until is not None:
        yield until
