"""Where PostgreSQL's output depends on what it happened to decode before, and ours does not (docs/fidelity.md).

Names of schemas and types, attributes of composite types and labels of enums may change while a transaction that uses them is open: no lock forbids
it. The transaction is decoded when it commits; its first rows then find in the server's caches whatever the transactions decoded before it left
there. Had reading begun anew in between, as after a reconnect, they would find nothing, look it up, and get what was true when they were written.
That is what tailrace prints, always.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.cases import DBNAME
from support.decoding import rows_of
from support.live import Slot
from support.servers import Server

pytestmark = [pytest.mark.matrix, pytest.mark.postgres]


@pytest.mark.parametrize("major", [14, 15, 16, 17, 18])
def test_as_if_reading_had_begun_anew(major: int) -> None:
    with Server(major, dbname=DBNAME) as server:
        server.checkpoint()
        one = Slot.on(server, "one")
        server.sql("CREATE TYPE basket AS (apples int, pears text); CREATE TYPE mood AS ENUM ('sad', 'ok')")
        server.sql("CREATE SCHEMA w; CREATE TABLE w.t (id int, b basket, m mood)")
        server.sql("SELECT pg_copy_logical_replication_slot('one', 'two')")
        two = replace(one, name="two")
        with server.connect(autocommit=False) as slow:
            slow.execute("INSERT INTO w.t VALUES (1, (1, 'one'), 'sad')")
            server.sql("ALTER SCHEMA w RENAME TO renamed")
            server.sql("ALTER TYPE basket DROP ATTRIBUTE pears")
            server.sql("ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'")
            server.sql("ALTER TYPE mood RENAME TO temper")
            server.sql("INSERT INTO renamed.t VALUES (2, ROW(2), 'blue')")
            before = server.flush_lsn()
            slow.execute("INSERT INTO renamed.t VALUES (3, ROW(3), 'blue')")
        at_once = one.get()
        in_two = two.get(upto_lsn=before) + two.get()
        server.stop()
        ours = rows_of(server.data_dir, start_lsn=one.start_lsn)
    assert at_once != in_two
    assert "m[mood]" in in_two
    assert "m[mood]" not in at_once
    assert "table w.t: INSERT: id[integer]:1 b[w.basket]:" not in at_once
    assert ours == in_two
