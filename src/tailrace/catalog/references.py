"""What regclass, regproc and their kin print: names of things by oid, as one moment's catalogs have them (`utils/adt/regproc.c`).

In: a history and a position. Out: `CatalogNames`, which goes along with a stretch whose tables have columns of such types. A name stands alone where
the search path finds it, and after its schema elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tailrace.catalog.elements import oid_vector
from tailrace.catalog.names import quote_identifier
from tailrace.errors import MissingHistory
from tailrace.model import PgType, Relation
from tailrace.types.encodings import as_stored

if TYPE_CHECKING:
    from tailrace.catalog.history import History

REGPROC, REGPROCEDURE, REGOPER, REGOPERATOR, REGCLASS, REGTYPE = 24, 2202, 2203, 2204, 2205, 2206
REGNAMESPACE, REGROLE, REGCONFIG, REGDICTIONARY, REGCOLLATION = 4089, 4096, 3734, 3769, 4191
ACLITEM = 1033
_POINTING = frozenset(
    {
        REGPROC,
        REGPROCEDURE,
        REGOPER,
        REGOPERATOR,
        REGCLASS,
        REGTYPE,
        REGNAMESPACE,
        REGROLE,
        REGCONFIG,
        REGDICTIONARY,
        REGCOLLATION,
        ACLITEM,
    }
)
_SIMPLE = (
    (REGCLASS, "pg_class", "rel"), (REGCONFIG, "pg_ts_config", "cfg"), (REGDICTIONARY, "pg_ts_dict", "dict"),
    (REGCOLLATION, "pg_collation", "coll"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class CatalogNames:
    """(oid of the reg type, oid) -> what it prints."""

    by_oid: dict[tuple[int, int], str]

    def __call__(self, reg_type: int, oid: int) -> str | None:
        return self.by_oid.get((reg_type, oid))


def points_into_catalogs(relations: Iterable[Relation]) -> bool:
    """Whether a column of theirs, however deep inside, is of a type that prints names."""
    return any(column.type is not None and _points(column.type) for relation in relations for column in relation.columns)


def _points(pg_type: PgType) -> bool:
    if pg_type.oid in _POINTING or (pg_type.element is not None and _points(pg_type.element)):
        return True
    return any(field.type is not None and _points(field.type) for field in pg_type.fields)


def names_at(history: History, lsn: int) -> CatalogNames:
    """All names as a change at `lsn` saw them."""
    look = _Look(history, lsn)
    found: dict[tuple[int, int], str] = {}
    for reg_type, catalog, prefix in _SIMPLE:
        found |= {(reg_type, oid): text for oid, text in look.in_schemas(catalog, f"{prefix}name", f"{prefix}namespace")}
    for reg_type, catalog, column in ((REGNAMESPACE, "pg_namespace", "nspname"), (REGROLE, "pg_authid", "rolname")):
        found |= {(reg_type, oid): look.quoted(name) for oid, name in look.rows(catalog, "oid", column)}
    found |= {(REGTYPE, oid): text for oid, text in look.types()}
    found |= dict(look.functions())
    found |= dict(look.operators())
    return CatalogNames({key: as_stored(text, history.codec) for key, text in found.items()})


class _Look:
    """The catalogs at one LSN, as names are looked up in them."""

    def __init__(self, history: History, lsn: int) -> None:
        self._history = history
        self._lsn = lsn
        self._schemas: dict[int, str] = dict(self.rows("pg_namespace", "oid", "nspname"))
        path = {name: place for place, name in enumerate(history.search_path)}
        self._place = {oid: path[name] for oid, name in self._schemas.items() if name in path}
        self._labels: dict[int, str] = {}

    def quoted(self, name: str) -> str:
        return quote_identifier(name, self._history.major)

    def rows(self, catalog: str, *columns: str) -> Iterator[tuple[Any, ...]]:
        table = self._history.table(catalog)
        seen = table.rows.seen(np.arange(len(table.rows)), self._lsn, -1)
        return zip(*(table[column][seen].tolist() for column in columns), strict=True)

    def in_schemas(self, catalog: str, name: str, namespace: str) -> Iterator[tuple[int, str]]:
        found = list(self.rows(catalog, "oid", name, namespace))
        first = self._first_places((called, schema) for _, called, schema in found)
        for oid, called, schema in found:
            yield oid, self._qualified(called, schema, seen=self._place.get(schema, -1) == first.get(called))

    def types(self) -> Iterator[tuple[int, str]]:
        for (oid,) in self.rows("pg_type", "oid"):
            yield oid, self._label(oid)

    def functions(self) -> Iterator[tuple[tuple[int, int], str]]:
        """regproc stands alone if it is the only one of its name on the path, regprocedure if no other with its arguments comes before."""
        rows = self.rows("pg_proc", "oid", "proname", "pronamespace", "proargtypes")
        found = [(oid, name, schema, oid_vector(vector)) for oid, name, schema, vector in rows]
        on_path: dict[str, set[tuple[int, ...]]] = {}
        for _, name, schema, arguments in found:
            if schema in self._place:
                on_path.setdefault(name, set()).add(arguments)
        first = self._first_places(((name, arguments), schema) for _, name, schema, arguments in found)
        for oid, name, schema, arguments in found:
            mine = self._place.get(schema, -1) == first.get((name, arguments))
            yield (REGPROC, oid), self._qualified(name, schema, seen=mine and len(on_path.get(name, ())) == 1)
            types = ",".join(self._label(argument) for argument in arguments)
            yield (REGPROCEDURE, oid), f"{self._qualified(name, schema, seen=mine)}({types})"

    def operators(self) -> Iterator[tuple[tuple[int, int], str]]:
        """The same for operators, whose own names are never quoted."""
        found = list(self.rows("pg_operator", "oid", "oprname", "oprnamespace", "oprleft", "oprright"))
        on_path: dict[str, set[tuple[int, int]]] = {}
        for _, name, schema, left, right in found:
            if schema in self._place:
                on_path.setdefault(name, set()).add((left, right))
        first = self._first_places(((name, left, right), schema) for _, name, schema, left, right in found)
        for oid, name, schema, left, right in found:
            mine = self._place.get(schema, -1) == first.get((name, left, right))
            prefix = f"{self.quoted(self._schemas.get(schema, ''))}."
            yield (REGOPER, oid), name if mine and len(on_path.get(name, ())) == 1 else prefix + name
            sides = ",".join(self._label(side) if side else "NONE" for side in (left, right))
            yield (REGOPERATOR, oid), f"{'' if mine else prefix}{name}({sides})"

    def _first_places(self, keys: Iterable[tuple[object, int]]) -> dict[object, int]:
        """For each key the first place of the search path that has it."""
        first: dict[object, int] = {}
        for key, schema in keys:
            place = self._place.get(schema)
            if place is not None:
                first[key] = min(place, first.get(key, place))
        return first

    def _qualified(self, name: str, schema: int, *, seen: bool) -> str:
        return self.quoted(name) if seen else f"{self.quoted(self._schemas.get(schema, ''))}.{self.quoted(name)}"

    def _label(self, oid: int) -> str:
        if oid not in self._labels:
            try:
                self._labels[oid] = self._history.type_at(oid, self._lsn).label
            except MissingHistory:
                self._labels[oid] = "???"  # as format_type prints a type that is gone
        return self._labels[oid]
