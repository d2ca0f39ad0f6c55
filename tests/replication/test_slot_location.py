"""State locations: who owns a slot, who may change which slots there are, and what a process that is killed leaves behind."""

from __future__ import annotations

import gc
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from support.cases import open_case
from support.damage import flip
from support.decoding import state_before
from tailrace.errors import CorruptFile, MissingHistory, TailraceError, UnsupportedFile, UsageError
from tailrace.model import Lsn
from tailrace.plan.carried import Carried
from tailrace.replication.slot_location import SlotLocation
from tailrace.slots.slot import WAL_REMOVED, Slot
from tailrace.transactions.scanned_log import Earlier

SYSTEM = 7_400_000_000_000_000_001
DATABASE = 16384


def slot_of(name: str, **more: object) -> Slot:
    slot = Slot(
        name=name, plugin="test_decoding", options={}, database="app", database_oid=DATABASE, system=SYSTEM, timeline=1, source="/data",
        two_phase=False, two_phase_at=Lsn(0), temporary=False, restart_lsn=Lsn(100), confirmed_flush_lsn=Lsn(100),
    )  # fmt: skip
    return replace(slot, **more)  # type: ignore[arg-type]


@pytest.fixture
def location(tmp_path: Path) -> SlotLocation:
    return SlotLocation.create(tmp_path / "state", SYSTEM)


@contextmanager
def process(location: SlotLocation, program: str) -> Iterator[subprocess.Popen[str]]:
    """Another process with the location, which has said something by now."""
    prelude = (
        f"import sys, time, random\nsys.path.insert(0, {str(Path(__file__).parents[1])!r})\n"
        "from pathlib import Path\nfrom dataclasses import replace\nfrom tailrace.model import Lsn\n"
        "from tailrace.replication.slot_location import SlotLocation\nlocation = SlotLocation.open(Path(sys.argv[1]))\n"
    )
    child = subprocess.Popen([sys.executable, "-c", prelude + program, str(location.path)], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        yield child
    finally:
        child.kill()
        child.wait()


OWNS = "with location.owned('a'):\n    print('ready', flush=True)\n    time.sleep(600)\n"


def in_fork(work: Callable[[], bool]) -> bool:
    """What a forked child finds."""
    pid = os.fork()
    if not pid:
        found = False
        with suppress(BaseException):
            found = work()
        os._exit(0 if found else 1)
    return os.waitpid(pid, 0)[1] == 0


def test_slots_are_there_for_whoever_comes_next(location: SlotLocation) -> None:
    for name in ("b", "a"):
        location.create_slot(slot_of(name))
    again = SlotLocation.open_or_create(location.path, SYSTEM)
    assert again.slots() == [slot_of("a"), slot_of("b")]
    assert again.slot("b") == slot_of("b")
    with again.owned("b") as slot:
        again.save(replace(slot, confirmed_flush_lsn=Lsn(500)))
    assert location.slot("b").confirmed_flush_lsn == 500
    location.rename("b", "c")
    assert [slot.name for slot in again.slots()] == ["a", "c"]
    assert again.slot("c").confirmed_flush_lsn == 500
    again.drop("a")
    assert [slot.name for slot in location.slots()] == ["c"]
    assert location.active_pid("c") is None


def test_what_postgres_says(location: SlotLocation) -> None:
    location.create_slot(slot_of("a"))
    said = {
        ('replication slot "x" does not exist', "42704"): [
            lambda: location.slot("x"), lambda: location.drop("x"), lambda: location.rename("x", "y"), lambda: location.active_pid("x"),
            lambda: location.owned("x").__enter__(),
        ],
        ('replication slot "a" already exists', "42710"): [lambda: location.create_slot(slot_of("a")), lambda: location.rename("a", "a")],
        ('replication slot name "../a" contains invalid character', "42602"): [
            lambda: location.create_slot(slot_of("../a")), lambda: location.rename("a", "../a"), lambda: location.drop("../a"),
        ],
    }  # fmt: skip
    for (message, sqlstate), calls in said.items():
        for call in calls:
            with pytest.raises(UsageError) as caught:
                call()
            assert (caught.value.message, caught.value.sqlstate) == (message, sqlstate)


def test_there_are_only_so_many_slots(location: SlotLocation) -> None:
    location.configure({"max_replication_slots": "2"})
    for name in ("a", "b"):
        location.create_slot(slot_of(name))
    with pytest.raises(UsageError, match="all replication slots are in use") as caught:
        location.create_slot(slot_of("c"))
    assert (caught.value.hint, caught.value.sqlstate) == ('Free one or increase "max_replication_slots".', "53400")
    location.drop("a")
    location.create_slot(slot_of("c"))
    location.configure({"max_replication_slots": "3", "max_slot_wal_keep_size": "1GB"})
    location.create_slot(slot_of("d"))
    assert location.settings.max_slot_wal_keep_size == 1 << 30


def test_directories_that_are_no_location(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a state location"):
        SlotLocation.open(tmp_path)
    (tmp_path / "mine").write_text("")
    with pytest.raises(UsageError, match="exists but is not empty"):
        SlotLocation.create(tmp_path, SYSTEM)
    location = SlotLocation.create(tmp_path / "state", SYSTEM)
    with pytest.raises(UsageError, match="is a state location already"):
        SlotLocation.create(location.path, SYSTEM)
    with pytest.raises(UsageError, match=f"are of system {SYSTEM}, not of 5"):
        SlotLocation.open_or_create(location.path, 5)
    with pytest.raises(UsageError, match=f"are of system {SYSTEM}, not of 5"):
        location.create_slot(slot_of("a", system=5))
    flip(location.path / "location", 40)
    with pytest.raises(CorruptFile, match="incorrect checksum in state location"):
        SlotLocation.open(location.path)
    (location.path / "location").write_bytes(b"")
    with pytest.raises(UnsupportedFile, match="is not a state location"):
        SlotLocation.open(location.path)


def test_a_slot_is_one_consumers(location: SlotLocation) -> None:
    """Handles of one process exclude each other, too, and threads that share one."""
    location.create_slot(slot_of("a"))
    other = SlotLocation.open(location.path)
    with location.owned("a"):
        for handle in (location, other):
            for call in (partial(handle.owned("a").__enter__), partial(handle.drop, "a"), partial(handle.rename, "a", "b")):
                with pytest.raises(UsageError) as caught:
                    call()
                assert caught.value.message == f'replication slot "a" is active for PID {os.getpid()}'
                assert caught.value.sqlstate == "55006"
        assert other.active_pid("a") == os.getpid()
        with pytest.raises(ValueError, match="by its owner only"):
            other.save(slot_of("a"))
    assert location.active_pid("a") is None
    with pytest.raises(ValueError, match="by its owner only"):
        location.save(slot_of("a"))
    with other.owned("a"):
        other.save(slot_of("a"))


def test_threads_take_turns(location: SlotLocation) -> None:
    location.create_slot(slot_of("a", confirmed_flush_lsn=Lsn(0)))
    refused = []

    def consume() -> None:
        done = 0
        while done < 10:
            try:
                with location.owned("a") as slot:
                    location.save(replace(slot, confirmed_flush_lsn=Lsn(slot.confirmed_flush_lsn + 1)))
                    done += 1
            except UsageError as error:
                refused.append(error.sqlstate)

    threads = [threading.Thread(target=consume) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert location.slot("a").confirmed_flush_lsn == 40
    assert set(refused) <= {"55006"}


def test_the_slot_of_a_killed_owner_is_free(location: SlotLocation) -> None:
    location.create_slot(slot_of("a"))
    with process(location, OWNS) as child:
        assert location.active_pid("a") == child.pid
        with pytest.raises(UsageError, match=f'replication slot "a" is active for PID {child.pid}'), location.owned("a"):
            pass
        child.send_signal(signal.SIGKILL)
        child.wait()
        assert location.active_pid("a") is None
        with location.owned("a") as slot:
            assert slot == slot_of("a")


def test_two_processes_fight_for_a_slot(location: SlotLocation) -> None:
    location.create_slot(slot_of("a", confirmed_flush_lsn=Lsn(0)))
    fights = (
        "print('ready', flush=True)\ndone = 0\nwhile done < 40:\n    try:\n        with location.owned('a') as slot:\n"
        "            location.save(replace(slot, confirmed_flush_lsn=Lsn(slot.confirmed_flush_lsn + 1)))\n            done += 1\n"
        "    except Exception as error:\n        assert error.sqlstate == '55006', error\n"
    )
    with process(location, fights) as one, process(location, fights) as other:
        assert (one.wait(), other.wait()) == (0, 0)
    assert location.slot("a").confirmed_flush_lsn == 80


def test_who_only_looks_disturbs_nobody(location: SlotLocation) -> None:
    location.create_slot(slot_of("a"))
    looks = "print('ready', flush=True)\nwhile True:\n    location.active_pid('a'), location.slots()\n"
    with process(location, looks), process(location, looks):
        for _ in range(100):
            with location.owned("a"):
                pass


def test_a_forked_child_owns_nothing(location: SlotLocation) -> None:
    location.create_slot(slot_of("a"))
    with location.owned("a") as slot:

        def cannot_save() -> bool:
            try:
                location.save(slot)
            except ValueError:
                return location.active_pid("a") == os.getppid()
            return False

        assert in_fork(cannot_save)
        assert location.active_pid("a") == os.getpid()
        lasting = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,))
        lasting.start()
    try:
        assert location.active_pid("a") is None
        with location.owned("a"):
            pass
    finally:
        lasting.kill()
        lasting.join()


def test_temporary_slots_go_with_their_owner(location: SlotLocation) -> None:
    with location.created(slot_of("t", temporary=True)) as slot:
        assert location.slots() == [slot]
        location.save(replace(slot, confirmed_flush_lsn=Lsn(200)))
        assert location.active_pid("t") == os.getpid()
        assert SlotLocation.open(location.path).slot("t").confirmed_flush_lsn == 200
    assert location.slots() == []
    with pytest.raises(ValueError, match="temporary"):
        location.create_slot(slot_of("t", temporary=True))
    with process(
        location,
        "from replication.test_slot_location import slot_of\nwith location.created(slot_of('a', temporary=True)):\n"
        "    print('ready', flush=True)\n    time.sleep(600)\n",
    ) as child:
        assert location.active_pid("a") == child.pid
    assert location.slots() == []


def test_a_temporary_slot_in_the_place_of_one_that_was_not(location: SlotLocation) -> None:
    """What is remembered of the one before does not keep it."""
    location.create_slot(slot_of("a"))
    assert location.slots() == location.slots() == [slot_of("a")]
    location.drop("a")
    with process(
        location,
        "from replication.test_slot_location import slot_of\nwith location.created(slot_of('a', temporary=True)):\n"
        "    print('ready', flush=True)\n    time.sleep(600)\n",
    ):
        assert [each.temporary for each in location.slots()] == [True]
    assert location.slots() == []


def test_a_slot_that_is_owned_from_the_start(location: SlotLocation) -> None:
    with location.created(slot_of("a")) as slot:
        assert location.active_pid("a") == os.getpid()
        location.save(replace(slot, confirmed_flush_lsn=Lsn(7)))
    assert location.slot("a").confirmed_flush_lsn == 7


def test_a_damaged_slot_can_be_dropped(location: SlotLocation) -> None:
    location.create_slot(slot_of("a"))
    flip(location.path / "slots" / "a" / "slot", 50)
    with pytest.raises(CorruptFile, match="incorrect checksum in slot") as caught:
        SlotLocation.open(location.path).slots()
    assert "Drop the slot" in caught.value.hint
    location.drop("a")
    assert location.slots() == []


@pytest.fixture(scope="module")
def mark(tmp_path_factory: pytest.TempPathFactory) -> Carried:
    state = state_before(open_case("empty", 18, "with_slot", tmp_path_factory.mktemp("empty")))
    state = replace(state, system=SYSTEM, database=DATABASE, timeline=1)
    return Carried(Lsn(100), (100, 700), Earlier(open_at_start={}), state, Lsn(100))


def at(mark: Carried, lsn: int, timeline: int = 1, database: int = DATABASE) -> Carried:
    return replace(mark, lsn=Lsn(lsn), state=replace(mark.state, timeline=timeline, database=database))


def _change(location: SlotLocation, mark: Carried, dice: random.Random) -> None:
    """One change of whatever there may be."""
    name, other = dice.choice("abc"), dice.choice("abc")
    verb = dice.randrange(8)
    if verb == 0:
        location.create_slot(slot_of(name), at(mark, 100))
    elif verb == 1:
        location.drop(name)
    elif verb == 2:
        location.rename(name, other)
    elif verb == 3:
        with location.created(slot_of(name, temporary=True)) as slot:
            location.save(slot)
    elif verb == 4:
        location.save_mark(at(mark, dice.randrange(1, 200)))
        location.prune()
    else:
        with location.owned(name) as slot:
            lsn = Lsn(slot.confirmed_flush_lsn + 1)
            location.save(replace(slot, confirmed_flush_lsn=lsn, restart_lsn=lsn))


def _change_on_and_on(path: Path, mark: Carried, seed: int) -> None:
    location = SlotLocation.open(path)
    dice = random.Random(seed)
    while True:
        with suppress(UsageError):  # no such slot, or there is one
            _change(location, mark, dice)


@pytest.mark.soak
def test_killed_at_any_moment(location: SlotLocation, mark: Carried) -> None:
    """Whatever it was about: the location opens, all that is in it is whole, what is left over goes, and all can be done again."""
    dice = random.Random(20)
    seen = 0
    for kill in range(40):
        child = multiprocessing.get_context("fork").Process(target=_change_on_and_on, args=(location.path, mark, kill))
        child.start()
        time.sleep(dice.random() * 0.3)
        child.kill()
        child.join()
        assert child.exitcode == -signal.SIGKILL
        again = SlotLocation.open(location.path, warn=pytest.fail)
        slots = again.slots()
        seen += len(slots)
        folder = location.path / "slots"
        assert sorted(each.name for each in folder.glob("*")) == [slot.name for slot in slots]
        for slot in slots:
            assert slot.restart_lsn == slot.confirmed_flush_lsn
            assert not slot.temporary
            assert again.active_pid(slot.name) is None
            assert again.mark_upto(DATABASE, slot.confirmed_flush_lsn).lsn <= slot.confirmed_flush_lsn
            with again.owned(slot.name):
                assert sorted(each.name for each in (folder / slot.name).iterdir()) == ["owner", "slot"]
        again.prune()
        assert {each.suffix for each in (location.path / "marks").rglob("*.*")} <= {".mark"}
    assert seen > 20


def test_the_latest_mark_that_can_be_believed(location: SlotLocation, mark: Carried) -> None:
    warned: list[str] = []
    handle = SlotLocation.open(location.path, warn=warned.append)
    for lsn in (100, 200, 300, 400):
        handle.save_mark(at(mark, lsn))
    handle.save_mark(at(mark, 350, database=5))
    assert [found.lsn for found in handle.marks(DATABASE)] == [100, 200, 300, 400]
    assert handle.mark_upto(DATABASE, Lsn(399)).lsn == 300
    assert handle.mark_upto(DATABASE, Lsn(300)).lsn == 300
    paths = [found.path for found in handle.marks(DATABASE)]
    flip(paths[2], 100)
    assert handle.mark_upto(DATABASE, Lsn(399)).lsn == 200
    assert warned == [f'incorrect checksum in mark "{paths[2]}"; the mark before it is used']
    paths[1].write_bytes(paths[0].read_bytes())
    assert handle.mark_upto(DATABASE, Lsn(399)).lsn == 100
    assert "not what its name says" in warned[-1]
    with pytest.raises(MissingHistory, match=f"no mark of database {DATABASE} at 0/63 or before can be used") as caught:
        handle.mark_upto(DATABASE, Lsn(99))
    assert "create it again" in caught.value.hint
    with pytest.raises(UsageError, match="are of system"):
        handle.save_mark(replace(mark, state=replace(mark.state, system=5)))


def test_who_goes_on_from_one_mark_shares_it(location: SlotLocation, mark: Carried) -> None:
    location.save_mark(at(mark, 100))
    location.save_mark(at(mark, 200))
    one, other = (location.mark_upto(DATABASE, Lsn(200)) for _ in range(2))
    assert one is other
    flip(location.marks(DATABASE)[-1].path, 100)
    handle = SlotLocation.open(location.path, warn=lambda _: None)
    assert handle.mark_upto(DATABASE, Lsn(200)).lsn == 100  # as it is by now
    gone = weakref.ref(one)
    del one, other
    gc.collect()
    assert gone() is None


def test_marks_of_a_timeline_that_was_left_do_not_count(location: SlotLocation, mark: Carried) -> None:
    for lsn, timeline in ((100, 1), (200, 1), (300, 2)):
        location.save_mark(at(mark, lsn, timeline))
    left = {1: Lsn(150), 2: Lsn(2**63 - 1)}
    assert location.mark_upto(DATABASE, Lsn(299), left).lsn == 100
    assert location.mark_upto(DATABASE, Lsn(300), left).lsn == 300


def test_marks_that_no_slot_needs_are_removed(location: SlotLocation, mark: Carried) -> None:
    def kept() -> list[int]:
        location.prune()
        return [int(found.lsn) for found in location.marks(DATABASE)]

    location.create_slot(slot_of("a", confirmed_flush_lsn=Lsn(450)), at(mark, 450))
    for lsn in range(100, 900, 100):
        location.save_mark(at(mark, lsn))
    location.save_mark(at(mark, 50, database=5))
    leftover = location.path / "marks" / str(DATABASE) / ".x.mark.0.new"
    leftover.write_text("")
    location.create_slot(slot_of("b", confirmed_flush_lsn=Lsn(800)))
    assert kept() == [400, 450, 500, 600, 700, 800]
    assert location.marks(5) == []
    assert not leftover.exists()
    location.drop("a")
    assert kept() == [700, 800]
    with location.owned("b") as slot:
        location.save(replace(slot, timeline=2, confirmed_flush_lsn=Lsn(900)))
    location.save_mark(at(mark, 900, 2))
    assert kept() == [700, 800, 900]
    location.save_mark(at(mark, 850, 2))
    assert kept() == [850, 900]
    with location.owned("b") as slot:
        location.save(replace(slot, invalidation_reason=WAL_REMOVED))
    assert kept() == []


def test_indexes_are_kept_beside(location: SlotLocation) -> None:
    assert location.index_store.directory == location.path / "index"


def test_every_damage_to_a_file_of_the_location_is_an_error_of_ours(location: SlotLocation, mark: Carried) -> None:
    location.create_slot(slot_of("a"), at(mark, 100))
    files = [location.path / "location", location.path / "slots" / "a" / "slot", location.marks(DATABASE)[0].path]
    dice = random.Random(3)
    for _ in range(100):
        file = dice.choice(files)
        whole = file.read_bytes()
        cut = whole[: dice.randrange(len(whole))]
        changed = bytearray(whole)
        changed[dice.randrange(len(whole))] ^= dice.randint(1, 255)
        file.write_bytes(dice.choice([cut, bytes(changed)]))
        handle = SlotLocation(location.path, lambda message: None)
        with pytest.raises(TailraceError):
            _ = handle.settings, handle.slots(), handle.mark_upto(DATABASE, Lsn(100))
        file.write_bytes(whole)


def test_marks_that_may_not_be_read_are_not_gone(mark: Carried) -> None:
    """The slot is as sound as it was: nobody should be told to drop it."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        location = SlotLocation.create(Path(folder) / "state", mark.state.system)
        location.save_mark(mark)
        assert location.mark_upto(mark.state.database, mark.lsn).lsn == mark.lsn
        marks = location.path / "marks" / str(mark.state.database)
        marks.chmod(0)
        user = os.geteuid()
        if user == 0:
            os.seteuid(65534)  # root may read all
        try:
            with pytest.raises(PermissionError, match=str(marks)):
                location.mark_upto(mark.state.database, mark.lsn)
        finally:
            os.seteuid(user)
            marks.chmod(0o755)
