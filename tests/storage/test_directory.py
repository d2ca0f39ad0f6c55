"""What a data directory has beside the log, damaged, gone, or no file at all."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest

from support.cases import Case, open_case
from support.damage import PAGE, flip, write_at
from support.decoding import opened
from tailrace.catalog.data_directory.commit_status import IN_PROGRESS
from tailrace.catalog.rows.layouts import layouts_by_oid
from tailrace.errors import CorruptFile
from tailrace.storage.directory import DataDirectory

PG_ATTRIBUTE = 1249


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return open_case("xact", 16, "with_slot", tmp_path)


@pytest.fixture
def checked(tmp_path: Path) -> Case:
    """PostgreSQL 18's clusters have checksums."""
    return open_case("xact", 18, "with_slot", tmp_path)


def _attributes(case: Case) -> Path:
    """The file of pg_attribute, in the first database that has one."""
    return sorted(case.data_dir.glob(f"base/*/{PG_ATTRIBUTE}"))[0]


# -- relation maps, commit status ----------------------------------------------------------------------------------------------------


def test_a_relation_map_that_was_cut_off(case: Case) -> None:
    for file in case.data_dir.glob("base/*/pg_filenode.map"):
        file.write_bytes(file.read_bytes()[:5])
    with pytest.raises(CorruptFile, match=r"relation mapping file .* contains invalid data"):
        opened(case.data_dir)


def test_a_relation_map_with_a_bit_flipped(case: Case) -> None:
    for file in case.data_dir.glob("base/*/pg_filenode.map"):
        flip(file, 12)
    with pytest.raises(CorruptFile, match=r"relation mapping file .* contains incorrect checksum"):
        opened(case.data_dir)


def test_a_relation_map_that_is_gone(case: Case) -> None:
    (case.data_dir / "global/pg_filenode.map").unlink()
    with pytest.raises(CorruptFile, match=r"could not open relation mapping file .*global/pg_filenode\.map"):
        opened(case.data_dir)


@pytest.mark.parametrize("name", ["pg_xact/0000", "base/*/pg_filenode.map", "base/*/[0-9]*"])
def test_a_pipe_in_place_of_a_file_is_not_waited_for(name: str, case: Case) -> None:
    files = sorted(case.data_dir.glob(name))
    assert files
    for file in files:
        file.unlink()
        os.mkfifo(file)
    with pytest.raises(CorruptFile, match="is not a regular file"):
        opened(case.data_dir)


def test_a_file_of_another_name_in_pg_xact(case: Case) -> None:
    (case.data_dir / "pg_xact" / "copy").write_bytes(b"")
    assert opened(case.data_dir).warning == ""


@pytest.mark.parametrize("left", [None, b"", bytes(100)])
def test_commit_status_that_is_gone(left: bytes | None, case: Case) -> None:
    """Rows whose transaction nobody knows of were taken for rows that nobody committed."""
    for path in (case.data_dir / "pg_xact").iterdir():
        path.unlink()
        if left is not None:
            path.write_bytes(left)
    directory = DataDirectory(case.data_dir)
    with pytest.raises(CorruptFile, match="could not access status of transaction 735") as caught:
        directory.commit_status().of(np.array([735, 736]))
    assert caught.value.file == "pg_xact/0000"
    assert "pg_xact/0000" in caught.value.context
    assert directory.commit_status().of(np.array([directory.control().next_xid])) == IN_PROGRESS


# -- pages of catalogs ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("block", "at"), [(3, 100), (7, 8000), (10, 13)])
def test_a_page_whose_checksum_is_wrong(block: int, at: int, checked: Case) -> None:
    """Any byte of a page that counts is noticed, and file and block are named."""
    opened(checked.data_dir)
    flip(_attributes(checked), block * PAGE + at, 4)
    with pytest.raises(CorruptFile, match=f"invalid page in block {block} of catalog file .*/{PG_ATTRIBUTE}") as caught:
        opened(checked.data_dir)
    assert re.match(r"page verification failed, calculated checksum \d+ but expected \d+", caught.value.context)
    assert (caught.value.file, caught.value.block) == (str(_attributes(checked)), block)


@pytest.mark.parametrize(
    ("at", "noise", "why"),
    [
        (12, b"\xff\xff", "its header is damaged"),  # pd_lower
        (16, b"\x00\x00", "its header is damaged"),  # pd_special
        (24, b"\x00\xf0\xfe\xff", "line pointer 1 points out of it"),
        (27, b"\x00", "line pointer 1 points out of it"),  # a length of next to nothing
    ],
)
def test_a_page_that_cannot_be_one(at: int, noise: bytes, why: str, case: Case) -> None:
    """Without checksums. Some of these ended in a traceback, some lost rows."""
    write_at(_attributes(case), 3 * PAGE + at, noise)
    with pytest.raises(CorruptFile, match=f"invalid page in block 3 of catalog file .*/{PG_ATTRIBUTE}") as caught:
        opened(case.data_dir)
    assert caught.value.context == why


def test_a_tuple_that_is_longer_than_its_place(case: Case) -> None:
    path = _attributes(case)
    page = path.read_bytes()[3 * PAGE : 4 * PAGE]
    offset = int.from_bytes(page[24:28], "little") & 0x7FFF
    write_at(path, 3 * PAGE + offset + 22, b"\xff")  # t_hoff
    with pytest.raises(CorruptFile, match=f"invalid page in block 3 of catalog file .*/{PG_ATTRIBUTE}") as caught:
        opened(case.data_dir)
    assert caught.value.context == "tuple 1 does not have the layout of its catalog"


def test_a_page_of_zeros_is_a_new_one(case: Case) -> None:
    path = _attributes(case)
    path.write_bytes(path.read_bytes() + bytes(PAGE))
    assert opened(case.data_dir).warning == ""


def test_a_page_that_is_just_being_written(checked: Case) -> None:
    """A server writes pages while they are read: read again, they are whole."""
    database = int(_attributes(checked).parent.name)
    pages = DataDirectory(checked.data_dir).pages({(database, PG_ATTRIBUTE): PG_ATTRIBUTE})
    assert pages.checksums
    sound = pages.files[database, PG_ATTRIBUTE].copy()
    pages.files[database, PG_ATTRIBUTE][2, 4096:] = 0
    layout = layouts_by_oid(18)[PG_ATTRIBUTE]
    with pytest.raises(CorruptFile, match="invalid page in block 2"):
        pages.believed((database, PG_ATTRIBUTE), np.arange(len(sound)), layout)
    pages.read_again = lambda _, block: sound[block]
    assert (pages.believed((database, PG_ATTRIBUTE), np.arange(len(sound)), layout) == sound).all()
