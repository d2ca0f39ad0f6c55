"""A slot goes on where a standby is promoted: each change once, marks of the new timeline, and nothing of a branch that was abandoned."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.acquired import acquired
from support.archives import create_on_archive, ours_upto, receiving, switch_until_whole
from support.decoding import check_equal
from support.servers import Server
from support.slots import ours, theirs
from support.standbys import caught_up, standby_of
from support.watching import opened_places
from tailrace.cli.verbs.slot import create
from tailrace.errors import UsageError
from tailrace.pipeline import LocalRunner
from tailrace.replication.slot_location import SlotLocation

pytestmark = pytest.mark.postgres
MAJORS = [pytest.param(14, marks=pytest.mark.matrix), 16, pytest.param(18, marks=pytest.mark.matrix)]


@pytest.mark.parametrize("stays", [True, False], ids=["goes on", "comes back"])
@pytest.mark.parametrize("major", MAJORS)
def test_an_archive(major: int, stays: bool, tmp_path: Path) -> None:
    """Of the old primary first, then of the promoted standby."""
    archive = tmp_path / "archive"
    with Server(major) as primary:
        primary.say("CREATE TABLE t (id int, v text)")
        with receiving(primary, archive):
            create_on_archive(primary, archive, tmp_path / "state")
        location = SlotLocation.open(tmp_path / "state")
        with standby_of(primary, tmp_path) as standby, consuming_or_not(location, stays) as take:
            with receiving(primary, archive):
                primary.say("INSERT INTO t VALUES (1, 'on the old timeline')")
                taken = take(primary.flush_lsn())
                caught_up(standby, primary)
            primary.crash()
            standby.sql("SELECT pg_promote()")
            standby.say(
                "INSERT INTO t VALUES (2, 'on the new timeline')", "ALTER TABLE t ADD w int", "INSERT INTO t VALUES (3, '', 3)"
            )
            with receiving(standby, archive):
                taken += take(switch_until_whole(standby, archive))
                standby.say("INSERT INTO t VALUES (4, 'after a switch', 4)")
                taken += take(standby.flush_lsn())
            check_equal(taken, theirs(standby))
    assert taken.count("INSERT") == 4
    slot = location.slot("mine")
    assert slot.timeline == 2
    assert location.marks(slot.database_oid)[-1].timeline == 2
    with opened_places() as seen, acquired(location, "mine", LocalRunner(1)) as consumer:
        assert ours(consumer) == ""
    assert min(seen) >= f"{slot.restart_lsn >> 32:08X}{(slot.restart_lsn & 0xFFFFFFFF) >> 20:08X}"


@pytest.mark.parametrize("major", MAJORS)
def test_a_running_standby(major: int, tmp_path: Path) -> None:
    """Its own data directory is the source, before and after."""
    with Server(major) as primary:
        primary.say("CREATE TABLE t (id int, v text)")
        with standby_of(primary, tmp_path) as standby:
            caught_up(standby, primary)
            create("mine", standby.data_dir, tmp_path / "state", standby.dbname)
            location = SlotLocation.open(tmp_path / "state")
            with acquired(location, "mine", LocalRunner(1)) as consumer:
                primary.say("INSERT INTO t VALUES (1, 'on the old timeline')")
                end = primary.flush_lsn()
                caught_up(standby, primary)
                taken = ours_upto(consumer, end)
                primary.crash()
                standby.sql("SELECT pg_promote()")
                standby.say("INSERT INTO t VALUES (2, 'on the new timeline')")
                taken += ours_upto(consumer, standby.flush_lsn())
            standby.say("INSERT INTO t VALUES (3, 'after a restart')")
            with acquired(location, "mine", LocalRunner(1)) as consumer:
                taken += ours_upto(consumer, standby.flush_lsn())
    assert [line.split("'")[1] for line in taken.splitlines() if "INSERT" in line] == [
        "on the old timeline", "on the new timeline", "after a restart",
    ]  # fmt: skip
    slot = location.slot("mine")
    assert (slot.timeline, location.marks(slot.database_oid)[-1].timeline) == (2, 2)


@pytest.mark.parametrize("stays", [pytest.param(True, marks=pytest.mark.marathon), False], ids=["goes on", "comes back"])
def test_what_the_standby_never_had_is_refused(stays: bool, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    with Server(16) as primary:
        primary.say("CREATE TABLE t (id int, v text)")
        with receiving(primary, archive):
            create_on_archive(primary, archive, tmp_path / "state")
        location = SlotLocation.open(tmp_path / "state")
        with standby_of(primary, tmp_path) as standby, consuming_or_not(location, stays) as take:
            caught_up(standby, primary)
            standby.stop()
            with receiving(primary, archive):
                primary.say("INSERT INTO t VALUES (1, 'never replicated')")
                assert "never replicated" in take(primary.flush_lsn())
            primary.crash()
            standby.start()
            standby.sql("SELECT pg_promote()")
            standby.say("INSERT INTO t VALUES (2, 'on the new timeline')")
            with receiving(standby, archive):
                end = switch_until_whole(standby, archive)
            with pytest.raises(UsageError, match=r'"mine" has confirmed \S+ on timeline 1, which timeline 2 left at') as caught:
                take(end)
    assert caught.value.sqlstate == "55000"
    assert "abandoned" in caught.value.hint


@contextmanager
def consuming_or_not(location: SlotLocation, stays: bool) -> Iterator[Callable[[str], str]]:
    """What takes all up to a position: one consumer, or another each time."""

    def once(upto: str) -> str:
        with acquired(location, "mine", LocalRunner(1)) as consumer:
            return ours_upto(consumer, upto)

    if not stays:
        yield once
        return
    with acquired(location, "mine", LocalRunner(1)) as consumer:
        yield lambda upto: ours_upto(consumer, upto)
