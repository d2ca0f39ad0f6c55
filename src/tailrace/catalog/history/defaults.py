"""Defaults of columns as pg_get_expr(adbin, adrelid) prints them (`commands/tablecmds.c`, `adt/ruleutils.c`).

In: the catalogs at a moment. Out: columns that have their texts. Names in an expression, of a sequence say, are those of the moment; a table is
looked at when its own definition changes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tailrace.catalog.names.oid_names import names_at
from tailrace.errors import MissingHistory, TailraceError, UsageError
from tailrace.expressions.deparse import deparse
from tailrace.expressions.expression_session import ExpressionSession
from tailrace.expressions.node_tree import read_node_tree
from tailrace.majors import ROW_FILTERS
from tailrace.model import Column, Lsn, Relation
from tailrace.types import oids

if TYPE_CHECKING:
    from tailrace.catalog.history.history import History
    from tailrace.types.style import TextStyle

_NAMES = frozenset({oids.REGCLASS, oids.REGPROC})


def with_defaults(
    history: History, style: TextStyle, oid: int, columns: tuple[Column, ...], lsn: int, ordinal: int
) -> tuple[Column, ...]:  # fmt: skip
    """The columns of the relation `oid`, as a change at `lsn` in transaction `ordinal` saw it, with the texts of their defaults.
    Generated columns have none. Raises UsageError for an expression that is not understood, MissingHistory where the catalogs are
    known from a time when nobody kept expressions."""
    attributes = history.table("pg_attribute")
    seen = attributes.seen_where("attrelid", oid, lsn, ordinal)
    have = {
        number
        for number, has in zip(attributes["attnum"][seen].tolist(), attributes["atthasdef"][seen].tolist(), strict=True)
        if has
    }
    have -= {column.number for column in columns if column.generated or column.dropped}
    if not have:
        return columns
    stored = expressions_of(history, oid, lsn, ordinal)
    session = session_at(history, style, _NAMES, lsn, ordinal)
    relation = Relation(oid, "", "", "r", "p", "d", 0, columns)
    found = list(columns)
    for at, column in enumerate(columns):
        if column.number in have:
            expression = stored.get(column.number)
            if expression is None:
                raise MissingHistory(
                    f'the default of column "{column.name}" of relation OID {oid} is not known at {Lsn(lsn)}',
                    hint="Capture the catalogs anew.", lsn=Lsn(lsn),
                )  # fmt: skip
            found[at] = replace(column, default=_text(expression, relation, column, session))
    return tuple(found)


def expressions_of(history: History, oid: int, lsn: int, ordinal: int) -> dict[int, str | None]:
    """By attribute number, the node trees of a relation's defaults and generated columns; None where the catalogs are known from a time when nobody
    kept them."""
    defaults = history.table("pg_attrdef")
    rows = defaults.seen_where("adrelid", oid, lsn, ordinal)
    codec = history.codec or "utf-8"
    stored = zip(defaults["adnum"][rows].tolist(), defaults["adbin"][rows].tolist(), strict=True)
    return {number: None if adbin is None else adbin.decode(codec, "surrogateescape") for number, adbin in stored}


def session_at(history: History, style: TextStyle, reg_types: frozenset[int], lsn: int, ordinal: int) -> ExpressionSession:
    """Prints expressions with the names of that moment."""
    names = names_at(history, reg_types, lsn, ordinal)
    style = replace(style, names=lambda reg_type, named: names.get((reg_type, named)))
    return ExpressionSession(major=max(history.major, ROW_FILTERS.first), style=style)


def _text(node_tree: str, relation: Relation, column: Column, session: ExpressionSession) -> str:
    try:
        return deparse(read_node_tree(node_tree), relation, session)
    except TailraceError as error:
        raise UsageError(
            f'the default of column "{column.name}" of relation OID {relation.oid} cannot be shown: {error.message}',
            hint="Leave include-default out.", sqlstate="0A000",
        ) from error  # fmt: skip
