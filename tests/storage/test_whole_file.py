"""A file is there whole, or as it was before."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tailrace.errors import UsageError
from tailrace.storage.whole_file import whole_file, write_whole


def test_it_takes_the_place_of_what_was_there(tmp_path: Path) -> None:
    target = tmp_path / "file"
    for data in (b"first", b"second, and longer"):
        write_whole(target, data)
        assert target.read_bytes() == data
    assert os.listdir(tmp_path) == ["file"]


def test_nothing_is_left_of_a_writer_that_fails(tmp_path: Path) -> None:
    def write_half(path: Path) -> None:
        with whole_file(path) as file:
            file.write(b"half of it")
            raise RuntimeError

    target = tmp_path / "file"
    target.write_bytes(b"as it was")
    with pytest.raises(RuntimeError):
        write_half(target)
    assert target.read_bytes() == b"as it was"
    assert os.listdir(tmp_path) == ["file"]


def test_what_a_link_names_is_replaced_not_the_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    for data in (b"it was not there", b"and now it was"):
        write_whole(tmp_path / "link", data)
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "file").read_bytes() == data


def test_what_is_no_file_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    for name in ("pipe", "link", "."):
        with pytest.raises(UsageError, match="cannot be replaced by a file"):
            write_whole(tmp_path / name, b"data")
    assert sorted(os.listdir(tmp_path)) == ["link", "pipe"]


def test_errors_name_the_file_that_was_asked_for(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        write_whole(tmp_path / "nowhere" / "file", b"data")
    assert caught.value.filename == str(tmp_path / "nowhere" / "file")
