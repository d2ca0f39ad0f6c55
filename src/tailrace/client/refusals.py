"""Why a server lets somebody not in, and the line or statement there that would.

In: what libpq said when it could not connect. Out: a remedy, as a line of pg_hba.conf, a parameter of the connection string, or a statement that
can be copied. What is said in another language than English has none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tailrace.client.conninfo import connect
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
_ADDRESS = re.compile(r"[0-9.]+|[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*")
_PATIENCE = 10
"""Seconds in which a server that refuses one connection must accept another, to be asked what it is."""


_PLAIN, _NEVER_ENCRYPTED = "no encryption", "disable"
_ENCRYPTED = "SSL encryption"
_ENCRYPT = (
    "sslmode=require  # in the connection string: a hostssl line of pg_hba.conf may let in who connects encrypted, so ask for that before plain text "
    "is let in"
)
_TRUST = (
    "sslrootcert=FILE  # in the connection string: the certificate of the authority that signed the server's, or sslrootcert=system; "
    "sslmode=require encrypts, but checks no certificate"
)
_OF_A_DATABASE = 'database "'
_NAME_IT = "name the database: dbname=… in the connection string, or --database …"


def hba_line(database: str, user: str, address: str, *, is_encrypted: bool = False) -> str:
    """The line of pg_hba.conf that lets the role in from there; from a socket of the server's own machine, if there is no address."""
    name = database if database == REPLICATION else _hba_word(database)
    if not address:
        return f"local  {name}  {_hba_word(user)}  scram-sha-256"
    return f"{'hostssl' if is_encrypted else 'host'}  {name}  {_hba_word(user)}  {address}/{128 if ':' in address else 32}  scram-sha-256"


def _hba_word(name: str) -> str:
    return name if _PLAIN_WORD.fullmatch(name) and name not in _KEYWORDS else f'"{name}"'


def _no_entry(found: re.Match[str]) -> str:
    return _let_in(found, "in pg_hba.conf")


def _rejected(found: re.Match[str]) -> str:
    return _let_in(found, "in pg_hba.conf, above the line that rejects it")


def _let_in(found: re.Match[str], where: str) -> str:
    """pg_hba.conf is looked at before the database is: of one that is not there the server says the same."""
    address, database = "" if found["host"] == _LOCAL else found["host"], found["database"]
    line = hba_line(database or REPLICATION, found["user"], address, is_encrypted=found["how"] == _ENCRYPTED)
    doubt = (
        f" and check the name {database} as well: the server does not tell whether there is such a database" if database else ""
    )
    return f"{line}  # {where}; then SELECT pg_reload_conf();{doubt}"


def _other_name(found: re.Match[str]) -> str:
    address = f" hostaddr={found['asked']}" if _ADDRESS.fullmatch(found["asked"]) else ""
    named = found["named"]
    host = "…" if "*" in named else named
    return (
        f"host={host}{address}  # in the connection string: the name must be one that the certificate is for ({named}); or "
        "sslmode=verify-ca, which checks by sslrootcert who signed it, and no name"
    )


def _no_service(found: re.Match[str]) -> str:
    return f"[{found['service']}]  # with host=…, dbname=…, user=… on lines below it, in ~/.pg_service.conf or the file that PGSERVICEFILE names"


@dataclass(frozen=True, slots=True)
class _Refusal:
    """`is_of_the_log`: a managed service says it to whoever asks for its log."""

    said: re.Pattern[str]
    remedy: Callable[[re.Match[str]], str]
    is_of_the_log: bool = False


def _refusal(said: str, remedy: str | Callable[[re.Match[str]], str], *, of_the_log: bool = False) -> _Refusal:
    return _Refusal(re.compile(said), remedy if callable(remedy) else lambda _: remedy, of_the_log)


_WHOM = r'host "(?P<host>[^"]*)", user "(?P<user>[^"]*)"(?:, database "(?P<database>[^"]*)")?(?:, (?P<how>[^,\n]*))?'
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
    _refusal(r'server certificate for "(?P<named>[^"]*)".* does not match host name "(?P<asked>[^"]*)"', _other_name),
    _refusal('root certificate file ".*" does not exist|certificate verify failed', _TRUST),
    _refusal(
        "server does not support SSL, but SSL was required",
        "ssl = on  # in postgresql.conf, with ssl_cert_file and ssl_key_file; then SELECT pg_reload_conf(); or sslmode=prefer, if plain text will do",
    ),
    _refusal('definition of service "(?P<service>.*)" not found', _no_service),
)  # fmt: skip


def remedy_of(said: str, user: str, database: str, *, sslmode: str = "", is_named: bool = True) -> str:
    """What lets `user` in; empty if nothing of it is known. `sslmode` is what libpq went by. Where nobody has named a database, `is_named` is false:
    the server speaks of one then that nobody meant."""
    found = next(((each, match) for each in _REFUSALS if (match := each.said.search(said))), None)
    encrypt = _ENCRYPT if sslmode == _NEVER_ENCRYPTED and _PLAIN in said and _LOCAL not in said else ""
    if not is_named and _OF_A_DATABASE in said:
        return "; then ".join(filter(None, (_NAME_IT, encrypt)))
    if encrypt or found is None:
        return encrypt
    refusal, match = found
    words = {"{role}": quote_identifier(user), "{user}": user, "{database}": database}
    return re.sub("|".join(map(re.escape, words)), lambda word: words[word[0]], refusal.remedy(match))


def refused(dsn: str, said: str, used: Mapping[str, str]) -> PeerError:
    """The error for a replication connection that was not made, with what libpq went by. Where a managed service may have refused it, the server is
    asked over SQL whether it is one's, and whose; then trying again is of no use, and its SQLSTATE says so."""
    if any(each.is_of_the_log and each.said.search(said) for each in _REFUSALS):
        with _over_sql(dsn) as connection:
            service = None if connection is None else service_of(connection)
        if service is not None:
            return refused_by(service, said)
    remedy = remedy_of(said, used.get("user", ""), REPLICATION, sslmode=used.get("sslmode", ""))
    return PeerError(said, hint=remedy, sqlstate=_NOT_CONNECTED)


def refused_by(service: ManagedService, said: str) -> PeerError:
    """The error for a replication connection to a server of that service."""
    return PeerError(said, detail=service.reason, hint=service.instead, sqlstate=_NOT_SUPPORTED)


@contextmanager
def _over_sql(dsn: str) -> Iterator[Any]:
    """A connection to the same server; None if that refuses it, too."""
    import psycopg  # noqa: PLC0415

    try:
        connection = connect(dsn, connect_timeout=_PATIENCE, fallback_application_name="tailrace")
    except psycopg.Error:
        yield None
        return
    with connection:
        yield connection


_AWAY = re.compile(
    "Connection refused|accepting connections on that socket|timeout expired|could not translate host name|Name or service not known|"
    "Temporary failure in name resolution|server closed the connection|[Nn]o route to host|[Nn]etwork is unreachable|Connection reset|"
    "Connection timed out|hot standby mode|session is (?:not )?read-only|the database system is|terminating connection|too many clients|"
    "remaining connection slots|conflict with recovery"
)

_ATTEMPT = re.compile(r"connection to server (?:at|on socket) ")


def is_away(said: str) -> bool:
    """Whether the server could not be reached, or takes nobody just now, or a standby had no time for us: that may be over in a moment. Else it was
    reached and refuses us, or what we connect with is wrong. Of several addresses (`localhost` has two) one that refuses us is enough."""
    attempts = _ATTEMPT.split(said)[1:] or [said]
    return all(_AWAY.search(each) for each in attempts)


_NO_SUCH_ADDRESS = re.compile(
    "Name or service not known|nodename nor servname provided|No address associated|could not parse network address"
)


def is_nowhere(said: str) -> bool:
    """Whether there is no such host as the connection string names, nor another that it names beside it. Of one that is just getting its name, as
    in a cluster that starts, the same is said."""
    lines = [line for line in said.splitlines() if line.strip()]
    return bool(lines) and all(_NO_SUCH_ADDRESS.search(line) for line in lines)
