"""The driver: however the log is cut, and however little may be held, lines and their order are the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.cases import Case, open_case
from support.decoding import check, text_of
from tailrace.model import PAGE_SIZE, Lsn
from tailrace.pipeline import LocalRunner, Scanning, open_pipeline
from tailrace.plugins import driver

STORIES = ("crash_free_long", "messages", "truncate", "subxact", "toast")


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Case]:
    return {story: open_case(story, 18, "with_slot", tmp_path_factory.mktemp(story)) for story in STORIES}


@given(
    story=st.sampled_from(STORIES),
    pages=st.integers(1, 200),
    held=st.sampled_from([0, 1, 300, 5_000, 1 << 20]),
    wave=st.integers(1, 3),
)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_cuts_and_memory_do_not_matter(
    cases: dict[str, Case], monkeypatch: pytest.MonkeyPatch, story: str, pages: int, held: int, wave: int
) -> None:
    case = cases[story]
    monkeypatch.setattr(driver, "HELD_BYTES", held)
    start = Lsn.parse(case.meta["start_lsn"])
    pipeline = open_pipeline(
        case.data_dir, "app", start_lsn=start, runner=LocalRunner(wave), scanning=Scanning(pages * PAGE_SIZE)
    )
    check(case, text_of(pipeline, {}))


def test_a_range_is_a_part_of_the_whole(cases: dict[str, Case], tmp_path: Path) -> None:
    """Cut between any two commits, the two halves are the whole."""
    case = cases["crash_free_long"]
    start = Lsn.parse(case.meta["start_lsn"])
    pipeline = open_pipeline(case.data_dir, "app", start_lsn=start, runner=LocalRunner(1))
    commits = pipeline.plan.transactions.commit_lsn[pipeline.plan.shown].tolist()
    for middle in map(Lsn, commits[:: max(1, len(commits) // 8)]):
        before = open_pipeline(case.data_dir, "app", start_lsn=start, upto_lsn=middle, runner=LocalRunner(1))
        after = open_pipeline(case.data_dir, "app", start_lsn=middle, runner=LocalRunner(1))
        check(case, text_of(before, {}) + text_of(after, {}))
