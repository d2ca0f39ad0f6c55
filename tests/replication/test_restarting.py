"""A slot's consumer that comes back opens no segment from before restart_lsn: a reader that watches."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.acquired import acquired
from support.archives import create_on_archive, ours_upto, receiving, switch_until_whole
from support.decoding import check_equal
from support.servers import Server
from support.slots import create_both, ours, theirs
from support.watching import opened_places
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner
from tailrace.replication.slot_location import SlotLocation
from tailrace.storage.segment import segment_name

CELL = 64  # segments: so much of the log is kept, or forgotten, together
SWITCHES = f"""DO $$ BEGIN FOR i IN 1..{CELL} LOOP
    PERFORM pg_logical_emit_message(false, '', ''); PERFORM pg_switch_wal(); END LOOP; END $$"""
pytestmark = pytest.mark.postgres
FILL = "INSERT INTO t SELECT g, repeat('x', 500) FROM generate_series(1, 3000) g"


@pytest.mark.parametrize("is_pinned", [True, False], ids=["open transaction", "nothing open"])
@pytest.mark.parametrize("is_archive", [True, pytest.param(False, marks=pytest.mark.marathon)], ids=["archive", "data directory"])
def test_nothing_below_restart_lsn(*, is_archive: bool, is_pinned: bool, tmp_path: Path) -> None:
    with Server(16) as server, receiving(server, archive := tmp_path / "archive"):
        server.say("CREATE TABLE t (id int, v text)")
        if is_archive:
            create_on_archive(server, archive, tmp_path / "state")
        else:
            create_both(server, "mine", tmp_path / "state")
        location = SlotLocation.open(tmp_path / "state")
        server.say(FILL, SWITCHES)
        end = switch_until_whole(server, archive)
        with acquired(location, "mine", LocalRunner(1)) as consumer:
            taken = ours_upto(consumer, end) + ours(consumer)
        before = location.slot("mine").restart_lsn
        with server.connect(autocommit=False) as open_one:
            if is_pinned:
                open_one.execute("INSERT INTO t VALUES (0, 'open')")
            began = Lsn.parse(server.flush_lsn())
            server.say(FILL, "CREATE TABLE other (id int)", "INSERT INTO other VALUES (1)", SWITCHES)
            end = switch_until_whole(server, archive)
            with acquired(location, "mine", LocalRunner(1)) as consumer:
                taken += ours_upto(consumer, end) + ours(consumer)
            slot = location.slot("mine")
            assert slot.restart_lsn >= before >= CELL << 20
            assert (slot.restart_lsn < began) == is_pinned
            open_one.commit()
        server.say("INSERT INTO t VALUES (1, 'after')")
        end = switch_until_whole(server, archive)
        with opened_places() as seen, acquired(location, "mine", LocalRunner(1)) as consumer:
            taken += ours_upto(consumer, end)
            taken += ours(consumer)
        check_equal(taken, theirs(server))
    assert segment_name(1, Lsn.parse(end) - 1 >> 20, 1 << 20)[8:] in seen
    assert min(seen) >= segment_name(1, slot.restart_lsn >> 20, 1 << 20)[8:]
