"""Slots of one log that are polled together: each is given what it would be given alone, and what is planned for one is not planned again."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from support.acquired import acquired, looked
from support.servers import Server
from tailrace.cli.verbs.slot import create
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner, Pipeline
from tailrace.pipeline.following import NothingNew
from tailrace.plan import Plan
from tailrace.plugins.test_decoding import TestDecoding
from tailrace.replication import shared_plans
from tailrace.replication.acquired_slot import AcquiredSlot
from tailrace.replication.shared_plans import SharedPlans
from tailrace.replication.slot_location import SlotLocation
from tailrace.window import WindowSize

pytestmark = pytest.mark.postgres
SIZE = WindowSize(wal_bytes=2 << 20)
NAMES = [f"s{number}" for number in range(4)]
Line = tuple[int, int, bytes]


class _Consumer:
    """A slot with its plugin. State: what it was given, and of which plans."""

    def __init__(self, slot: AcquiredSlot) -> None:
        self.slot, self.plugin = slot, TestDecoding()
        self.plugin.startup({}, slot.major)
        self.given: list[Line] = []
        self.plans: list[Plan] = []

    def poll(self, plans: SharedPlans) -> bool:
        """Whether there was something new."""
        window = plans.poll(self.slot, self.plugin.demand, SIZE)
        if isinstance(window, NothingNew):
            return False
        self.given += _decoded(window, self.plugin)
        self.plans.append(window.plan)
        return True


def _decoded(window: Pipeline, plugin: TestDecoding) -> Iterator[Line]:
    for lines in window.lines(plugin):
        yield from zip(lines.lsn.tolist(), lines.xid.tolist(), lines.texts.to_bytes(), strict=True)


@contextmanager
def _consumers(location: SlotLocation) -> Iterator[list[_Consumer]]:
    with ExitStack() as held:
        yield [_Consumer(held.enter_context(acquired(location, name, LocalRunner(1)))) for name in NAMES]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(18) as server:
        server.say("CREATE TABLE t (id serial PRIMARY KEY, v text)")
        yield server


@pytest.fixture
def location(server: Server, tmp_path: Path) -> SlotLocation:
    """Slots that were created one after the other, with a segment between two of them; then a backlog."""
    for name in NAMES:
        create(name, server.data_dir, tmp_path, server.dbname)
        server.say(f"INSERT INTO t (v) VALUES ('{name}')", "SELECT pg_switch_wal()")
    _fill(server)
    return SlotLocation.open(tmp_path)


def _fill(server: Server) -> None:
    server.say(*["INSERT INTO t (v) SELECT repeat('x', 500) FROM generate_series(1, 2000)"] * 8)


def _come_together(consumers: list[_Consumer], plans: SharedPlans) -> None:
    """A server writes records by itself too, and who polled before one of them is a window behind."""
    until = time.monotonic() + 60
    while len({id(each.plans[-1]) for each in consumers}) > 1:
        assert time.monotonic() < until
        time.sleep(0.01)  # what somebody saw a moment ago holds for all
        for each in consumers:
            each.poll(plans)


def _alone(location: SlotLocation) -> list[list[Line]]:
    found = []
    with _consumers(location) as consumers:
        for each in consumers:
            windows = looked(each.slot, each.plugin.demand)
            found.append([line for window in windows for line in _decoded(window, each.plugin)])
    return found


@pytest.mark.parametrize("seed", [1, 2])
def test_slots_that_begin_apart_come_together(server: Server, location: SlotLocation, seed: int) -> None:
    dice, plans = random.Random(seed), SharedPlans()
    with _consumers(location) as consumers:
        waiting = list(consumers)
        while waiting:  # whoever comes first to a place plans there
            each = dice.choice(waiting)
            if not each.poll(plans):
                waiting.remove(each)
        _come_together(consumers, plans)
        assert len({id(plan) for each in consumers for plan in each.plans}) < sum(len(each.plans) for each in consumers) / 2
        for _ in range(3):  # at the end of the log
            server.say("INSERT INTO t (v) VALUES ('y')")
            for each in dice.sample(consumers, len(consumers)):
                while not each.poll(plans):  # what somebody saw a moment ago holds for all
                    time.sleep(0.01)
            assert len({id(each.plans[-1]) for each in consumers}) == 1
        given = [each.given for each in consumers]
    assert given == _alone(location)


@pytest.mark.parametrize("most", [1, 3])
def test_what_is_kept_is_bounded(location: SlotLocation, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is further behind than that plans for itself, and is given the same."""
    monkeypatch.setattr(shared_plans, "MOST_WINDOWS", most)
    plans = SharedPlans()
    with _consumers(location) as consumers:
        for each in consumers:
            while each.poll(plans):
                pass
        assert len({id(plan) for plan in consumers[0].plans + consumers[1].plans}) > len(consumers[0].plans)
        given = [each.given for each in consumers]
    assert given == _alone(location)


def test_who_comes_back_amid_a_window_is_given_the_rest(location: SlotLocation) -> None:
    """It stands where none of the others has stood, until the next window."""
    plans = SharedPlans()
    with acquired(location, NAMES[0], LocalRunner(1)) as slot:
        quick = _Consumer(slot)
        while quick.poll(plans):
            pass
    with acquired(location, NAMES[1], LocalRunner(1)) as slot:
        slow, commits = _Consumer(slot), list[int]()
        while len(commits) < 5:
            assert slow.poll(plans)
            commits = [number for number, line in enumerate(slow.given) if line[2].startswith(b"COMMIT")]
        slow.given = slow.given[: commits[3] + 1]
        slot.confirm(Lsn(slow.given[-1][0] + 1))
    with acquired(location, NAMES[1], LocalRunner(1)) as slot:
        rest = _Consumer(slot)
        while rest.poll(plans):
            pass
    given = slow.given + rest.given
    assert given == quick.given[-len(given) :]
    assert any(plan is quick.plans[-1] for plan in rest.plans)  # behind it may be what the server has written by itself since
