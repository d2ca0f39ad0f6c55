"""A COPY's messages are read many at a time, whatever stands between, and a session is idle again after it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from support.servers import Server
from support.tls import with_tls
from tailrace.client.copy_out import CopyOut
from tailrace.errors import PeerError
from tailrace.wire.binary_copy import MESSAGE, CopiedFields, header_size

pytestmark = pytest.mark.postgres
COUNT = 60_000


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(18) as server:
        server.say(
            "CREATE TABLE t (id bigint, v text)",
            f"INSERT INTO t SELECT n, repeat('x', (n % 50)::int) FROM generate_series(1, {COUNT}) n",
        )
        yield server


@pytest.fixture(params=["plain", "TLS"])
def session(server: Server, request: pytest.FixtureRequest) -> Iterator[Any]:
    dsn = with_tls(server) if request.param == "TLS" else server.dsn() + " sslmode=disable"
    with psycopg.connect(dsn, autocommit=True) as session:
        assert bool(session.pgconn.ssl_in_use) is (request.param == "TLS")
        yield session


def _rows(session: Any, query: str, columns: int = 2) -> list[tuple[bytes, ...]]:
    copy = CopyOut(session, f"COPY ({query}) TO STDOUT (FORMAT binary)")
    rows = _rest(copy, columns)
    assert copy.is_over
    return rows


def _rest(copy: CopyOut, columns: int = 2) -> list[tuple[bytes, ...]]:
    rows, header = [], -1
    while (data := copy.read()) is not None:
        header = header_size(data[MESSAGE:64].tobytes()) if header < 0 else 0
        found = CopiedFields.of(data, columns, header=header)
        rows += list(zip(*(found.texts(column)[1].to_bytes() for column in range(columns)), strict=True))
        copy.use(found.used)
    return rows


def test_all_rows_in_their_order(session: Any) -> None:
    rows = _rows(session, "SELECT id, v FROM t ORDER BY id")
    assert [int.from_bytes(number, "big") for number, _ in rows] == list(range(1, COUNT + 1))
    assert [len(text) for _, text in rows] == [number % 50 for number in range(1, COUNT + 1)]
    assert session.execute("SELECT 1").fetchone() == (1,)
    assert _rows(session, "SELECT id, v FROM t WHERE false") == []


def test_a_row_that_is_larger_than_what_is_read_at_once(session: Any) -> None:
    size = 9 << 20
    rows = _rows(session, f"SELECT n, repeat('y', {size}) FROM generate_series(1::bigint, 3) n UNION ALL SELECT 4, 'z'")
    assert [len(text) for _, text in rows] == [size, size, size, 1]
    assert session.execute("SELECT 1").fetchone() == (1,)


def test_what_a_server_refuses(session: Any) -> None:
    """Before the first row, and behind many; the session goes on."""
    for query, message in (
        ("SELECT 1 FROM nowhere", "does not exist"),
        (f"SELECT 1 / ({COUNT} - id), v FROM t", "division by zero"),
    ):
        with pytest.raises((PeerError, psycopg.Error), match=message):
            _rows(session, query)
        assert session.execute("SELECT 1").fetchone() == (1,)


def test_a_server_that_goes_away(server: Server) -> None:
    with psycopg.connect(server.dsn() + " sslmode=disable", autocommit=True) as session:
        copy = CopyOut(session, "COPY (SELECT id, v FROM t, generate_series(1, 100)) TO STDOUT (FORMAT binary)")
        assert copy.read() is not None
        server.sql("SELECT pg_terminate_backend(%s)", (session.info.backend_pid,))
        with pytest.raises(PeerError) as told:
            _rest(copy)
        assert told.value.sqlstate in ("57P01", "08006")
        assert not copy.is_over
