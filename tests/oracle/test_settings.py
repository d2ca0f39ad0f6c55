"""Servers whose settings make their WAL, or a part of it, undecodable: an error that says so, and nothing printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cases import DBNAME
from support.segments import forget_other_segments
from support.servers import Server
from tailrace.errors import InsufficientLogging, MissingHistory
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner, Source, capture, open_pipeline
from tailrace.plugins.test_decoding import TestDecoding

MAJOR = 18


def _printed(path: Path, **options: object) -> list[str]:
    pipeline = open_pipeline(path, DBNAME, runner=LocalRunner(1), **options)  # type: ignore[arg-type]
    plugin = TestDecoding()
    plugin.startup({"include-xids": "off"}, MAJOR)
    return [text for part in pipeline.lines(plugin) for text in part.texts.to_list()]


def test_full_page_writes_off(tmp_path: Path) -> None:
    """Catalogs cannot be rebuilt without images of their pages; from a captured state, none are needed."""
    with Server(MAJOR, {"full_page_writes": "off"}, dbname=DBNAME, test_decoding=False) as server:
        server.sql("CREATE TABLE t (id int PRIMARY KEY, v text)")
        server.checkpoint()
        server.switch_wal()
        server.stop()
        forget_other_segments(server.data_dir)
        server.copy_to(tmp_path / "before")
        server.start()
        start = Lsn.parse(str(server.flush_lsn()))
        server.checkpoint()
        server.sql("INSERT INTO t VALUES (1, 'before')")
        server.sql("ALTER TABLE t ADD w int DEFAULT 7")
        server.sql("INSERT INTO t VALUES (2, 'after')")
        server.stop()
        with pytest.raises(MissingHistory, match=r"a catalog page is changed at .* whose content before is not known") as caught:
            _printed(server.data_dir)
        assert "full_page_writes" in caught.value.hint
        assert "--catalog" in caught.value.hint
        state = capture(Source.open(tmp_path / "before"), LocalRunner(1), DBNAME)
        said = _printed(server.data_dir, catalog=state, start_lsn=start)
    assert "table public.t: INSERT: id[integer]:1 v[text]:'before'" in said
    assert "table public.t: INSERT: id[integer]:2 v[text]:'after' w[integer]:7" in said


def test_wal_level_below_logical(tmp_path: Path) -> None:
    """At the start, and lowered for a while inside: refused; up to there, it is decoded."""
    with Server(MAJOR, dbname=DBNAME, test_decoding=False) as server:
        server.sql("CREATE TABLE t (id int PRIMARY KEY)")
        server.checkpoint()
        server.sql("INSERT INTO t VALUES (1)")
        until = Lsn.parse(str(server.flush_lsn()))
        server.settings["wal_level"] = "replica"
        server.restart()
        server.sql("INSERT INTO t VALUES (2)")
        server.stop()
        with pytest.raises(InsufficientLogging, match="logical decoding requires wal_level >= logical") as caught:
            _printed(server.data_dir)
        assert caught.value.sqlstate == "55000"
        assert any("id[integer]:1" in line for line in _printed(server.data_dir, upto_lsn=until))
        server.start()
        server.checkpoint()
        server.sql("INSERT INTO t VALUES (3)")
        later = Lsn.parse(str(server.flush_lsn()))
        server.sql("INSERT INTO t VALUES (4)")
        server.stop()
        with pytest.raises(InsufficientLogging, match="logical decoding requires wal_level >= logical"):
            _printed(server.data_dir, start_lsn=later)


def test_wal_level_never_logical() -> None:
    with Server(MAJOR, {"wal_level": "replica"}, dbname=DBNAME, test_decoding=False) as server:
        server.sql("CREATE TABLE t (id int PRIMARY KEY)")
        server.checkpoint()
        server.switch_wal()
        server.stop()
        forget_other_segments(server.data_dir)
        server.start()
        server.sql("INSERT INTO t VALUES (1)")
        server.stop()
        with pytest.raises(InsufficientLogging, match="logical decoding requires wal_level >= logical") as caught:
            _printed(server.data_dir)
        assert 'wal_level was "replica" throughout' in caught.value.hint
        # An archive has no control file; its commits tell.
        state = capture(Source.open(server.data_dir), LocalRunner(1), DBNAME)
        server.start()
        server.sql("INSERT INTO t VALUES (2)")
        server.stop()
        with pytest.raises(InsufficientLogging, match="logical decoding requires wal_level >= logical") as caught:
            open_pipeline(Source.open(server.wal_dir), DBNAME, runner=LocalRunner(1), catalog=state)
        assert "wal_level was lower throughout" in caught.value.hint
