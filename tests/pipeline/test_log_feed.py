"""A log's changes are the same, and so is all that tables are made of, in windows of any size: from a data directory, and from a captured state."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.cases import all_cases, open_case
from support.decoding import state_before
from support.sampling import some_of
from tailrace.catalog.history.dropped_and_retyped import last_seen, retypes
from tailrace.changes import change_batch
from tailrace.feed import Feed
from tailrace.model import FIRST_NORMAL_OID, Lsn
from tailrace.pipeline import LocalRunner, Scanning, open_feed, open_pipeline
from tailrace.window import WindowSize

OF_TABLES = ("concurrent_ddl_dml", "ddl", "dropped", "rewrite", "toast", "truncate")
CASES = [case for case in all_cases() if case[0] in OF_TABLES and case[1:] == (18, "with_slot")]


@pytest.mark.parametrize("captured", [pytest.param(False, marks=pytest.mark.marathon), True], ids=["rebuilt", "captured"])
@pytest.mark.parametrize("name", some_of(CASES, 2))
def test_windows_of_any_size(name: tuple[str, int, str], captured: bool, tmp_path: Path) -> None:
    case = open_case(*name, tmp_path)
    dice = random.Random(f"{name} {captured}")
    options: dict[str, Any] = {
        "runner": LocalRunner(1),
        "catalog": state_before(case) if captured else None,
        "start_lsn": Lsn.parse(case.meta["start_lsn"]),
    }
    whole = open_pipeline(case.data_dir, case.meta["dbname"], **options)
    scanning = Scanning(window=WindowSize(wal_bytes=dice.choice((1 << 16, 1 << 17))))
    feed = open_feed(case.data_dir, case.meta["dbname"], scanning=scanning, **options)
    assert len(list(feed.windows())) > 1
    assert feed.span == whole.span
    assert _truncations(feed) == _truncations(whole)
    for oid in _tables(whole):
        assert _at_end(feed, oid) == _at_end(whole, oid)
    rewritten = feed.with_rewrites()
    assert _changes(rewritten, 0) == _changes(whole.with_rewrites(), 0)
    every = _changes(feed, 0)
    assert every == _changes(whole, 0)
    assert {change[3] for change in every} <= set(feed.relations)
    since = every[len(every) // 2][0]  # and once more, from somewhere on
    assert _changes(feed, since) == [change for change in every if change[0] >= since]


def _tables(feed: Feed) -> list[int]:
    oids = feed.history.table("pg_class")["oid"].tolist()
    return sorted({oid for oid in oids if oid >= FIRST_NORMAL_OID})


def _at_end(feed: Feed, oid: int) -> tuple[Any, ...]:
    history = feed.history
    return history.relation_by_oid(oid, int(feed.span.stop)), last_seen(history, oid), retypes(history, oid)


def _truncations(feed: Feed) -> list[tuple[Any, ...]]:
    return sorted((each.commit_lsn, each.truncation.lsn, each.truncation.relations) for each in feed.truncations)


def _changes(feed: Feed, since: int) -> list[tuple[Any, ...]]:
    """Those of all relations, with what these were, in their order."""
    return sorted(_unordered(feed, since), key=lambda change: change[:3])


def _unordered(feed: Feed, since: int) -> Iterator[tuple[Any, ...]]:
    oids = frozenset(relation.oid for relation in feed.relations)
    seen = stretches = 0
    for part in feed.parts(oids, since):
        last = seen
        stretches += part.stretches
        assert len(part.pieces) <= part.stretches
        for piece in part.pieces:
            for batch in feed.decoder(piece, None):
                for row in change_batch(batch, piece.facts).to_pylist():
                    if row["commit_lsn"] >= since:
                        assert row["commit_lsn"] >= last  # of parts, one commits before the next
                        seen = max(seen, row["commit_lsn"])
                        yield row["commit_lsn"], row["lsn"], row["sequence"], batch.relation, repr(row)
    assert stretches == feed.stretches
