"""Who is connected, how far, and what enough of them have: on a connection, in `tailrace sql`, and by `tailrace serve --status`."""

from __future__ import annotations

import subprocess
import time
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from support.raw_stream import RawStream
from support.served import Served
from support.servers import Server
from support.slots import TAILRACE
from tailrace.errors import UsageError
from tailrace.model import Lsn
from tailrace.server.walsender import StreamPositions
from tailrace.slots.syncrep import Standby, SyncStandbyNames, parse_synchronous_standby_names, sync_state


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", SyncStandbyNames()),
        ("a", SyncStandbyNames(("a",), 1)),
        ("A, b,*", SyncStandbyNames(("a", "b", "*"), 1)),
        ("2 (a, b)", SyncStandbyNames(("a", "b"), 2)),
        ("FIRST 2 (a, \"b C\")", SyncStandbyNames(("a", "b c"), 2)),
        ("any 1(a,b)", SyncStandbyNames(("a", "b"), 1, is_quorum=True)),
        ("first, any", SyncStandbyNames(("first", "any"), 1)),
    ],
)  # fmt: skip
def test_names(text: str, names: SyncStandbyNames) -> None:
    assert parse_synchronous_standby_names(text) == names


@pytest.mark.parametrize("text", ["a b", "ANY (a)", "2 (a", "(a)", ",", "a,", "2 ()", "FIRST 1 a", "1.5 (a)"])
def test_what_are_no_names(text: str) -> None:
    with pytest.raises(UsageError, match="invalid value for parameter"):
        parse_synchronous_standby_names(text)


def _standby(pid: int, name: str, flushed: int, state: str = "streaming") -> Standby:
    positions = StreamPositions(state, Lsn(100), Lsn(flushed + 1), Lsn(flushed), Lsn(0))
    return Standby(pid, name, positions.is_heard, positions.reached)


def test_who_counts() -> None:
    standbys = [
        _standby(1, "b", 10),
        _standby(2, "a", 30),
        _standby(3, "c", 20),
        _standby(4, "a", 0),
        _standby(5, "a", 50, "catchup"),
    ]
    found = sync_state(parse_synchronous_standby_names("FIRST 2 (a, b, c)"), standbys)
    assert found.states == {1: (2, "sync"), 2: (1, "sync"), 3: (3, "potential"), 4: (0, "async"), 5: (0, "async")}
    assert found.confirmed == (11, 10, 0)
    found = sync_state(parse_synchronous_standby_names("ANY 2 (*)"), standbys)
    assert found.states == {1: (1, "quorum"), 2: (1, "quorum"), 3: (1, "quorum"), 4: (0, "async"), 5: (0, "async")}
    assert found.confirmed == (21, 20, 0)
    assert sync_state(parse_synchronous_standby_names("4 (a, b, c)"), standbys).confirmed == (0, 0, 0)


@pytest.mark.soak
@pytest.mark.postgres
def test_it_is_told_everywhere(tmp_path: Path) -> None:
    with (
        Server(18) as server,
        Served(server.data_dir, tmp_path / "state", "--synchronous-standby-names", "FIRST 1 (here, there)") as served,
    ):
        server.say("CREATE TABLE t (id int PRIMARY KEY)")
        with served.connect(replication="database") as client:
            client.execute(b"CREATE_REPLICATION_SLOT s LOGICAL test_decoding (SNAPSHOT 'nothing')")
        server.say("INSERT INTO t VALUES (1)")
        with RawStream(served, "s", application_name="there") as stream:
            end = stream.data(3)[-1].start
            stream.report(end, end)
            told = ("application_name", "state", "sync_state", "sync_priority", "flush_lsn = '" + str(end) + "'", "slot_name")
            query = (
                f"SELECT {', '.join(told[:5])}, {told[5]} FROM pg_stat_replication JOIN pg_replication_slots ON active_pid = pid"
            )
            with served.connect() as client:
                _until(lambda: client.execute(query.encode()).fetchall() == [("there", "streaming", "sync", 2, True, "s")])
                assert client.execute("SELECT flush_lsn::text FROM tailrace_synchronous_lsn").fetchall() == [(str(end),)]
                [activity] = client.execute(
                    "SELECT application_name, backend_type, state, query FROM pg_stat_activity WHERE state = 'active' AND backend_type = 'walsender'"
                ).fetchall()
                assert activity == ("there", "walsender", "active", "START_REPLICATION SLOT s LOGICAL 0/0")
            _until(lambda: str(end) in _status(tmp_path / "state", server).splitlines()[-1])
            words = [TAILRACE, "sql", str(server.data_dir), "-d", "postgres", "--state", str(tmp_path / "state"), "-Atc"]
            found = subprocess.run(
                [*words, "SELECT application_name, flush_lsn FROM pg_stat_replication"],
                capture_output=True,
                text=True,
                check=True,
            )
            assert found.stdout == f"there|{end}\n"
    done = subprocess.run([*words, "SELECT count(*) FROM pg_stat_activity"], capture_output=True, text=True, check=False)
    assert done.stdout in ("0\n", "")
    done = subprocess.run(
        [TAILRACE, "serve", str(tmp_path), "--state", str(tmp_path / "state"), "--status"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "nobody serves the state location" in done.stderr


@pytest.mark.postgres
@pytest.mark.soak
def test_lags(tmp_path: Path) -> None:
    """As the server's walsender tells of the same client: none before it says something, and then what it took to say it."""
    with Server(18) as server, Served(server.data_dir, tmp_path / "state") as served:
        server.say("CREATE TABLE t (id int PRIMARY KEY)", "CREATE PUBLICATION p FOR ALL TABLES")
        told = {}
        options = " (proto_version '1', publication_names 'p')"
        for side in (server, served):
            with side.connect(replication="database") as client:
                client.execute(b"CREATE_REPLICATION_SLOT s LOGICAL pgoutput (SNAPSHOT 'nothing')")
            with RawStream(side, "s", plugin_options=options) as stream, side.connect() as watcher:
                lags = partial(_lags, watcher)
                told[side] = [lags()]
                server.say(f"INSERT INTO t VALUES ({len(told)})")
                end = stream.data(4)[-1].start
                time.sleep(1.2)
                stream.report(end, Lsn(0))
                _until(lambda lags=lags: lags()[0] is not None)
                told[side].append(lags())
                stream.report(end, end)
                _until(lambda lags=lags: lags()[2] is not None)
                told[side].append(lags())
        for before, written, applied in told.values():
            assert before == (None, None, None)
            # of what it has not flushed yet, as much time has gone by at least
            assert all(each > timedelta(seconds=1.1) for each in (*written, *applied))


def _lags(client: psycopg.Connection[Any]) -> tuple[Any, ...]:
    [row] = client.execute("SELECT write_lag, flush_lag, replay_lag FROM pg_stat_replication").fetchall()
    return row


@pytest.mark.postgres
def test_what_was_decoded_is_counted(tmp_path: Path) -> None:
    """Each transaction once, as on the server, also behind a restart; of a copy of the slot nothing."""
    query = "SELECT total_txns, total_bytes > 0, stream_txns FROM pg_stat_replication_slots WHERE slot_name = 's'"
    with Server(18) as server:
        server.say("CREATE TABLE t (id int PRIMARY KEY)")
        with Served(server.data_dir, tmp_path / "state") as served:
            for side in (server, served):
                with side.connect() as client:
                    client.execute("SELECT pg_create_logical_replication_slot('s', 'test_decoding')")
            for each in range(3):
                server.say(f"INSERT INTO t VALUES ({each})")
            server.say("BEGIN; INSERT INTO t VALUES (10); ROLLBACK")
            found = []
            for side in (server, served):
                with side.connect() as client:
                    assert len(client.execute("SELECT pg_logical_slot_get_changes('s', NULL, NULL)").fetchall()) == 9
                    _until(lambda client=client: client.execute(query).fetchall()[0][0])
                    found.append(client.execute(query).fetchall())
            assert found[0] == found[1] == [(3, True, 0)]
        with Served(server.data_dir, tmp_path / "state") as served, served.connect() as client:
            client.execute("SELECT pg_copy_logical_replication_slot('s', 'c')")
            assert client.execute(query).fetchall() == [(3, True, 0)]
            assert client.execute(query.replace("'s'", "'c'")).fetchall() == [(0, False, 0)]


def _status(state: Path, server: Server) -> str:
    return subprocess.run(
        [TAILRACE, "serve", str(server.data_dir), "--state", str(state), "--status"], capture_output=True, text=True, check=True
    ).stdout


def _until(is_so: Any) -> None:
    until = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.1)
