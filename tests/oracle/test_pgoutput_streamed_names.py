"""A name in a row behind a ROLLBACK TO SAVEPOINT, of a transaction in progress: what a server prints while it is open, and what it prints of the
same slot once it has dropped the table."""

from __future__ import annotations

import pytest

from support.cases import DBNAME
from support.pgoutput_rows import PLAIN, PUBLICATION, Row, ours, theirs
from support.sampling import some_of
from support.servers import Server

pytestmark = [pytest.mark.matrix, pytest.mark.postgres]
STREAMED = {**PLAIN, "proto_version": "2", "streaming": "on"}
WORK = (
    "BEGIN",
    "CREATE TABLE own (x int)",
    "SAVEPOINT s",
    "ALTER TABLE own RENAME TO owned",
    "ROLLBACK TO s",
    "INSERT INTO n VALUES ('own')",
)


@pytest.mark.parametrize("major", some_of([pytest.param(major, id=str(major)) for major in (16, 17, 18)], 3))
def test_the_name_is_printed_as_while_the_transaction_was_open(major: int) -> None:
    with Server(major, {"autovacuum": "off"}, dbname=DBNAME, test_decoding=False) as server:
        server.say("CREATE TABLE n (c regclass)", f"CREATE PUBLICATION {PUBLICATION} FOR ALL TABLES")
        server.say("ALTER SYSTEM SET debug_logical_replication_streaming = 'immediate'", "SELECT pg_reload_conf()")
        server.checkpoint()
        start = str(server.value("SELECT lsn FROM pg_create_logical_replication_slot('s', 'pgoutput')"))
        with server.connect() as session:
            for statement in WORK:
                session.execute(statement.encode())
            server.checkpoint()  # writes what is not written of the log
            while_open = _inserted(theirs(server, "s", STREAMED))
            session.execute("DROP TABLE own")
            session.execute("COMMIT")
        after = _inserted(theirs(server, "s", STREAMED))
        server.stop()
        found = _inserted(ours(server.data_dir, STREAMED, start_lsn=start, major=major, work_mem=0))
    assert len(while_open) == 1
    assert while_open[0].endswith(b"own")
    assert len(after) == 1
    assert after[0][-5:].isdigit()
    assert found == while_open


def _inserted(rows: list[Row]) -> list[bytes]:
    return [data for _, _, data in rows if data[:1] == b"I"]
