"""Which names of things change within some time, and when to what: `lookup`, asked about no more than what changed.

In: a history, and catalog rows that came or went. Out: `Changes`, for each name that is affected from where on it is what. A row that comes, goes, or
gets another name or schema affects

- its own thing, and those of the same name in schemas on the search path, of which some stand before others;
- if it is a type, its arrays, and functions and operators with arguments of either;
- if it is a schema, all that is in it.

What a name is hangs on the same rows, read the other way: they are its *needs*, and it is made anew only where one of them turned, of them alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.array_columns import oid_vector
from tailrace.catalog.names.lookup import PREFIXES, PRINTERS, Names, asked, catalogs_of, names_at
from tailrace.catalog.names.type_labels import ARRAY_SUBSCRIPT_HANDLER

if TYPE_CHECKING:
    from tailrace.catalog.history import History
    from tailrace.catalog.rows import CatalogTable

Changes = dict[tuple[int, int], tuple[tuple[int, ...], tuple[str | None, ...]]]
"""(oid of the reg type, oid) -> LSNs, and what it prints after each of them (None: gone) until the next."""
Thing = tuple[str, int]
"""A catalog, and the oid of what has rows there."""


class NamingCatalogs:
    """The catalogs on which names of some reg types hang, grouped once for all questions."""

    def __init__(self, history: History, reg_types: frozenset[int]) -> None:
        self.history = history
        self.reg_types = reg_types
        self.names = sorted(catalogs_of(reg_types))
        self._same: dict[str, str] = {}
        namespaces = history.table("pg_namespace")
        paths = [namespaces["oid"][namespaces.where("nspname", name)] for name in history.search_path]
        self._path = np.concatenate([np.zeros(0, np.int64), *paths])
        self._on_path: dict[str, NDArray[np.bool_]] = {}
        # The catalogs whose things are printed with types
        self._labelled = [name for name in ("pg_proc", "pg_operator") if {name, "pg_type"} <= set(self.names)]

    def table(self, catalog: str) -> CatalogTable:
        return self.history.table(catalog)

    def columns(self, catalog: str) -> tuple[str, str]:
        """Where the name is, and the schema, if it has one."""
        if catalog in PREFIXES:
            return f"{PREFIXES[catalog]}name", f"{PREFIXES[catalog]}namespace"
        return {"pg_namespace": "nspname", "pg_authid": "rolname"}[catalog], ""

    def on_path(self, catalog: str) -> NDArray[np.bool_]:
        """By row, whether it is in a schema that was ever on the search path."""
        if catalog not in self._on_path:
            self._on_path[catalog] = np.isin(self.table(catalog)[self.columns(catalog)[1]], self._path)
        return self._on_path[catalog]

    def arguments(self, catalog: str, row: int) -> tuple[int, ...]:
        """The types that a function or operator is printed with."""
        table = self.table(catalog)
        if catalog == "pg_proc":
            return oid_vector(table["proargtypes"][row])
        return int(table["oprleft"][row]), int(table["oprright"][row])

    @cached_property
    def takers(self) -> dict[int, list[tuple[str, int]]]:
        """By type, catalogs and row numbers of functions and operators that take it."""
        found: dict[int, list[tuple[str, int]]] = {}
        for catalog in self._labelled:
            for row in range(len(self.table(catalog).rows)):
                for argument in set(self.arguments(catalog, row)):
                    found.setdefault(argument, []).append((catalog, row))
        return found

    def takes(self, catalog: str, row: int) -> tuple[int, ...]:
        """The types without which the thing cannot be printed."""
        if catalog in self._labelled:
            return self.arguments(catalog, row)
        if catalog == "pg_type" and self.table(catalog)["typsubscript"][row] == ARRAY_SUBSCRIPT_HANDLER:
            return (int(self.table(catalog)["typelem"][row]),)
        return ()

    def names_at(self, lsn: int, ordinal: int, among: Mapping[str, NDArray[np.int64]]) -> Names:
        """As `lookup.names_at`, equal texts being one object: they are pickled once."""
        found = names_at(self.history, self.reg_types, lsn, ordinal, among)
        return {key: self._same.setdefault(text, text) for key, text in found.items()}


@dataclass(frozen=True, slots=True)
class Life:
    """The rows of a thing that were seen within the time, in their order; `turns` are the LSNs in it where it came, went, or was called otherwise.
    It was there from the `first` to the `last`; `names` are those that it had in schemas on the path."""

    rows: NDArray[np.int64]
    turns: tuple[int, ...]
    first: int
    last: int
    names: frozenset[str]
    schemas: frozenset[int]


class View:
    """The catalogs as changes of transaction `ordinal` (-1: of those that changed none) saw them from `first` up to `last`."""

    def __init__(self, catalogs: NamingCatalogs, ordinal: int, first: int, last: int) -> None:
        self._catalogs = catalogs
        self._ordinal = ordinal
        self._first = first
        self._last = last
        self._lives: dict[Thing, Life] = {}
        self._all_needs: dict[Thing, tuple[Thing, ...]] = {}

    def changes(self, came_or_went: Mapping[str, NDArray[np.int64]], common: Names) -> Changes:
        """What is affected by rows that came or went in this time; for an own view also by what it did before. Others start from `common`."""
        affected = self._affected(came_or_went)
        spans: dict[tuple[int, int], tuple[list[int], list[str | None]]] = {}
        moments: dict[int, list[Thing]] = {}
        if affected and self._ordinal >= 0:
            moments[self._first - 1] = affected  # where all of theirs begins, be it as it was for others
        for thing in affected:
            for point in self._turns(thing):
                moments.setdefault(point, []).append(thing)
        wanted = asked(self._catalogs.reg_types)
        for point, things in sorted(moments.items()):
            names = self._catalogs.names_at(point + 1, self._ordinal, self._among(things))
            for key in ((printer, oid) for catalog, oid in things for printer in PRINTERS[catalog] if printer in wanted):
                text = names.get(key)
                if key in spans:
                    is_new = spans[key][1][-1] != text
                else:
                    is_new = self._ordinal >= 0 or common.get(key) != text
                if is_new:
                    starts, texts = spans.setdefault(key, ([], []))
                    starts.append(point)
                    texts.append(text)
        return {key: (tuple(starts), tuple(texts)) for key, (starts, texts) in spans.items()}

    # -- what is affected ----------------------------------------------------------------------------------------------------------

    def _affected(self, came_or_went: Mapping[str, NDArray[np.int64]]) -> list[Thing]:
        """Everything whose name may have changed, once each."""
        schemas = self._changed("pg_namespace", came_or_went["pg_namespace"])
        found: dict[Thing, None] = dict.fromkeys(("pg_namespace", oid) for oid in schemas)
        for catalog in self._catalogs.names:
            table = self._catalogs.table(catalog)
            name, namespace = self._catalogs.columns(catalog)
            if catalog == "pg_namespace":
                continue
            oids = dict.fromkeys(self._changed(catalog, came_or_went[catalog]))
            if not namespace:
                found |= dict.fromkeys((catalog, oid) for oid in oids)
                continue
            for schema in schemas:
                oids |= dict.fromkeys(table["oid"][self._alive(catalog, table.where(namespace, schema))].tolist())
            on_path = self._catalogs.on_path(catalog)
            rows = np.concatenate([table.where("oid", oid) for oid in oids]) if oids else np.zeros(0, np.int64)
            for called in set(table[name][rows[on_path[rows]]].tolist()):
                oids |= dict.fromkeys(table["oid"][self._rivals(catalog, called)].tolist())
            found |= dict.fromkeys((catalog, oid) for oid in oids)
        types = {oid: None for catalog, oid in found if catalog == "pg_type"}
        return list(found | dict.fromkeys(self._with_types(types)))

    def _with_types(self, types: Iterable[int]) -> Iterator[Thing]:
        """What is printed with one of these types, which is arrays, and functions and operators of both."""
        both = list(types)
        if both:
            table = self._catalogs.table("pg_type")
            elements = np.concatenate([table.where("typelem", oid) for oid in both])
            arrays = table["oid"][self._alive("pg_type", elements)].tolist()
            yield from (("pg_type", oid) for oid in arrays)
            both += arrays
        takers = self._catalogs.takers if both else {}
        for oid in both:
            for catalog, row in takers.get(oid, ()):
                if len(self._alive(catalog, np.array([row]))):
                    yield catalog, int(self._catalogs.table(catalog)["oid"][row])

    def _changed(self, catalog: str, rows: NDArray[np.int64]) -> list[int]:
        """Of the things with these rows, those that turned, or that this transaction sees otherwise than others do. Most rows come and go for
        another reason than a name: a TRUNCATE, a GRANT."""
        oids = np.unique(self._catalogs.table(catalog)["oid"][rows]).tolist()
        return [oid for oid in oids if self._life((catalog, oid)).turns or self._differs(catalog, oid)]

    def _differs(self, catalog: str, oid: int) -> bool:
        """Whether its own transaction calls it otherwise from the first on than others do."""
        if self._ordinal < 0:
            return False
        table = self._catalogs.table(catalog)
        fields = [column for column in self._catalogs.columns(catalog) if column]
        mine, others = (
            [[table[column][row] for column in fields] for row in table.seen_where("oid", oid, self._first, ordinal).tolist()]
            for ordinal in (self._ordinal, -1)
        )
        return mine != others

    # -- what a name hangs on ------------------------------------------------------------------------------------------------------

    def _turns(self, thing: Thing) -> list[int]:
        """Where its name may change: while it is there, and where it goes."""
        life = self._life(thing)
        turns = {turn for need in self._needs(thing) for turn in self._life(need).turns}
        return [turn for turn in turns if life.first <= turn <= life.last]

    def _among(self, things: list[Thing]) -> dict[str, NDArray[np.int64]]:
        """The rows that the names of these are made of, by catalog."""
        needs = dict.fromkeys(need for thing in things for need in self._needs(thing))
        rows: dict[str, list[NDArray[np.int64]]] = {}
        for need in needs:
            rows.setdefault(need[0], []).append(self._life(need).rows)
        return {catalog: np.concatenate(parts) for catalog, parts in rows.items()}

    def _needs(self, thing: Thing) -> tuple[Thing, ...]:
        if thing not in self._all_needs:
            self._all_needs[thing] = tuple(dict.fromkeys(self._needed(thing)))
        return self._all_needs[thing]

    def _needed(self, thing: Thing) -> Iterator[Thing]:
        """Itself, its rivals while it is there, its schema and theirs, and the types that are printed with it."""
        catalog, _ = thing
        life = self._life(thing)
        table = self._catalogs.table(catalog)
        yield thing
        rivals = [self._rivals(catalog, name, life.first, life.last) for name in life.names]
        for oid in set(table["oid"][np.concatenate(rivals)].tolist()) if rivals else ():
            yield catalog, oid
            yield from (("pg_namespace", schema) for schema in self._life((catalog, oid)).schemas)
        yield from (("pg_namespace", schema) for schema in life.schemas)
        for row in life.rows[:1].tolist():  # neither a function's arguments nor an array's element ever change
            for oid in self._catalogs.takes(catalog, row):
                if oid:
                    yield from self._needs(("pg_type", oid))

    def _rivals(self, catalog: str, name: str, first: int | None = None, last: int | None = None) -> NDArray[np.int64]:
        """Rows of that name in schemas on the search path, seen in this time, or between two LSNs."""
        rows = self._catalogs.table(catalog).where(self._catalogs.columns(catalog)[0], name)
        return self._alive(catalog, rows[self._catalogs.on_path(catalog)[rows]], first, last)

    def _alive(
        self, catalog: str, rows: NDArray[np.int64], first: int | None = None, last: int | None = None
    ) -> NDArray[np.int64]:
        begin, end = self._catalogs.table(catalog).rows.lifetimes(rows, self._ordinal)
        since, until = self._first if first is None else first, self._last if last is None else last
        return rows[(begin < end) & (begin < until) & (end >= since)]

    def _life(self, thing: Thing) -> Life:
        if thing not in self._lives:
            self._lives[thing] = self._lived(*thing)
        return self._lives[thing]

    def _lived(self, catalog: str, oid: int) -> Life:
        table = self._catalogs.table(catalog)
        rows = self._alive(catalog, table.where("oid", oid))
        begins, ends = table.rows.lifetimes(rows, self._ordinal)
        order = np.argsort(begins, kind="stable")
        rows, begins, ends = rows[order], begins[order], ends[order]
        name, namespace = self._catalogs.columns(catalog)
        names = table[name][rows].tolist()
        schemas = table[namespace][rows].tolist() if namespace else [0] * len(rows)
        turns: list[int] = []
        called, until = None, None
        for begin, end, mine in zip(begins.tolist(), ends.tolist(), zip(names, schemas, strict=True), strict=True):
            if until is not None and until != begin:
                turns.append(until)
            if until != begin or called != mine:
                turns.append(begin)
            called, until = mine, end
        if until is not None:
            turns.append(until)
        on_path = self._catalogs.on_path(catalog)[rows].tolist() if namespace else [False] * len(rows)
        return Life(
            rows=rows,
            turns=tuple(turn for turn in turns if self._first <= turn < self._last),
            first=max(self._first, int(begins.min(initial=self._last))),
            last=min(self._last, int(ends.max(initial=self._first))),
            names=frozenset(called for called, there in zip(names, on_path, strict=True) if there),
            schemas=frozenset(schemas) if namespace else frozenset(),
        )
