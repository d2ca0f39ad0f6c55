"""A state location where nothing can be written: what is asked of its slots is done whole, or not at all. Dropping one makes room."""

from __future__ import annotations

import re
import resource
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import pytest

from replication.test_slot_location import SYSTEM, slot_of
from tailrace.replication.service import drop
from tailrace.replication.slot_location import SlotLocation

NO_ROOM = re.compile("No space left|File too large")
Full = Callable[[Path], AbstractContextManager[None]]


@contextmanager
def _filled(folder: Path) -> Iterator[None]:
    """No byte is left on the disk."""
    with (folder / "filling").open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(512))
    yield
    (folder / "filling").unlink(missing_ok=True)


@contextmanager
def _limited(folder: Path) -> Iterator[None]:
    """No file can be longer than it is: as on a full disk, in any environment."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture(params=["disk", "limit"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Path, Full]]:
    """A folder, and what leaves no room there: a file system of its own where this user may mount one."""
    if request.param == "limit":
        yield tmp_path, _limited
        return
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", tmp_path], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("may not mount a file system")
    try:
        yield tmp_path, _filled
    finally:
        subprocess.run(["umount", tmp_path], check=True)


def test_a_slot_is_renamed_or_keeps_its_name(disk: tuple[Path, Full]) -> None:
    folder, full = disk
    location = SlotLocation.create(folder / "state", SYSTEM)
    location.create_slot(slot_of("a"))
    before = location.slot("a")
    with full(folder), pytest.raises(OSError, match=NO_ROOM) as caught:
        location.rename("a", "b")
    assert caught.value.filename == str(folder / "state/slots/a/slot")
    assert location.slots() == [before]
    location.rename("a", "b")
    assert [slot.name for slot in location.slots()] == ["b"]


def test_a_slot_can_be_dropped(disk: tuple[Path, Full]) -> None:
    folder, full = disk
    location = SlotLocation.create(folder / "state", SYSTEM)
    for name in ("a", "b"):
        location.create_slot(slot_of(name))
    with full(folder):
        drop(location, "a")
    assert [slot.name for slot in location.slots()] == ["b"]
    assert sorted(path.name for path in (folder / "state/slots").iterdir()) == ["b"]


@pytest.mark.parametrize("change", ["create_slot", "copy", "owned"])
def test_what_needs_room_leaves_nothing(change: str, disk: tuple[Path, Full]) -> None:
    folder, full = disk
    location = SlotLocation.create(folder / "state", SYSTEM)
    location.create_slot(slot_of("a"))
    with full(folder):
        if change == "owned":
            with suppress(OSError), location.owned("a"):  # a disk may have room for the few bytes that say by whom
                pass
        else:
            with pytest.raises(OSError, match=NO_ROOM):
                getattr(location, change)(*[slot_of("b")] if change == "create_slot" else ["a", "b"])
    assert [slot.name for slot in location.slots()] == ["a"]
    with location.owned("a"):
        pass
