"""What parse analysis asks of PostgreSQL's catalogs: types, functions, operators, casts, collations and B-tree operators, by oid and by name.

In: a major version, and what a database has beside the built-in (`UserObjects`). Out: a `Catalog`. The tables beside this file are what servers of
majors 15 to 18 say of the objects that every cluster has (tools/catalog_tables.py writes them); they are read once, when they are asked for.
"""

from __future__ import annotations

import pkgutil
from collections import defaultdict
from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import field
from functools import cache
from typing import Any, TypeVar

from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.majors import ROW_FILTERS, Capability, Compared, supports
from tailrace.model import PgType
from tailrace.types.built_in import built_in_type

COMPARED = Compared(__name__, "the catalogs of a server (tools/catalog_tables.py)", upto=18)
BUILT_IN_SCHEMA = "pg_catalog"
ARRAY_SUBSCRIPTING = 6179
"""array_subscript_handler: what makes a type with elements an array (`IsTrueArrayType` of `catalog/pg_type.h`)."""


@dataclass(frozen=True, slots=True)
class TypeRow:
    """A row of pg_type, with pg_range's. `base` is a domain's; `label` what format_type() prints."""

    oid: int
    name: str
    kind: str
    category: str
    preferred: bool
    collation: int
    length: int
    by_value: bool
    element: int
    array: int
    has_modifier: bool
    subscripting: int
    range_subtype: int
    multirange: int
    range_collation: int
    label: str
    schema: str = BUILT_IN_SCHEMA
    base: int = 0
    fields: tuple[tuple[str, int, int], ...] = ()
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FunctionRow:
    """A row of pg_proc; `names` are the input arguments', where they have any."""

    oid: int
    name: str
    arguments: tuple[int, ...]
    result: int
    kind: str = "f"
    volatility: str = "i"
    returns_set: bool = False
    variadic: int = 0
    defaults: int = 0
    names: tuple[str, ...] = ()
    schema: str = BUILT_IN_SCHEMA


@dataclass(frozen=True, slots=True)
class OperatorRow:
    """A row of pg_operator; `left` is 0 for a prefix operator."""

    oid: int
    name: str
    left: int
    right: int
    result: int
    function: int
    negator: int = 0
    schema: str = BUILT_IN_SCHEMA


Row = TypeVar("Row", TypeRow, FunctionRow, OperatorRow)


@dataclass(frozen=True, slots=True)
class CastRow:
    """A row of pg_cast: context i implicit, a assignment, e explicit; method f function, b binary, i through text."""

    function: int
    context: str
    method: str


@dataclass(frozen=True, slots=True)
class UserObjects:
    """What a database has beside the built-in, as far as expressions may name it. A row filter must use none of it, but the server says so only after
    it has found it. Oids are from 16384 on. `collations` may hold (schema, name) of those that initdb found on the machine too."""

    types: tuple[PgType, ...] = ()
    functions: tuple[FunctionRow, ...] = ()
    operators: tuple[OperatorRow, ...] = ()
    collations: dict[tuple[str, str], int] = field(default_factory=dict)


class Catalog:
    """The built-in objects of one major, and a database's own. Immutable once made."""

    def __init__(self, major: int) -> None:
        self.major = major
        self._own_types: dict[int, PgType] = {}
        self.types: dict[int, TypeRow] = {row.oid: row for row in _types(major)}
        self.functions: dict[int, FunctionRow] = {row.oid: row for row in _functions(major)}
        self.operators: dict[int, OperatorRow] = {row.oid: row for row in _operators(major)}
        self.casts: dict[tuple[int, int], CastRow] = dict(_casts(major))
        self.collations: dict[tuple[str, str], int] = {(BUILT_IN_SCHEMA, name): oid for oid, name in _collations(major)}
        self.ordering: dict[int, list[tuple[int, int, int, int]]] = defaultdict(list)
        for operator, *rest in _btree_operators(major):
            self.ordering[operator].append((rest[0], rest[1], rest[2], rest[3]))
        self.types_named = _by_name(self.types.values())
        self.functions_named = _by_name(self.functions.values())
        self.operators_named = _by_name(self.operators.values())

    def with_objects(self, user: UserObjects) -> Catalog:
        """A catalog of this one's objects and a database's."""
        made = copy(self)
        made._own_types = {pg_type.oid: pg_type for pg_type in user.types}
        made.types, made.functions, made.operators = dict(self.types), dict(self.functions), dict(self.operators)
        new = [row for pg_type in user.types for row in _user_types(pg_type, self.types)]
        made.types.update((row.oid, row) for row in new)
        made.functions.update((row.oid, row) for row in user.functions)
        made.operators.update((row.oid, row) for row in user.operators)
        made.collations = self.collations | user.collations
        made.types_named = {**self.types_named}
        made.functions_named = {**self.functions_named}
        made.operators_named = {**self.operators_named}
        _add_names(made.types_named, {row.oid: row for row in new}.values())
        _add_names(made.functions_named, user.functions)
        _add_names(made.operators_named, user.operators)
        return made

    def base_type(self, oid: int) -> int:
        """What a domain is over, to the bottom; any other type itself (getBaseType)."""
        while (row := self.types.get(oid)) is not None and row.kind == "d":
            oid = row.base
        return oid

    def element_type(self, oid: int) -> int:
        """Of a true array, else 0 (get_element_type)."""
        row = self.types.get(oid)
        return row.element if row is not None and row.element and row.subscripting == ARRAY_SUBSCRIPTING else 0

    def base_element_type(self, oid: int) -> int:
        """The same, of domains over arrays too (get_base_element_type)."""
        return self.element_type(self.base_type(oid))

    def array_type(self, oid: int) -> int:
        row = self.types.get(oid)
        return row.array if row is not None else 0

    def collation_of(self, oid: int) -> int:
        """The collation that values of the type have by themselves (get_typcollation)."""
        row = self.types.get(oid)
        return row.collation if row is not None else 0

    def category(self, oid: int) -> str:
        row = self.types.get(oid)
        return row.category if row is not None else "X"

    def is_preferred(self, oid: int) -> bool:
        row = self.types.get(oid)
        return row is not None and row.preferred

    def kind(self, oid: int) -> str:
        row = self.types.get(oid)
        return row.kind if row is not None else ""

    def range_subtype(self, oid: int) -> int:
        row = self.types.get(oid)
        return row.range_subtype if row is not None else 0

    def range_of_multirange(self, oid: int) -> int:
        return next((row.oid for row in self.types.values() if oid and row.multirange == oid), 0)

    def label(self, oid: int) -> str:
        """format_type_be: how messages name a type."""
        row = self.types.get(oid)
        return row.label if row is not None else "-" if oid == 0 else "???"

    def pg_type(self, oid: int) -> PgType | None:
        return built_in_type(oid)

    def own_type(self, oid: int) -> PgType | None:
        return self._own_types.get(oid)


def _by_name(rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row.name].append(row)
    return dict(found)


def _add_names(named: dict[str, Any], rows: Iterable[Any]) -> None:
    """Lists that others share are not touched."""
    for row in rows:
        named[row.name] = [*named.get(row.name, []), row]


@cache
def built_in_catalog(major: int) -> Catalog:
    """What every cluster of the major has. Raises UsageError for one that has no row filters, or that the tables do not know."""
    if not supports(major, ROW_FILTERS):
        known = f"Known are those of {ROW_FILTERS.first} to {COMPARED.upto}."
        raise UsageError(f"row filters of PostgreSQL {major} are not known", hint=known)
    COMPARED.check(major)
    return Catalog(major)


def catalog_with(major: int, user: UserObjects) -> Catalog:
    """The same, and what a database has beside it."""
    built_in = built_in_catalog(major)
    return built_in if user == UserObjects() else built_in.with_objects(user)


def _rows(table: str, major: int) -> Iterator[list[str]]:
    """The fields of the lines that hold for the major."""
    raw = pkgutil.get_data(__name__, f"{table}.tsv")
    assert raw is not None
    for line in raw.decode().splitlines():
        *fields, since, until = line.split("\t")
        if supports(major, Capability.of(f"{since}-{until}")):
            yield fields


def _types(major: int) -> Iterator[TypeRow]:
    for fields in _rows("types", major):
        oid, name = int(fields[0]), fields[1]
        known = built_in_type(oid)
        yield TypeRow(
            oid, name, fields[2], fields[3], fields[4] == "t", int(fields[5]), int(fields[6]), fields[7] == "t",
            int(fields[8]), int(fields[9]), fields[10] == "t", int(fields[11]), int(fields[12]), int(fields[13]), int(fields[14]),
            known.label if known is not None else name,
        )  # fmt: skip


def _functions(major: int) -> Iterator[FunctionRow]:
    for oid, name, arguments, result, kind, volatility, returns_set, variadic, defaults, names in _rows("functions", major):
        yield FunctionRow(
            int(oid), name, tuple(map(int, arguments.split())), int(result), kind, volatility, returns_set == "t",
            int(variadic), int(defaults), tuple(names.split(" ")) if names else (),
        )  # fmt: skip


def _operators(major: int) -> Iterator[OperatorRow]:
    for oid, name, *rest in _rows("operators", major):
        left, right, result, function, negator = map(int, rest)
        yield OperatorRow(int(oid), name, left, right, result, function, negator)


def _casts(major: int) -> Iterator[tuple[tuple[int, int], CastRow]]:
    for source, target, function, context, method in _rows("casts", major):
        yield (int(source), int(target)), CastRow(int(function), context, method)


def _collations(major: int) -> Iterator[tuple[int, str]]:
    for oid, name in _rows("collations", major):
        yield int(oid), name


def _btree_operators(major: int) -> Iterator[tuple[int, ...]]:
    for fields in _rows("btree_operators", major):
        yield tuple(map(int, fields))


_CATEGORIES = {"a": "A", "e": "E", "c": "C", "r": "R", "m": "R", "p": "P"}


def _user_types(pg_type: PgType, known: dict[int, TypeRow]) -> Iterator[TypeRow]:
    """A type of a database, and those it is made of. pg_type's category and collation are not in a PgType: of base types only citext's are known."""
    if pg_type.element is not None:
        yield from _user_types(pg_type.element, known)
    if pg_type.oid in known:
        return
    inner = pg_type.element.oid if pg_type.element is not None else 0
    stringlike = pg_type.name == "citext"
    category, collation = _CATEGORIES.get(pg_type.kind, "S" if stringlike else "U"), 100 if stringlike else 0
    if pg_type.kind in "ad" and inner in known:
        collation = known[inner].collation
        category = known[inner].category if pg_type.kind == "d" else "A"
    yield TypeRow(
        pg_type.oid, pg_type.name, {"a": "b"}.get(pg_type.kind, pg_type.kind), category, False, collation, pg_type.length, False,
        inner if pg_type.kind == "a" else 0, 0, False, ARRAY_SUBSCRIPTING if pg_type.kind == "a" else 0,
        inner if pg_type.kind == "r" else 0, 0, 0, pg_type.label, pg_type.schema, inner if pg_type.kind == "d" else 0,
        tuple((each.name, each.type.oid, each.typmod) for each in pg_type.fields if each.type is not None),
        tuple(label for _, label in pg_type.labels),
    )  # fmt: skip
