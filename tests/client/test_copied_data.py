"""What a kernel takes out of libpq is what psycopg hands over, message by message."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import psycopg
import pytest

from support.servers import Server
from tailrace.client import copied_data as module
from tailrace.client.copied_data import copied_data
from tailrace.errors import PeerError
from tailrace.wire.binary_copy import columns_of

pytestmark = pytest.mark.postgres
_COPY = "COPY ({}) TO STDOUT (FORMAT binary)"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(18, test_decoding=False) as running:
        yield running


@pytest.fixture
def session(server: Server) -> Iterator[Any]:
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        yield connection


@pytest.fixture(params=["kernel", "messages"])
def used(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "messages":
        monkeypatch.setattr(module, "_addresses", lambda: None)
    else:
        assert module._addresses() is not None
    return str(request.param)


def _values(session: Any, query: str, columns: int) -> list[list[bytes]]:
    found: list[list[bytes]] = [[] for _ in range(columns)]
    for data in copied_data(session, _COPY.format(query)):
        for values, (_, texts) in zip(found, columns_of(data, columns), strict=True):
            values += [bytes(texts.data[start:end]) for start, end in zip(texts.offsets, texts.offsets[1:], strict=False)]
    return found


@pytest.mark.parametrize("bytes_at_once", [1 << 20, 100, 1])
def test_rows(session: Any, used: str, monkeypatch: pytest.MonkeyPatch, bytes_at_once: int) -> None:
    """Whole ones, however large they are, in arrays of whatever size."""
    monkeypatch.setattr(module, "_BYTES", bytes_at_once)
    numbers, texts = _values(session, "SELECT n, repeat('x', n % 300) FROM generate_series(1, 1000) n", 2)
    assert [int(np.frombuffer(each, ">i4")[0]) for each in numbers] == list(range(1, 1001))
    assert texts == [b"x" * (n % 300) for n in range(1, 1001)]
    assert session.execute("SELECT 1").fetchone() == (1,)


def test_no_rows(session: Any, used: str) -> None:
    assert _values(session, "SELECT 1 WHERE false", 1) == [[]]


def test_what_the_server_refuses(session: Any, used: str) -> None:
    """Before the first row, and behind some; the session goes on."""
    with pytest.raises(psycopg.errors.UndefinedTable):
        list(copied_data(session, _COPY.format("SELECT * FROM nothing")))
    with pytest.raises(psycopg.errors.DivisionByZero):
        list(copied_data(session, _COPY.format("SELECT 1 / (5000 - n) FROM generate_series(1, 10000) n")))
    with pytest.raises(psycopg.errors.SyntaxError):
        list(copied_data(session, "COPY nonsense"))
    assert session.execute("SELECT 1").fetchone() == (1,)


def test_what_is_no_binary_copy(session: Any, used: str) -> None:
    with pytest.raises(PeerError, match="COPY file signature not recognized"):
        list(copied_data(session, "COPY (SELECT 'some text that is longer than a header') TO STDOUT"))
    session.close()
