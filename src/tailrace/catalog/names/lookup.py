"""What regclass, regproc and their kin print: names of things by oid, as one moment's catalogs have them (`utils/adt/regproc.c`).

In: a history and a position. Out: the names of that moment, all or some; `timeline` has those of all moments of a stretch. A name stands alone
where the search path finds it, and after its schema elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.array_columns import oid_vector, signed16
from tailrace.catalog.names.quoting import quote_identifier
from tailrace.catalog.names.type_labels import ARRAY_SUBSCRIPT_HANDLER, VECTORS, type_label
from tailrace.model import PgType, Relation
from tailrace.types.encodings.server_encodings import WITHOUT_ICU, as_stored

if TYPE_CHECKING:
    from tailrace.catalog.history import History

_NO_ROWS = np.zeros(0, np.int64)
REGPROC, REGPROCEDURE, REGOPER, REGOPERATOR, REGCLASS, REGTYPE = 24, 2202, 2203, 2204, 2205, 2206
REGNAMESPACE, REGROLE, REGCONFIG, REGDICTIONARY, REGCOLLATION = 4089, 4096, 3734, 3769, 4191
ACLITEM = 1033
ANY_ENCODING = (1 << 32) - 1
"""collencoding -1, as unsigned."""
_READS: Mapping[int, tuple[str, ...]] = {
    REGPROC: ("pg_proc",), REGPROCEDURE: ("pg_proc", "pg_type"), REGOPER: ("pg_operator",), REGOPERATOR: ("pg_operator", "pg_type"),
    REGCLASS: ("pg_class",), REGTYPE: ("pg_type",), REGNAMESPACE: (), REGROLE: ("pg_authid",), REGCONFIG: ("pg_ts_config",),
    REGDICTIONARY: ("pg_ts_dict",), REGCOLLATION: ("pg_collation",), ACLITEM: ("pg_authid",),
}  # fmt: skip
"""The types that print names, and the catalogs, beside pg_namespace, that have them."""
PRINTERS: Mapping[str, tuple[int, ...]] = {
    "pg_class": (REGCLASS,), "pg_type": (REGTYPE,), "pg_proc": (REGPROC, REGPROCEDURE), "pg_operator": (REGOPER, REGOPERATOR),
    "pg_namespace": (REGNAMESPACE,), "pg_authid": (REGROLE,), "pg_ts_config": (REGCONFIG,), "pg_ts_dict": (REGDICTIONARY,),
    "pg_collation": (REGCOLLATION,),
}  # fmt: skip
"""The other way round: what prints the names of a catalog's things."""
PREFIXES: Mapping[str, str] = {
    "pg_class": "rel", "pg_type": "typ", "pg_proc": "pro", "pg_operator": "opr", "pg_ts_config": "cfg", "pg_ts_dict": "dict", "pg_collation": "coll",
}  # fmt: skip
"""What the columns `name` and `namespace` of a catalog begin with, for things that are in schemas."""
_SIMPLE = ((REGCLASS, "pg_class"), (REGCONFIG, "pg_ts_config"), (REGDICTIONARY, "pg_ts_dict"), (REGCOLLATION, "pg_collation"))

Names = dict[tuple[int, int], str]
"""(oid of the reg type, oid) -> what it prints."""


def pointing_types(relation: Relation) -> frozenset[int]:
    """The types that print names among those of its columns, however deep inside."""
    return frozenset(oid for column in relation.columns if column.type is not None for oid in _pointing(column.type))


def _pointing(pg_type: PgType) -> Iterator[int]:
    if pg_type.oid in _READS:
        yield pg_type.oid
    for part in (pg_type.element, *(field.type for field in pg_type.fields)):
        if part is not None:
            yield from _pointing(part)


def catalogs_of(reg_types: Iterable[int]) -> set[str]:
    """The catalogs on which their names depend."""
    return {"pg_namespace"}.union(*(_READS[reg_type] for reg_type in reg_types))


def asked(reg_types: frozenset[int]) -> frozenset[int]:
    """The reg types whose names they ask for: an aclitem holds roles."""
    return (reg_types - {ACLITEM}) | {REGROLE} if ACLITEM in reg_types else reg_types


def names_at(
    history: History, reg_types: frozenset[int], lsn: int, ordinal: int, among: Mapping[str, NDArray[np.int64]] | None = None
) -> Names:
    """The names of those types as a change at `lsn` in transaction `ordinal` (-1: one that changed none) saw them. All, or only what the rows `among`
    (by catalog) tell: that is right for those whose rivals, schemas and argument types are among them."""
    look = _Look(history, lsn, ordinal, among)
    wanted = asked(reg_types)
    found: Names = {}
    for reg_type, catalog in _SIMPLE:
        if reg_type in wanted:
            found |= {(reg_type, oid): text for oid, text in look.in_schemas(catalog)}
    if REGNAMESPACE in wanted:
        found |= {(REGNAMESPACE, oid): look.quoted(name) for oid, name in look.rows("pg_namespace", "oid", "nspname")}
    if REGROLE in wanted:
        found |= {(REGROLE, oid): look.quoted(name) for oid, name in look.rows("pg_authid", "oid", "rolname")}
    if REGTYPE in wanted:
        found |= {(REGTYPE, oid): text for oid, text in look.types()}
    if REGPROC in wanted or REGPROCEDURE in wanted:
        found |= dict(look.functions(labelled=REGPROCEDURE in wanted))
    if REGOPER in wanted or REGOPERATOR in wanted:
        found |= dict(look.operators(labelled=REGOPERATOR in wanted))
    return {key: as_stored(text, history.codec) for key, text in found.items() if key[0] in wanted}


class _Look:
    """The catalogs as a change saw them, as names are looked up in them."""

    def __init__(self, history: History, lsn: int, ordinal: int, among: Mapping[str, NDArray[np.int64]] | None) -> None:
        self._history = history
        self._lsn = lsn
        self._ordinal = ordinal
        self._among = among
        self._schemas: dict[int, str] = dict(self.rows("pg_namespace", "oid", "nspname"))
        path = {name: place for place, name in enumerate(history.search_path)}
        self._place = {oid: path[name] for oid, name in self._schemas.items() if name in path}
        self._labels: dict[int, str] = {}

    @cached_property
    def _types(self) -> dict[int, tuple[str, int, int]]:
        """oid -> name, schema, and the element if it is an array."""
        found = self.rows("pg_type", "oid", "typname", "typnamespace", "typelem", "typsubscript", "typlen")
        return {
            oid: (name, schema, element if subscript == ARRAY_SUBSCRIPT_HANDLER and signed16(length) == -1 else 0)
            for oid, name, schema, element, subscript, length in found
        }

    @cached_property
    def _first_types(self) -> dict[object, int]:
        return self._first_places((name, schema) for name, schema, _ in self._types.values())

    def quoted(self, name: str) -> str:
        return quote_identifier(name, self._history.major)

    def rows(self, catalog: str, *columns: str) -> Iterator[tuple[Any, ...]]:
        table = self._history.table(catalog)
        rows = np.arange(len(table.rows)) if self._among is None else self._among.get(catalog, _NO_ROWS)
        seen = table.rows.seen(rows, self._lsn, self._ordinal) if len(rows) else rows
        return zip(*(table[column][seen].tolist() for column in columns), strict=True)

    def in_schemas(self, catalog: str) -> Iterator[tuple[int, str]]:
        found = list(self.rows(catalog, "oid", f"{PREFIXES[catalog]}name", f"{PREFIXES[catalog]}namespace"))
        foreign = self._foreign_collations() if catalog == "pg_collation" else set()
        first = self._first_places((called, schema) for oid, called, schema in found if oid not in foreign)
        for oid, called, schema in found:
            mine = oid not in foreign and self._place.get(schema, -1) == first.get(called)
            yield oid, self._qualified(called, schema, seen=mine)

    def _foreign_collations(self) -> set[int]:
        """Those that are not found in a database of this encoding (`lookup_collation` in `catalog/namespace.c`)."""
        encoding = self._history.encoding
        found = list(self.rows("pg_collation", "oid", "collname", "collnamespace", "collprovider", "collencoding"))
        own = {(name, schema) for _, name, schema, _, of in found if of == encoding}
        return {
            oid
            for oid, name, schema, provider, of in found
            if of != encoding
            and (of != ANY_ENCODING or (name, schema) in own or (chr(provider) == "i" and encoding in WITHOUT_ICU))
        }

    def types(self) -> Iterator[tuple[int, str]]:
        for oid in self._types:
            yield oid, self._label(oid)

    def functions(self, *, labelled: bool) -> Iterator[tuple[tuple[int, int], str]]:
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
            if labelled:
                types = ",".join(self._label(argument) for argument in arguments)
                yield (REGPROCEDURE, oid), f"{self._qualified(name, schema, seen=mine)}({types})"

    def operators(self, *, labelled: bool) -> Iterator[tuple[tuple[int, int], str]]:
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
            if labelled:
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
            self._labels[oid] = self._new_label(oid)
        return self._labels[oid]

    def _new_label(self, oid: int) -> str:
        if oid not in self._types:
            return "???"  # as format_type prints a type that is gone
        name, schema, element = self._types[oid]
        if element and oid not in VECTORS:
            return f"{self._label(element)}[]"
        visible = self._place.get(schema, -1) == self._first_types.get(name)
        return type_label(oid, self._schemas.get(schema, ""), name, None, visible=visible, major=self._history.major)
