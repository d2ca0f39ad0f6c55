"""Writers of what a plugin prints: one that dies at any moment loses nothing, and repeats nothing that it had called durable."""

from __future__ import annotations

import importlib.util
import os
import random
import sqlite3
import subprocess
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar

import pytest

from support.acquired import acquired
from support.servers import Server
from support.slots import TAILRACE, create_both, theirs
from tailrace.errors import UsageError
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner
from tailrace.plugins.registry import plugin_named
from tailrace.replication.receiving import receive_into
from tailrace.replication.slot_location import SlotLocation
from tailrace.replication.writers import GROUP, Calling, Rows, Writer, writer_named

EXAMPLE = Path(__file__).parents[2] / "examples/sqlite"
_spec = importlib.util.spec_from_file_location("sqlite_writer", EXAMPLE / "sqlite_writer.py")
assert _spec is not None
assert _spec.loader is not None
sqlite_writer: Any = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(sqlite_writer)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """With a slot of ours and its own, and changes for both."""
    with Server(16) as started:
        started.say("CREATE TABLE t (id serial PRIMARY KEY, v text)")
        create_both(started, "mine", tmp_path / "state")
        for turn in range(8):
            started.say(
                f"INSERT INTO t (v) SELECT repeat('{turn}', 900) FROM generate_series(1, 40)", "DELETE FROM t WHERE id % 7 = 0"
            )
        yield started


class _Died(Exception):
    pass


class _Dying(sqlite_writer.Sqlite):
    """Dies as a process does: nothing that it is asked for after that happens."""

    dice = random.Random(5)
    deaths: ClassVar[list[str]] = []

    def write(self, rows: Rows) -> None:
        self._die("before a write")
        super().write(rows)
        self._die("behind a write")

    def durable_upto(self) -> Lsn:
        self._die("before it is durable")
        lsn: Lsn = super().durable_upto()
        self._die("before the slot confirms")
        return lsn

    def _die(self, when: str) -> None:
        if getattr(self, "dead", False) or self.dice.random() < 0.2:
            if not getattr(self, "dead", False):
                self.deaths.append(when)
            self.dead = True
            raise _Died


@pytest.mark.postgres
def test_a_writer_that_dies_has_every_row_once(server: Server, tmp_path: Path) -> None:
    end, path = Lsn.parse(server.flush_lsn()), tmp_path / "rows.db"
    expected = [tuple(row.split("\t", 2)) for row in theirs(server).splitlines()]
    durable = 0
    for upto in [*(Lsn.parse(lsn) for lsn, _, data in expected if data.startswith("COMMIT")), end]:
        while not _received(tmp_path / "state", path, upto):
            kept = _kept(path)
            assert kept == expected[: len(kept)]
            assert len(kept) >= durable
            durable = len(kept)
    assert len(set(_Dying.deaths)) == 4
    assert _kept(path) == expected
    assert SlotLocation.open(tmp_path / "state").slot("mine").confirmed_flush_lsn == end


def _kept(path: Path) -> list[tuple[str, ...]]:
    with sqlite3.connect(path) as database:
        rows = database.execute("SELECT lsn, xid, data FROM change ORDER BY number").fetchall()
    return [(lsn, str(xid), data.decode()) for lsn, xid, data in rows]


def _received(state: Path, path: Path, end: Lsn) -> bool:
    writer = _Dying({"path": str(path)})
    try:
        with acquired(SlotLocation.open(state), "mine", LocalRunner(1)) as consumer:
            plugin = plugin_named("test_decoding")
            plugin.startup({}, consumer.major)
            writer.begin(consumer.slot)
            receive_into(consumer, plugin, writer, upto=end, fsync_interval=0)
    except _Died:
        return False
    finally:
        writer.close()
    return True


@pytest.mark.postgres
def test_by_name_and_as_a_function(server: Server, tmp_path: Path) -> None:
    """The example as a package that is installed; and a function that gets the same rows, from a copy of the slot."""
    location = SlotLocation.open(tmp_path / "state")
    location.copy("mine", "other")
    end = server.flush_lsn()
    name = _installed(tmp_path / "site")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path / "site"), os.environ.get("PYTHONPATH", "")])}
    command = [TAILRACE, "slot", "receive", "mine", "--state", tmp_path / "state", "--endpos", end, "--writer", name]
    refused = subprocess.run([*command, "-f", "-"], env=environment, check=False, capture_output=True, text=True)
    assert "give a file or a writer" in refused.stderr
    refused = subprocess.run([*command, "--writer-option", "pth=x"], env=environment, check=False, capture_output=True, text=True)
    assert 'unrecognized writer option "pth"' in refused.stderr
    subprocess.run([*command, "--writer-option", f"path={tmp_path / 'rows.db'}"], env=environment, check=True)
    told: list[tuple[str, int, bytes]] = []
    writer = Calling(lambda rows: told.extend((str(row.lsn), row.xid, row.data) for row in rows))
    with acquired(location, "other", LocalRunner(1)) as consumer:
        plugin = plugin_named("test_decoding")
        plugin.startup({}, consumer.major)
        writer.begin(consumer.slot)
        receive_into(consumer, plugin, writer, upto=Lsn.parse(end))
    assert _kept(tmp_path / "rows.db") == [(lsn, str(xid), data.decode()) for lsn, xid, data in told]
    assert [f"{lsn}\t{xid}\t{data.decode()}" for lsn, xid, data in told] == theirs(server).splitlines()


def _installed(site: Path) -> str:
    """The example's package, as an installer leaves it; its writer's name."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    ((name, target),) = project["entry-points"][GROUP].items()
    about = site / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    (about / "entry_points.txt").write_text(f"[{GROUP}]\n{name} = {target}\n")
    (site / "sqlite_writer.py").write_text((EXAMPLE / "sqlite_writer.py").read_text())
    return str(name)


def test_names(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = metadata.EntryPoints(
        metadata.EntryPoint(name, target, GROUP) for name, target in (("lines", "builtins:print"), ("none", "builtins:int"))
    )
    monkeypatch.setattr("tailrace.replication.writers.entry_points", lambda group: entries.select(group=group))
    assert isinstance(writer_named("lines", {}), Calling)
    with pytest.raises(UsageError, match='unrecognized writer option "x"'):
        writer_named("lines", {"x": "1"})
    with pytest.raises(UsageError, match="neither a Writer nor a function"):
        writer_named("none", {})
    with pytest.raises(UsageError, match='writer "nope" does not exist') as caught:
        writer_named("nope", {})
    assert caught.value.hint == "Writers: lines, none."
    assert issubclass(sqlite_writer.Sqlite, Writer)
