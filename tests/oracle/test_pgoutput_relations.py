"""When pgoutput tells what a relation is, by a server's count: behind what was streamed, and where a change of a table and its next row come in
different windows."""

from __future__ import annotations

from pathlib import Path

import pytest

from oracle.test_walsender import Follower
from support.acquired import acquired
from support.cases import DBNAME
from support.live import SLOT
from support.pgoutput_rows import PLAIN, PUBLICATION, check_same, ours, theirs
from support.servers import Server
from tailrace.cli.verbs.slot import create
from tailrace.logicalproto import message as m
from tailrace.logicalproto.message_flow import MessageReader
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner
from tailrace.replication.slot_location import SlotLocation

pytestmark = pytest.mark.postgres
MAJORS = [16, *(pytest.param(major, marks=pytest.mark.matrix) for major in (14, 15, 17, 18))]
SETTINGS: dict[str, str | int] = {"autovacuum": "off", "logical_decoding_work_mem": "64kB"}
STREAMING = {**PLAIN, "proto_version": "2", "streaming": "on"}
MANY = "INSERT INTO t SELECT i, repeat('x', 100) FROM generate_series(1, 1500) i"
"""More than logical_decoding_work_mem, so it is streamed."""
STREAMED = {
    "a commit": ("BEGIN", MANY, "COMMIT"),
    "a commit that changed it": ("BEGIN", MANY, "ALTER TABLE t ADD one int", MANY, "COMMIT"),
    "a change of it meanwhile": ("BEGIN", MANY, "ANALYZE t", "INSERT INTO t VALUES (0)", "COMMIT"),
    "a rollback": ("BEGIN", MANY, "ROLLBACK"),
    "a rollback to a savepoint": ("BEGIN", MANY, "SAVEPOINT s", MANY, "ROLLBACK TO s", MANY, "COMMIT"),
}
ROW = "INSERT INTO t VALUES (0, 'small')"
CHANGES = (
    "ALTER TABLE t ADD more int", "ALTER TABLE t DROP more", "ALTER TABLE t RENAME v TO w", "ALTER TABLE t RENAME TO u",
    "ALTER TABLE u RENAME TO t", "ALTER TABLE t ALTER w TYPE varchar(99)", "ALTER TABLE t REPLICA IDENTITY FULL", "CREATE INDEX ON t (w)",
    "ANALYZE t", "VACUUM t", "GRANT SELECT ON t TO PUBLIC", "TRUNCATE t", f"ALTER PUBLICATION {PUBLICATION} SET (publish = 'insert')",
    "COMMENT ON TABLE t IS 'nothing that matters'",
)  # fmt: skip


def _prepared(server: Server) -> str:
    """Two tables, published, and a slot; where that begins."""
    server.say(
        "CREATE TABLE t (id int, v text)",
        "CREATE TABLE other (id int)",
        f"CREATE PUBLICATION {PUBLICATION} FOR ALL TABLES",
        "CHECKPOINT",
    )
    return str(server.value("SELECT lsn FROM pg_create_logical_replication_slot('s', 'pgoutput')"))


@pytest.mark.parametrize("major", MAJORS)
def test_behind_what_was_streamed(major: int) -> None:
    with Server(major, SETTINGS, dbname=DBNAME, test_decoding=False) as server:
        start = _prepared(server)
        for statements in STREAMED.values():
            with server.connect() as connection:
                for statement in statements:
                    connection.execute(statement.encode())
            server.say(ROW, ROW)
        expected = _told_outside([data for _, _, data in theirs(server, "s", STREAMING)])
        server.stop()
        found = ours(server.data_dir, STREAMING, start_lsn=start, major=major, work_mem=64 << 10)
    assert _told_outside([data for _, _, data in found]) == expected
    assert 0 < expected.count("Relation") < expected.count("Insert") == 2 * len(STREAMED)


def _told_outside(payloads: list[bytes]) -> list[str]:
    """What is told outside of blocks, by the names of messages."""
    reader = MessageReader(2, "on")
    messages = [reader.read(payload) for payload in payloads]
    return [type(each).__name__ for each in messages if getattr(each, "xid", None) is None and not isinstance(each, m.StreamStop)]


@pytest.mark.parametrize("major", MAJORS)
def test_a_change_and_the_next_row_in_different_windows(major: int, tmp_path: Path) -> None:
    """A consumer that follows, and one that looks only now and then, with rows of another table in between."""
    with Server(major, {"autovacuum": "off"}, dbname=DBNAME, test_decoding=False) as server:
        _prepared(server)
        create(SLOT, server.data_dir, tmp_path, DBNAME, "pgoutput", [f"{name}={value}" for name, value in PLAIN.items()])
        with acquired(SlotLocation.open(tmp_path), SLOT, LocalRunner(1)) as consumer:
            follower = Follower(consumer, PLAIN)
            server.say(ROW)
            for number, change in enumerate(CHANGES):
                for statement in (
                    change,
                    *(["INSERT INTO other VALUES (1)"] * (number % 2)),
                    ROW if "u" not in change.split() else "",
                ):
                    if statement:
                        server.say(statement)
                        follower.read()
        expected = [(int(Lsn.parse(lsn)), 0, data) for lsn, _, data in theirs(server, "s", PLAIN)]
        check_same(
            [(str(Lsn(lsn)), 0, data) for lsn, data in follower.received],
            [(str(Lsn(lsn)), 0, data) for lsn, _, data in expected],
            "followed",
        )
        assert sum(data[:1] == b"R" for _, _, data in expected) > len(CHANGES)
