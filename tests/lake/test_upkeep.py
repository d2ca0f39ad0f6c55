"""A lake is maintained: tables that need it, in the time that there is; `tailrace lake maintain`; and what killed runs of `mirror` left."""

from __future__ import annotations

import json
import os
import signal
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from lake.test_lake import _apply, _check_equal, _run, store  # noqa: F401 - a fixture
from lake.test_maintenance import Clock, clock  # noqa: F401 - a fixture
from support.command import Run
from support.forked import PROCESSES
from support.sampling import some_of
from support.servers import Server
from tailrace.errors import UsageError
from tailrace.lake.changelog import append_changes
from tailrace.lake.delta.table import find
from tailrace.lake.files.data_files import is_ours
from tailrace.lake.lake import Lake
from tailrace.lake.mirror import mirror
from tailrace.lake.position import layout_of
from tailrace.lake.reading import read_table
from tailrace.lake.upkeep import MAINTAINED
from tailrace.pipeline import open_feed
from tailrace.storage.local_store import LocalStore
from tailrace.storage.store import Store

pytestmark = pytest.mark.postgres
DAY = 86_400.0


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(18, test_decoding=False) as running:
        yield running


def _made(lake: Lake) -> dict[str, tuple[int, int]]:
    return {each.table: (each.gathered.files, each.gathered.into) for each in lake.maintain()}


def test_only_tables_in_need_are_opened(server: Server, store: Store, clock: Clock) -> None:  # noqa: F811
    _run(
        server,
        "CREATE TABLE t (id int PRIMARY KEY, v text);\nCREATE TABLE pair (x int, y int, PRIMARY KEY (x, y));\n"
        "CREATE TABLE bag (a int, b text);\nALTER TABLE bag REPLICA IDENTITY FULL;\n"
        "INSERT INTO pair VALUES (1, 1);\nINSERT INTO bag VALUES (1, 'x'), (1, 'x')",
    )
    lake = Lake.open(store)
    _apply(server, lake)
    for number in range(12):
        server.say(f"INSERT INTO t VALUES ({number}, 'v{number}')", f"INSERT INTO bag VALUES ({number % 2}, 'y')")
        _apply(server, lake)
    opened: list[str] = []
    below = type(store).below

    def watched(self: Store, prefix: str) -> Store:
        opened.append(prefix)
        return below(self, prefix)  # type: ignore[arg-type]

    lake = Lake.open(store)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(store), "below", watched)
        assert _made(lake) == {"public.bag": (13, 1), "public.t": (12, 1)}
        assert set(opened) == {"public.bag", "public.t"}
        opened.clear()
        assert _made(lake) == {}
        assert opened == []
    _check_equal(server, lake)
    server.say("UPDATE t SET v = 'later' WHERE id < 3")
    assert _apply(server, lake) == {"public.t": (3, 3, 0)}
    _check_equal(server, lake)
    assert _made(Lake.open(store)) == {}
    clock.pass_by(DAY + 60)  # a table that has changed is looked at within a day
    assert set(_made(Lake.open(store))) == {"public.t", "public.pair"}
    assert _made(Lake.open(store)) == {}
    clock.pass_by(7 * DAY)  # what it let go of may be removed
    before = sum(1 for _ in store.list("public.t/part-"))
    assert set(_made(lake)) == {"public.t", "public.bag"}
    assert sum(1 for _ in store.list("public.t/part-")) < before - 10
    _check_equal(server, lake)
    store.put(MAINTAINED, b"damaged")
    assert set(_made(lake)) == {"public.t", "public.bag"}  # of tables with few commits it is not worth the while
    assert {each.table for each in lake.maintain(everything=True)} == {"public.t", "public.pair", "public.bag"}
    with pytest.raises(UsageError, match="has no table nobody"):
        lake.maintain(tables=["nobody"])


def test_the_key_is_in_the_table(server: Server, tmp_path: Path) -> None:
    _run(
        server,
        "CREATE TABLE t (b int, a int, c int, PRIMARY KEY (a, b));\nCREATE TABLE bag (a int);\nALTER TABLE bag REPLICA IDENTITY FULL;\n"
        "INSERT INTO t VALUES (1, 2, 3);\nINSERT INTO bag VALUES (1)",
    )
    feed = open_feed(server.data_dir, "postgres")
    mirror(feed, tmp_path / "rows")
    append_changes(feed, tmp_path / "changes")
    found = {path: layout_of(find(tmp_path / path)) for path in ("rows/public.t", "rows/public.bag", "changes/public.t")}
    assert {path: each.by for path, each in found.items() if each} == {
        "rows/public.t": ("a", "b"), "rows/public.bag": (), "changes/public.t": ("commit_lsn", "lsn", "sequence"),
    }  # fmt: skip
    changes = found["changes/public.t"]
    assert changes is not None
    assert "commit_lsn" not in changes.without_statistics
    assert "new" in changes.without_statistics


def test_a_budget_of_seconds(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables are maintained until it is over, one at least, the cheapest first; the next call goes on."""
    from tailrace.lake import upkeep  # noqa: PLC0415

    lake = Lake.open(LocalStore(tmp_path))
    _run(server, ";\n".join(f"CREATE TABLE k{n} (id int PRIMARY KEY)" for n in range(3)))
    for number in range(16):
        server.say(*(f"INSERT INTO k{n} VALUES ({number})" for n in range(3) if number < 11 + 2 * n))
        _apply(server, lake)
    real = upkeep.maintain

    def slow(*arguments: Any, **more: Any) -> Any:
        done = real(*arguments, **more)
        time.sleep(0.2)
        return done

    monkeypatch.setattr(upkeep, "maintain", slow)
    assert [each.table for each in lake.maintain(0.1)] == ["public.k0"]
    assert [each.table for each in lake.maintain(0.3)][:1] == ["public.k0"]  # its time was over before all was done
    monkeypatch.setattr(upkeep, "_URGENT", 15)
    assert [each.table for each in lake.maintain(0.1)] == ["public.k2"]
    monkeypatch.undo()
    assert lake.maintain(60)
    assert lake.maintain(60) == []


def test_trouble_with_one_table(server: Server, tmp_path: Path, tailrace: Run) -> None:
    lake = Lake.open(LocalStore(tmp_path))
    _run(server, "CREATE TABLE a (id int PRIMARY KEY);\nCREATE TABLE b (id int PRIMARY KEY)")
    for number in range(12):
        server.say(f"INSERT INTO a VALUES ({number})", f"INSERT INTO b VALUES ({number})")
        _apply(server, lake)
    path = tmp_path / find(tmp_path / "public.a").files[3].path
    (tmp_path / "public.a" / path.name).write_bytes(b"damaged")
    done = {each.table: each for each in lake.maintain()}
    assert done["public.a"].trouble is not None
    assert "cannot be read" in done["public.a"].trouble.message
    assert done["public.b"].gathered.into == 1
    status, out, err = tailrace("lake", "maintain", tmp_path)
    assert status == 1
    assert "cannot be read" in err
    assert "public.a" in out


def test_on_request(server: Server, tmp_path: Path, tailrace: Run) -> None:
    url = tmp_path / "lake"
    lake = Lake.open(LocalStore(url))
    _run(server, 'CREATE TABLE a (id int PRIMARY KEY);\nCREATE TABLE "B b" (id int PRIMARY KEY);\nINSERT INTO "B b" VALUES (1)')
    for number in range(12):
        server.say(f"INSERT INTO a VALUES ({number})")
        _apply(server, lake)
    orphan = url / "public.a" / f"part-{uuid.uuid4().hex}-{uuid.uuid4().hex}.parquet"
    orphan.write_bytes(b"dead")
    os.utime(orphan, (time.time() - 7200,) * 2)
    staged = url / "_staging" / uuid.uuid4().hex / "1" / "part-1.parquet"
    staged.parent.mkdir(parents=True)
    staged.write_bytes(b"dead")
    os.utime(staged, (time.time() - 7200,) * 2)
    status, out, _ = tailrace("lake", "maintain", url, "--table", '"B b"', "--json")
    assert status == 0
    assert [each["table"] for each in json.loads(out)["tables"]] == ['public."B b"']
    status, out, _ = tailrace("lake", "maintain", url, "--json")
    assert status == 0
    said = {each.pop("table"): each for each in json.loads(out)["tables"]}
    assert said["public.a"] == {"folder": "public.a", "gathered": 12, "into": 1, "removed": 0, "bytes": 0, "trouble": None}
    assert orphan.exists()
    assert staged.exists()
    status, out, _ = tailrace("lake", "maintain", url, "--orphans-older-than", "1h")
    assert status == 0
    assert not orphan.exists()
    assert not staged.exists()
    assert out.splitlines() == [
        "table\tgathered\tinto\tremoved\tbytes\tnotes", "public.a\t0\t0\t1\t4\t", "2 tables maintained, 1 object, 4 bytes, removed"
    ]  # fmt: skip
    for words, what in (
        ((str(url), "--table", "nobody"), "has no table nobody"),
        ((str(tmp_path), ), "there is no lake in"),
        ((str(url), "--orphans-older-than", "soon"), "invalid length of time"),
    ):  # fmt: skip
        status, _, err = tailrace("lake", "maintain", *words)
        assert status == 1
        assert what in err


# -- what killed runs of mirror and append_changes left ----------------------------------------------------------------------------------


def _killed_in_commit(kind: str, data_dir: str, folder: str) -> None:
    """A run that dies before it commits its second table."""
    from tailrace.lake.delta import table  # noqa: PLC0415

    real, calls = table.commit, []

    def dies(*arguments: Any, **more: Any) -> Any:
        calls.append(0)
        if len(calls) > 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **more)

    table.commit = dies  # type: ignore[assignment]
    WRITERS[kind](open_feed(data_dir, "postgres"), folder)


WRITERS = {"mirror": mirror, "changes": append_changes}


@pytest.mark.parametrize(
    ("kind", "begun"),
    some_of([pytest.param(kind, begun) for begun in (False, True) for kind in (WRITERS if not begun else reversed(WRITERS))], 2),
)
def test_the_next_run_removes_what_a_killed_one_left(server: Server, tmp_path: Path, kind: str, begun: bool) -> None:
    folder = tmp_path / "lake"
    server.say("CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE b (id int PRIMARY KEY, v int)", "INSERT INTO a VALUES (1)")
    server.say("INSERT INTO b SELECT n, 0 FROM generate_series(1, 1000) n")
    if begun:
        WRITERS[kind](open_feed(server.data_dir, "postgres"), folder)
    server.say("INSERT INTO a VALUES (2)", "UPDATE b SET v = 1 WHERE id % 7 = 0", "INSERT INTO b VALUES (2000, 2)")
    process = PROCESSES.Process(target=_killed_in_commit, args=(kind, str(server.data_dir), str(folder)))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    left = {path.name for path in (folder / "public.b").rglob("*.parquet")} - _named(folder / "public.b")
    assert left
    foreign = [folder / "public.b/part-00000-theirs.snappy.parquet", folder / "notes" / "part-1.parquet"]
    for path in foreign:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"theirs")
    if not begun:
        foreign.pop(0).unlink()  # a folder with a file of another's is in the way of a new table
    done = WRITERS[kind](open_feed(server.data_dir, "postgres"), folder)
    assert [each.trouble for each in done if each.trouble] == []
    for name in ("public.a", "public.b"):
        there = {path.name for path in (folder / name).rglob("*") if is_ours(path.name)}
        released = {json.loads(line)["remove"]["path"] for log in (folder / name / "_delta_log").glob("*.json")
                    for line in log.read_text().splitlines() if '"remove"' in line}  # fmt: skip
        assert there == _named(folder / name) | released
        assert not there & left
    assert all(path.exists() for path in foreign)
    assert not list(folder.glob("_staging-*"))
    assert read_table(folder / "public.a").num_rows == 2
    rows = read_table(folder / "public.b")
    if kind == "mirror":
        assert isinstance(rows, pa.Table)
        assert rows.num_rows == 1001
        assert sum(rows["v"].to_pylist()) == 1000 // 7 + 2
    else:
        assert rows.num_rows == 1000 + 1000 // 7 + 1


def _named(folder: Path) -> set[str]:
    return {Path(file).name for file in DeltaTable(folder).file_uris()} if DeltaTable.is_deltatable(str(folder)) else set()
