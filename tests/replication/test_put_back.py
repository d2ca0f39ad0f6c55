"""A server that was put back to an earlier copy of itself, and wrote other things since: who has read of what is gone is told so, before a row."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.acquired import acquired
from support.command import Run
from support.decoding import check_equal
from support.put_back import copied, put_back, written_beyond
from support.servers import Server
from support.slots import TAILRACE, create_both, ours, theirs
from support.waiting import until
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner
from tailrace.replication.slot_location import SlotLocation

pytestmark = pytest.mark.postgres


def taken(state: Path, name: str = "mine") -> str:
    with acquired(SlotLocation.open(state), name, LocalRunner(1)) as consumer:
        return ours(consumer)


@contextmanager
def read_ahead(tmp_path: Path, tailrace: Run) -> Iterator[tuple[Server, Path, Path]]:
    """A server, a copy of it, and a state location whose slot has confirmed what came after the copy."""
    state = tmp_path / "state"
    with Server(16) as server:
        server.say("CREATE TABLE t (id int, v text)")
        tailrace("slot", "create", "mine", server.data_dir, "--database", server.dbname, "--state", state)
        server.say("INSERT INTO t VALUES (0, 'before')")
        assert "before" in taken(state)
        copy = copied(server, tmp_path / "copy")
        server.say("INSERT INTO t SELECT g, 'of a history that is gone' FROM generate_series(1, 50) g")
        assert "that is gone" in taken(state)
        yield server, copy, state


@pytest.mark.parametrize("grows", [True, pytest.param(False, marks=pytest.mark.marathon)], ids=["longer", "shorter"])
def test_a_slot(grows: bool, tmp_path: Path, tailrace: Run) -> None:
    with read_ahead(tmp_path, tailrace) as (server, copy, state):
        before = SlotLocation.open(state).slot("mine")
        put_back(server, copy)
        if grows:
            written_beyond(server, before.confirmed_flush_lsn)
        for verb in ("get", "peek"):
            status, out, said = tailrace("slot", verb, "mine", "--state", state)
            assert (status != 0, out) == (True, "")
            what = "has another record at" if grows else "ends at"
            assert f'replication slot "mine" has confirmed {before.confirmed_flush_lsn}, but' in said
            assert what in said
            assert "of a history that is gone" in said
        now = SlotLocation.open(state).slot("mine")
        assert (now.confirmed_flush_lsn, now.restart_lsn, now.fingerprint) == (
            before.confirmed_flush_lsn,
            before.restart_lsn,
            before.fingerprint,
        )


@pytest.mark.marathon
def test_indexes_of_a_history_that_is_gone_are_made_again(tmp_path: Path, tailrace: Run) -> None:
    """One slot has read ahead, and what it has scanned is kept for the others of its location. There were no rows of theirs, and now there are."""
    state = tmp_path / "state"
    with Server(16) as server:
        server.say("CREATE TABLE t (id int, v text)", "CREATE DATABASE other")
        server.sql("CREATE TABLE t (id int, v text)", dbname="other")
        create_both(server, "early", state)
        tailrace("slot", "copy", "early", "mine", "--state", state)
        copy = copied(server, tmp_path / "copy")
        server.sql("INSERT INTO t SELECT g, repeat('x', 100) FROM generate_series(1, 50000) g", dbname="other")
        assert taken(state) == ""
        assert len(list(state.rglob("*.index"))) > 3
        ahead = SlotLocation.open(state).slot("mine").confirmed_flush_lsn
        put_back(server, copy)
        written_beyond(server, ahead)
        with pytest.warns(UserWarning, match="is the index of a log that had other records before"):
            text = taken(state, "early")
        check_equal(text, theirs(server))


def test_while_it_is_received(tmp_path: Path, tailrace: Run) -> None:
    """The one who receives goes on while the server is away."""
    with read_ahead(tmp_path, tailrace) as (server, copy, state):
        file = tmp_path / "rows"
        command = [TAILRACE, "slot", "receive", "mine", "--state", state, "-f", file]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as receiving:
            try:
                server.say("INSERT INTO t VALUES (0, 'gone, too')")
                until(lambda: file.exists() and "gone, too" in file.read_text())
                before, ahead = file.read_text(), Lsn.parse(server.flush_lsn())
                put_back(server, copy)
                written_beyond(server, ahead)
                _, said = receiving.communicate(timeout=120)
            finally:
                receiving.kill()
        assert receiving.returncode != 0
        assert "of a history that is gone" in said
        assert file.read_text() == before


def test_a_copy_that_is_promoted_to_the_same_timeline(tmp_path: Path, tailrace: Run) -> None:
    """Both ended their recovery at the same LSN, and both count it as timeline 2."""
    state = tmp_path / "state"
    with Server(16, {"restore_command": "false"}) as server:
        server.say("CREATE TABLE t (id int, v text)")
        create_both(server, "mine", state)
        copy = copied(server, tmp_path / "copy")
        (copy / "recovery.signal").touch()
        put_back(server, copy)
        until(lambda: not server.value("SELECT pg_is_in_recovery()"))
        server.say("INSERT INTO t SELECT g, 'of a history that is gone' FROM generate_series(1, 50) g")
        assert "that is gone" in taken(state)
        slot = SlotLocation.open(state).slot("mine")
        assert slot.timeline == 2
        put_back(server, copy)
        until(lambda: not server.value("SELECT pg_is_in_recovery()"))
        written_beyond(server, slot.confirmed_flush_lsn)
        assert server.value("SELECT timeline_id FROM pg_control_checkpoint()") == 2
        status, out, said = tailrace("slot", "get", "mine", "--state", state)
        assert (status != 0, "INSERT" in out) == (True, False)
        assert "of a history that is gone" in said
