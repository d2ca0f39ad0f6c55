"""A database in SQL_ASCII whose text is no UTF-8, read by SQL: refused as the server refuses it, and not consumed."""

from __future__ import annotations

from pathlib import Path

import pytest

from sql.places import Said, ours, session_on
from support.servers import Server

pytestmark = pytest.mark.postgres
GET = "SELECT data FROM pg_logical_slot_get_changes('s', NULL, NULL) WHERE data LIKE 'table%'"


def test_bytes_are_refused_until_the_client_takes_any(tmp_path: Path) -> None:
    with Server(18, test_decoding=False) as server:
        server.say("CREATE DATABASE app ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0", "CHECKPOINT")
        server.dbname = "app"
        with session_on(server, tmp_path / "state") as session:
            assert not isinstance(ours(session, "SELECT pg_create_logical_replication_slot('s', 'test_decoding')"), Said)
            with server.connect(client_encoding="SQL_ASCII") as connection:
                connection.execute(b"CREATE TABLE t (id int PRIMARY KEY, v text)")
                connection.execute(b"INSERT INTO t VALUES (1, E'ab\\xe9')")
            refused = ours(session, GET)
            assert isinstance(refused, Said)
            assert (refused.sqlstate, refused.message) == ("22021", 'invalid byte sequence for encoding "UTF8": 0xe9 0x27')
            assert len(ours(session, "SELECT data FROM pg_logical_slot_peek_binary_changes('s', NULL, NULL)")) == 5  # type: ignore[arg-type]
            ours(session, "SET client_encoding = 'SQL_ASCII'")
            assert ours(session, GET) == [("table public.t: INSERT: id[integer]:1 v[text]:'ab\\xe9'",)]
            assert ours(session, GET) == []
