"""A transaction that is large enough to be streamed, and of which nothing is published, comes in blocks of nothing, and ends as one that was
streamed: a commit, a PREPARE, an abort of what was begun."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from oracle.test_walsender import Follower
from support.acquired import acquired
from support.cases import DBNAME
from support.live import SLOT
from support.pgoutput_rows import PLAIN, PUBLICATION, ours
from support.sampling import some_of
from support.servers import Server
from support.walsender import LogicalStream
from tailrace.cli.verbs.slot import create
from tailrace.logicalproto import message as m
from tailrace.logicalproto.message_flow import MessageReader
from tailrace.pipeline import LocalRunner
from tailrace.replication.slot_location import SlotLocation

pytestmark = [pytest.mark.matrix, pytest.mark.postgres]
TWO_PHASE_SINCE = 15
SETTINGS: dict[str, str | int] = {"autovacuum": "off", "logical_decoding_work_mem": "64kB", "max_prepared_transactions": 4}
ROWS = "INSERT INTO hidden SELECT i, repeat('x', 100) FROM generate_series(1, 1500) i"
FLUSH = "INSERT INTO flushed DEFAULT VALUES"


@pytest.mark.parametrize("major", some_of([pytest.param(major, id=str(major)) for major in (18, 14, 16, 15, 17)], 2))
def test_nothing_in_blocks(major: int, tmp_path: Path) -> None:
    two_phase = major >= TWO_PHASE_SINCE
    options = {**PLAIN, "proto_version": "3" if two_phase else "2", "streaming": "on"} | (
        {"two_phase": "on"} if two_phase else {}
    )
    endings = ["COMMIT", "ROLLBACK", *(["PREPARE TRANSACTION 'one'"] if two_phase else [])]
    with Server(major, SETTINGS, dbname=DBNAME, test_decoding=False) as server:
        server.say(
            "CREATE TABLE t (id int)",
            "CREATE TABLE hidden (id int, v text)",
            "CREATE TABLE flushed ()",
            f"CREATE PUBLICATION {PUBLICATION} FOR TABLE t",
            "CHECKPOINT",
        )
        made = "'s', 'pgoutput', false, true" if two_phase else "'s', 'pgoutput'"
        start = str(server.value(f"SELECT lsn FROM pg_create_logical_replication_slot({made})"))
        words = [f"{name}={value}" for name, value in options.items()]
        create(SLOT, server.data_dir, tmp_path, DBNAME, "pgoutput", words, two_phase=two_phase)
        theirs: list[bytes] = []
        with (
            acquired(SlotLocation.open(tmp_path), SLOT, LocalRunner(1)) as consumer,
            LogicalStream(server, "s", options) as stream,
        ):
            follower = Follower(consumer, options)

            def read() -> None:
                server.say(FLUSH)
                follower.read()
                theirs.extend(data for _, data in stream.read_to(server.flush_lsn()))

            for ending in endings:
                with server.connect(autocommit=False) as writer:
                    for statement in (ROWS, ROWS, ending):
                        writer.execute(statement.encode())
                        read()
            if two_phase:
                server.say("ROLLBACK PREPARED 'one'")
            read()
        server.stop()
        at_once = ours(server.data_dir, options, start_lsn=start, two_phase=two_phase, major=major, work_mem=64 << 10)
    version = int(options["proto_version"])
    told = list(_ends(theirs, version))
    ends = ["StreamCommit", "StreamAbort", *(["StreamPrepare", "RollbackPrepared"] if two_phase else [])]
    assert [kind for kind, _ in told if kind != "StreamStart"] == ends
    assert list(_ends([data for _, data in follower.received], version)) == told
    # Read at once, what was rolled back is known to be nothing.
    aborted = {xid for kind, xid in told if kind == "StreamAbort"}
    assert list(_ends([data for _, _, data in at_once], version)) == [each for each in told if each[1] not in aborted]


def _ends(payloads: Iterable[bytes], version: int) -> Iterator[tuple[str, int]]:
    """What is said of transactions in blocks: that they begin, and what ends them. There are no rows."""
    reader, begun = MessageReader(version, "on"), set[int]()
    for payload in payloads:
        match message := reader.read(payload):
            case m.StreamStart(xid=xid) if xid in begun:
                pass
            case m.StreamStart(xid=xid) | m.StreamCommit(xid=xid) | m.StreamPrepare(xid=xid) | m.StreamAbort(xid=xid):
                begun.add(xid)
                yield type(message).__name__, xid
            case m.RollbackPrepared(xid=xid):
                yield type(message).__name__, xid
            case m.Begin() | m.Commit() | m.StreamStop():
                pass
            case other:
                raise AssertionError(other)
