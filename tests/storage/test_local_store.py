"""A directory as a store: what is there when a writer was killed, and what else may lie in a directory."""

from __future__ import annotations

import multiprocessing
import os
import time
from pathlib import Path

import pytest

from support import store_writers
from tailrace.errors import UsageError
from tailrace.storage.file_lock import FileLock
from tailrace.storage.local_store import LocalStore
from tailrace.storage.store import ObjectChanged


def names(store: LocalStore) -> list[str]:
    return [each.name for each in store.list()]


def test_of_a_killed_writer_nothing_half_is_seen(tmp_path: Path) -> None:
    left = 0
    for number in range(12):
        folder = tmp_path / str(number)
        writer = multiprocessing.get_context("fork").Process(target=store_writers.write_for_ever, args=(folder, 3 << 20))
        writer.start()
        while not folder.exists():
            time.sleep(0.001)
        time.sleep(0.003 * number)
        writer.kill()
        writer.join()
        store = LocalStore(folder)
        for each in store.list():
            data = store.read(each.name)
            assert (len(data), len(set(data))) == (3 << 20, 1), each.name
        left += sum(path.name.startswith(".") for path in folder.iterdir())
        store.put("same", b"the lock of who was killed is free")
        assert store.read("same") == b"the lock of who was killed is free"
    assert left > 0, "no writer was killed while it wrote"


def test_tags_differ_however_quickly_objects_follow_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore(tmp_path)
    tags = [store.put("a", b"same") for _ in range(50)]
    assert len(set(tags)) == 50
    monkeypatch.setattr(time, "time_ns", lambda: 5)  # the clock stands still, far behind
    for _ in range(20):
        tags.append(store.put_over("a", b"same", tags[-1]))
    assert len(set(tags)) == 70
    (found,) = store.list()
    assert found.tag == tags[-1] == store.read_tagged("a")[1]


def test_what_is_open_stays_as_it_was(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put("a", b"first")
    file = store.open("a")
    store.put("a", b"other")
    store.delete(["a"])
    assert file.read() == b"first"


def test_who_replaces_an_object_waits_for_who_is_at_it(tmp_path: Path) -> None:
    """And then finds it changed, or gone."""
    store = LocalStore(tmp_path)
    tag = store.put("a", b"first")
    lock = FileLock.on_file(tmp_path / "a")
    pool = multiprocessing.get_context("fork").Pool(1)
    with pool:
        waiting = pool.apply_async(store.put_over, ("a", b"second", tag))
        with pytest.raises(multiprocessing.TimeoutError):
            waiting.get(0.3)
        (tmp_path / "b").write_bytes(b"another")
        (tmp_path / "b").rename(tmp_path / "a")
        lock.release()
        with pytest.raises(ObjectChanged):
            waiting.get(30)
    assert store.read("a") == b"another"
    assert names(store) == ["a"]


def test_a_lock_makes_no_object(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        FileLock.on_file(tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_an_object_and_a_folder_cannot_have_one_name(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put("a/b", b"x")
    for put in (store.put, store.put_new):
        with pytest.raises(UsageError, match="is a directory"):
            put("a", b"y")
        with pytest.raises(UsageError, match="what would be its folder is a file"):
            put("a/b/c", b"y")
        with pytest.raises(UsageError, match="what would be its folder is a file"):
            put("a/b/c/d", b"y")
    store.delete(["a", "a/b/c"])
    assert names(store) == ["a/b"]


def test_what_nobody_could_have_put_is_passed_over(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put("a/b", b"x")
    for name in (b"new\nline", b"latin-\xe9", b"back\\slash", b".a.0123.new"):
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/a/" + name)).write_bytes(b"foreign")
    os.mkfifo(tmp_path / "a" / "pipe")
    (tmp_path / "a" / "nowhere").symlink_to(tmp_path / "none")
    (tmp_path / "empty" / "below").mkdir(parents=True)
    assert names(store) == ["a/b"]
    assert list(store.folders()) == ["a"]


def test_a_directory_that_may_not_be_written_to(tmp_path: Path) -> None:
    """The error names the object, not the file beside it."""
    (tmp_path / "file").write_bytes(b"")
    store = LocalStore(tmp_path / "store")
    store.put("a", b"x")
    full = Path("/dev/full")
    with pytest.raises(OSError) as caught:  # noqa: PT011 - whichever the system says
        store.put_file("b", full.parent / "none")
    assert caught.value.filename == "/dev/none"
    assert names(store) == ["a"]
