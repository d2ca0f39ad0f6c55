"""A server, examined: all that is asked of it, in order, with what was found.

In: a connection string, and databases. Out: findings as they come. Nothing on the server is changed. What cannot be asked is a finding itself, and
ends only what depends on it.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

from tailrace.catalog.data_directory.control_file import read_control
from tailrace.client.conninfo import connect, libpq_words, parameters_of, used_by
from tailrace.client.doctor import copy_checks
from tailrace.client.doctor.checks import NAMED, answers, ask
from tailrace.client.doctor.cluster_checks import CLUSTER, PRIMARYS_OWN, ROLE, STANDBY, of_setting
from tailrace.client.doctor.column_types import unknown_types
from tailrace.client.doctor.database_checks import database_checks
from tailrace.client.doctor.findings import NOTE, OK, STOPS, WARNING, Finding, done_on_primary
from tailrace.client.managed_services import service_of
from tailrace.client.refusals import refused_by, remedy_of
from tailrace.client.replication_connection import APPLICATION_NAME, ReplicationConnection
from tailrace.client.running_transactions import is_standby, value_of
from tailrace.dataclass import dataclass
from tailrace.errors import PeerError, TailraceError, UnsupportedWal
from tailrace.majors import MAJORS, NEWEST, OLDEST
from tailrace.types.encodings.server_encodings import NAMES, SQL_ASCII, UNCONVERTED, codec_named
from tailrace.types.quoting import quote_identifier
from tailrace.wal.xlog import LOGICAL, WAL_LEVELS

_CONNECTION, _LOG = "connection", "replication connection"
_MAINTENANCE = ("postgres", "template1")
"""Databases that are tried where the connection string names none, and the role has none of its own name."""
_PATIENCE = "10"
_LONGEST_QUERY = "60s"
_CLOCKS_AGREE = 2.0
"""Seconds."""
_CONNECTABLE = "SELECT datname FROM pg_database WHERE datallowconn AND NOT datistemplate AND has_database_privilege(oid, 'CONNECT') ORDER BY 1"


@dataclass(slots=True)
class Examination:
    """`databases` are those to look at; else the one that `dsn` names, else all that one can connect to. `old_after` is from which age on a
    transaction is old, as an interval of SQL. `clock` tells the seconds since 1970 by this machine. What the publications `copied` publish is to be
    copied, all tables if they are none; None where nothing is. State: whether it is a standby, where what is written is to be written elsewhere."""

    dsn: str
    databases: list[str]
    old_after: str = "5 minutes"
    clock: Callable[[], float] = time.time
    copied: Sequence[str] | None = None
    _is_standby: bool = False

    def findings(self) -> Iterator[Finding]:
        """All of them. Where the connection is lost under way, that is the last."""
        import psycopg  # noqa: PLC0415 - only those who connect need it

        try:
            for found in self._of_server():
                yield done_on_primary(found) if self._is_standby else found
        except psycopg.OperationalError as error:
            yield Finding(_CONNECTION, STOPS, f"it was lost: {_first_line(libpq_words(error))}")

    def _of_server(self) -> Iterator[Finding]:
        connection, problem = self._any_connection()
        if problem is not None:
            yield problem
            yield from self._log_alone()
            return
        with connection:
            info = connection.info
            major = info.server_version // 10000
            version = info.parameter_status("server_version")
            yield Finding(_CONNECTION, OK, f"to database {quote_identifier(info.dbname)} as {quote_identifier(info.user)}")
            if major not in MAJORS:
                yield Finding("version", STOPS, f"it is PostgreSQL {version}; tailrace reads {OLDEST} to {NEWEST}")
                return
            yield Finding("version", OK, f"PostgreSQL {version}")
            yield from self._of_cluster(connection)
            yield self._clock(connection)
            wanted = self._databases(connection)
        for name in wanted:
            yield from self._of_database(name, major)

    # -- connections -----------------------------------------------------------------------------------------------------------

    def _connect(self, database: str = "") -> Any:
        """Text comes in UTF-8, or as bytes where the server does not convert it."""
        import psycopg  # noqa: PLC0415

        words = {"client_encoding": "SQL_ASCII", "fallback_application_name": APPLICATION_NAME}
        if database:
            words["dbname"] = database
        if "connect_timeout" not in parameters_of(self.dsn):
            words["connect_timeout"] = os.environ.get("PGCONNECT_TIMEOUT", _PATIENCE)
        connection = connect(self.dsn, **words)
        named = json.dumps(list(self.copied or ()))
        parameters = {
            "search_path": "pg_catalog", "statement_timeout": _LONGEST_QUERY, "tailrace.old_after": self.old_after, NAMED: named,
        }  # fmt: skip
        if connection.info.parameter_status("server_encoding") not in UNCONVERTED:
            parameters["client_encoding"] = "UTF8"
        try:
            for name, value in {**parameters, "tailrace.walsenders": "0"}.items():
                connection.execute("SELECT pg_catalog.set_config(%s, %s, false)", (name, value))
        except psycopg.Error:
            connection.close()
            raise
        return connection

    def _any_connection(self) -> tuple[Any, Finding | None]:
        """To the first database that lets us in, of those that may be meant; or what the first of them said."""
        import psycopg  # noqa: PLC0415

        problem: Finding | None = None
        for name in [*self.databases, *self._candidates()]:
            try:
                return self._connect(name), None
            except psycopg.OperationalError as error:
                problem = problem or self._refused(name, error)
        assert problem is not None
        return None, problem

    def _candidates(self) -> tuple[str, ...]:
        return ("",) if self._names_a_database() else ("", *_MAINTENANCE)

    def _names_a_database(self) -> bool:
        given = parameters_of(self.dsn)
        return "dbname" in given or "service" in given or "PGDATABASE" in os.environ or "PGSERVICE" in os.environ

    def _refused(self, database: str, error: Any, severity: str = STOPS) -> Finding:
        given = parameters_of(self.dsn)
        used = used_by(error.pgconn) if error.pgconn else {}
        is_named = bool(self.databases) or self._names_a_database()
        user = used.get("user") or str(given.get("user") or os.environ.get("PGUSER") or "…")
        name = database or str(given.get("dbname") or "*")
        remedy = remedy_of(str(error), user, name, sslmode=used.get("sslmode", ""), is_named=is_named)
        return Finding(_CONNECTION, severity, _first_line(libpq_words(error)), remedy, database)

    def _log_alone(self) -> Iterator[Finding]:
        """Whether the log would be sent, though SQL is refused."""
        try:
            with ReplicationConnection(self.dsn) as log:
                yield _log_sent(log)
        except PeerError as error:
            yield Finding(_LOG, STOPS, _said(error), error.hint)

    # -- the cluster -----------------------------------------------------------------------------------------------------------

    def _of_cluster(self, connection: Any) -> Iterator[Finding]:
        self._is_standby = is_standby(value_of(connection))
        yield from ask(connection, STANDBY)
        yield from ask(connection, ROLE)
        with ExitStack() as open_connections:
            try:
                log = open_connections.enter_context(ReplicationConnection(self.dsn))
                yield _log_sent(log)
                connection.execute("SELECT set_config('tailrace.walsenders', '1', false)")
            except PeerError as error:
                yield _log_refused(connection, error)
            if self._is_standby:
                yield self._of_primary(connection)
            else:
                for setting in PRIMARYS_OWN:
                    yield from ask(connection, of_setting(setting))
            for check in CLUSTER:
                yield from ask(connection, check)

    def _of_primary(self, connection: Any) -> Finding:
        """What a standby's pg_control says of its primary, if that may be read."""
        name = "the primary's wal_level"
        remedy = "SHOW wal_level;  -- on the primary, as full_page_writes"
        rows, problem = answers(connection, name, "SELECT encode(pg_read_binary_file('global/pg_control', 0, 8192, true), 'hex')")
        if problem is not None:
            return Finding(name, NOTE, f"{problem.told}; the standby's own says nothing of it", remedy)
        control = read_control(bytes.fromhex(rows[0][0]), "global/pg_control")
        if control.wal_level < LOGICAL:
            told = f"it is {WAL_LEVELS[control.wal_level]}: what is written below logical cannot be decoded"
            return Finding(name, STOPS, told, "ALTER SYSTEM SET wal_level = logical;  -- on the primary; then restart it")
        if not control.full_page_writes:
            told = "it is logical, but full_page_writes is off there: neither catalogs' files nor a base backup can be read here"
            return Finding(
                name, STOPS, told, "ALTER SYSTEM SET full_page_writes = on;  -- on the primary; then SELECT pg_reload_conf();"
            )
        return Finding(name, OK, "it is logical, and full_page_writes is on")

    def _clock(self, connection: Any) -> Finding:
        before = self.clock()
        ((theirs,),) = connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchall()
        after = self.clock()
        ahead, uncertain = theirs - (before + after) / 2, (after - before) / 2
        if abs(ahead) <= _CLOCKS_AGREE + uncertain:
            return Finding("clock", OK, f"the server's and this machine's agree to within {abs(ahead) + uncertain:.1f} s")
        off = f"{abs(ahead):.1f} s {'ahead of' if ahead > 0 else 'behind'}"
        told = f"the server's is {off} this machine's: times of commits and delays are off by that"
        return Finding("clock", WARNING, told, "timedatectl set-ntp true  # on the machine whose clock is wrong")

    def _databases(self, connection: Any) -> list[str]:
        """Those to look at."""
        if self.databases or self._names_a_database():
            return self.databases or [connection.info.dbname]
        rows, problem = answers(connection, "databases", _CONNECTABLE)
        return [connection.info.dbname] if problem is not None else [str(name) for (name,) in rows]

    # -- a database ------------------------------------------------------------------------------------------------------------

    def _of_database(self, name: str, major: int) -> Iterator[Finding]:
        import psycopg  # noqa: PLC0415

        try:
            connection = self._connect(name)
        except psycopg.OperationalError as error:
            yield self._refused(name, error, STOPS if self.databases else NOTE)
            return
        with connection:
            yield _encoding(connection.info.parameter_status("server_encoding") or "", name)
            for check in database_checks(major):
                yield from ask(connection, check, name)
            yield from unknown_types(connection, name)
            if self.copied is not None:
                for check in (copy_checks.PUBLICATIONS, copy_checks.ROWS, copy_checks.SNAPSHOTS, copy_checks.PAGES):
                    yield from ask(connection, check, name)


def _encoding(encoding: str, database: str) -> Finding:
    try:
        codec_named({name: number for number, name in NAMES.items()}.get(encoding, -1))
    except UnsupportedWal as error:
        return Finding("encoding", STOPS, f"{error.message}: text of the database cannot be decoded", "", database)
    if encoding == NAMES[SQL_ASCII]:
        told = "it is SQL_ASCII: nobody knows what bytes of text mean, and those that are no UTF-8 end decoding"
        return Finding(
            "encoding", NOTE, told, "SET client_encoding = SQL_ASCII;  -- in tailrace sql, or of tailrace serve", database
        )
    return Finding("encoding", OK, f"it is {encoding}", "", database)


def _log_sent(log: ReplicationConnection) -> Finding:
    identity = log.identify()
    return Finding(_LOG, OK, f"to system {identity.system}, timeline {identity.timeline}")


def _log_refused(connection: Any, error: PeerError) -> Finding:
    """Why no log is sent. A managed service says so in words that differ from one to the next, and the same service asked over SQL is the reason."""
    service = service_of(connection)
    if service is not None:
        error = refused_by(service, error.message)
    return Finding(_LOG, STOPS, _said(error), error.hint)


def _said(error: TailraceError) -> str:
    """An error on one line."""
    first = _first_line(error.message)
    return f"{first}. {error.detail}" if error.detail else first


def _first_line(said: str) -> str:
    return said.strip().splitlines()[0].rpartition("FATAL:  ")[2]
