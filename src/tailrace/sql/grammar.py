"""PostgreSQL's own grammar (libpg_query by pglast), and what is asked of any node.

In: the text of a statement. Out: its tree, which is pglast's; `ast` are its classes, without the types that pglast gives to their fields: what a
parsed tree always has is optional there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pglast.ast
from pglast.parser import ParseError, parse_sql, scan

from tailrace.errors import UsageError

ast: Any = pglast.ast

_DEEPEST = 10_000
"""Levels of a tree that pglast builds on a stack of eight megabytes, which ends the process where it overflows; with room to spare."""
_IN_LISTS = frozenset({"ASCII_40", "ASCII_41", "ASCII_44", "ICONST", "FCONST", "SCONST", "PARAM", "NULL_P"})
"""Tokens that make a text long and its tree no deeper: parentheses, of which the grammar itself takes no more, commas, constants."""


def parsed(text: str) -> Any:
    """The one statement that a text is. Raises UsageError (42601) with the position of what is wrong."""
    statements = _raw_statements(text)
    if len(statements) != 1:
        raise UsageError("one statement at a time", sqlstate="42601")
    return statements[0].stmt


def statements_of(text: str) -> list[tuple[Any, str]]:
    """All statements of a text, each with its own text. Raises UsageError as `parsed` does, before any of them."""
    raw, found = text.encode("utf-8", "surrogateescape"), []
    for each in _raw_statements(text):
        start, length = each.stmt_location or 0, each.stmt_len or len(raw)
        found.append((each.stmt, raw[start : start + length].decode("utf-8", "surrogateescape").strip()))
    return found


def _check_depth(text: str) -> None:
    """Raise UsageError (54001) where the tree could be too deep: every level takes two characters, and a token."""
    if len(text) > 2 * _DEEPEST and sum(token.name not in _IN_LISTS for token in scan(text)) > _DEEPEST:
        raise UsageError("stack depth limit exceeded", hint="The statement is too long, or nested too deeply.", sqlstate="54001")


def _raw_statements(text: str) -> Any:
    try:
        _check_depth(text)
        return parse_sql(text)
    except ParseError as error:
        at = error.args[1] if len(error.args) > 1 else None
        position = len(text) + 1 if at is None else int(at) + 1
        raise UsageError(str(error.args[0]), sqlstate="42601").in_text(position) from None


def name_of(node: Any) -> tuple[str, str]:
    """A called function's schema, empty if none is named, and name."""
    names = [part.sval for part in node.funcname]
    return (names[-2] if len(names) > 1 else ""), names[-1]


def children(node: Any) -> Iterator[Any]:
    """The nodes directly below."""
    if isinstance(node, tuple | list):
        yield from node
    elif isinstance(node, ast.Node):
        for name in node:
            yield getattr(node, name)
