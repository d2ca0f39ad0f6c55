"""Golden cases: what a real server wrote, decoded here, equals what that server's own decoder made of it, byte for byte.

Each case is decoded with catalogs rebuilt from the WAL, and from a captured state. The second is also cut into the smallest stretches that are
worth it, so that records, long values and speculative inserts lie across their borders; and both are done on Spark as well.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from support.cases import Case, all_cases, open_case
from support.decoding import check, decode
from support.sampling import some_of
from support.stories import is_of_one_cluster, stories
from support.together import together
from tailrace.pipeline import LocalRunner

MAJORS = (15, 16, 18)
UNRECORDED = {("rewrite_under_ddl", 15)}
"""`tests/fidelity.py` tells them to live servers."""
SMALL_STRETCH = 1 << 17


def _name(case: tuple[str, int, str]) -> str:
    return "-".join(map(str, case))


def test_every_story_is_recorded() -> None:
    """On these majors, and some on others: a case that is gone would be missed by nobody."""
    told = {
        (story, major, variant)
        for major in MAJORS
        for story in stories(major)
        for variant in (("with_slot",) if is_of_one_cluster(story) else ("with_slot", "no_slot"))
    }
    assert {(story, major) for story, major, _ in told - set(all_cases())} == UNRECORDED


@pytest.fixture(scope="module")
def golden(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Case]:
    """Unpacked once for all that is tried on it."""
    home = tmp_path_factory.mktemp("golden")
    yield open_case(*request.param, home)
    shutil.rmtree(home)


@pytest.mark.parametrize(
    ("golden", "captured"),
    some_of(
        [
            pytest.param(case, captured, id=f"{_name(case)}-{'captured' if captured else 'rebuilt'}")
            for number, case in enumerate(all_cases())
            for captured in ((False, True) if number % 2 == 0 else (True, False))
        ],
        2,
    ),
    indirect=["golden"],
)
def test_golden(golden: Case, captured: bool) -> None:
    check(golden, decode(golden, LocalRunner(2), captured=captured, stretch_bytes=SMALL_STRETCH if captured else None))


@pytest.mark.spark
@pytest.mark.parametrize("story", some_of([pytest.param(story) for story in sorted({story for story, _, _ in all_cases()})], 24))
def test_golden_on_spark(story: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """All cases of a story side by side, since jobs are what takes time."""
    from tailrace.spark.jobs import SparkRunner  # noqa: PLC0415 - tests that need no Spark import none

    cases = [open_case(*each, tmp_path / _name(each)) for each in all_cases() if each[0] == story]
    tried = [(case, captured) for case in cases for captured in (False, True)]
    tasks = [partial(decode, case, captured=captured) for case, captured in tried]
    texts = together(SparkRunner(request.getfixturevalue("spark")), tasks)
    assert len(texts) == len(tried) >= 6
    for (case, _), text in zip(tried, texts, strict=True):
        check(case, text.result())
