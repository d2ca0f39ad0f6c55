"""Questions to a server, each with what its answers mean: a table of them, and what asks one.

A check is a query. Its rows are what there is to say: severity, what was found, and the remedy, in words that the server has put together, so that
names are quoted as it quotes them. No rows mean that all is well. A query that the role may not ask says which right it lacks, and hinders no other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tailrace.client.doctor.findings import OK, WARNING, Finding
from tailrace.dataclass import dataclass
from tailrace.types.quoting import quote_identifier

NAMED = "tailrace.publications"
"""The parameter of our sessions that has the names of the publications that are meant, as a JSON array; empty where all tables are."""
_FORBIDDEN = "42501"
_OBJECT = re.compile(r"permission denied for (table|view|function) (\S+)")
_GRANTS = {"table": "SELECT ON", "view": "SELECT ON", "function": "EXECUTE ON FUNCTION"}


@dataclass(frozen=True, slots=True)
class Check:
    """`fine` is said where the query has no rows."""

    name: str
    query: str
    fine: str


def ask(connection: Any, check: Check, database: str = "") -> Iterator[Finding]:
    """What a check finds. Raises psycopg's errors where the connection is lost."""
    rows, problem = answers(connection, check.name, check.query, database=database)
    if problem is not None:
        yield problem
        return
    if not rows:
        yield Finding(check.name, OK, check.fine, "", database)
    for severity, told, remedy in rows:
        yield Finding(check.name, severity, told, remedy or "", database)


def answers(
    connection: Any, name: str, query: str, parameters: tuple[Any, ...] = (), *, database: str = ""
) -> tuple[list[tuple[Any, ...]], Finding | None]:
    """The rows of a query, or what is to be said of one that the server refused."""
    import psycopg  # noqa: PLC0415 - only those who connect need it

    try:
        rows = connection.execute(query, parameters or None).fetchall()
    except psycopg.Error as error:
        if connection.closed:
            raise
        told = error.diag.message_primary or str(error)
        return [], Finding(name, WARNING, f"could not be checked: {told}", _grant(error, connection.info.user), database)
    return [tuple(map(_text, row)) for row in rows], None


def _text(value: Any) -> Any:
    """Of a database in SQL_ASCII, whose bytes may mean anything, text comes as bytes."""
    if isinstance(value, list):
        return [_text(each) for each in value]
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value


def _grant(error: Any, role: str) -> str:
    """The right that is missing, where the server names what it is about."""
    found = _OBJECT.match(error.diag.message_primary or "") if error.sqlstate == _FORBIDDEN else None
    return f"GRANT {_GRANTS[found[1]]} {found[2]} TO {quote_identifier(role)};" if found else ""
