"""Sessions of ours on the data directory of a live server, and what a server says of the same statements."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.servers import Server
from tailrace.errors import TailraceError
from tailrace.pipeline import LocalRunner
from tailrace.sql.postgres_session import PostgresSession
from tailrace.sql.query.duckdb_engine import DuckDbEngine
from tailrace.sql.source_database import SourceDatabase

Rows = list[tuple[str | None, ...]]


@dataclass(frozen=True, slots=True)
class Said:
    """An error, as a client has it."""

    sqlstate: str
    message: str
    detail: str
    hint: str
    context: str
    position: int | None


@contextmanager
def session_on(server: Server, state: Path, *, database: str = "") -> Iterator[PostgresSession]:
    with session_of(
        SourceDatabase(server.data_dir, database or server.dbname, state, lambda _: LocalRunner(), lambda _: None)
    ) as session:
        yield session


@contextmanager
def session_of(database: SourceDatabase) -> Iterator[PostgresSession]:
    session = PostgresSession(database, DuckDbEngine().run)
    try:
        yield session
    finally:
        session.close()


def ours(session: PostgresSession, text: str) -> Rows | Said:
    """The rows as texts, or the error; what was consumed is confirmed."""
    try:
        with session.execute(text) as result:
            columns = result.columns or []
            return list(zip(*(column.cells for column in columns), strict=True)) if columns else []
    except TailraceError as error:
        return Said(error.sqlstate, error.message, error.detail, error.hint, error.context, error.position)


def theirs(server: Server, text: str, *, dbname: str = "") -> Rows | Said:
    """The same of the server."""
    with server.connect(dbname) as connection:
        result = connection.pgconn.exec_(text.encode())
        fields = {key: (result.error_field(code) or b"").decode() for code, key in _FIELDS.items()}
        if fields["sqlstate"]:
            position = int(fields.pop("position") or 0) or None
            return Said(**fields, position=position)
        return [
            tuple(None if (cell := result.get_value(row, at)) is None else cell.decode() for at in range(result.nfields))
            for row in range(result.ntuples)
        ]


def our_columns(session: PostgresSession, text: str) -> list[tuple[str, int, int]]:
    """Of a result: names, oids of types, and their modifiers, as a RowDescription has them."""
    with session.execute(text) as result:
        return [(column.name, column.type, column.typmod) for column in result.columns or []]


def their_columns(server: Server, text: str) -> list[tuple[str, int, int]]:
    """The same of the server, which does not run it."""
    with server.connect() as connection:
        prepared = connection.pgconn.prepare(b"", text.encode())
        assert not prepared.error_message, prepared.error_message
        result = connection.pgconn.describe_prepared(b"")
        return [((result.fname(at) or b"").decode(), result.ftype(at), result.fmod(at)) for at in range(result.nfields)]


_FIELDS = {
    ord("C"): "sqlstate",
    ord("M"): "message",
    ord("D"): "detail",
    ord("H"): "hint",
    ord("W"): "context",
    ord("P"): "position",
}
