"""`WHERE (expr)` of a publication, read as PostgreSQL reads it.

In: the text of a row filter, or what PostgreSQL's grammar made of it; the table; the major version that is imitated. Out: the tree that a server of
that major would store in pg_publication_rel.prqual (`tailrace.expressions.tree`), or its error: message, DETAIL, HINT, SQLSTATE, position.

    text ─► parsing ─► nodes (columns, constants, operators, functions, comparisons, constructs; coercion puts casts in)
         ─► collations ─► virtual generated columns put in place ─► allowed
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tailrace.expressions import tree
from tailrace.expressions.analysis.allowed import check_allowed
from tailrace.expressions.analysis.catalog import catalog_with
from tailrace.expressions.analysis.coercion.coercion import coerce_to_boolean
from tailrace.expressions.analysis.collations import assign_collations
from tailrace.expressions.analysis.parsing import Parsed, parse_filter
from tailrace.expressions.analysis.state import ROW_TYPE, ColumnEntry, ParseState
from tailrace.expressions.analysis.transform.nodes import transform
from tailrace.expressions.expression_session import ExpressionSession
from tailrace.model import FIRST_NORMAL_OID, PgType, Relation

VIRTUAL = "v"
"""pg_attribute.attgenerated of a column that is computed when it is read, since 18."""


def analyse(
    where: str | Any, relation: Relation, session: ExpressionSession | None = None, *, constants: Mapping[int, int] | None = None
) -> tree.Expression:
    """The tree of a row filter. `where` is its text, or its node of a statement that was parsed by pglast, for which `constants`
    (parsing.constants_of) says where constants stand; positions are then those in the statement. Raises UsageError."""
    session = session or ExpressionSession()
    parsed = parse_filter(where, session.major) if isinstance(where, str) else Parsed(where, dict(constants or {}), 0)
    state = _state(relation, session, parsed)
    condition = coerce_to_boolean(state, transform(state, parsed.expression), "PUBLICATION WHERE")
    assigned = assign_collations(state, condition)
    expanded = _expanded(state, assigned, relation, session)
    check_allowed(state, expanded)
    return expanded


def _state(relation: Relation, session: ExpressionSession, parsed: Parsed) -> ParseState:
    own = [column.type for column in relation.live_columns if column.type is not None and column.type.oid >= FIRST_NORMAL_OID]
    row = PgType(ROW_TYPE, relation.schema, relation.name, relation.name, "c", -1, 8, fields=relation.columns)
    user = replace(session.user, types=(*session.user.types, *own, row))
    catalog = catalog_with(session.major, user)
    columns = {
        column.name: ColumnEntry(
            column.number, column.type.oid, column.typmod,
            session.collations.get(column.number, catalog.collation_of(column.type.oid)),
        )
        for column in relation.live_columns
        if column.type is not None
    }  # fmt: skip
    return ParseState(relation, catalog, columns, session.style, session.style.schemas, parsed.constants, parsed.base, transform)


def _expanded(state: ParseState, node: Any, relation: Relation, session: ExpressionSession) -> Any:
    """With the expressions of virtual generated columns in their place (expand_generated_columns_in_expr)."""
    virtual = {column.number: column.name for column in relation.columns if column.generated == VIRTUAL}
    if not virtual:
        return node
    if isinstance(node, tree.Var) and node.attnum in virtual:
        if node.attnum not in session.generated:
            message = f'the expression of the virtual generated column "{virtual[node.attnum]}" is not known'
            raise state.error(message, "0A000", node.location)
        return session.generated[node.attnum]
    return _replaced(state, node, relation, session)


def _replaced(state: ParseState, node: Any, relation: Relation, session: ExpressionSession) -> Any:
    changes: dict[str, Any] = {}
    for name in ("arg", "args", "elements", "left", "right", "named_args", "default", "whens", "condition", "result"):
        value = getattr(node, name, None)
        if isinstance(value, tuple):
            changes[name] = tuple(_expanded(state, each, relation, session) for each in value)
        elif value is not None:
            changes[name] = _expanded(state, value, relation, session)
    return replace(node, **changes) if changes else node
