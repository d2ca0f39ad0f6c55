"""Slots of ours with pgoutput where a subscriber stopped, or read a row by columns of before: a prepared transaction in blocks that is rolled back, a
copy of a slot that stands between a change of a table and its next row, and transactions in blocks that a crash cuts off."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import pytest

from oracle.test_walsender import Follower
from support.acquired import acquired
from support.cases import DBNAME
from support.command import Run
from support.live import SLOT
from support.pgoutput_rows import PLAIN, PUBLICATION, theirs
from support.servers import Server
from tailrace.cli.verbs.slot import create
from tailrace.logicalproto import message as m
from tailrace.logicalproto.message_flow import MessageReader
from tailrace.pipeline import LocalRunner
from tailrace.replication.slot_location import SlotLocation

pytestmark = pytest.mark.postgres
SETTINGS: dict[str, str | int] = {"autovacuum": "off", "logical_decoding_work_mem": "64kB"}
SINCE_15 = [18, *(pytest.param(major, marks=pytest.mark.matrix) for major in (15, 16, 17))]
MAJORS = [*SINCE_15, pytest.param(14, marks=pytest.mark.matrix)]
IN_BLOCKS = {**PLAIN, "proto_version": "2", "streaming": "on"}
MANY = "INSERT INTO {} SELECT i, repeat('x', 100) FROM generate_series(1, 1500) i"
"""More than logical_decoding_work_mem, so it is streamed."""


def _words(options: dict[str, str]) -> list[str]:
    return [word for name, value in options.items() for word in ("-o", f"{name}={value}")]


@pytest.mark.matrix
@pytest.mark.parametrize("major", SINCE_15)
def test_a_prepared_transaction_in_blocks_is_rolled_back(major: int, tmp_path: Path, tailrace: Run) -> None:
    """There was a Stream Abort between Stream Prepare and Rollback Prepared, where the blocks lie in earlier windows and these two in one."""
    state, file, options = tmp_path / "state", tmp_path / "rows", {**IN_BLOCKS, "proto_version": "3", "two_phase": "on"}
    words = ["--set", "logical_decoding_work_mem=64kB", "--window", "128kB", *_words(options)]
    with Server(major, SETTINGS, dbname=DBNAME, test_decoding=False) as server:
        server.say("CREATE TABLE t (id int, v text)", f"CREATE PUBLICATION {PUBLICATION} FOR ALL TABLES", "CHECKPOINT")
        start = str(server.value("SELECT lsn FROM pg_create_logical_replication_slot('s', 'pgoutput', false, true)"))
        create(SLOT, server.data_dir, state, DBNAME, "pgoutput", two_phase=True)
        server.say("BEGIN", *[MANY.format("t")] * 10, "PREPARE TRANSACTION 'g'", "ROLLBACK PREPARED 'g'")
        server.say("INSERT INTO t VALUES (1, 'after')")
        end = server.flush_lsn()
        assert tailrace("slot", "receive", SLOT, "--state", state, "-f", file, "--endpos", end, *words)[0] == 0
        server.stop()
        decode = ("decode", server.data_dir, "--database", DBNAME, "--start-lsn", start, "--plugin", "pgoutput", "--two-phase")
        status, out, said = tailrace(*decode, *words)
        assert (status, said) == (0, "")
    payloads = [bytes.fromhex(line.split("\t")[2].removeprefix("\\x")) for line in out.splitlines()]
    block = ["StreamStart", "Insert", "StreamStop"]
    kinds = [kind for kind, _ in groupby(_kinds(payloads))]
    assert kinds[:4] == ["StreamStart", "Relation", "Insert", "StreamStop"]
    ends = kinds.index("StreamPrepare")
    assert kinds[4:ends] == block * ((ends - 4) // len(block)) != []
    assert kinds[ends:] == ["StreamPrepare", "RollbackPrepared", "Begin", "Relation", "Insert", "Commit"]
    seam = b"E\nS" + payloads[0][1:5] + b"\x00\n"  # where one block ends and the next begins: windows of the two are not the same
    received, decoded = file.read_bytes(), b"".join(payload + b"\n" for payload in payloads)
    assert received.replace(seam, b"") == decoded.replace(seam, b"")
    assert min(received.count(seam), decoded.count(seam)) > 0
    rows = tmp_path / "messages"
    rows.write_text(out)
    assert tailrace("messages", rows)[::2] == (0, "")


def _kinds(payloads: list[bytes]) -> list[str]:
    reader = MessageReader(3, "on")
    return [type(reader.read(payload)).__name__ for payload in payloads]


@pytest.mark.matrix
@pytest.mark.parametrize("major", MAJORS)
def test_a_copied_slot_tells_what_a_relation_is_now(major: int, tmp_path: Path, tailrace: Run) -> None:
    """The copy is made between a change of a table and its next row, which lies in a later window. Both tell it of the columns that it has."""
    state = tmp_path / "state"
    with Server(major, {"autovacuum": "off"}, dbname=DBNAME, test_decoding=False) as server:
        server.say(
            "CREATE TABLE t (id int, v text)", "CREATE TABLE filler (a text)", f"CREATE PUBLICATION {PUBLICATION} FOR TABLE t"
        )
        server.say("CHECKPOINT", "SELECT pg_create_logical_replication_slot('s', 'pgoutput')")
        create("slot", server.data_dir, state, DBNAME, "pgoutput")

        def receive(name: str) -> bytes:
            file, words = tmp_path / name, ["--window", "1MB", "--endpos", server.flush_lsn(), *_words(PLAIN)]
            assert tailrace("slot", "receive", name, "--state", state, "-f", file, *words)[0] == 0
            return file.read_bytes()

        server.say("INSERT INTO t VALUES (1, 'a')")
        for number, change in enumerate(("ADD c int", "RENAME v TO w", "DROP c")):
            server.say(f"ALTER TABLE t {change}")
            receive("slot")
            assert tailrace("slot", "copy", "slot", f"copy_{number}", "--state", state)[0] == 0
            server.say(
                "INSERT INTO filler SELECT repeat('x', 500) FROM generate_series(1, 4000)", "INSERT INTO t (id) VALUES (2)"
            )
            receive("slot")
        payloads = [data for _, _, data in theirs(server, "s", PLAIN)]
        whole = b"".join(payload + b"\n" for payload in payloads)
        told = [payload[:1] for payload in payloads if payload[:1] in b"RI"]
        assert told == [b"R", b"I"] * 4
        assert receive("slot") == whole
        for number in range(3):
            given = receive(f"copy_{number}")
            assert whole.endswith(given)
            assert given[:1] == b"B"
            assert given.count(b"public\0t\0") == 3 - number


@pytest.mark.parametrize("major", MAJORS)
def test_a_crash_ends_what_was_in_blocks(major: int, tmp_path: Path) -> None:
    """Each block was begun by a transaction that the log never ends: it is aborted, also where nothing of it was published."""
    with Server(major, SETTINGS, dbname=DBNAME, test_decoding=False) as server:
        server.say("CREATE TABLE t (id int, v text)", "CREATE TABLE hidden (id int, v text)")
        server.say(f"CREATE PUBLICATION {PUBLICATION} FOR TABLE t", "CHECKPOINT")
        server.say("SELECT pg_create_logical_replication_slot('s', 'pgoutput')")
        create(SLOT, server.data_dir, tmp_path, DBNAME, "pgoutput", [f"{name}={value}" for name, value in IN_BLOCKS.items()])
        one, other = (server.connect(autocommit=False) for _ in range(2))
        with acquired(SlotLocation.open(tmp_path), SLOT, LocalRunner(1)) as consumer:
            follower = Follower(consumer, IN_BLOCKS)
            for _ in range(2):
                one.execute(MANY.format("t").encode())
                other.execute(MANY.format("hidden").encode())
                server.say("INSERT INTO t VALUES (1, 'flushed')")
                follower.read()
            server.crash()
            server.start()
            server.say("INSERT INTO t VALUES (2, 'after')")
            follower.read()
        expected = [data for _, _, data in theirs(server, "s", PLAIN) if data[:1] in b"BIC"]
    reader, begun, aborted, committed = MessageReader(2, "on"), set[int](), list[int](), list[bytes]()
    for _, payload in follower.received:
        match reader.read(payload):
            case m.StreamStart(xid=xid):
                assert xid not in aborted
                begun.add(xid)
            case m.StreamAbort(xid=xid, subxid=subxid):
                assert xid == subxid
                aborted.append(xid)
            case m.Begin() | m.Commit() | m.Insert(xid=None):
                committed.append(payload)
    assert sorted(aborted) == sorted(begun)
    assert len(begun) == 2
    assert committed == expected
