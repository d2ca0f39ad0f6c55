"""Where pgoutput says that a transaction in blocks comes from: once, with its first block, by the first change that the server queues of it. That may
be one of a catalog or of a table that is not published, or a message."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from oracle.test_walsender import Follower
from support.acquired import acquired
from support.cases import DBNAME
from support.live import SLOT
from support.pgoutput_rows import PLAIN, PUBLICATION, ours, theirs
from support.reassembly import reassembled
from support.sampling import some_of
from support.servers import Server
from support.waiting import until
from support.walsender import Received
from tailrace.cli.verbs.slot import create
from tailrace.logicalproto import message as m
from tailrace.logicalproto.message_flow import MessageReader
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner
from tailrace.replication.slot_location import SlotLocation

pytestmark = [pytest.mark.matrix, pytest.mark.postgres]
MAJORS = (18, 14, 16, 15, 17)
OPTIONS = {**PLAIN, "proto_version": "2", "streaming": "on"}
SETTINGS: dict[str, str | int] = {"autovacuum": "off", "logical_decoding_work_mem": "64kB"}
"""The least: what takes more is streamed, on all majors."""
ROWS = "INSERT INTO t SELECT i, repeat('x', 100) FROM generate_series(1, 1500) i"
"""More than that."""
FLUSH = "INSERT INTO flushed DEFAULT VALUES"
"""Its commit writes what others have said before."""
ONE, TWO = "SELECT pg_replication_origin_session_setup('one')", "SELECT pg_replication_origin_session_setup('two')"
RESET = "SELECT pg_replication_origin_session_reset()"
TRANSACTIONS: dict[str, tuple[tuple[str, ...], str]] = {
    "all of it": ((ONE, ROWS, ROWS, ROWS), "one"),
    "in a subtransaction": ((ONE, "SAVEPOINT s", ROWS, "RELEASE s", ROWS), "one"),
    "no longer": ((ONE, ROWS, RESET, ROWS, TWO, ROWS), "one"),
    "not at first": ((ROWS, ONE, ROWS), ""),
    "behind what is not published": ((TWO, "INSERT INTO hidden VALUES (1)", RESET, ONE, ROWS, ROWS), "two"),
    "behind a TRUNCATE": ((ONE, "TRUNCATE t", ROWS, ROWS), ""),
    "behind a definition": ((ONE, "ALTER TABLE hidden ADD COLUMN more int", ROWS, ROWS), ""),
    "behind a change of a catalog that makes nothing stale": ((ONE, "COMMENT ON TABLE t IS 'said'", ROWS, ROWS), ""),
    "behind a message": ((ONE, "SELECT pg_logical_emit_message(true, 'p', 'said')", ROWS, ROWS), ""),
    "behind what was rolled back": ((ONE, "SAVEPOINT s", "CREATE TABLE never ()", "ROLLBACK TO s", ROWS, ROWS), "one"),
}
"""What each says, and where its first block comes from; its end is from elsewhere where it was said, whatever that is."""


@pytest.mark.parametrize("major", some_of([pytest.param(major, id=str(major)) for major in MAJORS], 2))
def test_an_origin_comes_with_the_first_block(major: int, tmp_path: Path) -> None:
    with Server(major, SETTINGS, dbname=DBNAME, test_decoding=False) as server:
        server.say(
            "CREATE TABLE t (id int, v text)",
            "CREATE TABLE hidden (id int)",
            "CREATE TABLE flushed ()",
            f"CREATE PUBLICATION {PUBLICATION} FOR TABLE t",
        )
        server.say(*(f"SELECT pg_replication_origin_create('{name}')" for name in ("one", "two")), "CHECKPOINT")
        start = str(server.value("SELECT lsn FROM pg_create_logical_replication_slot('s', 'pgoutput')"))
        create(SLOT, server.data_dir, tmp_path, DBNAME, "pgoutput", [f"{name}={value}" for name, value in OPTIONS.items()])
        xids = []
        with acquired(SlotLocation.open(tmp_path), SLOT, LocalRunner(1)) as consumer:
            follower = Follower(consumer, OPTIONS)
            for statements, _ in TRANSACTIONS.values():
                with server.connect(autocommit=False) as writer:
                    xids.append(int(writer.execute("SELECT txid_current()").fetchone()[0]))
                    for statement in statements:
                        writer.execute(statement.encode())
                        server.say(FLUSH)
                        follower.read()
                    writer.commit()
                    backend = writer.info.backend_pid
                # An origin is its session's until that has ended, a moment after we are gone.
                until(lambda backend=backend: not server.value(f"SELECT count(*) FROM pg_stat_activity WHERE pid = {backend}"))
            server.say(FLUSH)
            follower.read()
        expected = [(int(Lsn.parse(lsn)), data) for lsn, _, data in theirs(server, "s", OPTIONS)]
        server.stop()
        rows = ours(server.data_dir, OPTIONS, start_lsn=start, major=major, work_mem=64 << 10)
    at_once = [(int(Lsn.parse(lsn)), data) for lsn, _, data in rows]
    named = {xid: name for xid, (_, name) in zip(xids, TRANSACTIONS.values(), strict=True) if name}
    for received, blocks in ((expected, 2), (follower.received, 2), (at_once, 1)):
        assert _origins(received, blocks) == named
    assert _begins(expected) == _begins(at_once)
    assert reassembled(follower.received, 2, "on") == reassembled(expected, 2, "on") == reassembled(at_once, 2, "on")


@pytest.mark.parametrize("major", [18, 15])
def test_a_first_block_begins_with_what_a_row_filter_hides(major: int) -> None:
    """Its Start and Origin have the LSN of the first change that the server queues: of a row that is not sent, a chunk of a value of such a row, or
    a message."""
    with Server(major, SETTINGS, dbname=DBNAME, test_decoding=False) as server:
        server.say(
            "CREATE TABLE t (id int, v text)",
            "ALTER TABLE t REPLICA IDENTITY FULL",
            "ALTER TABLE t ALTER v SET STORAGE EXTERNAL",
            f"CREATE PUBLICATION {PUBLICATION} FOR TABLE t WHERE (id > 100)",
            "SELECT pg_replication_origin_create('one')",
            "CHECKPOINT",
        )
        start = str(server.value("SELECT lsn FROM pg_create_logical_replication_slot('s', 'pgoutput')"))
        hidden = (
            "INSERT INTO t VALUES (1, repeat('x', 5000))",
            "SELECT pg_logical_emit_message(true, 'p', 'said')",
            "SAVEPOINT s",
        )
        for first in ("SELECT 1", *hidden):
            server.say(ONE, "BEGIN", first, ROWS, "COMMIT", RESET)
        sent = theirs(server, "s", OPTIONS)
        server.stop()
        given = ours(server.data_dir, OPTIONS, start_lsn=start, major=major, work_mem=64 << 10)
    expected, found = ([(int(Lsn.parse(lsn)), data) for lsn, _, data in rows] for rows in (sent, given))
    assert len(_begins(expected)) == 1 + len(hidden)
    assert _begins(found) == _begins(expected)
    assert reassembled(found, 2, "on") == reassembled(expected, 2, "on")


def _begins(received: Sequence[Received]) -> dict[int, list[tuple[str, int]]]:
    """By transaction, the LSNs of the rows that open its first block, and with which messages they do it."""
    reader, begins = MessageReader(2, "on"), dict[int, list[tuple[str, int]]]()
    xid = 0
    for lsn, payload in received:
        match reader.read(payload):
            case m.StreamStart(xid=xid, first_segment=1):
                begins[xid] = [("Start", lsn)]
            case m.Origin(name=name):
                begins[xid].append((name, lsn))
    return begins


def _origins(received: Sequence[Received], blocks: int) -> dict[int, str]:
    """By transaction, where its first block is said to come from. All have at least so many `blocks`, and say that once at most."""
    reader, started, origins = MessageReader(2, "on"), Counter[int](), dict[int, str]()
    xid = 0
    for _, payload in received:
        match reader.read(payload):
            case m.StreamStart(xid=xid):
                started[xid] += 1
            case m.Origin(name=name):
                assert xid not in origins
                assert started[xid] == 1
                origins[xid] = name
    assert len(started) == len(TRANSACTIONS)
    assert min(started.values()) >= blocks
    return origins
