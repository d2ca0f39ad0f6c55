"""A database of its own on a server that several tests use."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from support.servers import Server


@contextmanager
def own_database(server: Server) -> Iterator[Server]:
    """The server, whose sessions are in it within the block."""
    before, name = server.dbname, f"d{time.monotonic_ns()}"
    server.sql(f"CREATE DATABASE {name} STRATEGY file_copy")
    server.dbname = name
    yield server
    server.dbname = before


def servers_with_databases(settings: dict[str, str]) -> tuple[Any, Any]:
    """Fixtures, to be named `running` and `server`: a server of 18 for all tests of a module, and that server with a database of each test's own."""

    @pytest.fixture(scope="module")
    def running() -> Iterator[Server]:
        with Server(18, settings, test_decoding=False) as server:
            yield server

    @pytest.fixture
    def server(running: Server) -> Iterator[Server]:
        with own_database(running) as server:
            yield server

    return running, server
