"""The stories, told to live servers of the majors that no golden cases are recorded for; `tests/fidelity.py` tells them to all."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from support.decoding import check, decode, decode_in_windows
from support.live import cluster, live_case
from support.sampling import some_of
from support.servers import Server
from support.stories import STORIES, is_of_one_cluster, parse, read_story, stories, tell
from tailrace.pipeline import LocalRunner

pytestmark = [pytest.mark.matrix, pytest.mark.postgres]
MAJORS = (14, 17)
SMALL_STRETCH = 1 << 17


def prepared_cluster(major: int, directory: Path) -> Path:
    """A stopped cluster with what stands in every one before a story begins."""
    template = list(parse((STORIES / "_template.sql").read_text()))
    return cluster(major, directory, prepare=lambda server: tell(template, server), wal_segment_mb=1)


def _tellings() -> list[Any]:
    """(major, story, with a slot or without), but for what cannot be told or compared so."""
    return [
        pytest.param(major, story, slot, id=f"{major}-{story}-{'with_slot' if slot else 'no_slot'}")
        for major in MAJORS
        for story in stories(major)
        for slot in ((True,) if is_of_one_cluster(story) else (True, False))
    ]


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    return {major: prepared_cluster(major, tmp_path_factory.mktemp(f"cluster-{major}")) for major in MAJORS}


@pytest.mark.parametrize(("major", "story", "slot"), some_of(_tellings(), 2))
def test_story(major: int, story: str, slot: bool, clusters: dict[int, Path], tmp_path: Path) -> None:
    assert compare(story, major, clusters[major], tmp_path, slot=slot) >= (story != "empty")


def compare(story: str, major: int, before: Path, directory: Path, *, slot: bool) -> int:
    """Tell the story, decode it with catalogs rebuilt and captured, one of them as a whole and one in random windows; how many lines there were, all
    of them equal."""

    def work(server: Server) -> None:
        tell(read_story(story), server)

    case = live_case(major, work, directory, slot=slot, before=before)
    dice = random.Random(f"{story} {major} {slot}")
    in_windows = dice.random() < 0.5
    check(case, decode(case, LocalRunner(2), captured=not in_windows, stretch_bytes=dice.choice((None, SMALL_STRETCH))))
    check(case, decode_in_windows(case, dice, captured=in_windows))
    return case.expected.count("\n")
