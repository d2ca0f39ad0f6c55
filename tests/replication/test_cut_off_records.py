"""A record that a crash cut off runs over the end of a stretch: what the server writes in place of its rest is the next stretch's alone."""

from __future__ import annotations

from functools import reduce
from pathlib import Path

import pytest

from support.acquired import acquired
from support.cuts import pages_in, stretches_between
from support.damage import PAGE, cut_off
from support.decoding import check_equal
from support.servers import Server
from support.slots import create_both, ours, theirs
from tailrace.model import Lsn, Stretch
from tailrace.pipeline import LocalRunner, Source
from tailrace.pipeline.scanning import scan_stretch
from tailrace.replication.slot_location import SlotLocation
from tailrace.wal.merge import merged

pytestmark = pytest.mark.postgres
SEGMENT = 1 << 20


@pytest.mark.parametrize("pages", [0, 3], ids=["at a segment's first page", "behind it"])
def test_what_overwrites_it_is_read_once(pages: int, tmp_path: Path) -> None:
    """By indexes of neighbouring stretches, and by a consumer that reads both as one since a transaction was open."""
    with Server(16) as server:
        server.say("CREATE TABLE t (id int)")
        create_both(server, "mine", tmp_path / "state")
        begin = Lsn.parse(server.flush_lsn())
        border = (begin // SEGMENT + 1) * SEGMENT
        server.say("INSERT INTO t VALUES (1)", "SELECT pg_logical_emit_message(false, 'm', repeat('x', 3 << 20))")
        server.crash()
        cut_off(server.wal_dir, border + pages * PAGE)
        server.start()
        server.say("INSERT INTO t VALUES (2)")
        with acquired(SlotLocation.open(tmp_path / "state"), "mine", LocalRunner(1)) as consumer:
            with server.connect(autocommit=False) as open_one:
                open_one.execute("INSERT INTO t VALUES (3)")
                server.say("INSERT INTO t VALUES (4)")
                taken = ours(consumer)
                open_one.commit()
            taken += ours(consumer)
        check_equal(taken, theirs(server))
        server.stop()
        segments = Source.open(server.data_dir).segments
        first, stop = begin // PAGE * PAGE, int(segments.stop_lsn)
        whole = scan_stretch(segments, (), Stretch(Lsn(first), Lsn(stop)))
        for cuts in ([border], pages_in(first, border + 5 * PAGE)):
            parts = [scan_stretch(segments, (), each) for each in stretches_between([first, *cuts, stop])]
            assert all(part.last < part.stretch.stop for part in parts)
            both = reduce(merged, parts)
            assert (both.records, both.fingerprint, both.next_lsn) == (whole.records, whole.fingerprint, whole.next_lsn)
