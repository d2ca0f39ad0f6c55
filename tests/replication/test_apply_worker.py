"""A lake follows a slot: each change once, whoever dies or is quicker, and each of tables, catalog, readers' table and slot behind the one before."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import pytest

from support.acquired import acquired
from support.own_database import own_database
from support.servers import Server
from support.storm import begin, different, storm
from support.waiting import until
from tailrace.cli.verbs.slot import create
from tailrace.errors import MissingHistory, Overtaken, PeerError, UsageError
from tailrace.lake.catalog import LakeCatalog, StoredCatalog
from tailrace.lake.complete_table import CompleteTable
from tailrace.lake.formats import FORMATS
from tailrace.lake.lake import Lake
from tailrace.lake.layouts.mirror import MirrorLayout
from tailrace.lake.reading import read_table
from tailrace.model import PG_EPOCH, Lsn
from tailrace.pipeline import LocalRunner
from tailrace.pipeline.following import NothingNew
from tailrace.plan.demand import OF_TABLES
from tailrace.replication import apply_retry
from tailrace.replication.acquired_slot import AcquiredSlot
from tailrace.replication.apply_worker import ApplyWorker, Pace, Until, WindowApplied
from tailrace.replication.next_window import Limit, is_full
from tailrace.replication.slot_location import SlotLocation
from tailrace.storage.local_store import LocalStore
from tailrace.storage.store import Store
from tailrace.window import WindowSize

pytestmark = pytest.mark.postgres
AT_ONCE, ALL = Pace(), Until()
SMALL = WindowSize(wal_bytes=1 << 16)


@dataclass
class Mirror:
    """A slot and a lake; each `run` is one of a process of its own."""

    server: Server
    home: Path
    state: str = "state"
    format: str = "delta"
    told: list[WindowApplied] = field(default_factory=list)

    def __post_init__(self) -> None:
        create("mirror", self.server.data_dir, self.home / self.state, self.server.dbname, plugin="test_decoding")

    @property
    def store(self) -> LocalStore:
        return LocalStore(self.home / "lake")

    @property
    def lake(self) -> Lake:
        return Lake.open(self.store, format=self.format)

    def run(self, pace: Pace = AT_ONCE, until: Until = ALL, *, started: Callable[[ApplyWorker], None] = lambda _: None) -> Lsn:
        with acquired(SlotLocation.open(self.home / self.state), "mirror", LocalRunner(1), pace.window) as slot:
            worker = ApplyWorker(slot, self.lake, pace, until, tell=self.told.append)
            started(worker)
            worker.run()
            return slot.slot.confirmed_flush_lsn

    @property
    def complete(self) -> Lsn:
        catalog = self.lake.catalog
        return catalog.complete if catalog is not None else Lsn(0)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(18, {"wal_keep_size": "500MB"}, test_decoding=False) as running:
        yield running


@pytest.fixture
def mirror(server: Server, tmp_path: Path) -> Iterator[Mirror]:
    """On a database of its own."""
    with own_database(server):
        begin(server)
        yield Mirror(server, tmp_path)


@pytest.mark.parametrize("format", FORMATS)
def test_what_was_there_before_the_slot_and_what_comes_after(mirror: Mirror, format: str) -> None:
    """In windows of any size; and a run that finds nothing changes nothing."""
    mirror.format = format
    with storm(mirror.server, 1):
        time.sleep(0.5)
    mirror.run(Pace(SMALL))
    with storm(mirror.server, 2):
        time.sleep(0.3)
    assert mirror.run(Pace(SMALL)) == mirror.complete
    assert different(mirror.server, mirror.store) == []
    assert len(mirror.told) > 2
    mirror.told.clear()
    mirror.run()
    assert not any(each.tables for each in mirror.told)


def test_it_follows_and_ends_behind_a_commit(mirror: Mirror) -> None:
    """What commits within a period is one commit of the table."""
    workers: list[ApplyWorker] = []
    thread = threading.Thread(target=mirror.run, args=(Pace(every=1.0, follows=True),), kwargs={"started": workers.append})
    thread.start()
    until(lambda: any(each.tables for each in mirror.told))
    before = len(mirror.told)
    began = time.monotonic()
    for number in range(20):
        mirror.server.say(f"INSERT INTO plain VALUES ({5000 + number}, 'followed', 1)")
    end = Lsn.parse(mirror.server.flush_lsn())
    until(lambda: mirror.complete >= end)
    windows = len([each for each in mirror.told[before:] if each.tables])
    assert windows <= 2 + (time.monotonic() - began)
    workers[0].stop()
    thread.join(10)
    assert not thread.is_alive()
    assert different(mirror.server, mirror.store) == []


class Killed(BaseException):
    """As `kill -9` ends a process, as far as the lake and the slot can tell."""


def _dies(*_: object, **__: object) -> None:
    raise Killed


def _second_table_dies() -> Callable[..., object]:
    bring_up, calls = MirrorLayout.bring_up, count(1)

    def bring_up_or_die(*arguments: object, **more: object) -> object:
        return _dies() if next(calls) == 2 else bring_up(*arguments, **more)  # type: ignore[arg-type]

    return bring_up_or_die


def _last_catalog_dies() -> Callable[..., object]:
    replaced = StoredCatalog.replaced

    def replaced_or_die(stored: StoredCatalog, store: Store, catalog: LakeCatalog) -> object:
        is_begun = stored.catalog is None or stored.catalog.complete == catalog.complete
        return replaced(stored, store, catalog) if is_begun else _dies()

    return replaced_or_die


PLACES: dict[str, tuple[object, str, Callable[[], Callable[..., object]]]] = {
    "begun": (Lake, "apply", lambda: _dies),
    "tables": (MirrorLayout, "bring_up", _second_table_dies),
    "catalog": (StoredCatalog, "replaced", _last_catalog_dies),
    "readers": (CompleteTable, "advance", lambda: _dies),
    "slot": (AcquiredSlot, "confirm", lambda: _dies),
}


@pytest.mark.parametrize("format", ["delta", pytest.param("iceberg", marks=pytest.mark.soak)])
@pytest.mark.parametrize("place", PLACES)
def test_killed_anywhere(mirror: Mirror, place: str, format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the first run, which takes in what was before the slot, and in one that follows; the readers' table never leads the catalog."""
    mirror.format = format
    where, name, dying = PLACES[place]
    for seed in range(2):
        mirror.server.say("UPDATE plain SET v = 'between'", "INSERT INTO bag VALUES (1, 'between')")
        with monkeypatch.context() as patched:
            patched.setattr(where, name, dying())
            with pytest.raises(Killed):
                mirror.run()
        assert _readers(mirror) <= mirror.complete
        with storm(mirror.server, seed):
            time.sleep(0.1)
        mirror.run()
        assert different(mirror.server, mirror.store) == []
        assert _readers(mirror) == mirror.complete


def _readers(mirror: Mirror) -> int:
    found = CompleteTable.of(mirror.store, mirror.format).found.refreshed()
    return (found.open().number("tailrace/complete") or 0) if found.is_there else 0


@pytest.mark.parametrize("format", ["delta", pytest.param("iceberg", marks=pytest.mark.soak)])
def test_two_with_slots_of_their_own(mirror: Mirror, format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They write to one lake at once, are overtaken, and both come to its end."""
    mirror.format = format
    pause_after, met = apply_retry.ApplyRetry.pause_after, []
    monkeypatch.setattr(apply_retry.ApplyRetry, "pause_after", lambda *given: met.append(given[1]) or pause_after(*given))
    mirrors = [mirror, Mirror(mirror.server, mirror.home, "another", format)]
    workers: list[ApplyWorker] = []
    pace, failures = Pace(SMALL, every=0.05, follows=True), []

    def run(each: Mirror) -> None:
        try:
            each.run(pace, started=workers.append)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(each,)) for each in mirrors]
    for thread in threads:
        thread.start()
    with storm(mirror.server, 5):
        time.sleep(0.6)
    end = Lsn.parse(mirror.server.flush_lsn())
    until(
        lambda: (
            failures
            or all(SlotLocation.open(mirror.home / each.state).slot("mirror").confirmed_flush_lsn >= end for each in mirrors)
        )
    )
    for worker in workers:
        worker.stop()
    for thread in threads:
        thread.join(10)
    assert not failures
    assert different(mirror.server, mirror.store) == []
    assert _readers(mirror) == mirror.complete
    assert any(isinstance(error, Overtaken) for error in met), "they never met"


def test_up_to_an_lsn_and_a_time(mirror: Mirror) -> None:
    """In what was there before the slot, and in what the slot gives."""
    for round_ in range(2):
        first = 5000 + 10 * round_
        mirror.server.say(f"INSERT INTO plain VALUES ({first}, 'a', 1)")
        stop = Lsn.parse(mirror.server.value("SELECT pg_current_wal_lsn()"))
        mirror.server.say(f"INSERT INTO plain VALUES ({first + 1}, 'b', 1)")
        time.sleep(0.01)
        at = datetime.fromisoformat(mirror.server.value("SELECT clock_timestamp()::text")).astimezone(UTC)
        mirror.server.say(f"INSERT INTO plain VALUES ({first + 2}, 'c', 1)")
        if not round_:  # a slot that begins behind all that
            mirror = Mirror(mirror.server, mirror.home, "later")
        microseconds = int((at - PG_EPOCH).total_seconds() * 1e6)
        for limit, expected in (
            (Until(stop), {first}),
            (Until(time=microseconds), {first, first + 1}),
            (Until(), {first, first + 1, first + 2}),
        ):
            mirror.run(Pace(follows=limit != Until()), limit)
            assert {row["id"] for row in _rows(mirror, "plain") if row["id"] >= first} == expected
            assert mirror.complete == stop or limit.lsn is None


def _rows(mirror: Mirror, name: str) -> list[dict[str, object]]:
    return read_table(mirror.home / "lake" / f"public.{name}").to_pylist()


def test_a_lake_that_was_put_back(mirror: Mirror) -> None:
    """What it has lost is read again, while the log has it; or else it is an error. Nor is one lake taken for another."""
    mirror.run()
    shutil.copytree(mirror.home / "lake", mirror.home / "kept")
    mirror.server.say("UPDATE plain SET v = 'lost'", "INSERT INTO bag VALUES (7, 'lost')")
    mirror.run()
    shutil.rmtree(mirror.home / "lake")
    shutil.copytree(mirror.home / "kept", mirror.home / "lake")
    mirror.run()
    assert different(mirror.server, mirror.store) == []
    shutil.rmtree(mirror.home / "lake")
    shutil.move(mirror.home / "kept", mirror.home / "lake")
    catalog = mirror.lake.catalog
    assert catalog is not None
    copy = mirror.home / "wal"
    copy.mkdir()
    for segment in sorted(mirror.server.wal_dir.glob("0*"))[-1:]:
        shutil.copy(segment, copy)
    with pytest.raises(MissingHistory, match=r'complete up to .*, and replication slot "mirror" has confirmed'):
        _with_source(mirror, copy)
    other = f"other_{time.monotonic_ns()}"
    mirror.server.sql(f"CREATE DATABASE {other} STRATEGY file_copy")
    create("mirror", mirror.server.data_dir, mirror.home / "others", other)
    mirror.state = "others"
    with pytest.raises(UsageError, match="is of database"):
        mirror.run()


def _with_source(mirror: Mirror, source: Path) -> None:
    with acquired(SlotLocation.open(mirror.home / mirror.state), "mirror", LocalRunner(1)) as slot:
        slot.slot = replace(slot.slot, source=str(source))
        try:
            ApplyWorker(slot, mirror.lake).run()
        finally:
            slot.slot = replace(slot.slot, source=str(mirror.server.data_dir))


def test_a_store_that_is_away_is_waited_for(mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the log is followed, and told once; others are overtaken so many times, and no more."""
    apply, failures = (
        Lake.apply,
        [PeerError("the store is away"), PeerError("the store is away"), Overtaken("somebody was quicker")],
    )

    def sometimes(*arguments: object, **more: object) -> object:
        if failures:
            raise failures.pop(0)
        return apply(*arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Lake, "apply", sometimes)
    with pytest.raises(PeerError):
        mirror.run()
    end = Lsn.parse(mirror.server.flush_lsn())
    mirror.run(Pace(follows=True), Until(end))
    assert mirror.complete == end
    assert not failures
    monkeypatch.setattr(apply_retry, "_OVERTAKEN", 0.01)
    mirror.server.say("INSERT INTO bag VALUES (1, 'x')")
    failures += [Overtaken("somebody was quicker")] * 100
    with pytest.raises(Overtaken):
        mirror.run(Pace(follows=True))
    assert len(failures) == 100 - 12


@pytest.mark.soak
def test_a_server_that_was_put_back_is_noticed(mirror: Mirror) -> None:
    """The lake has what the log never had; also where the slot was put back with the server."""
    mirror.run()
    server = mirror.server
    server.stop()
    copy = server.copy_to(mirror.home / "copy")
    state = shutil.copytree(mirror.home / "state", mirror.home / "state_then")
    server.start()
    server.say("UPDATE plain SET v = 'in a history that is gone'")
    mirror.run()
    shutil.rmtree(mirror.home / "state")
    with Server(18, data=copy, dbname=server.dbname, test_decoding=False) as other:
        location = SlotLocation.take_over(state)
        with location.owned("mirror") as slot:
            location.save(replace(slot, source=str(other.data_dir)))
        there = Mirror.__new__(Mirror)
        there.server, there.home, there.state, there.told = other, mirror.home, "state_then", []
        with pytest.raises(MissingHistory, match="but its log ends at"):
            there.run()
        other.say("INSERT INTO plain SELECT g, 'another', 1 FROM generate_series(10000, 20000) g")
        with pytest.raises((UsageError, MissingHistory), match="lake"):
            there.run()


def test_a_window_of_few_bytes_may_be_full(tmp_path: Path) -> None:
    """Of messages, say, which are kept whole: who is behind goes on at once."""
    size = replace(Pace().window, kept_bytes=1 << 21)
    with Server(18, {"wal_keep_size": "100MB"}, wal_segment_mb=1, test_decoding=False) as server:
        create("s", server.data_dir, tmp_path / "state", server.dbname, plugin="test_decoding")
        for _ in range(20):
            server.say("SELECT pg_logical_emit_message(false, 'outbox', repeat('x', 400000))")
        with acquired(SlotLocation.open(tmp_path / "state"), "s", LocalRunner(1), size) as slot:
            windows = []
            while not isinstance(polled := slot.poll(OF_TABLES, Limit(None, size)), NothingNew):
                windows.append(polled)
    assert len(windows) > 2
    assert all(is_full(each, size) for each in windows[:-1])
