"""Connection strings as libpq reads them, and what it says of them; and psycopg's door, with its errors as ours.

In: a connection string or URI as somebody typed it. Out: its parameters, another string with more of them, or a connection. What libpq does not
understand is the fault of who typed it, and is said before anything is connected to.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tailrace.client.libpq import libpq
from tailrace.errors import UsageError

_SYNTAX_ERROR = "42601"
_HINT = (
    'See "Connection Strings" in PostgreSQL\'s manual for the form, and for the parameters: host, port, dbname, user, sslmode, ….'
)
_FILES = frozenset({"service", "servicefile", "passfile"})
"""Parameters of libpq that name files of this machine, of which a connection has what they say."""
_SPACE = re.compile(r"\s")
_PREFIX = re.compile(r"(?:^|(?<=: ))connection (?:failed|is bad): ")


def parameters_of(dsn: str) -> dict[str, str]:
    """What the string says, by libpq's keywords; nothing of what libpq finds beside it. Raises UsageError."""
    library = libpq()
    try:
        options = library.conninfo.parse(dsn.encode())
    except library.errors as error:
        raise _not_understood(error) from error
    return {each.keyword.decode(): each.val.decode("utf-8", "replace") for each in options if each.val is not None}


def conninfo_of(dsn: str, **parameters: Any) -> str:
    """The string with these parameters, in place of its own of the same name. Raises UsageError."""
    given = parameters_of(dsn) | {name: str(value) for name, value in parameters.items() if value is not None}
    words = " ".join(f"{name}={_quoted(value)}" for name, value in given.items())
    parameters_of(words)
    return words


def words_of(session: Any) -> str:
    """What leads to the server that the session is connected to, with all that it was connected by: of several that its string named it is that one,
    and environment, service file and password file are not needed."""
    used, password = used_by(session.pgconn), (session.pgconn.password or b"").decode()
    words = {name: value for name, value in used.items() if name not in _FILES} | ({"password": password} if password else {})
    return conninfo_of("", **words)


def connect(dsn: str, **parameters: Any) -> Any:
    """A connection of psycopg's in autocommit, with these parameters beside the string. Raises UsageError, or psycopg's OperationalError."""
    import psycopg  # noqa: PLC0415 - only those who connect by it need it

    words = conninfo_of(dsn, **parameters)
    with _understood():
        return psycopg.connect(words, autocommit=True)


def used_by(raw: Any) -> dict[str, str]:
    """What libpq went by on this connection (a PGconn), or before it failed: the string, the service file, the environment and its own defaults."""
    return {each.keyword.decode(): each.val.decode("utf-8", "replace") for each in raw.info if each.val}


def libpq_words(error: Exception) -> str:
    """What libpq said, without what psycopg sets before it: `connection failed: connection to server at … failed: …` says it twice."""
    return _PREFIX.sub("", str(error).strip())


@contextmanager
def _understood() -> Iterator[None]:
    from psycopg import ProgrammingError  # noqa: PLC0415

    try:
        yield
    except ProgrammingError as error:
        raise _not_understood(error) from error


def _not_understood(error: Exception) -> UsageError:
    return UsageError(libpq_words(error), hint=_HINT, sqlstate=_SYNTAX_ERROR)


def _quoted(value: str) -> str:
    """As `key=value` strings have it (manual, "Keyword/Value Connection Strings")."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return escaped if escaped and not _SPACE.search(escaped) else f"'{escaped}'"
