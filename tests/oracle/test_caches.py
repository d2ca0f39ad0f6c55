"""Where PostgreSQL's output depends on what it happened to decode before, and ours does not (docs/fidelity.md).

Names of schemas and types, attributes of composite types and labels of enums may change while a transaction that uses them is open: no lock forbids
it. The transaction is decoded when it commits; its first rows then find in the server's caches whatever the transactions decoded before it left
there. Had reading begun anew in between, as after a reconnect, they would find nothing, look it up, and get what was true when they were written.
That is what tailrace prints, always.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.decoding import text_of
from support.normalise import print_rows
from support.servers import Server
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner, open_pipeline

pytestmark = [pytest.mark.matrix, pytest.mark.postgres]
CHANGES = "SELECT lsn, xid, data FROM pg_logical_slot_get_changes(%s, %s, NULL)"


@pytest.mark.parametrize("major", [14, 15, 16, 17, 18])
def test_as_if_reading_had_begun_anew(major: int, tmp_path: Path) -> None:
    with Server(major) as server:
        server.sql("CREATE DATABASE app")
        server.checkpoint()
        start = str(server.value("SELECT lsn FROM pg_create_logical_replication_slot('one', 'test_decoding')", dbname="app"))
        server.sql("CREATE TYPE basket AS (apples int, pears text); CREATE TYPE mood AS ENUM ('sad', 'ok')", dbname="app")
        server.sql("CREATE SCHEMA w; CREATE TABLE w.t (id int, b basket, m mood)", dbname="app")
        server.sql("SELECT pg_copy_logical_replication_slot('one', 'two')", dbname="app")
        with server.connect("app", autocommit=False) as slow:
            slow.execute("INSERT INTO w.t VALUES (1, (1, 'one'), 'sad')")
            server.sql("ALTER SCHEMA w RENAME TO renamed", dbname="app")
            server.sql("ALTER TYPE basket DROP ATTRIBUTE pears", dbname="app")
            server.sql("ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'", dbname="app")
            server.sql("ALTER TYPE mood RENAME TO temper", dbname="app")
            server.sql("INSERT INTO renamed.t VALUES (2, ROW(2), 'blue')", dbname="app")
            before = server.flush_lsn()
            slow.execute("INSERT INTO renamed.t VALUES (3, ROW(3), 'blue')")
        at_once = print_rows(server.sql(CHANGES, ["one", None], dbname="app"))
        in_two = print_rows(server.sql(CHANGES, ["two", before], dbname="app"))
        in_two += print_rows(server.sql(CHANGES, ["two", None], dbname="app"))
        server.stop()
        ours = text_of(open_pipeline(server.data_dir, "app", runner=LocalRunner(1), start_lsn=Lsn.parse(start)), {})
    assert at_once != in_two
    assert "m[mood]" in in_two
    assert "m[mood]" not in at_once
    assert "table w.t: INSERT: id[integer]:1 b[w.basket]:" not in at_once
    assert ours == in_two
