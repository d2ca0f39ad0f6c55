"""Functions that SQL has a syntax of its own for: EXTRACT, SUBSTRING, AT TIME ZONE and others (`adt/ruleutils.c`, get_func_sql_syntax).

In: a call that was written so. Out: the same syntax.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from tailrace.expressions import tree
from tailrace.types import oids


class SyntaxWriter(Protocol):
    """Who writes what is inside."""

    def text(self, node: Any, *, implicit: bool = False) -> str: ...


def _word(node: Any) -> str:
    """A word that the grammar made a constant of."""
    assert isinstance(node, tree.Const)
    assert node.value is not None
    return node.value.decode()


def _time_zone(writer: SyntaxWriter, node: tree.FuncExpr) -> str:
    if len(node.args) == 1:
        return f"({writer.text(node.args[0])} AT LOCAL)"
    return f"({writer.text(node.args[1])} AT TIME ZONE {writer.text(node.args[0])})"


def _overlaps(writer: SyntaxWriter, node: tree.FuncExpr) -> str:
    one, two, three, four = map(writer.text, node.args)
    return f"(({one}, {two}) OVERLAPS ({three}, {four}))"


def _extract(writer: SyntaxWriter, node: tree.FuncExpr) -> str:
    return f"EXTRACT({_word(node.args[0])} FROM {writer.text(node.args[1])})"


def _is_normalized(writer: SyntaxWriter, node: tree.FuncExpr) -> str:
    form = f" {_word(node.args[1])}" if len(node.args) == 2 else ""
    return f"({writer.text(node.args[0])} IS{form} NORMALIZED)"


def _normalize(writer: SyntaxWriter, node: tree.FuncExpr) -> str:
    form = f", {_word(node.args[1])}" if len(node.args) == 2 else ""
    return f"NORMALIZE({writer.text(node.args[0])}{form})"


def _overlay(writer: SyntaxWriter, node: tree.FuncExpr) -> str:
    text, new, start, *length = map(writer.text, node.args)
    tail = f" FOR {length[0]}" if length else ""
    return f"OVERLAY({text} PLACING {new} FROM {start}{tail})"


def _position(writer: SyntaxWriter, node: tree.FuncExpr) -> str:
    return f"POSITION(({writer.text(node.args[1])}) IN ({writer.text(node.args[0])}))"


def _substring(writer: SyntaxWriter, node: tree.FuncExpr) -> str:
    text, start, *length = map(writer.text, node.args)
    if length and isinstance(node.args[1], tree.Expression) and node.args[1].type == oids.TEXT:
        return f"SUBSTRING({text} SIMILAR {start} ESCAPE {length[0]})"
    tail = f" FOR {length[0]}" if length else ""
    return f"SUBSTRING({text} FROM {start}{tail})"


def _trim(side: str) -> Callable[[SyntaxWriter, tree.FuncExpr], str]:
    def write(writer: SyntaxWriter, node: tree.FuncExpr) -> str:
        what = f" {writer.text(node.args[1])}" if len(node.args) == 2 else ""
        return f"TRIM({side}{what} FROM {writer.text(node.args[0])})"

    return write


def _xml_exists(writer: SyntaxWriter, node: tree.FuncExpr) -> str:
    return f"XMLEXISTS(({writer.text(node.args[0])}) PASSING ({writer.text(node.args[1])}))"


def _collation_for(writer: SyntaxWriter, node: tree.FuncExpr) -> str:
    return f"COLLATION FOR ({writer.text(node.args[0])})"


SYNTAX: dict[str, Callable[[Any, tree.FuncExpr], str]] = {
    "timezone": _time_zone, "overlaps": _overlaps, "extract": _extract, "is_normalized": _is_normalized, "normalize": _normalize,
    "overlay": _overlay, "position": _position, "substring": _substring, "btrim": _trim("BOTH"), "ltrim": _trim("LEADING"),
    "rtrim": _trim("TRAILING"), "xmlexists": _xml_exists, "pg_collation_for": _collation_for,
}  # fmt: skip
"""By the name of the function, of calls whose form is COERCE_SQL_SYNTAX."""
WITHOUT_SYNTAX = frozenset({("substring", (oids.TEXT, oids.TEXT))})
"""Arguments of those among them that are written as calls all the same: substring(text FROM pattern)."""
