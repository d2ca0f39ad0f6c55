"""What a file meant, as spans: small catalogs and what is to come of each; and of recorded ones, what the history answers at every LSN. For files
that nothing happened to, which are told apart all at once, and for the others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from support.cases import open_case
from support.catalogs import DATABASE, PUBLIC, TABLESPACE, Row, attribute, history_of, primary_key, row, table, told
from tailrace.catalog.history.file_timelines import FileTimelines, RelationSpan
from tailrace.catalog.history.history import History
from tailrace.errors import MissingHistory
from tailrace.model import FIRST_UNPINNED_OID, Locator, Relation
from tailrace.pipeline import LocalRunner, Pipeline, open_pipeline
from tailrace.transactions.commit_or_abort import NEVER

FILE = Locator(TABLESPACE, DATABASE, 500)
T = 20000
ALTERED = [
    # The transaction with the ordinal 3 adds a column at 160, and commits at 200.
    row("pg_class", oid=T, relname="t", relfilenode=500, relnatts=1, until=200, gone_by=3, gone_at=160),
    row("pg_class", oid=T, relname="t", relfilenode=500, relnatts=2, since=200, by=3, at=160),
    attribute(T, 1, "id", "int4"),
    attribute(T, 2, "v", "text", since=200, by=3, at=160),
]
MOOD = [
    row("pg_type", oid=20500, typname="mood", typnamespace=PUBLIC, typtype="e"),
    row("pg_enum", oid=20501, enumtypid=20500, enumlabel="sad"),
    row("pg_enum", oid=20502, enumtypid=20500, enumlabel="ok", since=200),
]
SPANS = {
    # rows of catalogs; the LSN of the file's first record; what it meant to others, from where on; and to transactions that changed that themselves
    "nothing happens": (table(T, "t", file=500), 100, [(99, "public.t(id)")], {}),
    "made before": (table(T, "t", file=500, since=50), 100, [(99, "public.t(id)")], {}),
    "nobody's": (table(T, "t", file=501), 100, [(99, "nothing")], {}),
    "in another tablespace": (table(T, "t", file=500, reltablespace=20900), 100, [(99, "nothing")], {}),
    "dropped": (table(T, "t", file=500, until=200), 100, [(99, "public.t(id)"), (200, "nothing")], {}),
    "dropped before": (table(T, "t", file=500, until=90), 100, [(99, "nothing")], {}),
    "its number is used again": (
        [*table(T, "t", file=500, until=200), *table(T + 1, "u", "a text", file=500, since=300)],
        100, [(99, "public.t(id)"), (200, "nothing"), (300, "public.u(a text)")], {},
    ),
    "renamed": (
        [
            row("pg_class", oid=T, relname="t", relfilenode=500, until=200),
            row("pg_class", oid=T, relname="u", relfilenode=500, since=200),
            attribute(T, 1, "id", "int4"),
        ],
        100, [(99, "public.t(id)"), (200, "public.u(id)")], {},
    ),
    "truncated: the old file": (
        [
            row("pg_class", oid=T, relname="t", relfilenode=500, until=200, gone_by=3, gone_at=160),
            row("pg_class", oid=T, relname="t", relfilenode=501, since=200, by=3, at=160),
            attribute(T, 1, "id", "int4"),
        ],
        100, [(99, "public.t(id)"), (200, "nothing")], {3: [(149, "public.t(id)"), (160, "nothing")]},
    ),
    "truncated: the new file": (
        [
            row("pg_class", oid=T, relname="t", relfilenode=501, until=200, gone_by=3, gone_at=160),
            row("pg_class", oid=T, relname="t", relfilenode=500, since=200, by=3, at=160),
            attribute(T, 1, "id", "int4"),
        ],
        170, [(169, "nothing"), (200, "public.t(id)")], {3: [(169, "public.t(id)")]},
    ),
    "altered by one who goes on writing": (
        ALTERED, 100, [(99, "public.t(id)"), (200, "public.t(id, v text)")], {3: [(149, "public.t(id)"), (160, "public.t(id, v text)")]},
    ),
    "altered before its first record": (ALTERED, 250, [(249, "public.t(id, v text)")], {}),
    "altered by one whose rows nobody wants": (
        [replace(each, by=-1 if each.by < 0 else 4, gone_by=-1 if each.gone_by < 0 else 4) for each in ALTERED],
        100, [(99, "public.t(id)"), (200, "public.t(id, v text)")], {},
    ),
    "its schema is renamed": (
        [
            *table(T, "t", file=500, relnamespace=20800),
            row("pg_namespace", oid=20800, nspname="a", until=200),
            row("pg_namespace", oid=20800, nspname="b", since=200),
        ],
        100, [(99, "a.t(id)"), (200, "b.t(id)")], {},
    ),
    "it gets a key, and loses it": (
        [*table(T, "t", file=500), primary_key(T, 1, since=200, until=300)],
        100, [(99, "public.t(id)"), (200, "public.t(id*)"), (300, "public.t(id)")], {},
    ),
    "its enum gets a label": (
        [*table(T, "t", "m mood", file=500), *MOOD], 100, [(99, "public.t(m mood sad)"), (200, "public.t(m mood sad|ok)")], {},
    ),
    "something changes that it does not see": ([*table(T, "t", file=500), *table(T + 1, "u", file=501, until=200)], 100, [(99, "public.t(id)")], {}),
    "a change that comes to nothing": (
        [
            row("pg_class", oid=T, relname="t", relfilenode=500, until=200),
            row("pg_class", oid=T, relname="t", relfilenode=500, since=200),
            attribute(T, 1, "id", "int4"),
        ],
        100, [(99, "public.t(id)")], {},
    ),
    "columns are missing": (
        [row("pg_class", oid=T, relname="t", relfilenode=500, relnatts=2), attribute(T, 1, "id", "int4")], 100, [(99, "nothing")], {},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("rows", "since", "spans", "own"), SPANS.values(), ids=SPANS.keys())
def test_spans(rows: list[Row], since: int, spans: list[tuple[int, str]], own: dict[int, list[tuple[int, str]]]) -> None:
    begins, commits = np.zeros(5, np.int64), np.zeros(5, np.int64)
    begins[3:], commits[3:] = 150, 200
    wanted = np.array([True, True, True, True, False])
    (timeline,) = FileTimelines(history_of(*rows), begins, commits, wanted).of([FILE], np.array([since]))
    assert _in_words(timeline.spans) == spans
    assert {ordinal: _in_words(mine) for ordinal, mine in timeline.own.items()} == own


def test_before_catalogs_are_known() -> None:
    """Rows that lie there are judged by what the catalogs say as soon as they do: such transactions are not shown."""
    nobody = np.zeros(1, np.int64)
    for until, spans in ((int(NEVER), [(99, "public.t(id)")]), (200, [(99, "public.t(id)"), (200, "nothing")])):
        history = history_of(*table(T, "t", file=500, until=until), known_from=150)
        (timeline,) = FileTimelines(history, nobody, nobody, nobody.astype(np.bool_)).of([FILE], np.array([100]))
        assert _in_words(timeline.spans) == spans


def _in_words(spans: list[RelationSpan]) -> list[tuple[int, str]]:
    return [(span.start, told(span.relation)) for span in spans]


# -- recorded catalogs ---------------------------------------------------------------------------------------------------------------

STORIES = ("partitions", "ddl", "names", "rewrite_under_ddl", "user_catalog", "tablespace")


@pytest.mark.parametrize("story", STORIES)
def test_spans_are_the_answers_of_the_history(story: str, tmp_path: Path) -> None:
    pipeline = open_pipeline(open_case(story, 16, "with_slot", tmp_path).data_dir, "app", runner=LocalRunner(1))
    history, files = pipeline.catalogs.history(), _files(pipeline)
    nobody = np.zeros(len(pipeline.plan.transactions), np.bool_)
    lsns = np.zeros(len(nobody), np.int64)
    timelines = FileTimelines(history, lsns, lsns, nobody).of(list(files), np.array(list(files.values()), np.int64))
    points = _points(history)
    assert points
    assert any(len(timeline.spans) > 1 for timeline in timelines)
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


def _meant(spans: list[RelationSpan], lsn: int) -> Relation | None:
    return [span.relation for span in spans if span.start < lsn][-1]


def _answer(history: History, file: Locator, lsn: int) -> Relation | None:
    try:
        return history.relation_at(file, lsn)
    except MissingHistory:
        return None
