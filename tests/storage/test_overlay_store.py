"""What is put into an overlay is seen there and nowhere else; what others write meanwhile to a folder that was listed is not seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from tailrace.storage.local_store import LocalStore
from tailrace.storage.overlay_store import OverlayStore
from tailrace.storage.store import ObjectChanged


@pytest.fixture
def under(tmp_path: Path) -> LocalStore:
    store = LocalStore(tmp_path / "under")
    for name in ("t/log/0", "t/log/1", "t/a", "catalog"):
        store.put(name, name.encode())
    return store


@pytest.fixture
def overlay(under: LocalStore, tmp_path: Path) -> OverlayStore:
    return OverlayStore(under, LocalStore(tmp_path / "over"))


def _names(store: OverlayStore, prefix: str = "", after: str = "") -> list[str]:
    return [each.name for each in store.list(prefix, after)]


def test_what_is_put_is_seen_here_alone(under: LocalStore, overlay: OverlayStore, tmp_path: Path) -> None:
    table = overlay.below("t")
    assert table.put_new("log/2", b"two")
    table.put("a", b"again")
    (tmp_path / "file").write_bytes(b"content")
    table.put_file("b", tmp_path / "file")
    assert _names(overlay) == ["catalog", "t/a", "t/b", "t/log/0", "t/log/1", "t/log/2"]
    assert (table.read("a"), table.read("b"), table.read("log/0")) == (b"again", b"content", b"t/log/0")
    assert (table.read_range("a", 1, 3), table.read_range("log/0", 2, 3)) == (b"gai", b"log")
    assert (table.open("a").read(), table.open("log/1").read()) == (b"again", b"t/log/1")
    assert list(overlay.folders()) == ["t"]
    assert [each.name for each in under.list()] == ["catalog", "t/a", "t/log/0", "t/log/1"]
    assert under.read("t/a") == b"t/a"
    assert overlay.url == under.url


def test_a_name_is_taken_once(overlay: OverlayStore) -> None:
    with pytest.raises(FileExistsError):
        overlay.put_new("t/log/1", b"")
    overlay.put_new("t/log/2", b"")
    with pytest.raises(FileExistsError):
        overlay.put_new("t/log/2", b"")


def test_compare_and_swap(overlay: OverlayStore) -> None:
    _, tag = overlay.read_tagged("catalog")
    later = overlay.put_over("catalog", b"new", tag)
    with pytest.raises(ObjectChanged):
        overlay.put_over("catalog", b"newer", tag)
    overlay.put_over("catalog", b"newer", later)
    assert overlay.read("catalog") == b"newer"
    with pytest.raises(ObjectChanged):
        overlay.put_over("nothing", b"", tag)


def test_what_is_deleted_is_gone_here_alone(under: LocalStore, overlay: OverlayStore) -> None:
    table = overlay.below("t")
    table.put("b", b"")
    table.delete(["a", "b", "nothing"])
    assert _names(table) == ["log/0", "log/1"]
    for name in ("a", "b"):
        with pytest.raises(FileNotFoundError):
            table.read(name)
    assert under.read("t/a")
    table.put_new("a", b"new")
    assert (overlay.read("t/a"), _names(table)) == (b"new", ["a", "log/0", "log/1"])


def test_a_folder_stays_as_it_was_listed(under: LocalStore, overlay: OverlayStore) -> None:
    table = overlay.below("t")
    assert _names(table, "log/", "log/0") == ["log/1"]
    under.put("t/log/2", b"others'")
    assert _names(table, "log/") == ["log/0", "log/1"]
    assert _names(overlay.below("t"), "log/1") == ["log/1"]
    table.put_new("log/2", b"ours")
    assert (_names(table, "log/"), table.read("log/2")) == (["log/0", "log/1", "log/2"], b"ours")
    assert under.read("t/log/2") == b"others'"
