"""The stories, told to live servers of the majors that no golden cases are recorded for; `tests/fidelity.py` tells them to all."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.decoding import check, decode
from support.live import DBNAME, cluster, with_slot, without_slot
from support.servers import Server
from support.stories import STORIES, is_of_one_cluster, parse, read_story, stories, tell
from tailrace.pipeline import LocalRunner

pytestmark = [pytest.mark.matrix, pytest.mark.postgres]
SMALL_STRETCH = 1 << 17


def prepared_cluster(major: int, directory: Path) -> Path:
    """A stopped cluster with what stands in every one before a story begins."""
    template = list(parse((STORIES / "_template.sql").read_text()))
    return cluster(major, directory, prepare=lambda server: tell(template, server, DBNAME), wal_segment_mb=1)


@pytest.fixture(scope="module", params=[14, 17])
def started(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[int, Path]:
    return request.param, prepared_cluster(request.param, tmp_path_factory.mktemp("cluster"))


@pytest.mark.parametrize("slot", [True, False], ids=["with_slot", "no_slot"])
@pytest.mark.parametrize("story", stories())
def test_story(story: str, slot: bool, started: tuple[int, Path], tmp_path: Path) -> None:
    major, before = started
    if story not in stories(major):
        pytest.skip(f"not a story for PostgreSQL {major}")
    if is_of_one_cluster(story) and not slot:
        pytest.skip("its output is not the same in two clusters")
    compare(story, major, before, tmp_path, slot=slot)


def compare(story: str, major: int, before: Path, directory: Path, *, slot: bool) -> int:
    """Tell the story, decode it with catalogs rebuilt and captured; how many lines there were, all of them equal."""

    def work(server: Server) -> None:
        tell(read_story(story), server, DBNAME)

    case = (with_slot if slot else without_slot)(major, work, directory, before=before)
    for captured in (False, True):
        check(case, decode(case, LocalRunner(2), captured=captured, stretch_bytes=SMALL_STRETCH if captured else None))
    return case.expected.count("\n")
