"""The readers' table: it says what the catalog says, never less than it said before, and does not grow without end."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tailrace.errors import Overtaken
from tailrace.lake import complete_table
from tailrace.lake.catalog import LakeCatalog, LakeTable
from tailrace.lake.complete_table import CompleteTable
from tailrace.lake.delta.table import DeltaVersion
from tailrace.model import PG_EPOCH, Lsn
from tailrace.storage.local_store import LocalStore

CATALOG = LakeCatalog(7, 1, 5, (), Lsn(100), 0, None, {1: LakeTable(1, "public.a", "public", "a")})


def _row(folder: Path) -> dict[str, object]:
    (row,) = DeltaTable(str(folder / "_tailrace/complete")).to_pyarrow_table().to_pylist()
    return row


def test_it_says_what_the_catalog_says(tmp_path: Path) -> None:
    """Who is behind changes nothing, of two at once one commits and the other looks again."""
    one, other = CompleteTable.of(LocalStore(tmp_path)), CompleteTable.of(LocalStore(tmp_path))
    one.advance(CATALOG)
    assert _row(tmp_path) == {"lsn": "0/64", "position": 100, "commit_time": None, "tables": 1}
    dropped = {**CATALOG.tables, 2: LakeTable(2, "public.b", "public", "b", dropped=Lsn(150))}
    later = replace(CATALOG, complete=Lsn(200), committed=1_000_000, tables=dropped)
    other.advance(later)
    assert _row(tmp_path) == {"lsn": "0/C8", "position": 200, "commit_time": PG_EPOCH + timedelta(seconds=1), "tables": 1}
    version = other.found.version
    one.advance(CATALOG)
    one.advance(replace(CATALOG, complete=Lsn(150)))
    one.advance(later)
    assert one.found.refreshed().version == version
    one.advance(replace(CATALOG, complete=Lsn(201)))
    other.advance(replace(CATALOG, complete=Lsn(202)))
    assert _row(tmp_path)["position"] == 202


def test_others_in_between_are_borne_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, commit, left = CompleteTable.of(LocalStore(tmp_path)), DeltaVersion.commit_actions, [Overtaken("quicker")] * 3

    def sometimes(*arguments: object) -> object:
        if left:
            raise left.pop()
        return commit(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(DeltaVersion, "commit_actions", sometimes)
    table.advance(CATALOG)
    assert not left
    assert len(list((tmp_path / "_tailrace/complete").glob("*.parquet"))) == 1
    left += [Overtaken("quicker")] * 100
    with pytest.raises(Overtaken):
        table.advance(replace(CATALOG, complete=Lsn(101)))


def test_old_versions_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where they are kept for no time at all, few are left."""
    monkeypatch.setattr(complete_table, "_KEPT_FOR", 0.0)
    table, folder = CompleteTable.of(LocalStore(tmp_path)), tmp_path / "_tailrace/complete"
    for number in range(60):
        table.advance(replace(CATALOG, complete=Lsn(200 + number)))
    assert len(list(folder.glob("*.parquet"))) <= 8
    assert len(list((folder / "_delta_log").glob("*.json"))) < 45
    assert _row(tmp_path)["position"] == 259
    assert CompleteTable.of(LocalStore(tmp_path)).found.refreshed().version == 59
