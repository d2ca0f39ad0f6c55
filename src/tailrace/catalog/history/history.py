"""What a relation, or a type, was at an LSN to a transaction: what a historic snapshot would show (rule 6; `HeapTupleSatisfiesHistoricMVCC`).

In: every version of the catalog rows that decoding reads. Out: `Relation` and `PgType` values, by file, oid or name. `MissingHistory` is raised for
what cannot be known.

A change at an LSN sees a version of a catalog row if the transaction that made it committed before that LSN, and the one that ended it did not; of
its own transaction's versions, those that were there at that LSN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.history.attributes import Attribute, column_of
from tailrace.catalog.rows.catalog_rows import CatalogTable, Spans, oid_of, rows_of, toast_of
from tailrace.catalog.rows.column_values import align_of, as_written, int2_vector, length_of, signed32
from tailrace.catalog.rows.layouts import layouts_of, tracked_columns
from tailrace.catalog.rows.row_versions import Versions
from tailrace.errors import MissingHistory
from tailrace.model import Column, InternalFunctions, Locator, Lsn, PgType, Relation
from tailrace.transactions.commit_or_abort import NEVER
from tailrace.types.built_in import INTERNAL_LANGUAGE, internal_functions
from tailrace.types.encodings.server_encodings import as_stored, codec_named
from tailrace.types.format_type import ARRAY_SUBSCRIPT_HANDLER, VECTORS, format_type
from tailrace.types.style import SEARCH_PATH

FIRST_UNPINNED_TYPE = 10000
"""Types with smaller oids are those of pg_type.dat: the same in all databases of a major, and never altered."""
_FUNCTIONS = ("typoutput", "typsend", "typinput", "typreceive")


class History:
    """The catalogs of a database, from `known_from` on. `default_tablespace` is the database's; `search_path` decides which types print with their
    schema; `encoding` is the database's, by PostgreSQL's number."""

    def __init__(
        self, versions: Versions, spans: Spans, major: int, *, database: int, default_tablespace: int, known_from: int = 0,
        search_path: tuple[str, ...] = SEARCH_PATH, encoding: int = 6,
    ) -> None:  # fmt: skip
        self.versions = versions
        self.spans = spans
        self.user_files: frozenset[int] = frozenset()
        """The files of user catalog tables whose rows are known."""
        self.knows_comments = True
        """Whether pg_description is known: it is not where the catalogs go on from a mark that was made before anybody kept it."""
        self._layouts = layouts_of(major)
        self.major = major
        self._tables: dict[str, CatalogTable] = {}
        self._relations: dict[tuple[Any, ...], Relation] = {}
        self._steady_column: dict[Attribute, Column] = {}
        self._all_columns: dict[tuple[Column, ...], tuple[Column, ...]] = {}
        self._steady_columns: dict[tuple[Attribute, ...], tuple[Column, ...]] = {}
        self._schemas: dict[int, str] = {}
        self.database = database
        self.default_tablespace = default_tablespace
        self.known_from = known_from
        self.search_path = search_path
        self.encoding = encoding
        self.with_defaults: Callable[[int, tuple[Column, ...], int, int], tuple[Column, ...]] | None = None
        """If the texts of defaults are asked for, gives them to the columns of a relation: (oid, columns, lsn, ordinal)."""
        self.codec = codec_named(encoding)

    def read_into(self, tables: dict[str, CatalogTable]) -> None:
        """Of just these versions and spans these have been read before; those that are read from now on come to them."""
        self._tables = tables

    def table(self, name: str) -> CatalogTable:
        """A catalog's rows. They are read when they are first asked for."""
        if name not in self._tables:
            self._tables[name] = self.table_with(name, tracked_columns(self.major)[name])
        return self._tables[name]

    def table_with(self, name: str, columns: tuple[str, ...]) -> CatalogTable:
        """A catalog's rows with these columns, which may be others than those that decoding asks for."""
        chunks = toast_of(self.versions, self.spans, name, self._layouts)
        layout = self._layouts[name]
        return CatalogTable(rows_of(self.versions, self.spans, oid_of(name), layout, columns, self.codec, chunks))

    # -- questions -----------------------------------------------------------------------------------------------------------------

    def relation_at(self, locator: Locator, lsn: int, ordinal: int = -1) -> Relation | None:
        """The relation that had the file, as a change at `lsn` in committed transaction `ordinal` (-1: one that touched no catalog) saw it; None if
        none had."""
        self._check_known(lsn)
        rows = self.table("pg_class").rows.seen(self.classes_of(locator), lsn, ordinal)
        return self._relation(int(rows[-1]), lsn, ordinal) if len(rows) else None

    def relation_by_oid(self, oid: int, lsn: int, ordinal: int = -1) -> Relation | None:
        """The relation `oid` as a change at `lsn` saw it."""
        self._check_known(lsn)
        rows = self.table("pg_class").seen_where("oid", oid, lsn, ordinal)
        return self._relation(int(rows[-1]), lsn, ordinal) if len(rows) else None

    def relation_named(self, schema: str, name: str, lsn: int, ordinal: int = -1) -> Relation | None:
        """The relation of that name as a change at `lsn` saw it."""
        classes = self.table("pg_class")
        rows = classes.rows.seen(np.flatnonzero(classes["relname"] == name), lsn, ordinal)
        for row in rows.tolist():
            if self._namespace(int(classes["relnamespace"][row]), lsn, ordinal) == schema:
                return self._relation(row, lsn, ordinal)
        return None

    @cached_property
    def rowless_files(self) -> NDArray[np.int64]:
        """Numbers of files that only ever were those of indexes, TOAST tables and sequences: no record on them is a row that decoding shows."""
        classes = self.table("pg_class")
        rowless = np.isin(classes["relkind"], [ord(kind) for kind in "iItS"])
        return np.setdiff1d(classes["relfilenode"][rowless], classes["relfilenode"][~rowless])

    # -- how a relation is put together --------------------------------------------------------------------------------------------

    def _check_known(self, lsn: int) -> None:
        if lsn < self.known_from:
            raise MissingHistory(
                f"the catalogs are known from {Lsn(self.known_from)} on, not at {Lsn(lsn)}",
                hint="Give a catalog state captured earlier (--catalog), or start later.",
                lsn=Lsn(lsn),
            )

    def classes_of(self, locator: Locator) -> NDArray[np.int64]:
        """The rows of pg_class, of any time, that have this file."""
        rows = self.table("pg_class").where("relfilenode", locator.number)
        return rows[self.has_tablespace(rows, np.full(len(rows), locator.tablespace, np.int64))]

    def has_tablespace(self, rows: NDArray[np.int64], tablespace: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each of these rows of pg_class lies in its tablespace."""
        space = self.table("pg_class")["reltablespace"][rows]
        return (space == tablespace) | ((space == 0) & np.isin(tablespace, list(self._default_tablespaces)))

    @cached_property
    def _default_tablespaces(self) -> set[int]:
        """The tablespaces that the database has lain in, and with it all tables without one of their own. Files keep their numbers when it moves."""
        databases = self.table("pg_database")
        return {self.default_tablespace, *databases["dattablespace"][databases.where("oid", self.database)].tolist()}

    def names_database(self, name: str) -> bool:
        """Whether the database is called so where its history ends."""
        databases = self.table("pg_database")
        mine = databases.where("oid", self.database)
        return name in databases["datname"][mine[databases.rows.end[mine] == NEVER]].tolist()

    def relations_of(self, rows: NDArray[np.int64], lsn: NDArray[np.int64]) -> list[Relation | None]:
        """The relations of these rows of pg_class, each as a change at its `lsn` sees it; None for one that cannot be known. Their columns are read
        together."""
        table = self.table("pg_attribute")
        columns, of = table.where_any("attrelid", self.table("pg_class")["oid"][rows])
        seen = (table.rows.begin[columns] < lsn[of]) & (table.rows.end[columns] >= lsn[of]) & (table["attnum"][columns] > 0)
        columns, of = columns[seen], of[seen]
        order = np.lexsort((table["attnum"][columns], of))
        columns, bounds = columns[order], np.searchsorted(of[order], np.arange(len(rows) + 1)).tolist()
        attributes = self._attributes(columns)
        relations: list[Relation | None] = []
        for row, at, start, stop in zip(rows.tolist(), lsn.tolist(), bounds, bounds[1:], strict=False):
            try:
                relations.append(self._relation(row, at, -1, attributes[start:stop]))
            except MissingHistory:
                relations.append(None)
        return relations

    def _attributes(self, rows: NDArray[np.int64]) -> list[Attribute]:
        """The columns that these rows of pg_attribute describe."""
        table = self.table("pg_attribute")
        columns = (table.of(name, rows).tolist() for name in Attribute._fields)
        return [Attribute._make(row) for row in zip(*columns, strict=True)]

    def _relation(self, row: int, lsn: int, ordinal: int, attributes: Sequence[Attribute] | None = None) -> Relation:
        """The relation of a row of pg_class; `attributes` are those of its columns, by attnum, if they have been read."""
        oid = int(self.table("pg_class")["oid"][row])
        with as_written(f"relation OID {oid}", lsn):
            return self._relation_of(row, oid, lsn, ordinal, attributes)

    def _relation_of(self, row: int, oid: int, lsn: int, ordinal: int, attributes: Sequence[Attribute] | None) -> Relation:
        classes = self.table("pg_class")
        columns = self._columns(oid, lsn, ordinal, attributes)
        if self.with_defaults is not None:
            columns = self.with_defaults(oid, columns, lsn, ordinal)
            columns = self._all_columns.setdefault(columns, columns)
        if missing := int(classes["relnatts"][row]) - len(columns):
            # It is so between two records of the transaction that makes or alters the relation. A change in between cannot be decoded.
            raise MissingHistory(
                f"pg_attribute catalog is missing {missing} attribute(s) for relation OID {oid} at {Lsn(lsn)}", lsn=Lsn(lsn)
            )
        identity_letter = chr(classes["relreplident"][row])
        primary, identity = self._keys(oid, identity_letter, lsn, ordinal)
        relation = Relation(
            oid=oid,
            schema=self._namespace(int(classes["relnamespace"][row]), lsn, ordinal),
            name=self._name_of(int(classes["relrewrite"][row]), lsn, ordinal) or classes.name("relname", row),
            kind=chr(classes["relkind"][row]),
            persistence=chr(classes["relpersistence"][row]),
            replica_identity=identity_letter,
            rewrite_of=int(classes["relrewrite"][row]),
            columns=columns,
            identity=identity,
            primary_key=primary,
            access_method=int(classes["relam"][row]),
        )
        # Equal relations are one object, as equal columns are, so that comparing them is comparing identities.
        key = (
            oid, relation.schema, relation.name, relation.kind, relation.persistence, identity_letter, relation.rewrite_of,
            id(relation.columns), identity, primary, relation.access_method,
        )  # fmt: skip
        return self._relations.setdefault(key, relation)

    def _name_of(self, oid: int, lsn: int, ordinal: int) -> str:
        """A relation's name, empty for oid 0. The transient heap of a rewrite has the name of the relation that it rewrites."""
        if not oid:
            return ""
        rows = self.table("pg_class").seen_where("oid", oid, lsn, ordinal)
        return self.table("pg_class").name("relname", int(rows[-1])) if len(rows) else ""

    def _columns(self, oid: int, lsn: int, ordinal: int, attributes: Sequence[Attribute] | None = None) -> tuple[Column, ...]:
        """A relation's columns, without system columns. Equal ones are one object, by which decoding knows tables that are stored alike."""
        if attributes is None:
            every = self._attributes(self.table("pg_attribute").seen_where("attrelid", oid, lsn, ordinal))
            attributes = sorted((each for each in every if each.attnum > 0), key=lambda each: each.attnum)
        steady = all(each.atttypid < FIRST_UNPINNED_TYPE for each in attributes)
        key = tuple(attributes)
        if steady and key in self._steady_columns:
            return self._steady_columns[key]
        columns = tuple(self._column(each, lsn, ordinal) for each in attributes)
        columns = self._all_columns.setdefault(columns, columns)
        if steady:
            self._steady_columns[key] = columns
        return columns

    def _column(self, attribute: Attribute, lsn: int, ordinal: int) -> Column:
        """One column. Many tables have equal ones, partitions above all; those whose type cannot change are made once."""
        column = self._steady_column.get(attribute)
        if column is None:
            column = column_of(attribute, lambda: self.type_at(attribute.atttypid, lsn, ordinal))
            if attribute.atttypid < FIRST_UNPINNED_TYPE:
                self._steady_column[attribute] = column
        return column

    def _namespace(self, oid: int, lsn: int, ordinal: int) -> str:
        """The name of a schema."""
        namespaces = self.table("pg_namespace")
        steady = ordinal < 0 and namespaces.last_change("oid", oid) < lsn
        if steady and oid in self._schemas:
            return self._schemas[oid]
        rows = namespaces.seen_where("oid", oid, lsn, ordinal)
        if not len(rows):
            raise MissingHistory(f"schema {oid} is not in the catalogs at {Lsn(lsn)}", lsn=Lsn(lsn))
        name = namespaces.name("nspname", int(rows[-1]))
        if steady:
            self._schemas[oid] = name
        return name

    def _keys(self, oid: int, letter: str, lsn: int, ordinal: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Attribute numbers of the primary key and of the replica identity (`RelationGetIndexAttrBitmap`)."""
        indexes = self.table("pg_index")
        primary: tuple[int, ...] = ()
        identity: tuple[int, ...] = ()
        rows = indexes.where("indrelid", oid)
        for row in indexes.rows.seen(rows, lsn, ordinal).tolist() if len(rows) else ():
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
        """A type with the types that it is made of. Raises MissingHistory if it was not there."""
        if oid < FIRST_UNPINNED_TYPE:
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
        with as_written(f"type OID {oid}", lsn):
            return self._type_of(oid, lsn, ordinal)

    def _type_of(self, oid: int, lsn: int, ordinal: int) -> PgType:
        types = self.table("pg_type")
        rows = types.seen_where("oid", oid, lsn, ordinal)
        if not len(rows):
            raise MissingHistory(f"type {oid} is not in the catalogs at {Lsn(lsn)}", lsn=Lsn(lsn))
        row = int(rows[-1])
        length = length_of(int(types["typlen"][row]))
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
        name = types.name("typname", row)
        return PgType(
            oid=oid,
            schema=schema,
            name=name,
            label=format_type(
                oid,
                schema,
                name,
                element if kind == "a" and oid not in VECTORS else None,
                visible=self._is_visible(schema, name, lsn, ordinal),
                major=self.major,
            ),
            kind=kind,
            length=length,
            align=align_of(types["typalign"][row]),
            delimiter=chr(types["typdelim"][row]),
            element=element,
            labels=self._labels(oid, lsn, ordinal) if kind == "e" else (),
            fields=self._columns(int(types["typrelid"][row]), lsn, ordinal) if kind == "c" else (),
            typmod=signed32(int(types["typtypmod"][row])) if kind == "d" else -1,
            functions=self._functions(row, lsn, ordinal) if kind == "b" and oid >= FIRST_UNPINNED_TYPE else None,
        )

    def functions_of_types(self, rows: NDArray[np.int64]) -> set[int]:
        """The oids of the functions that types of these rows of pg_type print and travel by, where they are base types of somebody's own."""
        types = self.table("pg_type")
        rows = rows[(types["typtype"][rows] == ord("b")) & (types["oid"][rows] >= FIRST_UNPINNED_TYPE)]
        rows = rows[types["typsubscript"][rows] != ARRAY_SUBSCRIPT_HANDLER]
        return {oid for column in _FUNCTIONS for oid in types[column][rows].tolist()} - {0}

    def _functions(self, row: int, lsn: int, ordinal: int) -> InternalFunctions | None:
        """Which built-in types' functions the type of a row of pg_type has for its own."""
        types = self.table("pg_type")
        names = [self._internal_name(int(types[column][row]), lsn, ordinal) for column in _FUNCTIONS]
        return internal_functions(int(types["typlen"][row]), bool(types["typbyval"][row]), names)

    def _internal_name(self, function: int, lsn: int, ordinal: int) -> str | None:
        """What a function is called in the server's own code; empty for oid 0, None if it is in another language, or not in the catalogs."""
        functions = self.table("pg_proc")
        rows = functions.seen_where("oid", function, lsn, ordinal)
        if not len(rows) or functions["prolang"][rows[-1]] != INTERNAL_LANGUAGE:
            return None if function else ""
        return bytes(functions["prosrc"][rows[-1]]).decode(errors="replace")

    def _is_visible(self, schema: str, name: str, lsn: int, ordinal: int) -> bool:
        """Whether the name alone means this type: its schema is on the search path, and none before it has a type of that name (TypeIsVisible)."""
        if schema not in self.search_path:
            return False
        before = set(self.search_path[: self.search_path.index(schema)])
        types = self.table("pg_type")
        rivals = types.seen_where("typname", name, lsn, ordinal).tolist() if before else ()
        return not any(self._namespace(int(types["typnamespace"][row]), lsn, ordinal) in before for row in rivals)

    def _labels(self, oid: int, lsn: int, ordinal: int) -> tuple[tuple[int, str], ...]:
        """An enum's (oid, label), by oid."""
        enums = self.table("pg_enum")
        rows = enums.seen_where("enumtypid", oid, lsn, ordinal)
        return tuple(
            sorted((int(enums["oid"][row]), as_stored(str(enums["enumlabel"][row]), self.codec)) for row in rows.tolist())
        )
