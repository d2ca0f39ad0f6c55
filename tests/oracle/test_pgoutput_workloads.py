"""pgoutput's messages of generated workloads, byte for byte what the server's plugin makes of them; of streamed ones, what a subscriber makes of
them."""

from __future__ import annotations

import pytest

from support import schedule
from support.cases import DBNAME
from support.pgoutput_rows import PUBLICATION, Row, check_same, ours, theirs
from support.reassembly import Event, reassembled
from support.servers import Server
from tailrace.model import Lsn

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


def _put_together(rows: list[Row], options: dict[str, str]) -> list[Event]:
    """What a subscriber makes of it. A schema that gets another name makes nothing stale: outside of blocks its relations go by the old one."""
    came = [(int(Lsn.parse(lsn)), data) for lsn, _, data in rows]
    return reassembled(came, int(options["proto_version"]), options.get("streaming", "off"), schemas=False)
