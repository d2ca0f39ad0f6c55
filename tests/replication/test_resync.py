"""A lake whose slot's log is lost has all its tables copied once more, in place."""

from __future__ import annotations

import shutil
import subprocess
from functools import partial
from pathlib import Path

import pyarrow.compute as pc
import pytest

from support.command import ran
from support.own_database import servers_with_databases
from support.servers import Server
from support.slots import TAILRACE
from support.waiting import until
from tailrace.lake.catalog import LakeCatalog, StoredCatalog
from tailrace.lake.reading import read_table
from tailrace.model import Lsn
from tailrace.storage.local_store import LocalStore

pytestmark = pytest.mark.postgres


running, server = servers_with_databases({"wal_keep_size": "100MB"})


def _words(server: Server, home: Path, *more: str) -> list[str]:
    where = ("--database", server.dbname, "--to", home / "lake", "--state", home / "state")
    return list(map(str, ("mirror", server.dsn(), *where, *more)))


def _mirrored(server: Server, home: Path, *more: str) -> None:
    done = ran(*_words(server, home, *more))
    assert done.returncode == 0, done.stderr


def _refused(server: Server, home: Path, *more: str) -> str:
    done = ran(*_words(server, home, *more))
    assert done.returncode == 1
    return done.stderr


def _catalog(home: Path) -> LakeCatalog:
    catalog = StoredCatalog.read(LocalStore(home / "lake")).catalog
    assert catalog is not None
    return catalog


def _begun(server: Server, home: Path, *more: str) -> None:
    """A lake of three tables, whose slot is gone, with what has happened since."""
    for name in ("a", "b", "d"):
        server.say(
            f"CREATE TABLE {name} (id int PRIMARY KEY, v text)",
            f"INSERT INTO {name} SELECT g, 'x' FROM generate_series(1, 2000) g",
        )
    _mirrored(server, home, *more)
    shutil.rmtree(home / "state")
    server.say(
        "UPDATE a SET v = 'changed' WHERE id % 10 = 0", "DELETE FROM a WHERE id % 10 = 1", "DROP TABLE b",
        "CREATE TABLE c (id int PRIMARY KEY)", "INSERT INTO c VALUES (1)",
        "ALTER TABLE d ADD COLUMN w int DEFAULT 7", "ALTER TABLE d RENAME COLUMN v TO text", "INSERT INTO d VALUES (5000, 'new', 8)",
    )  # fmt: skip


def _verify(server: Server, home: Path) -> None:
    tables = [word for name in "acd" for word in ("--table", name)]
    done = ran("verify", server.dsn(), "--database", server.dbname, "--to", home / "lake", *tables)
    assert done.returncode == 0, done.stdout + done.stderr


def test_all_tables_once_more(server: Server, tmp_path: Path) -> None:
    """Those that are there are never without rows; one that was made since comes, and one that was dropped stays as it was."""
    _begun(server, tmp_path)
    before = _catalog(tmp_path)
    for options in ((), ("--copy-again", "a")):
        said = _refused(server, tmp_path, *options)
        assert "What lies between is not received any more" in said
        assert "--resync" in said
    assert "--no-copy" in _refused(server, tmp_path, "--resync", "--no-copy")
    assert _catalog(tmp_path) == before
    _mirrored(server, tmp_path, "--resync")
    _verify(server, tmp_path)
    catalog = _catalog(tmp_path)
    names = {table.name: table for table in catalog.tables.values()}
    assert {name for name, table in names.items() if table.dropped is not None} == {"b"}
    assert names["a"].version == 1, "one commit"
    assert read_table(tmp_path / "lake/public.b").num_rows == 2000
    server.say("INSERT INTO a VALUES (9000, 'streamed')", "DELETE FROM d WHERE id = 1", "INSERT INTO c VALUES (2)")
    _mirrored(server, tmp_path)
    _verify(server, tmp_path)


def test_killed_meanwhile(server: Server, tmp_path: Path) -> None:
    """It goes on without being asked again, with the slot that it was begun with, and with another."""
    _begun(server, tmp_path)
    for _ in range(2):
        before = _catalog(tmp_path).complete
        words = [TAILRACE, *_words(server, tmp_path, "--resync", "--copy-rate", "2kB/s")]
        with subprocess.Popen(words, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
            until(partial(_has_begun, process, tmp_path, before))
            assert process.poll() is None
            process.kill()
        assert read_table(tmp_path / "lake/public.a").num_rows == 2000
        server.say("UPDATE a SET v = 'changed again' WHERE id % 7 = 0")
        shutil.rmtree(tmp_path / "state")
    _mirrored(server, tmp_path)
    _verify(server, tmp_path)


def _has_begun(process: subprocess.Popen[bytes], home: Path, before: Lsn) -> bool:
    catalog = _catalog(home)
    return process.poll() is not None or (catalog.awaits_copy and catalog.complete > before)


def test_a_history_goes_on(server: Server, tmp_path: Path) -> None:
    """It ends what it does not know to be current."""
    _begun(server, tmp_path, "--layout", "history")
    _mirrored(server, tmp_path, "--resync")
    rows = read_table(tmp_path / "lake/public.a")
    assert rows.num_rows == 2000 + 1800
    current = rows.filter(pc.is_null(rows["valid_to_lsn"]))
    assert sorted(current["v"].to_pylist()) == ["changed"] * 200 + ["x"] * 1600
