"""A table that has seen a history that is gone is not gone on with, nor touched: after a server was put back to an earlier copy of itself, and after
a promotion below what the table has. A promotion above it is gone on from."""

from __future__ import annotations

import warnings

import pytest
from deltalake import DeltaTable

from support.servers import Server
from tailrace.errors import MissingHistory, UsageError
from tailrace.lake.changelog import append_changes
from tailrace.lake.delta.table import tables_in
from tailrace.lake.mirror import mirror
from tailrace.lake.reading import read_table
from tailrace.lake.target_tables import TroubleWarning
from tailrace.pipeline import open_feed, open_pipeline

pytestmark = pytest.mark.postgres
WRITES = [mirror, append_changes]


@pytest.fixture(scope="module")
def lives(tmp_path_factory):
    """A server's directory when it had two rows, and later, when it had three and another table."""
    folder = tmp_path_factory.mktemp("lives")
    with Server(18, test_decoding=False) as server:
        server.say("CREATE TABLE t (id int PRIMARY KEY, n int)", "INSERT INTO t VALUES (1, 1), (2, 2)")
        server.stop()
        early = server.copy_to(folder / "early")
        server.start()
        server.say("INSERT INTO t VALUES (3, 3)", "CREATE TABLE late (id int PRIMARY KEY)", "INSERT INTO late VALUES (1)")
        server.stop()
        yield early, server.copy_to(folder / "later")


def _write(write, server, folder, open_log=open_feed):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TroubleWarning)
        return write(open_log(server, "postgres"), folder)


def _state(folder):
    return {path.name: (DeltaTable(path).version(), read_table(path).num_rows) for path in tables_in(folder)}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("open_log", [open_feed, pytest.param(open_pipeline, marks=pytest.mark.matrix)])
def test_a_server_that_was_put_back(lives, tmp_path, write, open_log):
    early, later = lives
    _write(write, later, tmp_path, open_log)
    state = _state(tmp_path)
    with Server(18, data=early, test_decoding=False) as server:
        server.stop()
        found = _write(write, server.data_dir, tmp_path, open_log)
        assert {(each.table, type(each.trouble)) for each in found} == {
            ("public.t", MissingHistory),
            ("public.late", MissingHistory),
        }
        assert "but the log ends at" in found[0].trouble.message
        assert _state(tmp_path) == state
        server.start()
        server.say(
            "ALTER TABLE t RENAME TO late",
            "INSERT INTO late SELECT n, n FROM generate_series(10, 400) n",
            "CREATE TABLE t (a int)",
        )
        found = _write(write, server.data_dir, tmp_path, open_log)
        gone = {
            each.table: each.trouble
            for each in found
            if type(each.trouble) is UsageError and "another record at" in each.trouble.message
        }
        assert set(gone) == {"public.t", "public.late"}
        assert all("has seen a history that is gone" in error.hint and error.sqlstate == "55000" for error in gone.values())
        assert _state(tmp_path) == state


@pytest.mark.parametrize("write", WRITES)
def test_a_table_of_before(lives, tmp_path, write):
    """What it has is of both histories: it goes on in either."""
    early, later = lives
    _write(write, early, tmp_path)
    with Server(18, data=early, test_decoding=False) as server:
        server.say("INSERT INTO t VALUES (7, 7)")
        assert [each.trouble for each in _write(write, server.data_dir, tmp_path)] == [None]
    assert _state(tmp_path)["public.t"][1] == 3
    found = _write(write, later, tmp_path)
    assert {type(each.trouble) for each in found if each.table == "public.t"} <= {UsageError, MissingHistory}
    assert any(each.table == "public.t" for each in found)
    assert _state(tmp_path)["public.t"][1] == 3


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("above", [True, False], ids=["above", "below"])
def test_a_promotion(lives, tmp_path, write, above):
    """What the table has is on both timelines, or the standby was promoted before that."""
    early, later = lives
    _write(write, early if above else later, tmp_path)
    state = _state(tmp_path)
    with Server(18, {"hot_standby": "on"}, data=early, test_decoding=False) as server:
        server.stop()
        (server.data_dir / "standby.signal").touch()
        server.start()
        server.sql("SELECT pg_promote()")
        server.say("INSERT INTO t SELECT n, n FROM generate_series(20, 400) n")
        found = _write(write, server.data_dir, tmp_path)
        if above:
            assert [(each.table, each.trouble) for each in found] == [("public.t", None)]
            again = _write(write, server.data_dir, tmp_path)  # the server may have written by itself
            assert [each.trouble for each in again] in ([], [None])
            assert _state(tmp_path)["public.t"][1] == 2 + 381
            server.say("DELETE FROM t WHERE id = 1")
            assert [each.trouble for each in _write(write, server.data_dir, tmp_path)] == [None]
            state = _state(tmp_path)
            found = _write(write, later, tmp_path)  # the old primary, which does not know that it is one
            troubles = {each.table: each.trouble for each in found if each.trouble is not None}
            assert set(troubles) == {"public.t"}
            assert "follows timeline 2, and the log is of timeline 1" in troubles["public.t"].message
        else:
            troubles = {each.table: each.trouble for each in found}
            assert {type(troubles[name]) for name in ("public.t", "public.late")} <= {UsageError, MissingHistory}
        assert {name: _state(tmp_path)[name] for name in state} == state
