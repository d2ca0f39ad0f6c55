"""Several slots on one log: what one of them has scanned, the others need not, whoever is ahead and whoever comes at the same time."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.acquired import acquired
from support.archives import create_on_archive, receiving, switch_until_whole
from support.decoding import check_equal
from support.servers import Server
from support.slots import ours, theirs
from tailrace.model import Lsn, Stretch
from tailrace.pipeline import LocalRunner
from tailrace.pipeline.scanning import scan_stretch
from tailrace.pipeline.stored_indexes import SharedIndexes
from tailrace.replication.slot_location import SlotLocation
from tailrace.replication.waiting import finish

pytestmark = pytest.mark.postgres
SLOTS = 10
CELL = 1 << 20


class Counting(LocalRunner):
    """Notes what is scanned, by whoever has it."""

    def __init__(self) -> None:
        super().__init__(1)
        self.scanned: Counter[Stretch] = Counter()

    def run(self, work: Callable[..., Any], items: Sequence[Any], **options: Any) -> Iterator[Any]:
        if getattr(work, "func", None) is scan_stretch:
            self.scanned.update(items)
        return super().run(work, items, **options)

    def of_whole_cells(self) -> Counter[Stretch]:
        return Counter({each: times for each, times in self.scanned.items() if each.stop - each.start == CELL})


def _write(server: Server, dice: random.Random) -> None:
    rows = dice.randrange(1000, 3000)
    server.say(f"INSERT INTO t (v) SELECT repeat('x', 300) FROM generate_series(1, {rows})", "ALTER TABLE t ALTER v SET NOT NULL")


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[tuple[SlotLocation, list[str]]]:
    """Ten slots, each at a place of its own; and what the server's slot gave from one place to the next."""
    dice = random.Random(1)
    with Server(16) as server, receiving(server, tmp_path / "archive"):
        server.say("CREATE TABLE t (id serial PRIMARY KEY, v text)")
        create_on_archive(server, tmp_path / "archive", tmp_path / "state")
        location = SlotLocation.open(tmp_path / "state")
        location.rename("mine", "slot0")
        pieces, places = [], []
        for _ in range(SLOTS):
            _write(server, dice)
            places.append(Lsn.parse(server.flush_lsn()))
            pieces.append(theirs(server, str(places[-1])))
        _write(server, dice)
        pieces.append(theirs(server, switch_until_whole(server, tmp_path / "archive")))
        for number in range(1, SLOTS):
            location.copy("slot0", f"slot{number}")
        for number, place in enumerate(places):
            with acquired(location, f"slot{number}", LocalRunner(1)) as consumer:
                assert finish(consumer.advance(place)) == place
        yield location, pieces


def test_ten_slots_scan_a_log_once(archive: tuple[SlotLocation, list[str]]) -> None:
    """All at the same time, from ten places. What is scanned by each alone is the rest of the segment where it stands, and the end of the log."""
    location, pieces = archive
    for path in (location.path / "index").rglob("*.index"):
        path.unlink()
    runner, ready = Counting(), threading.Barrier(SLOTS)

    def take(number: int) -> str:
        ready.wait()
        with acquired(location, f"slot{number}", runner) as consumer:
            return ours(consumer)

    with ThreadPoolExecutor(SLOTS) as pool:
        taken = list(pool.map(take, range(SLOTS)))
    for number in range(SLOTS):
        check_equal(taken[number], "".join(pieces[number + 1 :]))
    end = max(each.stop for each in runner.scanned)
    shared = {each: times for each, times in runner.of_whole_cells().items() if each.stop <= end - 3 * CELL}
    assert len(shared) >= 5
    assert set(shared.values()) == {1}
    own = [each for each in runner.scanned if each.stop - each.start < CELL]
    assert len(own) <= 2 * SLOTS


@pytest.mark.marathon
def test_without_a_store_each_would_scan_it_all(archive: tuple[SlotLocation, list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    """What the test above counts is there to be counted."""
    location, _ = archive
    monkeypatch.setattr(SharedIndexes, "_stored", lambda *_: None)
    runner = Counting()
    for number in (0, 1):
        with acquired(location, f"slot{number}", runner) as consumer:
            ours(consumer)
    assert max(runner.of_whole_cells().values()) == 2


def test_what_no_slot_needs_goes(archive: tuple[SlotLocation, list[str]]) -> None:
    location, _ = archive
    before = {path.name for path in (location.path / "index").rglob("*.index")}
    needed = location.slot("slot3").confirmed_flush_lsn
    for slot in location.slots():
        with location.owned(slot.name) as mine:
            location.save(replace(mine, restart_lsn=max(needed, mine.confirmed_flush_lsn)))
    location.prune()
    after = {path.name for path in (location.path / "index").rglob("*.index")}
    assert after < before
    assert after == {name for name in before if int(name[17:33], 16) > needed}
