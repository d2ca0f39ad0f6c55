"""Everything that decoding reads, damaged in ways drawn from a seed: the same rows or one error, whatever was done (:mod:`support.hostile`).

`python tests/hostile.py` does more of the same and prints what came of it, by kind of damage.
"""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from support.hostile import CASES, FAIR, Outcome, Scene, build_scene, damages, index_damaged, state_damaged, try_out

SEED = 9


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> list[Scene]:
    return [build_scene(story, major, tmp_path_factory.mktemp(f"{story}-{major}")) for story, major in CASES[:2]]


def _unfair(scenes: list[Scene], count: int, seed: int) -> list[str]:
    print(f"seed {seed}: python tests/hostile.py --trials {count} --seed {seed} --cases {len(scenes)}")
    found = []
    for number, damage in enumerate(damages(scenes, count, seed), 1):
        outcome, said = try_out(damage)
        if outcome not in FAIR:
            found.append(f"trial {number}: {damage.kind}, {damage.what}: {outcome}\n{said}")
    return found


@pytest.mark.matrix
def test_every_damage_ends_in_the_same_rows_or_one_error(scenes: list[Scene]) -> None:
    assert _unfair(scenes, 30, SEED) == []


@pytest.mark.marathon
@pytest.mark.matrix
def test_much_damage_ends_in_the_same_rows_or_one_error(tmp_path: Path) -> None:
    scenes = [build_scene(story, major, tmp_path / f"{story}-{major}") for story, major in CASES]
    assert _unfair(scenes, 200, SEED) == []


@pytest.mark.marathon
def test_damage_that_nobody_has_done(tmp_path: Path) -> None:
    scenes = [build_scene(story, major, tmp_path / f"{story}-{major}") for story, major in CASES]
    assert _unfair(scenes, 4000, random.randrange(10**6)) == []


def test_the_test_sees_what_it_is_there_to_see(scenes: list[Scene]) -> None:
    """A canary: what is not damaged is the same, a damaged index is made again, a damaged state is an error, and foreign rows would be noticed."""
    dice = random.Random(SEED)
    scene = scenes[0]
    assert try_out(index_damaged(scene, [], dice))[0] == Outcome.WARNED
    assert try_out(state_damaged(scene, [], dice))[0] == Outcome.ERROR
    sound = state_damaged(scene, [], dice)
    assert try_out(replace(sound, content=sound.path.read_bytes()))[0] == Outcome.SAME
    (scene.home / "expected").write_text(scene.case.expected + "one row more")
    assert try_out(replace(sound, content=sound.path.read_bytes()))[0] == Outcome.SILENT
    (scene.home / "expected").write_text(scene.case.expected)
