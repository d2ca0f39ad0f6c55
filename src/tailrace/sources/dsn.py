"""How a server is named: a connection string of libpq's, or its URI (manual, "Connection Strings")."""

from __future__ import annotations

import re
from pathlib import Path

from tailrace.client.conninfo import conninfo_of, parameters_of
from tailrace.errors import UsageError

_URI = re.compile(r"postgres(ql)?://")
_WORD = re.compile(r"\s*[a-z_]+\s*=")
_MEANT_FOR_ONE = re.compile(r"[A-Za-z]+://|\s*[A-Za-z_]+\s*=|[^/:]+:\d+$")
"""What names a server elsewhere, or in other letters."""

_SECRETS = frozenset({"password", "sslpassword"})


def without_password(dsn: str) -> str:
    """A SOURCE as it may be shown, or kept in a file: a connection string loses its passwords."""
    if not is_dsn(dsn):
        return dsn
    return conninfo_of("", **{name: value for name, value in parameters_of(dsn).items() if name not in _SECRETS})


def has_password(dsn: str) -> bool:
    """Whether a connection string has one."""
    return bool(_SECRETS & parameters_of(dsn).keys())


def is_dsn(text: str) -> bool:
    """Whether it names a server, and no file: a path with a `=` in it is one if it is there, or is written with a slash."""
    if _URI.match(text):
        return True
    return bool(_WORD.match(text)) and not Path(text).exists()


def existing_directory(source: str | Path) -> Path:
    """A SOURCE that is no server's. Raises UsageError for what is no directory, an empty name included."""
    if str(source) and Path(source).is_dir():
        return Path(source)
    is_meant_for_a_server = _MEANT_FOR_ONE.match(str(source)) is not None
    raise UsageError(
        f'source directory "{source}" does not exist',
        hint="A server is named by a connection string (host=… dbname=…), or by a URI (postgresql://…)."
        if is_meant_for_a_server
        else "",
    )
