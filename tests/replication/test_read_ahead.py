"""What lies behind a window is scanned while it is put to use: who looks for the next one finds indexes, and raises what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.acquired import acquired
from support.servers import Server
from support.waiting import until
from tailrace.cli.verbs.slot import create
from tailrace.model import Lsn, Stretch
from tailrace.pipeline import LocalRunner
from tailrace.pipeline.following import NothingNew
from tailrace.pipeline.pipeline import Pipeline
from tailrace.plan.demand import OF_TABLES
from tailrace.replication.acquired_slot import AcquiredSlot
from tailrace.replication.next_window import Limit
from tailrace.replication.read_ahead import ReadAhead
from tailrace.replication.slot_location import SlotLocation
from tailrace.window import WindowSize

pytestmark = pytest.mark.postgres
MB = 1 << 20
WINDOW = WindowSize(wal_bytes=2 * MB)


@pytest.fixture
def location(tmp_path: Path) -> Iterator[SlotLocation]:
    """With a slot of a log of 12 MB, in segments of one."""
    with Server(18, {"wal_keep_size": "100MB", "autovacuum": "off"}, wal_segment_mb=1) as server:
        server.say("CREATE TABLE t (id int PRIMARY KEY, v text)")
        create("s", server.data_dir, server.dbname, tmp_path / "state")
        for number in range(24):
            server.say(f"INSERT INTO t SELECT {number} * 3000 + g, repeat('x', 100) FROM generate_series(1, 3000) g")
        server.stop()
        yield SlotLocation.open(tmp_path / "state")


def _window(slot: AcquiredSlot) -> Pipeline:
    polled = slot.poll(OF_TABLES, Limit(None, WINDOW))
    assert not isinstance(polled, NothingNew)
    return polled


def test_the_next_window_finds_it(location: SlotLocation) -> None:
    with acquired(location, "s", LocalRunner(1, WINDOW)) as slot:
        window = _window(slot)
        segments = window.source.segments
        begin = window.span.stop // MB * MB
        cells = [Stretch(Lsn(at), Lsn(at + MB)) for at in range(begin + MB, begin + 5 * MB, MB)]
        assert not any(location.index_store.has(segments.identity, cell) for cell in cells)
        ahead = ReadAhead(location)
        ahead.begin(window, 7 * MB)
        until(lambda: all(location.index_store.has(segments.identity, cell) for cell in cells))
        ahead.close()
        following, end = [], Lsn(0)
        while not isinstance(polled := slot.poll(OF_TABLES, Limit(None, WINDOW)), NothingNew):
            following.append(len(polled.plan.transactions))
            end = polled.span.stop
        assert sum(following) + len(window.plan.transactions) == 24
        assert end > cells[-1].stop


def test_what_is_wrong_is_for_who_gets_there(location: SlotLocation) -> None:
    """And until then it is nobody's trouble."""
    with acquired(location, "s", LocalRunner(1, WINDOW)) as slot:
        window = _window(slot)
        segments = window.source.segments
        damaged = window.span.stop // MB + 3
        path = Path(segments.by_number[damaged].path)
        data = bytearray(path.read_bytes())
        data[5000:5100] = bytes(100)
        path.write_bytes(data)
        ahead = ReadAhead(location)
        ahead.begin(window, 7 * MB)
        until(lambda: location.index_store.has(segments.identity, Stretch(Lsn((damaged - 2) * MB), Lsn((damaged - 1) * MB))))
        ahead.close()
        while not isinstance(polled := slot.poll(OF_TABLES, Limit(None, WINDOW)), NothingNew):
            assert polled.span.stop <= damaged * MB + 5100
        assert polled.in_doubt, "it may be being written"
