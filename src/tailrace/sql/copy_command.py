"""COPY … TO STDOUT of a table, as a subscriber has it carried out where it subscribes (`copy_table` in `replication/logical/tablesync.c`).

In: a statement, and the catalogs. Out: the command for the server that has the rows. It is made anew of what the statement says, and no word of the
client's is in it: a table that the catalogs know and a publication may have, columns of it, a condition that a publication could have as its row
filter, the form of the rows. What else a COPY can be is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.expressions.analysis.parsing import constants_of
from tailrace.expressions.analysis.where_clause import analyse
from tailrace.expressions.deparse import deparse
from tailrace.expressions.expression_session import ExpressionSession
from tailrace.expressions.node_tree import read_filter
from tailrace.majors import ROW_FILTERS
from tailrace.model import Relation
from tailrace.publications.catalog_snapshot import CatalogSnapshot
from tailrace.publications.commands.statements import PublicationTable
from tailrace.publications.database_snapshot import DatabaseSnapshot
from tailrace.publications.publishing.entry_timeline import Definitions
from tailrace.publications.publishing.relation_sync_entry import is_publishable
from tailrace.publications.table_to_copy import TableToCopy, table_published
from tailrace.sql.grammar import ast
from tailrace.sql.privileges import Privileges
from tailrace.types.quoting import quote_identifier

_FORMS = "COPY table [(columns)] TO STDOUT, or COPY (SELECT columns FROM [ONLY] table [WHERE condition]) TO STDOUT, in text or binary format."
_KINDS = {"v": "view", "m": "materialized view", "f": "foreign table", "S": "sequence"}
"""As `BeginCopyTo` in `commands/copyto.c` calls them."""
_PLAIN_SELECT = ("targetList", "fromClause", "whereClause", "limitOption", "op", "all", "groupDistinct")


@dataclass(frozen=True, slots=True)
class CopyCommand:
    """`text` is for the server; `table` is what it copies, by its oid and in quotes."""

    text: str
    oid: int
    table: str


def copy_command(
    statement: Any, text: str, here: DatabaseSnapshot, definitions: Definitions, privileges: Privileges
) -> CopyCommand:  # fmt: skip
    """The command that a CopyStmt stands for, with the rows and columns that the role may have. Raises UsageError in the server's words, and
    (0A000) for a COPY of another kind."""
    if statement.is_from:
        raise _refused("COPY FROM")
    if statement.is_program or statement.filename is not None:
        raise _refused("COPY TO a file or program")
    binary = _is_binary(statement.options or ())
    source, names, where = _asked_for(statement)
    relation = _relation(source, here.catalogs, is_query=statement.query is not None)
    known = {column.name: column for column in relation.live_columns}
    for name in names or ():
        if name not in known:
            of = f' of relation "{relation.name}"' if statement.relation is not None else ""
            raise UsageError(f'column "{name}"{of} does not exist', sqlstate="42703")
    if names is None:
        names = [column.name for column in relation.live_columns if not column.generated]
    conditions = [] if where is None else [_condition(where, constants_of(statement, text), relation, here)]
    if privileges.publications is not None:
        conditions += _of_role(relation, names, here, definitions, privileges.publications)
    table = f"{quote_identifier(relation.schema)}.{quote_identifier(relation.name)}"
    columns = ", ".join(map(quote_identifier, names))
    if statement.relation is not None and not conditions:
        what = f"{table} ({columns})" if columns else table
    else:
        only = "ONLY " if not source.inh or (statement.relation is not None and relation.kind == "r") else ""
        condition = f" WHERE {' AND '.join(f'({each})' for each in conditions)}" if conditions else ""
        what = f"(SELECT {columns} FROM {only}{table}{condition})"
    return CopyCommand(f"COPY {what} TO STDOUT{' (FORMAT binary)' if binary else ''}", relation.oid, table)


def _refused(what: str) -> UsageError:
    return UsageError(f"{what} is not supported by this server", hint=f"It carries out {_FORMS}", sqlstate="0A000")


def _is_binary(options: Sequence[Any]) -> bool:
    formats: list[str] = []
    for option in options:
        if option.defname != "format":
            raise _refused(f'COPY option "{option.defname}"')
        if formats:
            raise UsageError("conflicting or redundant options", sqlstate="42601")
        formats.append(getattr(option.arg, "sval", ""))
        if formats[0] == "csv":
            raise _refused("COPY in CSV format")
        if formats[0] not in ("text", "binary"):
            raise UsageError(f'COPY format "{formats[0]}" not recognized', sqlstate="22023")
    return formats == ["binary"]


def _asked_for(statement: Any) -> tuple[Any, list[str] | None, Any]:
    """The table, the columns that are named, and the condition."""
    if statement.relation is not None:
        return statement.relation, None if statement.attlist is None else [each.sval for each in statement.attlist], None
    query = statement.query
    is_plain = isinstance(query, ast.SelectStmt) and query.op.name == "SETOP_NONE" and not _clauses(query)
    if (
        not is_plain
        or len(query.fromClause or ()) != 1
        or not isinstance(query.fromClause[0], ast.RangeVar)
        or query.fromClause[0].alias
    ):
        raise _refused("COPY of this query")
    columns = [_column(target) for target in query.targetList or ()]
    return query.fromClause[0], columns, query.whereClause


def _clauses(query: Any) -> list[str]:
    """What it has beside its columns, table and condition."""
    return [name for name in query if name not in _PLAIN_SELECT and getattr(query, name)]


def _column(target: Any) -> str:
    node = target.val
    fields: Sequence[Any] = node.fields if isinstance(node, ast.ColumnRef) else ()
    if target.name or target.indirection or len(fields) != 1 or not isinstance(fields[0], ast.String):
        raise _refused("COPY of other values than columns")
    return str(fields[0].sval)


def _relation(source: Any, catalogs: CatalogSnapshot, *, is_query: bool) -> Relation:
    """Raises UsageError (42P01, 3F000, 42809), and (42501) for what no publication may have: a catalog, for instance."""
    if source.catalogname:
        raise UsageError("cross-database references are not implemented", sqlstate="0A000")
    relation = catalogs.table(PublicationTable(source.schemaname or "", source.relname))
    if relation.kind not in "rp":
        kind = _KINDS.get(relation.kind, "non-table relation")
        if is_query:
            raise _refused(f"COPY from a {kind}")
        hint = "Try the COPY (SELECT ...) TO variant." if relation.kind in "vmf" else ""
        raise UsageError(f'cannot copy from {kind} "{relation.name}"', hint=hint, sqlstate="42809")
    if not is_publishable(relation):
        raise _denied(relation)
    return relation


def _denied(relation: Relation) -> UsageError:
    return UsageError(f"permission denied for table {relation.name}", sqlstate="42501")


def _condition(where: Any, constants: dict[int, int], relation: Relation, here: DatabaseSnapshot) -> str:
    """As pg_get_expr would print it of a row filter."""
    generated = {number: read_filter(tree) for number, tree in here.catalogs.virtual_columns(relation)}
    session = ExpressionSession(max(here.major, ROW_FILTERS.first), here.compiler.facts.style, generated=generated)
    named = analyse(where, relation, session, constants=constants)
    return deparse(named, relation, replace(session, generated={}))


def _of_role(
    relation: Relation, names: Sequence[str], here: DatabaseSnapshot, definitions: Definitions, publications: Sequence[str]
) -> list[str]:  # fmt: skip
    """The conditions under which its rows are the role's. Raises UsageError (42501) for a table, or a column, that its publications have not."""
    published: TableToCopy | None = table_published(here, publications, definitions, relation.oid)
    if published is None:
        raise _denied(relation)
    for name in names:
        if name not in published.columns:
            raise _denied(relation)
    return [published.copied] if published.copied else []
