"""Generated workloads on live servers: concurrent transactions with DDL, rewritten catalogs, rollbacks, savepoints and TOAST.

The same schedule is told to two clones of a cluster. One has a slot, and PostgreSQL decodes it. The other never had one, so that its catalogs are
pruned as they are everywhere; its WAL is ours to decode. After LSNs and xids are normalised, not a line may differ. The seed is the test's name.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.live import with_slot
from support.normalise import normalise, print_rows
from support.servers import Server
from support.threads import run_threads
from support.workload import make_schedule, run_schedule
from tailrace.model import Lsn
from tailrace.plugins.driver import print_rows as print_lines
from tailrace.plugins.test_decoding import TestDecoding
from tailrace.river import LocalRunner, Source, capture, open_river

SETTINGS = {"max_wal_size": "4GB", "wal_keep_size": "4GB", "max_prepared_transactions": "10"}
CHANGES = "SELECT lsn, xid, data FROM pg_logical_slot_get_changes('s', NULL, NULL)"


@pytest.mark.matrix
@pytest.mark.postgres
@pytest.mark.parametrize("major", [14, 15, 16, 17, 18])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_workload_without_a_slot(seed: int, major: int, tmp_path: Path) -> None:
    template = tmp_path / "template"
    with Server(major, SETTINGS) as server:
        server.sql("CREATE DATABASE app")
        server.checkpoint()
        server.stop()
        server.copy_to(template)
    schedule = make_schedule(seed, 2000)
    expected, refused = _with_slot(major, template, schedule)
    data, start, also_refused = _without_slot(major, template, schedule, tmp_path / "data")
    assert refused == also_refused, "the two servers did not do the same; the schedule is at fault"
    river = open_river(data, "app", start_lsn=Lsn.parse(start), runner=LocalRunner(2), stretch_bytes=1 << 20)
    plugin = TestDecoding()
    plugin.startup({}, major)
    text = b"".join(
        print_lines(part.lsn, part.xid, part.texts.offsets, part.texts.data).tobytes() for part in river.lines(plugin)
    ).decode()
    ours, theirs = normalise(text).splitlines(), expected.splitlines()
    differing = [(a, b) for a, b in zip(theirs, ours, strict=False) if a != b]
    assert not differing, f"seed {seed}: {len(differing)} lines, first: {differing[0]}"
    assert len(ours) == len(theirs)
    assert len(theirs) > 5000, "the workload must have done something"


def _with_slot(major: int, template: Path, schedule: list[tuple[int, str]]) -> tuple[str, list[str]]:
    with Server(major, SETTINGS, data=template) as server:
        server.sql("SELECT pg_create_logical_replication_slot('s', 'test_decoding')", dbname="app")
        refused = run_schedule(server, schedule, "app")
        server.restart()  # what sessions do as they end (temporary tables) is over then, on both servers
        return normalise(print_rows(server.sql(CHANGES, dbname="app"))), refused


def _without_slot(major: int, template: Path, schedule: list[tuple[int, str]], data: Path) -> tuple[Path, str, list[str]]:
    with Server(major, SETTINGS, data=template) as server:
        start = server.flush_lsn()
        refused = run_schedule(server, schedule, "app")
        server.stop()
        server.copy_to(data)
        return data, start, refused


@pytest.mark.matrix
@pytest.mark.postgres
@pytest.mark.parametrize("captured", [False, True], ids=["rebuilt", "captured"])
@pytest.mark.parametrize("major", [15, 16, 18])
def test_threads_with_a_slot(major: int, captured: bool, tmp_path: Path) -> None:
    """Six clients at once, known to the LSN: not a byte may differ."""
    seed = 3
    case = with_slot(major, lambda server: run_threads(server, "app", seed, 1000), tmp_path)
    state = capture(Source.open(case.before_dir), LocalRunner(1), case.meta["dbname"]) if captured else None
    river = open_river(
        case.data_dir,
        case.meta["dbname"],
        catalog=state,
        start_lsn=Lsn.parse(case.meta["start_lsn"]),
        runner=LocalRunner(2),
        stretch_bytes=1 << 20,
    )
    plugin = TestDecoding()
    plugin.startup({}, major)
    text = b"".join(
        print_lines(part.lsn, part.xid, part.texts.offsets, part.texts.data).tobytes() for part in river.lines(plugin)
    ).decode()
    differing = [(a, b) for a, b in zip(case.expected.splitlines(), text.splitlines(), strict=False) if a != b]
    assert not differing, f"seed {seed}: first difference {differing[0]}"
    assert text == case.expected
