"""The names that regclass, regproc and their kin print: of objects by oid, as the catalogs of one moment have them (`utils/adt/regproc.c`).

In: a history and a position. Out: the names of that moment, of all objects or of some; `name_timeline` has those of all moments of a stretch. A name
stands alone where the search path leads to its object, and behind its schema elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.rows.column_values import oid_vector, signed16
from tailrace.model import PgType, Relation
from tailrace.types import oids
from tailrace.types.encodings.server_encodings import WITHOUT_ICU, as_stored
from tailrace.types.format_type import ARRAY_SUBSCRIPT_HANDLER, VECTORS, format_type
from tailrace.types.quoting import quote_identifier

if TYPE_CHECKING:
    from tailrace.catalog.history.history import History

_NO_ROWS = np.zeros(0, np.int64)
ANY_ENCODING = (1 << 32) - 1
"""collencoding -1, as unsigned."""
CATALOGS: Mapping[int, tuple[str, ...]] = {
    oids.REGPROC: ("pg_proc",), oids.REGPROCEDURE: ("pg_proc", "pg_type"), oids.REGOPER: ("pg_operator",),
    oids.REGOPERATOR: ("pg_operator", "pg_type"), oids.REGCLASS: ("pg_class",), oids.REGTYPE: ("pg_type",), oids.REGNAMESPACE: (),
    oids.REGROLE: ("pg_authid",), oids.REGCONFIG: ("pg_ts_config",), oids.REGDICTIONARY: ("pg_ts_dict",),
    oids.REGCOLLATION: ("pg_collation",), oids.ACLITEM: ("pg_authid",),
}  # fmt: skip
"""The types that print names, and the catalogs, beside pg_namespace, that have these names."""
ALIASES: Mapping[str, tuple[int, ...]] = {
    "pg_class": (oids.REGCLASS,), "pg_type": (oids.REGTYPE,), "pg_proc": (oids.REGPROC, oids.REGPROCEDURE),
    "pg_operator": (oids.REGOPER, oids.REGOPERATOR), "pg_namespace": (oids.REGNAMESPACE,), "pg_authid": (oids.REGROLE,),
    "pg_ts_config": (oids.REGCONFIG,), "pg_ts_dict": (oids.REGDICTIONARY,), "pg_collation": (oids.REGCOLLATION,),
}  # fmt: skip
"""By catalog, the types that print the names of its objects."""
PREFIXES: Mapping[str, str] = {
    "pg_class": "rel", "pg_type": "typ", "pg_proc": "pro", "pg_operator": "opr", "pg_ts_config": "cfg", "pg_ts_dict": "dict", "pg_collation": "coll",
}  # fmt: skip
"""What the columns `name` and `namespace` of a catalog begin with, whose objects are in schemas."""
_NAMED_ALONE = (
    (oids.REGCLASS, "pg_class"), (oids.REGCONFIG, "pg_ts_config"), (oids.REGDICTIONARY, "pg_ts_dict"),
    (oids.REGCOLLATION, "pg_collation"),
)  # fmt: skip
"""Types that print a name and its schema, and nothing else."""

Names = dict[tuple[int, int], str]
"""(oid of the reg type, oid) -> what it prints."""


def oid_alias_types(relation: Relation) -> frozenset[int]:
    """The types that print names among those of its columns, however deep inside: regclass and its kin, and aclitem."""
    return frozenset(oid for column in relation.columns if column.type is not None for oid in _alias_types(column.type))


def _alias_types(pg_type: PgType) -> Iterator[int]:
    if pg_type.oid in CATALOGS:
        yield pg_type.oid
    for part in (pg_type.element, *(field.type for field in pg_type.fields)):
        if part is not None:
            yield from _alias_types(part)


def catalogs_of(reg_types: Iterable[int]) -> set[str]:
    """The catalogs on which their names depend."""
    return {"pg_namespace"}.union(*(CATALOGS[reg_type] for reg_type in reg_types))


def looked_up(reg_types: frozenset[int]) -> frozenset[int]:
    """The types whose names are looked up for them: an aclitem holds oids of roles, so for it those of regrole."""
    return (reg_types - {oids.ACLITEM}) | {oids.REGROLE} if oids.ACLITEM in reg_types else reg_types


def names_at(
    history: History, reg_types: frozenset[int], lsn: int, ordinal: int, rows: Mapping[str, NDArray[np.int64]] | None = None
) -> Names:
    """The names that those types print to a change at `lsn` in transaction `ordinal` (-1: one that changed no catalog).

    With `rows` (by catalog) only these are looked at. The names that come out are right of objects whose dependencies, which are objects of the
    same name, schemas and types of arguments, have their rows among them.
    """
    moment = _CatalogsAt(history, lsn, ordinal, rows)
    wanted = looked_up(reg_types)
    names: Names = {}
    for reg_type, catalog in _NAMED_ALONE:
        if reg_type in wanted:
            names |= {(reg_type, oid): text for oid, text in moment.in_schemas(catalog)}
    if oids.REGNAMESPACE in wanted:
        names |= {(oids.REGNAMESPACE, oid): moment.quoted(name) for oid, name in moment.rows("pg_namespace", "oid", "nspname")}
    if oids.REGROLE in wanted:
        names |= {(oids.REGROLE, oid): moment.quoted(name) for oid, name in moment.rows("pg_authid", "oid", "rolname")}
    if oids.REGTYPE in wanted:
        names |= {(oids.REGTYPE, oid): text for oid, text in moment.types()}
    if oids.REGPROC in wanted or oids.REGPROCEDURE in wanted:
        names |= dict(moment.functions(labelled=oids.REGPROCEDURE in wanted))
    if oids.REGOPER in wanted or oids.REGOPERATOR in wanted:
        names |= dict(moment.operators(labelled=oids.REGOPERATOR in wanted))
    return {key: as_stored(text, history.codec) for key, text in names.items() if key[0] in wanted}


class _CatalogsAt:
    """The catalogs as a change saw them, or only some of their rows, as names are looked up in them."""

    def __init__(self, history: History, lsn: int, ordinal: int, rows: Mapping[str, NDArray[np.int64]] | None) -> None:
        self._history = history
        self._lsn = lsn
        self._ordinal = ordinal
        self._rows = rows
        self._schemas: dict[int, str] = dict(self.rows("pg_namespace", "oid", "nspname"))
        path = {name: place for place, name in enumerate(history.search_path)}
        self._place = {oid: path[name] for oid, name in self._schemas.items() if name in path}
        self._labels: dict[int, str] = {}

    @cached_property
    def _types(self) -> dict[int, tuple[str, int, int]]:
        """oid -> name, schema, and the element if it is an array."""
        types = self.rows("pg_type", "oid", "typname", "typnamespace", "typelem", "typsubscript", "typlen")
        return {
            oid: (name, schema, element if subscript == ARRAY_SUBSCRIPT_HANDLER and signed16(length) == -1 else 0)
            for oid, name, schema, element, subscript, length in types
        }

    @cached_property
    def _first_types(self) -> dict[object, int]:
        return self._first_places((name, schema) for name, schema, _ in self._types.values())

    def quoted(self, name: str) -> str:
        return quote_identifier(name, self._history.major)

    def rows(self, catalog: str, *columns: str) -> Iterator[tuple[Any, ...]]:
        """These columns of the rows that the change saw."""
        table = self._history.table(catalog)
        rows = np.arange(len(table.rows)) if self._rows is None else self._rows.get(catalog, _NO_ROWS)
        seen = table.rows.seen(rows, self._lsn, self._ordinal) if len(rows) else rows
        return zip(*(table[column][seen].tolist() for column in columns), strict=True)

    def in_schemas(self, catalog: str) -> Iterator[tuple[int, str]]:
        """The name of each of a catalog's objects: alone if the search path leads to it, else behind its schema."""
        objects = list(self.rows(catalog, "oid", f"{PREFIXES[catalog]}name", f"{PREFIXES[catalog]}namespace"))
        hidden = self._hidden_collations() if catalog == "pg_collation" else set()
        first = self._first_places((name, schema) for oid, name, schema in objects if oid not in hidden)
        for oid, name, schema in objects:
            is_visible = oid not in hidden and self._place.get(schema, -1) == first.get(name)
            yield oid, self._qualified(name, schema, alone=is_visible)

    def _hidden_collations(self) -> set[int]:
        """Those to which no search path leads in a database of this encoding (`lookup_collation` in `catalog/namespace.c`)."""
        encoding = self._history.encoding
        collations = list(self.rows("pg_collation", "oid", "collname", "collnamespace", "collprovider", "collencoding"))
        own = {(name, schema) for _, name, schema, _, of in collations if of == encoding}
        return {
            oid
            for oid, name, schema, provider, of in collations
            if of != encoding
            and (of != ANY_ENCODING or (name, schema) in own or (chr(provider) == "i" and encoding in WITHOUT_ICU))
        }

    def types(self) -> Iterator[tuple[int, str]]:
        """The name of each type, as format_type prints it."""
        for oid in self._types:
            yield oid, self._label(oid)

    def functions(self, *, labelled: bool) -> Iterator[tuple[tuple[int, int], str]]:
        """Of each function what regproc prints, and if `labelled` what regprocedure prints. The name is alone for regproc if no other function on the
        path has it, for regprocedure if none with the same arguments comes before."""
        rows = self.rows("pg_proc", "oid", "proname", "pronamespace", "proargtypes")
        functions = [(oid, name, schema, oid_vector(vector)) for oid, name, schema, vector in rows]
        on_path: dict[str, set[tuple[int, ...]]] = {}
        for _, name, schema, arguments in functions:
            if schema in self._place:
                on_path.setdefault(name, set()).add(arguments)
        first = self._first_places(((name, arguments), schema) for _, name, schema, arguments in functions)
        for oid, name, schema, arguments in functions:
            is_visible = self._place.get(schema, -1) == first.get((name, arguments))
            is_only = is_visible and len(on_path.get(name, ())) == 1
            yield (oids.REGPROC, oid), self._qualified(name, schema, alone=is_only)
            if labelled:
                types = ",".join(self._label(argument) for argument in arguments)
                yield (oids.REGPROCEDURE, oid), f"{self._qualified(name, schema, alone=is_visible)}({types})"

    def operators(self, *, labelled: bool) -> Iterator[tuple[tuple[int, int], str]]:
        """The same of operators, whose own names are never quoted."""
        operators = list(self.rows("pg_operator", "oid", "oprname", "oprnamespace", "oprleft", "oprright"))
        on_path: dict[str, set[tuple[int, int]]] = {}
        for _, name, schema, left, right in operators:
            if schema in self._place:
                on_path.setdefault(name, set()).add((left, right))
        first = self._first_places(((name, left, right), schema) for _, name, schema, left, right in operators)
        for oid, name, schema, left, right in operators:
            is_visible = self._place.get(schema, -1) == first.get((name, left, right))
            is_only = is_visible and len(on_path.get(name, ())) == 1
            prefix = f"{self.quoted(self._schemas.get(schema, ''))}."
            yield (oids.REGOPER, oid), f"{'' if is_only else prefix}{name}"
            if labelled:
                sides = ",".join(self._label(side) if side else "NONE" for side in (left, right))
                yield (oids.REGOPERATOR, oid), f"{'' if is_visible else prefix}{name}({sides})"

    def _first_places(self, keys: Iterable[tuple[object, int]]) -> dict[object, int]:
        """For each key the first place of the search path that has it."""
        first: dict[object, int] = {}
        for key, schema in keys:
            place = self._place.get(schema)
            if place is not None:
                first[key] = min(place, first.get(key, place))
        return first

    def _qualified(self, name: str, schema: int, *, alone: bool) -> str:
        return self.quoted(name) if alone else f"{self.quoted(self._schemas.get(schema, ''))}.{self.quoted(name)}"

    def _label(self, oid: int) -> str:
        if oid not in self._labels:
            self._labels[oid] = self._new_label(oid)
        return self._labels[oid]

    def _new_label(self, oid: int) -> str:
        if oid not in self._types:
            return "???"  # as format_type prints a type that is gone
        name, schema, element = self._types[oid]
        if element and oid not in VECTORS:
            return f"{self._label(element)}[]"
        visible = self._place.get(schema, -1) == self._first_types.get(name)
        return format_type(oid, self._schemas.get(schema, ""), name, None, visible=visible, major=self._history.major)
