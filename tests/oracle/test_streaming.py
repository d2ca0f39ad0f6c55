"""stream-changes of test_decoding: what is told of transactions in progress, and how, is what the server tells, but for where blocks end."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.acquired import acquired
from support.cases import DBNAME
from support.live import SLOT
from support.servers import Server
from support.slots import create_both, ours, theirs
from support.streaming import split_rows
from tailrace.majors import MAJORS
from tailrace.pipeline import LocalRunner
from tailrace.plugins.test_decoding import TestDecoding
from tailrace.replication.slot_location import SlotLocation

pytestmark = [pytest.mark.matrix, pytest.mark.postgres]
_BLOCK = re.compile(r"(opening|closing) a streamed block for transaction.*")


def _told(printed: str) -> tuple[list[tuple[str, str, str]], dict[str, list[tuple[str, int]]]]:
    """What is said outside of blocks, in order; and what in those of each transaction, text by text with how often it comes, if it ends here."""
    outside: list[tuple[str, str, str]] = []
    streamed: dict[str, list[tuple[str, int]]] = {}
    ended: set[str] = set()
    for lsn, xid, text in split_rows(printed):
        if _BLOCK.fullmatch(text):
            continue
        if not text.startswith("streaming"):
            outside.append(("" if text.startswith("BEGIN") else lsn, xid, text))
            ended |= {xid} if text.startswith(("committing", "preparing")) else set()
            continue
        of_xid = streamed.setdefault(xid, [])
        times = of_xid.pop()[1] + 1 if of_xid and of_xid[-1][0] == text else 1
        of_xid.append((text, times))
    return outside, {xid: texts if xid in ended else [(texts[0][0], 0)] for xid, texts in streamed.items()}


@pytest.mark.parametrize("options", [{}, {"include-xids": "0", "skip-empty-xacts": "1"}, {"include-timestamp": "1"}], ids=str)
@pytest.mark.parametrize("major", MAJORS)
def test_what_the_server_streams(major: int, options: dict[str, str], tmp_path: Path) -> None:
    settings = {"logical_decoding_work_mem": "64kB", "max_prepared_transactions": 4, "autovacuum": "off"}
    options = {**options, "stream-changes": "1"}
    rows = "INSERT INTO t SELECT i, repeat('x', 100) FROM generate_series({}, {}) i"
    with Server(major, dbname=DBNAME, settings=settings) as server:
        server.say("CREATE TABLE t (id int, v text)", "CREATE TABLE u (id int)", "CHECKPOINT")
        create_both(server, SLOT, tmp_path, two_phase=True)

        def compare() -> None:
            upto = server.flush_lsn()
            expected = theirs(server, upto, options=options)
            location = SlotLocation.open(tmp_path)
            with acquired(location, SLOT, LocalRunner(1)) as consumer:
                found = ours(consumer, None, options, work_mem=64 << 10)
            assert _told(found) == _told(expected)
            assert not expected or "streamed" in expected

        writer = server.connect(autocommit=False)
        writer.execute(rows.format(1, 2000))
        server.say("INSERT INTO u VALUES (1)", "SELECT pg_switch_wal()")
        compare()  # a block of one that is open; the other is told whole
        writer.execute("SAVEPOINT a")
        writer.execute(rows.format(2001, 4000))
        writer.execute("TRUNCATE u")
        writer.execute("SELECT pg_logical_emit_message(true, 'p', 'within')")
        writer.execute(rows.format(4001, 6000))
        server.say("SELECT pg_logical_emit_message(false, 'p', 'outside')", "SELECT pg_switch_wal()")
        writer.commit()
        server.say("SELECT pg_switch_wal()")
        compare()
        writer.execute(rows.format(1, 2000))
        writer.execute("PREPARE TRANSACTION 'g ''1'")
        server.say("SELECT pg_switch_wal()")
        compare()
        server.say("COMMIT PREPARED 'g ''1'", "SELECT pg_switch_wal()")
        location = SlotLocation.open(tmp_path)
        expected = theirs(server, server.flush_lsn(), options=options)
        with acquired(location, SLOT, LocalRunner(1)) as consumer:
            assert ours(consumer, None, options, work_mem=64 << 10) == expected
        writer.close()


@pytest.mark.parametrize("major", [14, 18])
def test_rolled_back(major: int, tmp_path: Path) -> None:
    """What was streamed and comes to nothing is said to; so is what a crash leaves open."""
    settings = {"logical_decoding_work_mem": "64kB", "autovacuum": "off"}
    options = {"stream-changes": "1"}
    rows = "INSERT INTO t SELECT i, repeat('x', 100) FROM generate_series({}, {}) i"
    with Server(major, dbname=DBNAME, settings=settings) as server:
        server.say("CREATE TABLE t (id int, v text)", "CHECKPOINT")
        create_both(server, SLOT, tmp_path)
        location = SlotLocation.open(tmp_path)
        with acquired(location, SLOT, LocalRunner(1)) as consumer:
            plugin = TestDecoding()

            def new() -> list[str]:
                server.say("SELECT pg_switch_wal()")
                printed = ours(consumer, None, options, plugin=plugin, work_mem=64 << 10)
                return [text for _, _, text in split_rows(printed) if not text.startswith(("BEGIN", "COMMIT"))]

            writer = server.connect(autocommit=False)
            xid = writer.execute("SELECT txid_current()").fetchone()[0]
            writer.execute(rows.format(1, 2000))
            assert new() == [
                f"opening a streamed block for transaction TXN {xid}",
                *[f"streaming change for TXN {xid}"] * 2000,
                f"closing a streamed block for transaction TXN {xid}",
            ]
            assert new() == []
            writer.execute("SAVEPOINT a")
            writer.execute(rows.format(1, 1000))
            sub = int(str(writer.execute("SELECT max(xmin::text::bigint) FROM t").fetchone()[0]))
            assert len(new()) == 1002
            writer.execute("ROLLBACK TO a")
            assert new() == [f"aborting streamed (sub)transaction TXN {sub}"]
            writer.rollback()
            assert new() == [f"aborting streamed (sub)transaction TXN {xid}"]
            writer.execute(rows.format(1, 2000))
            xid += 2
            assert len(new()) == 2002
            server.crash()
            server.start()
            server.say("INSERT INTO t VALUES (1, 'after')")
            server.say("CHECKPOINT")
            told = new()
            assert f"aborting streamed (sub)transaction TXN {xid}" in told
            assert sum(text.startswith("table") for text in told) == 1
