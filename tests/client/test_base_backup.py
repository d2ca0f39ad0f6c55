"""What is kept of a base backup: files that are known beforehand, wherever a name points to."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.tars import tar_of
from tailrace.client.base_backup import KeptFiles, WantedFiles
from tailrace.errors import PeerError

PAGE = b"p" * 8192
Files = dict[str, bytes] | list[tuple[str, bytes]]


def kept(directory: Path, wanted: WantedFiles, archives: dict[int, Files]) -> tuple[KeptFiles, dict[str, int]]:
    """What is kept of archives by their tablespaces: names, and how many bytes each has."""
    keeps = KeptFiles(directory, wanted, lambda _: None)
    for tablespace, files in archives.items():
        keeps.begin(tablespace)
        content = tar_of(files.items() if isinstance(files, dict) else files)
        for at in range(0, len(content), 3000):
            keeps.take(memoryview(content[at : at + 3000]))
        keeps.end()
    names = {str(path.relative_to(directory)): path.stat().st_size for path in directory.rglob("*") if path.is_file()}
    return keeps, names


def test_of_all_databases(tmp_path: Path) -> None:
    files = {
        "backup_label": b"START", "global/1262": PAGE, "global/1213": PAGE, "global/pg_filenode.map": b"m" * 512, "pg_xact/0000": PAGE,
        "pg_multixact/members/0000": PAGE, "pg_twophase/000002F1": b"two", "base/5/1259": PAGE, "base/5/1259_fsm": PAGE, "base/5/1259.1": PAGE[:100],
        "base/5/16385": PAGE, "base/5/16386": b"", "base/7/1249": PAGE, "base/7/pg_filenode.map": b"m" * 524, "global/pg_control": PAGE,
        "pg_wal/000000010000000000000001": PAGE, "base/pgsql_tmp/1259": PAGE,
    }  # fmt: skip
    keeps, names = kept(tmp_path, WantedFiles(), {16400: {"PG_18_202506291/9/1259": PAGE, "base/9/1259": PAGE}, 0: files})
    assert names == {
        "global/1262": 8192, "global/pg_filenode.map": 512, "pg_xact/0000": 8192, "pg_multixact/members/0000": 8192, "pg_twophase/000002F1": 0,
        "base/5/1259": 8192, "base/5/1259.1": 8192, "base/7/1249": 8192, "base/7/pg_filenode.map": 524, "global/pg_control": 8192,
        "pg_tblspc/16400/PG_18_202506291/9/1259": 8192,
    }  # fmt: skip
    assert keeps.dropped.full == {(1664, 0): {1213}, (1663, 5): {16385}}
    assert keeps.dropped.empty == {(1663, 5): {16386}}


def test_of_one_database(tmp_path: Path) -> None:
    files = {"base/5/1259": PAGE, "base/5/16385": PAGE, "base/7/1259": PAGE, "base/7/16385": PAGE, "base/7/pg_filenode.map": b"m"}
    _, names = kept(tmp_path, WantedFiles(5, frozenset({(5, 16385)})), {0: files})
    assert set(names) == {"base/5/1259", "base/5/16385"}


def test_nothing_is_written_elsewhere(tmp_path: Path) -> None:
    (home := tmp_path / "data").mkdir()
    names = (
        "../1259",
        "/tmp/1259",
        "base/../1259",
        "base/5/../1259",
        "global/../../pg_control",
        "pg_tblspc/1/PG_18_1/5/1259",
        "base/٥/1259",
        "pg_xact/..",
    )
    _, found = kept(home, WantedFiles(), {0: dict.fromkeys(names, PAGE)})
    assert found == {}
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_what_no_server_sends(tmp_path: Path) -> None:
    with pytest.raises(PeerError, match='file "global/pg_control" of the base backup has 2000000 bytes'):
        kept(tmp_path / "a", WantedFiles(), {0: {"global/pg_control": b"c" * 2_000_000}})
    with pytest.raises(PeerError, match='file "1259" comes twice in the base backup'):
        kept(tmp_path / "b", WantedFiles(), {0: [("base/5/1259", PAGE)] * 2})
