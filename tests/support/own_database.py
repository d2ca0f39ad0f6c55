"""A database of its own on a server that several tests use."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from support.servers import Server


@contextmanager
def own_database(server: Server) -> Iterator[Server]:
    """The server, whose sessions are in it within the block."""
    before, name = server.dbname, f"d{time.monotonic_ns()}"
    server.sql(f"CREATE DATABASE {name} STRATEGY file_copy")
    server.dbname = name
    yield server
    server.dbname = before
