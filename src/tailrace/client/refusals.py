"""Why a server lets somebody not in, and the line or statement there that would.

In: what libpq said when it could not connect. Out: a remedy, as a line of pg_hba.conf or a statement that can be copied. What is said in another
language than English has none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tailrace.client.managed_services import ManagedService, service_of
from tailrace.dataclass import dataclass
from tailrace.errors import PeerError
from tailrace.types.quoting import quote_identifier

REPLICATION = "replication"
"""What a replication connection has for its database, in pg_hba.conf and .pgpass."""
_NOT_CONNECTED, _NOT_SUPPORTED = "08001", "0A000"
_PLAIN_WORD = re.compile(r"[A-Za-z0-9_.$-]+")
_KEYWORDS = frozenset({"all", "replication", "sameuser", "samerole", "samegroup"})
_LOCAL = "[local]"
_PATIENCE = 10
"""Seconds in which a server that refuses one connection must accept another, to be asked what it is."""


def hba_line(database: str, user: str, address: str) -> str:
    """The line of pg_hba.conf that lets the role in from there; from a socket of the server's own machine, if there is no address."""
    name = database if database == REPLICATION else _hba_word(database)
    if not address:
        return f"local  {name}  {_hba_word(user)}  scram-sha-256"
    return f"host  {name}  {_hba_word(user)}  {address}/{128 if ':' in address else 32}  scram-sha-256"


def _hba_word(name: str) -> str:
    return name if _PLAIN_WORD.fullmatch(name) and name not in _KEYWORDS else f'"{name}"'


def _no_entry(found: re.Match[str]) -> str:
    return f"{_line_of(found)}  # in pg_hba.conf; then SELECT pg_reload_conf();"


def _rejected(found: re.Match[str]) -> str:
    return f"{_line_of(found)}  # in pg_hba.conf, above the line that rejects it; then SELECT pg_reload_conf();"


def _line_of(found: re.Match[str]) -> str:
    address = "" if found["host"] == _LOCAL else found["host"]
    return hba_line(found["database"] or REPLICATION, found["user"], address)


@dataclass(frozen=True, slots=True)
class _Refusal:
    """`is_of_the_log`: a managed service says it to whoever asks for its log."""

    said: re.Pattern[str]
    remedy: Callable[[re.Match[str]], str]
    is_of_the_log: bool = False


def _refusal(said: str, remedy: str | Callable[[re.Match[str]], str], *, of_the_log: bool = False) -> _Refusal:
    return _Refusal(re.compile(said), remedy if callable(remedy) else lambda _: remedy, of_the_log)


_WHOM = r'host "(?P<host>[^"]*)", user "(?P<user>[^"]*)"(?:, database "(?P<database>[^"]*)")?'
_REFUSALS = (
    _refusal(rf"no pg_hba\.conf entry for (?:replication connection from )?{_WHOM}", _no_entry, of_the_log=True),
    _refusal(rf"pg_hba\.conf rejects (?:replication )?connection for {_WHOM}", _rejected, of_the_log=True),
    _refusal(
        "permission denied to start WAL sender|must be superuser or replication role to start walsender",
        "ALTER ROLE {role} REPLICATION;", of_the_log=True,
    ),
    _refusal("requested standby connections exceeds", "ALTER SYSTEM SET max_wal_senders = 10;  -- or more than now; then restart the server"),
    _refusal(
        "no password supplied", "*:*:{database}:{user}:PASSWORD  # in ~/.pgpass, which nobody else may read (chmod 600)"
    ),
    _refusal("password authentication failed", "ALTER ROLE {role} PASSWORD '…';  -- or the right one in ~/.pgpass or PGPASSWORD"),
    _refusal(r'role ".*" does not exist', "CREATE ROLE {role} LOGIN REPLICATION PASSWORD '…';"),
    _refusal(r'role ".*" is not permitted to log in', "ALTER ROLE {role} LOGIN;"),
    _refusal(
        r'permission denied for database "(?P<database>.*)"',
        lambda found: f"GRANT CONNECT ON DATABASE {quote_identifier(found['database'])} TO {{role}};",
    ),
    _refusal(
        "Connection refused",
        "listen_addresses = '*'  # in postgresql.conf, if the server runs and listens on its own machine alone; then restart it",
    ),
)  # fmt: skip


def remedy_of(said: str, user: str, database: str) -> str:
    """What lets `user` in; empty if nothing of it is known."""
    found = next(((each, match) for each in _REFUSALS if (match := each.said.search(said))), None)
    if found is None:
        return ""
    refusal, match = found
    words = {"{role}": quote_identifier(user), "{user}": user, "{database}": database}
    return re.sub("|".join(map(re.escape, words)), lambda word: words[word[0]], refusal.remedy(match))


def refused(dsn: str, said: str, user: str) -> PeerError:
    """The error for a replication connection that was not made. Where a managed service may have refused it, the server is asked over SQL whether it
    is one's, and whose; then trying again is of no use, and its SQLSTATE says so."""
    if any(each.is_of_the_log and each.said.search(said) for each in _REFUSALS):
        with _over_sql(dsn) as connection:
            service = None if connection is None else service_of(connection)
        if service is not None:
            return refused_by(service, said)
    return PeerError(said, hint=remedy_of(said, user, REPLICATION), sqlstate=_NOT_CONNECTED)


def refused_by(service: ManagedService, said: str) -> PeerError:
    """The error for a replication connection to a server of that service."""
    return PeerError(said, detail=service.reason, hint=service.instead, sqlstate=_NOT_SUPPORTED)


@contextmanager
def _over_sql(dsn: str) -> Iterator[Any]:
    """A connection to the same server; None if that refuses it, too."""
    import psycopg  # noqa: PLC0415

    try:
        connection = psycopg.connect(dsn, autocommit=True, connect_timeout=_PATIENCE, fallback_application_name="tailrace")
    except psycopg.Error:
        yield None
        return
    with connection:
        yield connection


_AWAY = re.compile(
    "Connection refused|accepting connections on that socket|timeout expired|could not translate host name|Name or service not known|"
    "Temporary failure in name resolution|server closed the connection|[Nn]o route to host|[Nn]etwork is unreachable|Connection reset|"
    "Connection timed out|hot standby mode|session is (?:not )?read-only|the database system is|terminating connection|too many clients|"
    "remaining connection slots"
)


def is_away(said: str) -> bool:
    """Whether the server could not be reached, or takes nobody just now: that may be over in a moment. Else it was reached and refuses us, or what we
    connect with is wrong."""
    return _AWAY.search(said) is not None
