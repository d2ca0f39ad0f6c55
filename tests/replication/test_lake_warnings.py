"""What of the source a lake does not have is told by each run, and once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.command import Run
from support.own_database import own_database
from support.sampling import some_of
from support.servers import Server
from tailrace.lake.reading import read_table

pytestmark = pytest.mark.postgres
UNLOGGED = "unlogged tables are not in the lake, or stay there as they were, since no log has their changes: "
VIRTUAL = "virtual generated columns are not in the lake, since their values are not stored: "


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with Server(18, {"wal_keep_size": "500MB", "wal_level": "logical"}, test_decoding=False) as server:
        yield server


@pytest.fixture
def server(running: Server) -> Iterator[Server]:
    with own_database(running) as server:
        yield server


def _warnings(err: str) -> list[str]:
    return [line.removeprefix("tailrace: warning: ") for line in err.splitlines() if line.startswith("tailrace: warning: ")]


@pytest.mark.parametrize("layout", some_of([pytest.param(each, id=each) for each in ("mirror", "history", "changes")], 3))
def test_unlogged_tables_and_virtual_columns(server: Server, tmp_path: Path, tailrace: Run, layout: str) -> None:
    base = (
        "mirror",
        server.data_dir,
        "--database",
        server.dbname,
        "--to",
        tmp_path / "lake",
        "--state",
        tmp_path / "state",
        "--layout",
        layout,
    )
    server.say(
        "CREATE TABLE t (id int PRIMARY KEY, twice int GENERATED ALWAYS AS (id * 2) VIRTUAL, v text, half int GENERATED ALWAYS AS (id / 2) STORED)",
        "INSERT INTO t (id, v) VALUES (1, 'x'), (2, 'y')", "CREATE UNLOGGED TABLE u (id int PRIMARY KEY)", "INSERT INTO u VALUES (1)",
        "CREATE TABLE later (id int PRIMARY KEY)", "INSERT INTO later VALUES (1)",
    )  # fmt: skip
    code, _, err = tailrace(*base)
    assert code == 0
    assert _warnings(err) == [f"{UNLOGGED}public.u", f"{VIRTUAL}public.t.twice"]
    server.say(
        "UPDATE t SET v = 'z' WHERE id = 1",
        "ALTER TABLE later SET UNLOGGED",
        "ALTER TABLE t ADD more int",
        "ALTER TABLE t ALTER v TYPE varchar(9)",
    )
    code, _, err = tailrace(*base)
    assert code == 0
    assert _warnings(err) == [f"{UNLOGGED}public.later, public.u", f"{VIRTUAL}public.t.twice"]
    rows = read_table(tmp_path / "lake/public.t")
    if layout == "mirror":
        assert sorted(map(tuple, (row.values() for row in rows.to_pylist()))) == [(1, "z", 0, None), (2, "y", 1, None)]
    names = rows.schema.names if layout != "changes" else [field.name for field in rows.schema.field("new").type]
    assert [name for name in names if not name.startswith("valid_")] == ["id", "v", "half", "more"]


def test_what_is_published(server: Server, tmp_path: Path, tailrace: Run) -> None:
    """Of publications only what they would have is told; a server that is connected to gives copies without virtual columns as well."""
    server.say(
        "CREATE TABLE t (id int PRIMARY KEY, twice int GENERATED ALWAYS AS (id * 2) VIRTUAL)", "INSERT INTO t VALUES (1)",
        "CREATE UNLOGGED TABLE u (id int PRIMARY KEY)", "CREATE SCHEMA s", "CREATE UNLOGGED TABLE s.u (id int)",
        "CREATE PUBLICATION p FOR TABLES IN SCHEMA s", "CREATE PUBLICATION q FOR TABLE t",
    )  # fmt: skip
    base = ("mirror", server.dsn(), "--database", server.dbname)
    code, _, err = tailrace(*base, "--to", tmp_path / "p", "--state", tmp_path / "of p", "--publication", "p")
    assert (code, _warnings(err)) == (0, [f"{UNLOGGED}s.u"])
    code, _, err = tailrace(*base, "--to", tmp_path / "q", "--state", tmp_path / "of q", "--publication", "q")
    assert (code, _warnings(err)) == (0, [f"{VIRTUAL}public.t.twice"])
    code, _, err = tailrace(*base, "--to", tmp_path / "all", "--state", tmp_path / "of all")
    assert (code, _warnings(err)) == (0, [f"{UNLOGGED}public.u, s.u", f"{VIRTUAL}public.t.twice"])
    assert read_table(tmp_path / "all/public.t").to_pylist() == [{"id": 1}]
