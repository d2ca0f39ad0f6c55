"""A server that is put back to an earlier copy of itself, or whose copy is promoted, at any moment, and tables of a lake that stand anywhere: each
comes to what the server has, or stays as it is, and a trouble says why."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from support.put_back import copied, put_back
from support.servers import Server
from tailrace.lake.changelog import append_changes
from tailrace.lake.delta.table import tables_in
from tailrace.lake.mirror import mirror
from tailrace.lake.reading import read_table
from tailrace.lake.target_tables import TroubleWarning
from tailrace.pipeline import open_feed

pytestmark = pytest.mark.postgres
TRIALS = [pytest.param(seed, marks=[] if seed < 1 else pytest.mark.marathon) for seed in range(100)]
CAUSES = ("but the log ends at", "but the log has another record at", "follows timeline")
Rows = list[dict[str, Any]]


@pytest.mark.parametrize("seed", TRIALS)
def test_tables_of_a_lake(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    writes = {"mirror": mirror, "append_changes": append_changes}
    with Server(18, {"autovacuum": "off", "hot_standby": "on"}, test_decoding=False) as server:
        server.say("CREATE TABLE t (id int PRIMARY KEY, v text)", "CREATE TABLE u (id int PRIMARY KEY, v text)")
        _work(server, dice, "shared")
        for kind, write in writes.items():
            if dice.random() < 0.8:
                assert _troubles(write, server, tmp_path / kind) == {}
        _work(server, dice, "shared, later")
        copy = copied(server, tmp_path / "copy")
        for number in range(dice.randrange(3)):
            _work(server, dice, f"gone {number}")
            for kind, write in writes.items():
                if dice.random() < 0.7:
                    assert _troubles(write, server, tmp_path / kind) == {}
        if dice.random() < 0.5:
            (copy / "standby.signal").touch()
        put_back(server, copy)
        server.sql("SELECT pg_is_in_recovery() AND pg_promote()")
        for number in range(dice.randrange(1, 3)):
            _work(server, dice, f"new {number}")
            for kind, write in writes.items():
                before = _tables(tmp_path / kind)
                troubles = _troubles(write, server, tmp_path / kind)
                _check(server, kind, before, _tables(tmp_path / kind), troubles)


def _work(server: Server, dice: random.Random, what: str) -> None:
    """Transactions of two tables, and others that come and go; a log that is switched, and checkpoints."""
    statements = [
        lambda table: (
            f"INSERT INTO {table} SELECT g, '{what}' FROM generate_series(1, {dice.choice([1, 20, 900])}) g ON CONFLICT DO NOTHING"
        ),
        lambda table: f"UPDATE {table} SET v = v || '!' WHERE id % {dice.randrange(2, 9)} = 0",
        lambda table: f"DELETE FROM {table} WHERE id % {dice.randrange(2, 9)} = 0",
        lambda table: f"CREATE TABLE IF NOT EXISTS {table}_{what.replace(' ', '_').replace(',', '')} AS SELECT 1 AS id",
        lambda _: "CHECKPOINT",
        lambda _: "SELECT pg_switch_wal()",
    ]
    for _ in range(dice.randrange(8)):
        server.say(dice.choice(statements)(dice.choice("tu")))


def _troubles(write: Callable[..., Any], server: Server, folder: Path) -> dict[str, Exception]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TroubleWarning)
        found = write(open_feed(server.data_dir, "postgres"), folder)
    return {each.table: each.trouble for each in found if each.trouble is not None}


def _tables(folder: Path) -> dict[str, tuple[int, pa.Table]]:
    """Version and rows of each."""
    return {path.name: (DeltaTable(path).version(), read_table(path)) for path in tables_in(folder)} if folder.exists() else {}


def _check(server: Server, kind: str, before: Any, after: Any, troubles: dict[str, Exception]) -> None:
    there = {f"public.{name}" for (name,) in server.sql("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")}
    for name, (version, rows) in after.items():
        if name in troubles:
            said = str(troubles[name])
            assert any(cause in said for cause in CAUSES), said
            assert (version, rows) == before.get(name, (version, rows))
        else:
            assert name in there, f"{name} of a history that is gone"
            assert _sorted(rows.to_pylist() if kind == "mirror" else _replayed(rows)) == _of_server(server, name), (
                f"{kind} of {name}"
            )


def _of_server(server: Server, name: str) -> Rows:
    return _sorted([row for (row,) in server.sql(f"SELECT to_json(t) FROM {name} t")])


def _sorted(rows: Rows) -> Rows:
    return sorted(rows, key=lambda row: row["id"])


def _replayed(changes: pa.Table) -> Rows:
    """What a table comes to by its changes."""
    rows: dict[int, dict[str, Any]] = {}
    order = [("commit_lsn", "ascending"), ("lsn", "ascending"), ("sequence", "ascending")]
    for change in changes.sort_by(order).to_pylist():
        if change["kind"] == "delete":
            del rows[change["old"]["id"]]
        else:
            rows[change["new"]["id"]] = change["new"]
    return list(rows.values())
