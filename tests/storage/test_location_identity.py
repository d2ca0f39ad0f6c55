"""A state location that was copied is refused where it is a copy: it was accepted in both places, and each confirmed for itself. What is the same
directory by another name, or after a reboot, is itself."""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from support.command import Run
from tailrace.errors import CorruptFile, TailraceError, UsageError
from tailrace.replication.slot_location import SlotLocation
from tailrace.storage.location_identity import Place, read_place, write_place

SYSTEM = 7


@pytest.fixture
def place(tmp_path: Path) -> Path:
    SlotLocation.create(tmp_path / "state", SYSTEM)
    return tmp_path / "state"


def _written(path: Path, **changes: object) -> None:
    """As if it had been written elsewhere, or at another time."""
    now = read_place((path / "place").read_bytes(), "here")
    (path / "place").write_bytes(write_place(replace(now, **changes)))  # type: ignore[arg-type]


def test_a_copy(place: Path, tmp_path: Path, tailrace: Run) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(place, copy, symlinks=True)
    before = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    for words in (("slot", "ls"), ("slot", "set", "max_replication_slots=3"), ("slot", "show", "mine"), ("slot", "get", "mine")):
        status, out, said = tailrace(*words, "--state", copy)
        assert (status, out) == (1, "")
        assert f'the state location "{copy}" is a copy, or was moved' in said
        assert f'DETAIL:  It lay at "{place}".' in said
        assert f"tailrace slot set --moved --state {copy}" in said
    assert {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()} == before
    assert SlotLocation.open(place).settings.system == SYSTEM

    status, _, said = tailrace("slot", "set", "--moved", "--state", copy)
    assert (status, f'the state location "{place}", of which "{copy}" is a copy, is still there' in said) == (1, True)
    shutil.rmtree(place)
    assert tailrace("slot", "set", "--moved", "--state", copy)[0] == 0
    assert tailrace("slot", "ls", "--state", copy)[0] == 0


def test_what_is_the_same_directory(place: Path, tmp_path: Path) -> None:
    """Renamed, by a link, on a machine that was started anew, on another one that has no machine-id; and one of before."""
    link = tmp_path / "link"
    link.symlink_to(place)
    SlotLocation.open(link)
    moved = place.rename(tmp_path / "moved")
    SlotLocation.open(moved)
    _written(moved, boot="another", device=4711)
    SlotLocation.open(moved)
    assert read_place((moved / "place").read_bytes(), "here").device != 4711
    _written(moved, host="")
    SlotLocation.open(moved)
    (moved / "place").unlink()
    SlotLocation.open(moved)
    assert (moved / "place").exists()


@pytest.mark.parametrize(
    "changes", [{"inode": 1}, {"born": 1}, {"device": 4711}, {"host": "another"}], ids=lambda each: next(iter(each))
)
def test_what_is_another(changes: dict[str, object], place: Path) -> None:
    if "host" in changes and not Place.of(place, "").host:
        changes = {"inode": 1}  # this machine has no machine-id to differ from
    _written(place, **changes)
    with pytest.raises(UsageError, match="is a copy, or was moved") as raised:
        SlotLocation.open(place)
    assert raised.value.sqlstate == "55000"
    SlotLocation.take_over(place)
    SlotLocation.open(place)


def test_a_damaged_place(place: Path) -> None:
    data = bytearray((place / "place").read_bytes())
    data[-3] ^= 1
    (place / "place").write_bytes(data)
    with pytest.raises(CorruptFile, match="place of a state location") as raised:
        SlotLocation.open(place)
    assert "--moved" in raised.value.hint


@pytest.mark.parametrize("seed", [pytest.param(seed, marks=[] if seed < 5 else pytest.mark.marathon) for seed in range(100)])
def test_one_of_all_copies_goes_on(seed: int, place: Path, tmp_path: Path) -> None:
    """Copied, renamed, restored and removed in any order: at any time one directory is the location, or none. Then a copy can be taken over."""
    dice = random.Random(seed)
    places = [place]
    for number in range(20):
        one = dice.choice(places)
        what = dice.choice(["copy", "rename", "restore", "remove"])
        if what == "copy":
            shutil.copytree(one, tmp_path / str(number), symlinks=True)
            places.append(tmp_path / str(number))
        elif what == "rename":
            places[places.index(one)] = one.rename(tmp_path / str(number))
        elif what == "restore" and len(places) > 1:
            other = dice.choice([each for each in places if each != one])
            shutil.rmtree(one)
            shutil.copytree(other, one, symlinks=True)
        elif what == "remove" and len(places) > 1:
            shutil.rmtree(one)
            places.remove(one)
        goes_on = [each for each in places if _goes_on(each)]
        assert len(goes_on) <= 1
        if not goes_on:
            SlotLocation.take_over(one if one in places else places[0])
            assert sum(_goes_on(each) for each in places) == 1


def _goes_on(path: Path) -> bool:
    try:
        SlotLocation.open(path)
    except TailraceError:
        return False
    return True
