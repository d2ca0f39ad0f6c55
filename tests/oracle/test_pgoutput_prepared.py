"""What pgoutput says of prepared transactions where the server's own state decides: of those without rows, and of those that a consumer knows."""

from __future__ import annotations

import pytest

from support.cases import DBNAME, some_of
from support.pgoutput_rows import PLAIN, PUBLICATION, check_same, ours, theirs
from support.servers import Server
from tailrace.model import Lsn

pytestmark = [pytest.mark.matrix, pytest.mark.postgres]
OPTIONS = {**PLAIN, "proto_version": "3", "two_phase": "on"}
MAJORS = [pytest.param(major, id=str(major)) for major in (18, 16, 17, 15)]


def _prepared(gid: str, *statements: str, end: str = "") -> tuple[str, ...]:
    return ("BEGIN", *statements, f"PREPARE TRANSACTION '{gid}'", *([f"{end} PREPARED '{gid}'"] if end else []))


WORK = (
    *_prepared("nothing", end="COMMIT"),
    *_prepared("locks", "LOCK x", end="COMMIT"),
    *_prepared("locks, taken back", "LOCK x", end="ROLLBACK"),
    *_prepared("rolled back in part", "SAVEPOINT s", "INSERT INTO x VALUES (0)", "ROLLBACK TO s", end="COMMIT"),
    "INSERT INTO x VALUES (1)",
    *_prepared("definition", "ALTER TABLE x ADD COLUMN v text", "INSERT INTO x VALUES (2, 'two')"),
    "INSERT INTO y VALUES (3)",
    "COMMIT PREPARED 'definition'",
    "INSERT INTO x VALUES (4, 'four')",
    *_prepared("left, and committed", "INSERT INTO x VALUES (5, 'five')"),
    *_prepared("left, and rolled back", "INSERT INTO x VALUES (6, 'six')"),
    "SELECT pg_replication_origin_create('elsewhere'), pg_replication_origin_session_setup('elsewhere')",
    *_prepared(
        "prepared elsewhere",
        "SELECT pg_replication_origin_xact_setup('0/1234', '2020-01-01')",
        "INSERT INTO x VALUES (7, 'seven')",
    ),
)


@pytest.mark.parametrize("major", some_of(MAJORS, 2))
def test_prepared_transactions(major: int) -> None:
    with Server(major, {"autovacuum": "off"}, dbname=DBNAME, test_decoding=False) as server:
        server.say("CREATE TABLE x (id int PRIMARY KEY)", "CREATE TABLE y (id int PRIMARY KEY)")
        server.say(f"CREATE PUBLICATION {PUBLICATION} FOR ALL TABLES", "CHECKPOINT")
        start = str(server.value("SELECT lsn FROM pg_create_logical_replication_slot('t', 'pgoutput', false, true)"))
        server.say(*WORK)
        told = theirs(server, "t", OPTIONS)
        confirmed = str(server.value("SELECT end_lsn FROM pg_replication_slot_advance('t', pg_current_wal_flush_lsn())"))
        server.say(
            "COMMIT PREPARED 'left, and committed'",
            "ROLLBACK PREPARED 'left, and rolled back'",
            "SELECT pg_replication_origin_session_setup('elsewhere')",
            "SELECT pg_replication_origin_xact_setup('0/5678', '2021-01-01')",
            "ROLLBACK PREPARED 'prepared elsewhere'",
        )
        told_later = theirs(server, "t", OPTIONS)
        server.stop()
        found = ours(server.data_dir, OPTIONS, start_lsn=start, upto_lsn=Lsn.parse(confirmed), two_phase=True, major=major)
        check_same(found, told, f"{major}")
        found = ours(server.data_dir, OPTIONS, start_lsn=confirmed, two_phase=True, major=major)
        check_same(found, told_later, f"{major}, behind {confirmed}")
    bare = [data[:1] for _, _, data in told].count(b"P") - [data[:1] for _, _, data in told].count(b"b")
    assert bare == (2 if major >= 18 else 0)
    assert [data[:1] for _, _, data in told_later] == [b"K", b"r", b"r"]
