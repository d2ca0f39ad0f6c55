"""What functions say of the objects in a snapshot of the catalogs: names, types, expressions, definitions (`utils/adt`, `catalog/namespace.c`).

In: oids, as a query's rows have them. Out: what the server's function of the same name says; NULL, or the server's words, for what is not there.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from tailrace.catalog.history.comments import PG_CLASS, comments_on
from tailrace.catalog.history.defaults import session_at
from tailrace.catalog.names.oid_names import names_at
from tailrace.errors import MissingHistory, TailraceError, UsageError
from tailrace.expressions.analysis.catalog import built_in_catalog
from tailrace.expressions.deparse import Deparser, deparse
from tailrace.expressions.node_tree import read_node_tree
from tailrace.model import Relation
from tailrace.publications.catalog_snapshot import CatalogSnapshot
from tailrace.publications.publishing.relation_sync_entry import is_publishable
from tailrace.sql.grammar import parsed
from tailrace.sql.psql.column_defaults import UNKNOWN
from tailrace.sql.query.engine_function import EngineFunction
from tailrace.sql.query.system_functions import PREFIX, rows_type
from tailrace.sql.views.function_signatures import FunctionSignatures
from tailrace.sql.views.index_definition import IndexDefinitions, partition_bound
from tailrace.sql.views.view_columns import function_columns
from tailrace.types import oids
from tailrace.types.encodings.server_encodings import NAMES
from tailrace.types.format_type import ARRAY_SUBSCRIPT_HANDLER, VECTORS, format_type_with_typemod
from tailrace.types.quoting import split_identifiers
from tailrace.types.style import TextStyle


class CatalogObjects:
    """Of one snapshot, as a session with this search path sees them. What was looked up is kept."""

    def __init__(self, snapshot: CatalogSnapshot, style: TextStyle) -> None:
        self._snapshot, self._history, self._style = snapshot, snapshot.history, style
        self._names: dict[int, dict[tuple[int, int], str]] = {}
        self._visible: dict[tuple[str, int], bool | None] = {}

    # -- names -------------------------------------------------------------------------------------------------------------------

    def name_of(self, reg_type: int, oid: int) -> str | None:
        """What a regclass, or one of its kin, prints; None for an oid that is nobody's."""
        if reg_type not in self._names:
            self._names[reg_type] = names_at(self._history, frozenset({reg_type}), self._snapshot.lsn, -1)
        return self._names[reg_type].get((reg_type, oid))

    def _printed(self, reg_type: int, oid: int) -> str:
        return "-" if not oid else self.name_of(reg_type, oid) or str(oid)

    def _user(self, oid: int) -> str:
        roles = self._history.table("pg_authid")
        rows = roles.seen_where("oid", oid, self._snapshot.lsn, -1)
        return roles.name("rolname", int(rows[-1])) if len(rows) else f"unknown (OID={oid})"

    def _class_named(self, name: str) -> int | None:
        """The oid of a relation, by a name as regclass reads it."""
        words = split_identifiers(name, ".")
        if words is None or not 1 <= len(words) <= 2:
            raise UsageError("invalid name syntax", sqlstate="42602")
        for schema in words[:-1] or self._history.search_path:
            found = self._history.relation_named(schema, words[-1], self._snapshot.lsn)
            if found is not None:
                return found.oid
        return None

    def _regclassin(self, name: str) -> int:
        found = 0 if name == "-" else self._class_named(name)
        if found is None:
            raise UsageError(f'relation "{name}" does not exist', sqlstate="42P01")
        return found

    def _type_named(self, name: str) -> int | None:
        """The oid of a type, by a name as SQL has it."""
        try:
            (target,) = parsed(f"SELECT NULL::{name}").targetList
        except (UsageError, ValueError):
            return None
        words, types = [part.sval for part in target.val.typeName.names], self._history.table("pg_type")
        for schema in words[:-1] or self._history.search_path:
            for row in types.seen_where("typname", words[-1], self._snapshot.lsn, -1).tolist():
                if self._snapshot.schema_name(int(types["typnamespace"][row])) == schema:
                    return self._array_of(int(types["oid"][row])) if target.val.typeName.arrayBounds else int(types["oid"][row])
        return None

    def _array_of(self, oid: int) -> int | None:
        types = self._history.table("pg_type")
        rows = types.seen_where("typelem", oid, self._snapshot.lsn, -1)
        found = rows[types["typsubscript"][rows] == ARRAY_SUBSCRIPT_HANDLER]
        return next((each for each in types["oid"][found].tolist() if each not in VECTORS), None)

    def _regtypein(self, name: str) -> int:
        found = self._type_named(name)
        if found is None:
            raise UsageError(f'type "{name}" does not exist', sqlstate="42704")
        return found

    def _is_visible(self, catalog: str, prefix: str, oid: int) -> bool | None:
        """Whether the search path leads to it and to no other of its name before; None if there is none."""
        if (catalog, oid) not in self._visible:
            self._visible[catalog, oid] = self._finds_first(catalog, prefix, oid)
        return self._visible[catalog, oid]

    def _finds_first(self, catalog: str, prefix: str, oid: int) -> bool | None:
        table = self._history.table(catalog)
        rows = table.seen_where("oid", oid, self._snapshot.lsn, -1)
        if not len(rows):
            return None
        name, schema = table.name(f"{prefix}name", int(rows[-1])), int(table[f"{prefix}namespace"][rows[-1]])
        of_name = table.seen_where(f"{prefix}name", name, self._snapshot.lsn, -1)
        schemas = {self._snapshot.schema_name(each) for each in table[f"{prefix}namespace"][of_name].tolist()}
        first = next((each for each in self._history.search_path if each in schemas), None)
        return first is not None and first == self._snapshot.schema_name(schema)

    def _format_type(self, oid: int | None, typmod: int | None) -> str | None:
        if oid is None:
            return None
        if not oid:
            return "-"
        try:
            pg_type = self._history.type_at(oid, self._snapshot.lsn)
        except MissingHistory:
            return "???"
        if typmod is None:
            return pg_type.label
        return format_type_with_typemod(pg_type, typmod)

    # -- expressions and definitions ---------------------------------------------------------------------------------------------

    @cached_property
    def _session(self) -> Any:
        return session_at(self._history, self._style, frozenset({oids.REGCLASS, oids.REGPROC}), self._snapshot.lsn, -1)

    def _expression(self, text: str, oid: int, pretty: bool) -> str | None:
        """pg_get_expr."""
        relation = self._relation(oid)
        if relation is None:
            return None
        try:
            bound = partition_bound(text, lambda node: self._deparser(relation).constant(node, bare=True))
            return bound or deparse(read_node_tree(text), relation, self._session, pretty=pretty)
        except TailraceError:
            return UNKNOWN

    def _deparser(self, relation: Relation) -> Deparser:
        return Deparser(relation, built_in_catalog(self._session.major), self._session.style)

    def _relation(self, oid: int) -> Relation | None:
        return self._snapshot.relation(oid)

    @cached_property
    def _indexes(self) -> IndexDefinitions:
        return IndexDefinitions(self._snapshot)

    def index_definition(self, oid: int, column: int, pretty: bool) -> str | None:
        def deparsed(text: str, table: int) -> str:
            return self._expression(text, table, pretty) or UNKNOWN

        def name_of(table: int) -> str:
            relation = self._relation(table)
            return self._printed(oids.REGCLASS, table) if pretty or relation is None else self._qualified(relation)

        return self._indexes.definition(oid, column, deparsed, name_of)

    def _qualified(self, relation: Relation) -> str:
        quoted = self._deparser(relation).quoted
        return f"{quoted(relation.schema)}.{quoted(relation.name)}"

    @cached_property
    def _signatures(self) -> FunctionSignatures:
        nothing = Relation(0, "", "", "r", "p", "d", 0, ())

        def deparsed(text: str) -> str:
            try:
                return deparse(read_node_tree(text), nothing, self._session)
            except TailraceError:
                return UNKNOWN

        return FunctionSignatures(self._snapshot, lambda oid: self._format_type(oid, None), deparsed)

    def _function_result(self, oid: int) -> str | None:
        return self._signatures.result(oid)

    def _function_arguments(self, oid: int) -> str | None:
        return self._signatures.arguments(oid)

    def _function_identity(self, oid: int) -> str | None:
        return self._signatures.identity_arguments(oid)

    def _function_is_visible(self, oid: int) -> bool | None:
        if ("pg_proc", oid) not in self._visible:
            self._visible["pg_proc", oid] = self._signatures.is_visible(oid)
        return self._visible["pg_proc", oid]

    def _view_definition(self, oid: int) -> str | None:
        """pg_get_viewdef. pg_rewrite is not tracked."""
        relation = self._relation(oid)
        return UNKNOWN if relation is not None and relation.kind in "vm" else None

    def _partition_constraint(self, oid: int) -> str | None:
        """pg_get_partition_constraintdef: the bound as a condition, which is not put together here."""
        return UNKNOWN if len(self._ancestors(oid)) > 1 else None

    def _partition_key(self, oid: int) -> str | None:
        """pg_partitioned_table is not tracked."""
        relation = self._relation(oid)
        return UNKNOWN if relation is not None and relation.kind == "p" else None

    # -- comments ----------------------------------------------------------------------------------------------------------------

    def _comment_on(self, oid: int, catalog: str) -> str | None:
        """obj_description. Without a catalog it is that of an object with this oid in whichever there is one."""
        known = self._history.relation_named("pg_catalog", catalog, self._snapshot.lsn) if catalog else None
        if catalog and known is None:
            return None
        described = self._history.table("pg_description")
        rows = described.seen_where("objoid", oid, self._snapshot.lsn, -1)
        catalogs = sorted(set(described["classoid"][rows].tolist())) if known is None else [known.oid]
        said = (comments_on(self._history, each, oid, self._snapshot.lsn).get(0) for each in catalogs)
        return next((each for each in said if each is not None), None)

    def _comment_on_column(self, oid: int, number: int) -> str | None:
        """col_description."""
        return comments_on(self._history, PG_CLASS, oid, self._snapshot.lsn).get(number)

    # -- relations ---------------------------------------------------------------------------------------------------------------

    def _is_publishable(self, oid: int) -> bool | None:
        relation = self._relation(oid)
        return None if relation is None else is_publishable(relation)

    def _identity_index(self, oid: int) -> int | None:
        """pg_get_replica_identity_index: of the primary key, unless another was chosen."""
        relation, indexes = self._relation(oid), self._history.table("pg_index")
        column = {"d": "indisprimary", "i": "indisreplident"}.get(relation.replica_identity if relation else "")
        if column is None:
            return None
        rows = indexes.seen_where("indrelid", oid, self._snapshot.lsn, -1)
        usable = [
            row for row in rows.tolist() if indexes[column][row] and indexes["indisvalid"][row] and indexes["indimmediate"][row]
        ]
        return int(indexes["indexrelid"][usable[0]]) if usable else None

    def _ancestors(self, oid: int) -> list[int]:
        """pg_partition_ancestors: itself, and what it is a partition of; nothing for what is in no partition tree."""
        relation = self._relation(oid)
        found, inherits, classes = [oid], self._history.table("pg_inherits"), self._history.table("pg_class")
        while True:
            row = classes.seen_where("oid", found[-1], self._snapshot.lsn, -1)
            if not len(row) or not classes["relispartition"][row[-1]]:
                break
            above = inherits.seen_where("inhrelid", found[-1], self._snapshot.lsn, -1)
            found.append(int(inherits["inhparent"][above[-1]]))
        return found if relation is not None and (len(found) > 1 or relation.kind in "pI") else []

    def _tree(self, oid: int) -> list[dict[str, Any]]:
        """pg_partition_tree: a table and what it has been cut into, level by level."""
        relation, inherits = self._relation(oid), self._history.table("pg_inherits")
        if relation is None or not self._ancestors(oid):
            return []
        found, level = [(oid, self._ancestors(oid)[1:2], 0)], 0
        while any(depth == level for _, _, depth in found):
            for above in [each for each, _, depth in found if depth == level]:
                rows = inherits.seen_where("inhparent", above, self._snapshot.lsn, -1)
                found += [(each, [above], level + 1) for each in sorted(inherits["inhrelid"][rows].tolist())]
            level += 1
        return [
            {
                "relid": each,
                "parentrelid": next(iter(above), None),
                "isleaf": getattr(self._relation(each), "kind", "") not in "pI",
                "level": depth,
            }
            for each, above, depth in found
        ]

    @property
    def functions(self) -> dict[str, EngineFunction]:
        """By the names that `query.system_functions` calls."""
        number, text, flag = "BIGINT", "VARCHAR", "BOOLEAN"
        found = {
            "pg_get_userbyid": EngineFunction(self._user, (number,), text),
            "pg_encoding_to_char": EngineFunction(lambda encoding: NAMES.get(encoding, ""), (number,), text),
            "format_type": EngineFunction(self._format_type, (number, number), text, is_strict=False),
            "pg_table_is_visible": EngineFunction(lambda oid: self._is_visible("pg_class", "rel", oid), (number,), flag),
            "pg_type_is_visible": EngineFunction(lambda oid: self._is_visible("pg_type", "typ", oid), (number,), flag),
            "pg_relation_is_publishable": EngineFunction(self._is_publishable, (number,), flag),
            "pg_get_replica_identity_index": EngineFunction(self._identity_index, (number,), "UINTEGER"),
            "pg_get_partkeydef": EngineFunction(self._partition_key, (number,), text),
            "pg_function_is_visible": EngineFunction(self._function_is_visible, (number,), flag),
            "pg_get_function_result": EngineFunction(self._function_result, (number,), text),
            "pg_get_function_arguments": EngineFunction(self._function_arguments, (number,), text),
            "pg_get_function_identity_arguments": EngineFunction(self._function_identity, (number,), text),
            "pg_get_viewdef": EngineFunction(self._view_definition, (number,), text),
            "pg_get_partition_constraintdef": EngineFunction(self._partition_constraint, (number,), text),
            "pg_get_expr": EngineFunction(self._expression, (text, number, flag), text),
            "pg_get_indexdef": EngineFunction(self.index_definition, (number, number, flag), text),
            "pg_partition_ancestors": EngineFunction(self._ancestors, (number,), "UINTEGER[]"),
            "pg_partition_tree": EngineFunction(
                self._tree, (number,), rows_type(function_columns(self._history.major)["pg_partition_tree"])
            ),
            "obj_description": EngineFunction(self._comment_on, (number, text), text),
            "col_description": EngineFunction(self._comment_on_column, (number, number), text),
            "to_regclass": EngineFunction(self._class_named, (text,), "UINTEGER"),
            "to_regtype": EngineFunction(self._type_named, (text,), "UINTEGER"),
            "regtypein": EngineFunction(self._regtypein, (text,), "UINTEGER"),
            "regclassin": EngineFunction(self._regclassin, (text,), "UINTEGER"),
            "regout": EngineFunction(self._printed, (number, number), text),
            "vector_element": EngineFunction(_element, (text, number), number),
            "vector_values": EngineFunction(_numbers, (text,), f"{number}[]"),
            "vector_upper": EngineFunction(lambda vector: len(_numbers(vector)) - 1 if vector else None, (text,), number),
            "vector_length": EngineFunction(lambda vector: len(_numbers(vector)) or None, (text,), number),
        }
        return {PREFIX + name: function for name, function in found.items()}


def _numbers(vector: str) -> list[int]:
    return [int(each) for each in vector.split()]


def _element(vector: str, index: int) -> int | None:
    """Of an int2vector or oidvector, which count from 0."""
    numbers = _numbers(vector)
    return numbers[index] if 0 <= index < len(numbers) else None
