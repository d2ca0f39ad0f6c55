"""pgoutput's messages of generated workloads, byte for byte what the server's plugin makes of them; of streamed ones, what a subscriber makes of
them."""

from __future__ import annotations

from typing import Any

import pytest

from support import schedule
from support.cases import DBNAME
from support.pgoutput_rows import PUBLICATION, Row, check_same, ours, theirs
from support.servers import Server
from tailrace.messages import message as m
from tailrace.messages.session import MessageReader

pytestmark = [pytest.mark.matrix, pytest.mark.postgres]
MAJORS = (14, 15, 16, 17, 18)
TRANSACTIONS = 150
NAMES = {"publication_names": PUBLICATION}
PLAIN = ({"proto_version": "1"}, {"proto_version": "1", "binary": "true"}, {"proto_version": "1", "messages": "true"})
STREAMED = {
    14: {"proto_version": "2", "streaming": "on", "messages": "true"},
    16: {"proto_version": "4", "streaming": "parallel"},
}
FIRST_AT_ONCE = 16
"""Since then a server can be told to stream every change at once; before, only what does not fit in 64 kB is."""


@pytest.mark.parametrize("major", MAJORS)
def test_generated(major: int) -> None:
    settings: dict[str, str | int] = {"autovacuum": "off", "logical_decoding_work_mem": "64kB"}
    with Server(major, settings, dbname=DBNAME, test_decoding=False) as server:
        server.say(f"CREATE PUBLICATION {PUBLICATION} FOR ALL TABLES", "CHECKPOINT")
        start = str(server.value("SELECT lsn FROM pg_create_logical_replication_slot('s', 'pgoutput')"))
        schedule.run_schedule(server, schedule.make_schedule(20261122 + major, TRANSACTIONS, published=True))
        plain = [(options, theirs(server, "s", NAMES | options)) for options in PLAIN]
        if major >= FIRST_AT_ONCE:
            server.say("ALTER SYSTEM SET debug_logical_replication_streaming = 'immediate'", "SELECT pg_reload_conf()")
        streamed = [(options, theirs(server, "s", NAMES | options)) for since, options in STREAMED.items() if since <= major]
        server.stop()
        for options, rows in plain:
            check_same(ours(server.data_dir, NAMES | options, start_lsn=start, major=major), rows, f"{major}, {options}")
        for options, rows in streamed:
            found = ours(server.data_dir, NAMES | options, start_lsn=start, major=major, work_mem=0)
            assert any(data[:1] == b"S" for _, _, data in found)
            assert major < FIRST_AT_ONCE or any(data[:1] == b"S" for _, _, data in rows)
            assert _put_together(found, options) == _put_together(rows, options), f"{major}, {options}"
        assert len(plain[0][1]) > TRANSACTIONS


def _put_together(rows: list[Row], options: dict[str, str]) -> list[tuple[Any, ...]]:
    """What a subscriber makes of it, transaction by transaction in the order of their commits: end, time, and changes without their xids. What was
    rolled back, and what has no changes, is left out; so are messages outside of transactions, which come in between."""
    reader = MessageReader(int(options["proto_version"]), options.get("streaming", "off"))
    told: list[tuple[Any, ...]] = []
    streams: dict[int, list[tuple[int, Any]]] = {}
    current: list[tuple[int, Any]] = []
    top = 0
    for _, _, data in rows:
        match reader.read(data):
            case m.Begin():
                current = []
            case m.StreamStart(xid=xid):
                top, current = xid, streams.setdefault(xid, [])
            case m.StreamStop():
                current = []
            case m.StreamAbort(xid=xid, subxid=subxid):
                streams[xid] = [] if xid == subxid else [each for each in streams[xid] if each[0] != subxid]
            case m.Commit(commit_lsn=lsn, end_lsn=end, commit_timestamp=time):
                told.append((lsn, end, time, [change for _, change in current]))
                current = []
            case m.StreamCommit(xid=xid, commit_lsn=lsn, end_lsn=end, commit_timestamp=time):
                told.append((lsn, end, time, [change for _, change in streams.pop(xid)]))
            case m.Message(flags=0) | m.Relation() | m.Type() | m.Origin():
                pass
            case change:
                fields = {name: getattr(change, name) for name in change.__slots__ if name != "xid"}
                current.append((getattr(change, "xid", None) or top, (type(change).__name__, fields)))
    return [each for each in told if each[3]]
