"""A slot whose last mark is damaged goes on from the mark before. That needs WAL below restart_lsn: where it is gone, one error says which."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.acquired import acquired
from support.archives import create_on_archive, place_of, receiving, switch_until_whole
from support.command import Run
from support.damage import flip
from support.decoding import check_equal
from support.servers import Server
from support.slots import create_both, ours, theirs
from tailrace.pipeline import LocalRunner
from tailrace.replication.slot_location import SlotLocation

pytestmark = pytest.mark.postgres
MUCH = "INSERT INTO t SELECT g, repeat('x', 1900) FROM generate_series(1, 36000) g"
"""More WAL than a cell of what is carried has (STRETCH_BYTES): restart_lsn goes on by these."""
KEPT = {"max_wal_size": "2GB"}


def _damage_the_last(location: SlotLocation) -> None:
    slot = location.slot("mine")
    path = [mark.path for mark in location.marks(slot.database_oid) if mark.lsn <= slot.confirmed_flush_lsn][-1]
    flip(path, path.stat().st_size // 2)


def _write_much(server: Server) -> None:
    """Of which nothing is given."""
    with server.connect(autocommit=False) as connection:
        connection.execute(MUCH)
        connection.rollback()
    server.say("INSERT INTO t VALUES (0, 'behind')")


def test_the_mark_before_serves(tmp_path: Path) -> None:
    with Server(16, KEPT) as server:
        server.say("CREATE TABLE t (id int, v text)")
        create_both(server, "mine", tmp_path / "state")
        warned: list[str] = []
        location = SlotLocation.open(tmp_path / "state", warn=warned.append)
        for _ in range(2):
            before = location.slot("mine")
            _write_much(server)
            upto = server.flush_lsn()
            with acquired(location, "mine", LocalRunner(1)) as consumer:
                check_equal(ours(consumer), theirs(server, upto))
        assert location.slot("mine").restart_lsn > before.restart_lsn
        before = location.slot("mine")
        _damage_the_last(location)
        server.say("INSERT INTO t VALUES (0, 'new')")
        expected = theirs(server)
        with acquired(location, "mine", LocalRunner(1)) as consumer:
            assert consumer.slot.restart_lsn == before.restart_lsn
            check_equal(ours(consumer), expected)
        assert [line for line in warned if line.endswith("the mark before it is used")]


def test_wal_that_the_mark_before_needs_is_named(tailrace: Run, tmp_path: Path) -> None:
    archive, state = tmp_path / "archive", tmp_path / "state"
    with Server(16, KEPT) as server, receiving(server, archive):
        server.say("CREATE TABLE t (id int, v text)")
        create_on_archive(server, archive, state)
        location = SlotLocation.open(state, warn=lambda _: None)
        for _ in range(2):
            _write_much(server)
            end = switch_until_whole(server, archive)
            with acquired(location, "mine", LocalRunner(1)) as consumer:
                check_equal(ours(consumer), theirs(server, end))
        server.say("INSERT INTO t VALUES (0, 'new')")
        switch_until_whole(server, archive)
        slot = location.slot("mine")
        _damage_the_last(location)
        gone = [path for path in archive.glob("0*") if len(path.name) == 24 and -1 < place_of(path) < slot.restart_lsn >> 20]
        assert gone
        for path in gone:
            path.rename(tmp_path / path.name)
        tailrace("slot", "ls", "--state", state)
        status, out, err = tailrace("slot", "get", "mine", "--state", state)
        needed = location.mark_upto(slot.database_oid, slot.confirmed_flush_lsn).restart_lsn
        assert (status, out) == (1, "")
        assert f'error: replication slot "mine" needs WAL from {needed} on, since its last mark cannot be used' in err
        assert f"Put the WAL segments from {'0' * 7}1{'0' * 8}{needed >> 20:08X} up to the one before " in err
        assert location.slot("mine").invalidation_reason == ""
        for path in gone:
            (tmp_path / path.name).rename(path)
        status, out, _ = tailrace("slot", "get", "mine", "--state", state)
        assert status == 0
        check_equal(out, theirs(server))
