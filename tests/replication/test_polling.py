"""An acquired slot is polled: it never waits, and says what to wait for. So one event loop serves as many slots as it likes."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import deque
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from support.acquired import acquired, looked
from support.cases import open_case
from support.outlets import OUTLETS
from support.ways import Road
from tailrace.errors import CorruptWal, UsageError
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner, Pipeline
from tailrace.pipeline.following import FollowedLog, NothingNew
from tailrace.pipeline.scanning import Scanning
from tailrace.plan.demand import OF_TABLES
from tailrace.plugins.test_decoding import TestDecoding
from tailrace.replication import acquired_slot
from tailrace.replication.acquired_slot import AcquiredSlot
from tailrace.replication.next_window import Limit
from tailrace.replication.service import acquire
from tailrace.replication.slot_location import SlotLocation
from tailrace.replication.waiting import AsyncWaiter, finish_async
from tailrace.sources.source import Source
from tailrace.wal.index import Index
from tailrace.window import WindowSize

SLOTS = 20
SEVERAL = WindowSize(wal_bytes=1 << 13)


@pytest.fixture
def road(tmp_path: Path) -> Road:
    return Road(open_case("xact", 16, "with_slot", tmp_path / "case"))


@pytest.mark.soak
def test_one_event_loop_serves_many_slots(road: Road, tmp_path: Path) -> None:
    """As a server would: steps, polls and decoding in threads, and a task a connection, which awaits its waiter. One takes a window an hour."""
    dice = random.Random(road.case.story)
    first, *later = sorted(dice.sample(road.records, 6))
    names = [f"slot{number}" for number in range(SLOTS)]
    growing, state = road.growing(first, tmp_path, names)
    last = Lsn(road.records[-1])
    expected = _lines(road)
    location = SlotLocation.open(state)

    async def connection(name: str, *, is_slow: bool) -> list[tuple[int, int, bytes]]:
        slot = await finish_async(acquire(location, name, LocalRunner(1)))
        try:
            plugin = TestDecoding()
            await asyncio.to_thread(plugin.startup, {}, slot.major)
            waiter, given = AsyncWaiter(), []
            while slot.read_upto < last:
                polled = await asyncio.to_thread(slot.poll, plugin.demand, Limit(last, SEVERAL if is_slow else None))
                if isinstance(polled, NothingNew):
                    await waiter.wait(polled)
                    continue
                given += await asyncio.to_thread(_decoded, polled, plugin)
                if is_slow:
                    return given
                await asyncio.to_thread(slot.confirm, given[-1][0] if given and dice.random() < 0.3 else slot.read_upto)
            return given
        finally:
            await asyncio.to_thread(slot.release)

    async def serve() -> None:
        serving = [asyncio.create_task(connection(name, is_slow=number == 0)) for number, name in enumerate(names)]
        for cut in (*later, int(road.source.segments.stop_lsn)):
            await asyncio.sleep(0.2)
            await asyncio.to_thread(growing.upto, cut)
        slow, *others = await asyncio.wait_for(asyncio.gather(*serving), 120)
        assert slow == expected[: len(slow)]
        for given in others:
            assert given == expected

    asyncio.run(serve())
    assert all(location.active_pid(name) is None for name in names)


def test_what_is_confirmed_amid_a_window_is_not_given_again(road: Road, tmp_path: Path) -> None:
    """A client that flushes slowly; then one that dies, and another that comes for the rest."""
    _, state = road.growing(int(road.source.segments.stop_lsn), tmp_path, ["mine"])
    location, expected = SlotLocation.open(state), _lines(road)
    plugin = TestDecoding()
    with acquired(location, "mine", LocalRunner(1)) as slot:
        plugin.startup({}, slot.major)
        window = slot.poll(plugin.demand)
        assert isinstance(window, Pipeline)
        (lines,) = window.lines(plugin)
        amid = Lsn(int(lines.ended[len(lines.ended) // 2]))
        slot.confirm(amid)
        assert slot.slot.confirmed_flush_lsn == amid
        assert isinstance(slot.poll(plugin.demand), NothingNew)  # the window counts as taken, whatever was confirmed of it
        assert slot.read_upto > amid
    with acquired(location, "mine", LocalRunner(1)) as slot:
        rest = [row for window in looked(slot, plugin.demand) for row in _decoded(window, plugin)]
    assert rest == expected[-len(rest) :]
    assert len(expected) - len(rest) == int(lines.ends[len(lines.ended) // 2])


def test_the_log_of_the_next_window_is_read_while_one_is_taken(
    road: Road, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same comes; what is wrong there is told where it would be without; and who stops has read in vain."""
    _, state = road.growing(int(road.source.segments.stop_lsn), tmp_path, ["mine", "other"])
    location, plugin = SlotLocation.open(state), TestDecoding()
    look, threads = FollowedLog.look, set[str]()

    def watched(log: FollowedLog, *asked: Any) -> Iterator[tuple[Source, Index]]:
        for part in look(log, *asked):
            threads.add(threading.current_thread().name)
            yield part

    def damaged(log: FollowedLog, *asked: Any) -> Iterator[tuple[Source, Index]]:
        yield from islice(look(log, *asked), 3)
        raise CorruptWal("this is damaged", lsn=log.lsn)

    monkeypatch.setattr(acquired_slot, "sharing", lambda *_: Scanning(1 << 13))
    monkeypatch.setattr(FollowedLog, "look", watched)
    given: list[tuple[int, int, bytes]] = []
    with acquired(location, "mine", LocalRunner(1), SEVERAL) as slot:
        plugin.startup({}, slot.major)
        _take(slot, plugin, given)
    assert given == _lines(road)
    assert any(name.startswith("ThreadPoolExecutor") for name in threads)
    monkeypatch.setattr(FollowedLog, "look", damaged)
    others: list[tuple[int, int, bytes]] = []
    with acquired(location, "other", LocalRunner(1), SEVERAL) as slot:
        with pytest.raises(CorruptWal, match="this is damaged"):
            _take(slot, plugin, others)
        monkeypatch.undo()
        window = slot.poll(plugin.demand)
        assert isinstance(window, Pipeline)
        with pytest.raises(KeyboardInterrupt), slot.looking_ahead():
            raise KeyboardInterrupt
    with acquired(location, "other", LocalRunner(1)) as slot:
        others += [row for window in looked(slot, plugin.demand) for row in _decoded(window, plugin)]
    assert others == given


def _take(slot: AcquiredSlot, plugin: TestDecoding, given: list[tuple[int, int, bytes]]) -> None:
    while isinstance(window := slot.poll(plugin.demand), Pipeline):
        with slot.looking_ahead():
            given += _decoded(window, plugin)
        slot.confirm(window.span.stop)


def test_nothing_waits_and_damage_is_told_once_it_is_certain(
    road: Road, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    growing, state = road.growing(int(road.source.segments.stop_lsn), tmp_path, ["mine"])
    archive = growing.archive
    monkeypatch.setattr("tailrace.pipeline.following._PATIENCE", 0.5)
    with acquired(SlotLocation.open(state), "mine", LocalRunner(1)) as slot:
        monkeypatch.setattr(time, "sleep", _refuse)
        for segment in archive.iterdir():
            segment.write_bytes(segment.read_bytes()[:400_000])
        began = time.monotonic()
        polled = slot.poll(OF_TABLES)
        assert isinstance(polled, NothingNew)
        assert polled.in_doubt
        assert polled.again_at < began + 10
        with pytest.raises(CorruptWal, match="has 400000 bytes"):
            deque(iter(partial(slot.poll, OF_TABLES), None), maxlen=0)
        assert time.monotonic() - began > 0.5


def test_a_slot_is_one_owner_s_in_one_process_too(road: Road, tmp_path: Path) -> None:
    _, state = road.growing(int(road.source.segments.stop_lsn), tmp_path, ["mine"])
    location = SlotLocation.open(state)
    with acquired(location, "mine", LocalRunner(1)), pytest.raises(UsageError, match="is active for PID"):
        acquired(location, "mine", LocalRunner(1))
    acquired(location, "mine", LocalRunner(1)).release()


_SLEEP = time.sleep


def _refuse(seconds: float) -> None:
    """Threads of others (py4j has some where tests of Spark ran before) may."""
    assert threading.current_thread() is not threading.main_thread(), "somebody waits"
    _SLEEP(seconds)


def _lines(road: Road) -> list[tuple[int, int, bytes]]:
    outlet = next(each for each in OUTLETS if each.plugin == "test_decoding" and not each.options and not each.two_phase)
    return road.at_once([outlet])[outlet].rows


def _decoded(window: Pipeline, plugin: TestDecoding) -> list[tuple[int, int, bytes]]:
    return [
        row
        for lines in window.lines(plugin)
        for row in zip(lines.lsn.tolist(), lines.xid.tolist(), lines.texts.to_bytes(), strict=True)
    ]


def test_limits_may_change_from_poll_to_poll(road: Road, tmp_path: Path) -> None:
    """Small windows and a large one, and a halt in between: the same rows, each once."""
    _, state = road.growing(int(road.source.segments.stop_lsn), tmp_path, ["mine"])
    plugin, given = TestDecoding(), []
    with acquired(SlotLocation.open(state), "mine", LocalRunner(1)) as slot:
        plugin.startup({}, slot.major)
        halt = Lsn(road.records[len(road.records) // 2])
        for limit in (Limit(halt, SEVERAL), Limit(halt), Limit(None, SEVERAL), Limit()):
            for _ in range(2 if limit.window else 1000):
                if isinstance(window := slot.poll(plugin.demand, limit), NothingNew):
                    break
                given += _decoded(window, plugin)
    assert given == _lines(road)
