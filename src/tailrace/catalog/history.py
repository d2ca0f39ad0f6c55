"""What a relation was, then: answers as PostgreSQL's historic snapshot does (rule 6, facts 6.4).

In: every version of the catalog rows that decoding reads. Out: `relation_at(locator, lsn, ordinal)`, `relation_by_oid(…)`, and
`timeline(locator)`: all that
a file ever meant, as spans, which is what decoding takes along. An answer that cannot be known raises `MissingHistory`.

A change sees a row version when the version's maker committed before the change's LSN and its unmaker did not; of its own
transaction's versions, those made before that LSN. So what a file means can change only at LSNs where some row about it begins
or ends, and a timeline is
the answer at each of those points, equal neighbours joined.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.elements import int2_vector, only_element, signed16
from tailrace.catalog.layouts import layouts_of
from tailrace.catalog.names import type_label
from tailrace.catalog.redo import Versions
from tailrace.catalog.rows import CatalogRows, Spans, rows_of
from tailrace.errors import MissingHistory
from tailrace.model import Column, Locator, Lsn, PgType, Relation
from tailrace.transactions.fates import NEVER
from tailrace.wal.index import TRACKED_CATALOGS

ARRAY_SUBSCRIPT_HANDLER = 6179
_ALIGN = {"c": 1, "s": 2, "i": 4, "d": 8}

_WANTED: dict[str, tuple[str, ...]] = {
    "pg_class": (
        "oid", "relname", "relnamespace", "relam", "relfilenode", "reltablespace", "relpersistence", "relkind", "relreplident", "relrewrite",
        "relnatts",
    ),
    "pg_attribute": (
        "attrelid", "attname", "atttypid", "attlen", "attnum", "atttypmod", "attalign", "attnotnull", "atthasmissing", "attgenerated",
        "attisdropped", "attmissingval",
    ),
    "pg_type": (
        "oid", "typname", "typnamespace", "typlen", "typtype", "typdelim", "typrelid", "typsubscript", "typelem", "typalign", "typbasetype",
        "typtypmod",
    ),
    "pg_namespace": ("oid", "nspname"),
    "pg_index": ("indexrelid", "indrelid", "indnkeyatts", "indisprimary", "indimmediate", "indisvalid", "indislive", "indisreplident", "indkey", "indpred"),  # noqa: E501
    "pg_enum": ("oid", "enumtypid", "enumsortorder", "enumlabel"),
    "pg_range": ("rngtypid", "rngsubtype", "rngmultitypid"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Span:
    """From `start` (exclusive) on, until the next span, the file meant `relation` (None: nothing)."""

    start: int
    relation: Relation | None


class _Table:
    """A catalog with its rows grouped by one or more keys."""

    def __init__(self, rows: CatalogRows) -> None:
        self.rows = rows
        self._orders: dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}

    def where(self, column: str, value: int) -> NDArray[np.int64]:
        """Row numbers whose `column` equals `value`."""
        if column not in self._orders:
            values = self.rows.columns[column]
            order = np.argsort(values, kind="stable")
            self._orders[column] = (order, values[order])
        order, values = self._orders[column]
        return order[np.searchsorted(values, value, "left") : np.searchsorted(values, value, "right")]

    def seen_where(self, column: str, value: int, lsn: int, ordinal: int) -> NDArray[np.int64]:
        return self.rows.seen(self.where(column, value), lsn, ordinal)

    def __getitem__(self, column: str) -> NDArray:
        return self.rows.columns[column]


class History:
    """See the module. `default_tablespace` is the database's; `search_path` decides which types print with their schema."""

    def __init__(
        self, versions: Versions, spans: Spans, major: int, *, database: int, default_tablespace: int, known_from: int = 0,
        search_path: tuple[str, ...] = ("pg_catalog", "public"),
    ) -> None:  # fmt: skip
        self._versions = versions
        self._spans = spans
        self._layouts = layouts_of(major)
        self._major = major
        self._tables: dict[str, _Table] = {}
        self._relations: dict[Relation, Relation] = {}
        self.database = database
        self.default_tablespace = default_tablespace
        self.known_from = known_from
        self.search_path = search_path

    def table(self, name: str) -> _Table:
        """A catalog's rows, made when first asked for."""
        if name not in self._tables:
            oid = next(oid for oid, catalog in TRACKED_CATALOGS.items() if catalog == name)
            self._tables[name] = _Table(rows_of(self._versions, self._spans, oid, self._layouts[name], _WANTED[name]))
        return self._tables[name]

    # -- questions -----------------------------------------------------------------------------------------------------------------

    def relation_at(self, locator: Locator, lsn: int, ordinal: int = -1) -> Relation | None:
        """What `locator` meant to a change at `lsn` in committed transaction `ordinal`; None if no relation had that file."""
        self._check_known(lsn)
        rows = self.table("pg_class").rows.seen(self._classes_of(locator), lsn, ordinal)
        return self._relation(int(rows[-1]), lsn, ordinal) if len(rows) else None

    def relation_by_oid(self, oid: int, lsn: int, ordinal: int = -1) -> Relation | None:
        """The relation `oid` as a change at `lsn` saw it."""
        self._check_known(lsn)
        rows = self.table("pg_class").seen_where("oid", oid, lsn, ordinal)
        return self._relation(int(rows[-1]), lsn, ordinal) if len(rows) else None

    def relation_named(self, schema: str, name: str, lsn: int) -> Relation | None:
        """The relation of that name as a change at `lsn` saw it."""
        classes = self.table("pg_class")
        rows = classes.rows.seen(np.flatnonzero(classes["relname"] == name), lsn, -1)
        for row in rows.tolist():
            if self._namespace(int(classes["relnamespace"][row]), lsn, -1) == schema:
                return self._relation(row, lsn, -1)
        return None

    def timeline(self, locator: Locator, ordinal: int = -1) -> list[Span]:
        """All that `locator` meant over time to others (-1), or to a transaction that changed its meaning itself."""
        points = self._breakpoints(locator, ordinal)
        spans: list[Span] = []
        for point in points:
            try:
                relation = self.relation_at(locator, max(point + 1, self.known_from), ordinal)
            except MissingHistory:
                relation = None  # an error for rows that lie there, and for nobody else
            if not spans or spans[-1].relation is not relation:
                spans.append(Span(point, relation))
        return spans

    def changers(self, locator: Locator) -> set[int]:
        """Ordinals of committed transactions that changed what `locator` means."""
        found: set[int] = set()
        for table, rows in self._about(locator):
            found.update(table.rows.made_by[rows].tolist())
            found.update(table.rows.unmade_by[rows].tolist())
        found.discard(-1)
        return found

    # -- how a relation is put together --------------------------------------------------------------------------------------------

    def _check_known(self, lsn: int) -> None:
        if lsn < self.known_from:
            raise MissingHistory(
                f"the catalogs are known from {Lsn(self.known_from)} on, not at {Lsn(lsn)}",
                hint="Give a catalog state captured earlier (--catalog), or start later.",
            )

    def _classes_of(self, locator: Locator) -> NDArray[np.int64]:
        classes = self.table("pg_class")
        rows = classes.where("relfilenode", locator.number)
        space = classes["reltablespace"][rows]
        return rows[np.where(space == 0, self.default_tablespace, space) == locator.tablespace]

    def _about(self, locator: Locator) -> Iterable[tuple[_Table, NDArray[np.int64]]]:
        """Every catalog row, of any time, that has a say in what `locator` meant."""
        classes, attributes = self.table("pg_class"), self.table("pg_attribute")
        for oid in np.unique(classes["oid"][self._classes_of(locator)]).tolist():
            rows = classes.where("oid", oid)
            yield classes, rows
            for namespace in np.unique(classes["relnamespace"][rows]).tolist():
                yield self.table("pg_namespace"), self.table("pg_namespace").where("oid", namespace)
            columns = attributes.where("attrelid", oid)
            yield attributes, columns
            yield self.table("pg_index"), self.table("pg_index").where("indrelid", oid)
            seen: set[int] = {0}
            for type_oid in np.unique(attributes["atttypid"][columns]).tolist():
                yield from self._about_type(type_oid, seen)

    def _about_type(self, oid: int, seen: set[int]) -> Iterable[tuple[_Table, NDArray[np.int64]]]:
        if oid in seen or oid < 10000:
            return  # built-in types do not change
        seen.add(oid)
        types = self.table("pg_type")
        rows = types.where("oid", oid)
        yield types, rows
        yield self.table("pg_enum"), self.table("pg_enum").where("enumtypid", oid)
        for namespace in np.unique(types["typnamespace"][rows]).tolist():
            yield self.table("pg_namespace"), self.table("pg_namespace").where("oid", namespace)
        for column in ("typelem", "typbasetype"):
            for part in np.unique(types[column][rows]).tolist():
                yield from self._about_type(part, seen)
        for relation in np.unique(types["typrelid"][rows]).tolist():
            if relation:
                attributes = self.table("pg_attribute")
                columns = attributes.where("attrelid", relation)
                yield attributes, columns
                for part in np.unique(attributes["atttypid"][columns]).tolist():
                    yield from self._about_type(part, seen)
        ranges = self.table("pg_range")
        for column in ("rngtypid", "rngmultitypid"):
            for part in np.unique(ranges["rngsubtype"][ranges.where(column, oid)]).tolist():
                yield from self._about_type(part, seen)

    def _breakpoints(self, locator: Locator, ordinal: int) -> list[int]:
        points = {0}
        for table, rows in self._about(locator):
            source = table.rows
            points.update(source.begin[rows].tolist())
            points.update(source.end[rows].tolist())
            if ordinal >= 0:
                points.update(source.added[rows[source.made_by[rows] == ordinal]].tolist())
                points.update(source.deleted[rows[source.unmade_by[rows] == ordinal]].tolist())
        points.discard(int(NEVER))
        return sorted(points)

    def _relation(self, row: int, lsn: int, ordinal: int) -> Relation:
        classes = self.table("pg_class")
        oid = int(classes["oid"][row])
        identity_letter = chr(classes["relreplident"][row])
        primary, identity = self._keys(oid, identity_letter, lsn, ordinal)
        relation = Relation(
            oid=oid,
            schema=self._namespace(int(classes["relnamespace"][row]), lsn, ordinal),
            name=str(classes["relname"][row]),
            kind=chr(classes["relkind"][row]),
            persistence=chr(classes["relpersistence"][row]),
            replica_identity=identity_letter,
            rewrite_of=int(classes["relrewrite"][row]),
            columns=self._columns(oid, lsn, ordinal),
            identity=identity,
            primary_key=primary,
            access_method=int(classes["relam"][row]),
        )
        return self._relations.setdefault(relation, relation)

    def _columns(self, oid: int, lsn: int, ordinal: int) -> tuple[Column, ...]:
        attributes = self.table("pg_attribute")
        rows = attributes.seen_where("attrelid", oid, lsn, ordinal)
        # attnum is an int2; system columns are negative
        rows = rows[attributes["attnum"][rows] > 0]
        rows = rows[np.argsort(attributes["attnum"][rows], kind="stable")]
        return tuple(self._column(attributes, int(row), lsn, ordinal) for row in rows)

    def _column(self, attributes: _Table, row: int, lsn: int, ordinal: int) -> Column:
        length = signed16(attributes["attlen"][row])
        align = _ALIGN[chr(attributes["attalign"][row])]
        missing = None
        if attributes["atthasmissing"][row] and attributes["attmissingval"][row] is not None:
            missing = only_element(attributes["attmissingval"][row], length, align)
        dropped = bool(attributes["attisdropped"][row])
        typmod = int(attributes["atttypmod"][row])
        return Column(
            number=int(attributes["attnum"][row]),
            name=str(attributes["attname"][row]),
            type=None if dropped else self.type_at(int(attributes["atttypid"][row]), lsn, ordinal),
            typmod=typmod - (1 << 32) if typmod >= 1 << 31 else typmod,
            length=length,
            align=align,
            not_null=bool(attributes["attnotnull"][row]),
            generated=chr(attributes["attgenerated"][row]).strip("\0"),
            missing=missing,
        )

    def _namespace(self, oid: int, lsn: int, ordinal: int) -> str:
        namespaces = self.table("pg_namespace")
        rows = namespaces.seen_where("oid", oid, lsn, ordinal)
        if not len(rows):
            raise MissingHistory(f"schema {oid} is not in the catalogs at {Lsn(lsn)}")
        return str(namespaces["nspname"][rows[-1]])

    def _keys(self, oid: int, letter: str, lsn: int, ordinal: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Attribute numbers of the primary key and of the replica identity (facts 6.6)."""
        indexes = self.table("pg_index")
        primary: tuple[int, ...] = ()
        identity: tuple[int, ...] = ()
        for row in indexes.seen_where("indrelid", oid, lsn, ordinal).tolist():
            usable = (
                indexes["indisvalid"][row]
                and indexes["indislive"][row]
                and indexes["indimmediate"][row]
                and indexes["indpred"][row] is None
            )
            if not usable:
                continue
            keys = int2_vector(indexes["indkey"][row])[: int(indexes["indnkeyatts"][row])]
            if indexes["indisprimary"][row]:
                primary = keys
                if letter == "d":
                    identity = keys
            if letter == "i" and indexes["indisreplident"][row]:
                identity = keys
        return primary, identity

    def type_at(self, oid: int, lsn: int, ordinal: int = -1) -> PgType:
        """A type with all that it is made of. Raises MissingHistory if it was not there."""
        if oid < 10000:
            return self._builtin_type(oid)
        return self._type(oid, lsn, ordinal)

    def _builtin_type(self, oid: int) -> PgType:
        if oid not in self._builtin:
            self._builtin[oid] = self._type(oid, int(NEVER), -1)
        return self._builtin[oid]

    @cached_property
    def _builtin(self) -> dict[int, PgType]:
        return {}

    def _type(self, oid: int, lsn: int, ordinal: int) -> PgType:
        types = self.table("pg_type")
        rows = types.seen_where("oid", oid, lsn, ordinal)
        if not len(rows):
            raise MissingHistory(f"type {oid} is not in the catalogs at {Lsn(lsn)}")
        row = int(rows[-1])
        length = signed16(types["typlen"][row])
        element_oid = int(types["typelem"][row])
        kind = chr(types["typtype"][row])
        if types["typsubscript"][row] == ARRAY_SUBSCRIPT_HANDLER and length == -1 and element_oid:
            kind = "a"
        part = {"a": element_oid, "d": int(types["typbasetype"][row])}.get(kind, 0)
        if kind in "rm":
            ranges = self.table("pg_range")
            rows = ranges.seen_where("rngtypid" if kind == "r" else "rngmultitypid", oid, lsn, ordinal)
            part = int(ranges["rngsubtype" if kind == "r" else "rngtypid"][rows[-1]]) if len(rows) else 0
        element = self.type_at(part, lsn, ordinal) if part else None
        schema = self._namespace(int(types["typnamespace"][row]), lsn, ordinal)
        name = str(types["typname"][row])
        return PgType(
            oid=oid,
            schema=schema,
            name=name,
            label=type_label(
                oid,
                schema,
                name,
                # int2vector and oidvector are subscripted as arrays are, but keep their names.
                element if kind == "a" and oid not in (22, 30) else None,
                visible=self._is_visible(schema, name, lsn, ordinal),
                major=self._major,
            ),
            kind=kind,
            length=length,
            align=_ALIGN[chr(types["typalign"][row])],
            delimiter=chr(types["typdelim"][row]),
            element=element,
            labels=self._labels(oid, lsn, ordinal) if kind == "e" else (),
            fields=self._columns(int(types["typrelid"][row]), lsn, ordinal) if kind == "c" else (),
        )

    def _is_visible(self, schema: str, name: str, lsn: int, ordinal: int) -> bool:
        """Whether the type is found without its schema: on the search path, and not behind another of its name."""
        if schema not in self.search_path:
            return False
        before = set(self.search_path[: self.search_path.index(schema)])
        types = self.table("pg_type")
        rivals = types.rows.seen(np.flatnonzero(types["typname"] == name), lsn, ordinal) if before else ()
        return not any(self._namespace(int(types["typnamespace"][row]), lsn, ordinal) in before for row in rivals)

    def _labels(self, oid: int, lsn: int, ordinal: int) -> tuple[tuple[int, str], ...]:
        enums = self.table("pg_enum")
        rows = enums.seen_where("enumtypid", oid, lsn, ordinal)
        return tuple(sorted((int(enums["oid"][row]), str(enums["enumlabel"][row])) for row in rows.tolist()))
