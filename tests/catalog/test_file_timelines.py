"""What a file meant, as spans, is what the history answers at every LSN: for files that nothing happened to, which are told apart all at once, and
for the others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from support.cases import open_case
from tailrace.catalog.file_timelines import FileTimelines, Span
from tailrace.catalog.history import History
from tailrace.errors import MissingHistory
from tailrace.model import FIRST_UNPINNED_OID, Locator, Relation
from tailrace.pipeline import LocalRunner, Pipeline, open_pipeline
from tailrace.transactions.fates import NEVER

STORIES = ("partitions", "ddl", "names", "rewrite_under_ddl", "user_catalog", "tablespace")


@pytest.mark.parametrize("story", STORIES)
def test_spans_are_the_answers_of_the_history(story: str, tmp_path: Path) -> None:
    pipeline = open_pipeline(open_case(story, 16, "with_slot", tmp_path).data_dir, "app", runner=LocalRunner(1))
    history, files = pipeline.catalogs.history(), _files(pipeline)
    nobody = np.zeros(len(pipeline.plan.transactions), np.bool_)
    lsns = np.zeros(len(nobody), np.int64)
    timelines = FileTimelines(history, lsns, lsns, nobody).of(list(files), np.array(list(files.values()), np.int64))
    points = _points(history)
    for (file, since), timeline in zip(files.items(), timelines, strict=True):
        for lsn in [max(since, history.known_from), *(point + 1 for point in points if point >= since)]:
            assert _meant(timeline.spans, lsn) == _answer(history, file, lsn), (file, lsn)


def _files(pipeline: Pipeline) -> dict[Locator, int]:
    """Files of tables, each with its first record."""
    found: dict[Locator, int] = {}
    for index in pipeline.log.indexes:
        files = index.files
        for parts in zip(
            files.tablespace.tolist(), files.database.tolist(), files.number.tolist(), files.first_lsn.tolist(), strict=True
        ):
            if parts[2] >= FIRST_UNPINNED_OID and parts[1] == pipeline.catalogs.state.database:
                found.setdefault(Locator(*parts[:3]), parts[3])
    return found


def _points(history: History) -> list[int]:
    """Wherever a row of these catalogs begins or ends."""
    rows = [history.table(name).rows for name in ("pg_class", "pg_attribute", "pg_type", "pg_namespace", "pg_index")]
    every = np.unique(np.concatenate([part for each in rows for part in (each.begin, each.end)]))
    return [point for point in every.tolist() if history.known_from <= point < NEVER]


def _meant(spans: list[Span], lsn: int) -> Relation | None:
    return [span.relation for span in spans if span.start < lsn][-1]


def _answer(history: History, file: Locator, lsn: int) -> Relation | None:
    try:
        return history.relation_at(file, lsn)
    except MissingHistory:
        return None
