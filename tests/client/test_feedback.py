"""What a server is told of what was received, as its own COMMIT feels it: `on` waits for our disk, `remote_apply` for the consumers that count."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg
import pytest

from support.acquired import acquired, looked
from support.command import Run, ran
from support.forked import forked
from support.servers import Server
from support.waiting import until
from tailrace.client.receiver import Receiver
from tailrace.client.reception import receiving
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner
from tailrace.plan.demand import OF_TABLES
from tailrace.replication.acquired_slot import AcquiredSlot
from tailrace.replication.slot_location import SlotLocation
from tailrace.sources.received_log import ReceivedLog
from tailrace.storage.synchronous_slots import SynchronousSlots

pytestmark = pytest.mark.postgres
A_WHILE = 0.4
"""Seconds after which a COMMIT that has not returned is waiting."""
LONG = 30.0
ROW = "INSERT INTO t (v) VALUES ('row')"
CONFIRMED = "SELECT application_name, sync_state, backend_xmin FROM pg_stat_replication"


class Commit(threading.Thread):
    """A transaction that commits at this level of synchronous_commit, on a connection of its own."""

    def __init__(self, server: Server, level: str, dbname: str = "") -> None:
        super().__init__(daemon=True)
        self._server, self._level, self._dbname = server, level, dbname
        self.is_done, self.failure = threading.Event(), ""
        self.start()

    def run(self) -> None:
        try:
            with self._server.connect(self._dbname, options=f"-c synchronous_commit={self._level}") as connection:
                connection.execute(ROW.encode())
        except psycopg.Error as error:
            self.failure = str(error)
        self.is_done.set()

    @property
    def waits(self) -> bool:
        return not self.is_done.wait(A_WHILE)

    def check_returns(self) -> None:
        assert self.is_done.wait(LONG), "COMMIT did not return"
        assert not self.failure


@contextmanager
def _server() -> Iterator[Server]:
    """With a table, in another database, too."""
    with Server(18, {"wal_keep_size": "200MB"}, dbname="app") as server:
        server.sql("CREATE DATABASE other")
        for dbname in ("app", "other"):
            server.sql("CREATE TABLE t (id serial PRIMARY KEY, v text)", dbname=dbname)
        yield server


def _name(server: Server, names: str) -> None:
    """Commits wait for these from now on."""
    server.say(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'", "SELECT pg_reload_conf()")
    until(lambda: server.value("SHOW synchronous_standby_names") == names)


def _in_sync(server: Server) -> None:
    until(lambda: server.sql(CONFIRMED)[0][1] in ("sync", "quorum"))


def _create(server: Server, state: Path, *names: str) -> None:
    for name in names:
        ran("slot", "create", name, server.dsn(), "--database", "app", "--state", state).check_returncode()


def test_on_waits_for_our_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And remote_write only for the file, local for nobody. Nobody's consumer counts, so that remote_apply is like on."""
    may_sync, sync = threading.Event(), os.fdatasync
    may_sync.set()

    def fdatasync(file: int) -> None:
        may_sync.wait(LONG)
        sync(file)

    with _server() as server:
        monkeypatch.setattr(os, "fdatasync", fdatasync)
        with receiving(Receiver(server.dsn(), tmp_path)):
            until(lambda: bool(server.sql(CONFIRMED)))
            _name(server, "tailrace")
            _in_sync(server)
            Commit(server, "on").check_returns()
            may_sync.clear()
            Commit(server, "remote_write").check_returns()
            waiting = [
                Commit(server, level, dbname) for level, dbname in (("on", "app"), ("remote_apply", "app"), ("on", "other"))
            ]
            Commit(server, "local").check_returns()
            assert all(each.waits for each in waiting)
            may_sync.set()
            for each in waiting:
                each.check_returns()
            assert server.sql(CONFIRMED) == [("tailrace", "sync", None)]  # and no hot standby feedback was sent


def test_remote_apply_waits_for_the_consumer(tmp_path: Path, tailrace: Run) -> None:
    """Not for one that does not count; and for nobody where the server does not name us, whether we are there or not."""
    state = tmp_path / "state"
    with _server() as server:
        _create(server, state, "a", "b")
        location = SlotLocation.open(state)
        log = ReceivedLog.of(location.slot("a").source)
        assert log is not None
        assert tailrace("slot", "set", "--state", state, "synchronous_standby_names=a")[0] == 0
        Commit(server, "remote_apply").check_returns()
        with log.receiving(lambda _: None):
            until(lambda: bool(server.sql(CONFIRMED)))
            Commit(server, "remote_apply").check_returns()
            _name(server, "tailrace")
            _in_sync(server)
            Commit(server, "on").check_returns()
            with acquired(location, "a", LocalRunner(1)) as a, acquired(location, "b", LocalRunner(1)) as b:
                waiting = [Commit(server, "remote_apply"), Commit(server, "remote_apply", "other")]
                assert all(each.waits for each in waiting)
                for slot in (a, b):
                    _take_all(slot, server)
                b.confirm(b.read_upto)
                assert all(each.waits for each in waiting)
                a.confirm(a.read_upto)
                for each in waiting:
                    each.check_returns()
                waits_for_a = Commit(server, "remote_apply")
                assert waits_for_a.waits
                _take_all(b, server)
                b.confirm(b.read_upto)
                assert waits_for_a.waits
                assert tailrace("slot", "set", "--state", state, "synchronous_standby_names=ANY 1 (a, b)")[0] == 0
                waits_for_a.check_returns()
        waits_for_us = Commit(server, "on")
        assert waits_for_us.waits  # we are named, and away
        with log.receiving(lambda _: None):
            waits_for_us.check_returns()
        _name(server, "")
        Commit(server, "remote_apply").check_returns()


def _take_all(slot: AcquiredSlot, server: Server) -> None:
    """What the server has, and confirm nothing."""
    end = Lsn.parse(server.flush_lsn())
    until(lambda: not list(looked(slot, OF_TABLES)) and slot.read_upto >= end)


def test_what_is_applied_is_never_ahead_of_what_is_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever consumers say; and a setting that cannot be read holds back what counts, and is told."""
    told: list[str] = []
    with _server() as server, receiving(Receiver(server.dsn(), tmp_path / "a", confirmed=lambda: Lsn(1 << 40))) as reception:
        server.say(ROW)
        reception.wait(Lsn.parse(server.flush_lsn()))
        query = "SELECT replay_lsn <= flush_lsn AND flush_lsn <= pg_current_wal_flush_lsn() FROM pg_stat_replication"
        until(lambda: server.value(query) is True)
    slots = SynchronousSlots(tmp_path / "state", told.append)
    assert slots.confirmed() is None
    SlotLocation.create(tmp_path / "state", 5)
    assert slots.confirmed() is None
    (tmp_path / "state/location").write_bytes(b"no location")
    assert [slots.confirmed(), slots.confirmed()] == [0, 0]
    assert len(told) == 1


def test_a_commit_returns_when_the_clients_have_its_row(tmp_path: Path) -> None:
    """Two consumers in processes of their own, of which one receives: each file has the row when COMMIT returns, and neither a sync interval nor
    commits in another database hold one up."""
    state, files = tmp_path / "state", [tmp_path / "a", tmp_path / "b"]
    with _server() as server, ExitStack() as stack:
        _create(server, state, "a", "b")
        for file in files:
            words = ["slot", "receive", file.name, "--state", state, "-f", file]
            process = stack.enter_context(forked([*words, "--synchronous-standby-names", "2 (a, b)"]))
            stack.callback(process.terminate)
        until(lambda: bool(server.sql(CONFIRMED)))
        _name(server, "tailrace")
        _in_sync(server)
        Commit(server, "remote_apply").check_returns()
        options = "-c synchronous_commit=remote_apply"
        with server.connect(options=options) as app, server.connect("other", options=options) as other:
            began = time.monotonic()
            for number in range(10):
                app.execute(f"INSERT INTO t VALUES ({100 + number}, 'row')".encode())
                assert all(f"id[integer]:{100 + number} " in file.read_text() for file in files)
                other.execute(ROW.encode())
            assert time.monotonic() - began < 10
        assert SlotLocation.open(state).settings.synchronous_standby_names == "2 (a, b)"


def test_what_cannot_be_named(tailrace: Run, tmp_path: Path) -> None:
    names = ("--synchronous-standby-names", "2 (a")
    code, _, err = tailrace("slot", "receive", "a", "--state", tmp_path, "-f", "-", *names)
    assert (code, "invalid value for parameter" in err) == (1, True)
    code, _, err = tailrace("wal", "receive", "host=nowhere", "--to", tmp_path, *names)
    assert (code, "no state location specified" in err) == (1, True)
