"""Catalogs captured from the directory of a running server on which tables come and go: they say what the server says, and rows are decoded by
them."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from support.churn import SETTINGS, by_state, churn, columns_there, insert_rows
from support.servers import Server
from tailrace.catalog.state.state_file import write_state
from tailrace.errors import MissingHistory
from tailrace.pipeline import LocalRunner, Source, capture, open_pipeline

ROWS = 50


def test_catalogs_in_which_tables_come_and_go(tmp_path: Path) -> None:
    with Server(18, SETTINGS, test_decoding=False) as server:
        churn(server, 300, 7)
        state = capture(Source.open(server.data_dir), LocalRunner(1), server.dbname)
        (tmp_path / "state").write_bytes(write_state(state))
        columns = columns_there(server)
        start, printed = insert_rows(server, columns, ROWS, 7)
        found, lines = by_state(tmp_path / "state", server.data_dir, server.dbname, start)
    assert len({oid for oid, *_ in columns}) == 270
    assert found == columns
    assert lines == printed


def test_a_state_at_the_end_of_the_log() -> None:
    """Of a segment that is full: there is no page behind it."""
    with Server(18, test_decoding=False) as server:
        server.switch_wal()
        server.stop()
        source = Source.open(server.data_dir)
        state = capture(source, LocalRunner(1), server.dbname)
        state.lsn = source.segments.stop_lsn
        with pytest.raises(MissingHistory, match="the log ends where the catalog state is"):
            open_pipeline(server.data_dir, server.dbname, runner=LocalRunner(1), catalog=state)


@pytest.mark.marathon
def test_twenty_thousand_tables_with_bounds_checked(tmp_path: Path) -> None:
    """In processes of their own: what a kernel writes beyond its arrays ends one, or is found where it is written."""
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    with Server(18, SETTINGS, test_decoding=False, wal_segment_mb=16) as server:
        churn(server, 20_000, seed)
        states = {}
        for checked in ("1", "0"):
            states[checked] = str(tmp_path / f"state {checked}")
            _run(checked, "tailrace", "catalog", "capture", server.data_dir, "--database", server.dbname, "-o", states[checked])
        columns = columns_there(server)
        start, printed = insert_rows(server, columns, ROWS, seed)
        for checked, state in states.items():
            found, lines = json.loads(_run(checked, "support.churn", state, server.data_dir, server.dbname, start))
            assert found == columns
            assert lines == printed


def _run(checked: str, module: str, *words: object) -> str:
    """What the module prints, with bounds checked or not."""
    paths = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": checked, "PYTHONPATH": paths}
    done = subprocess.run(
        [sys.executable, "-m", module, *map(str, words)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout
