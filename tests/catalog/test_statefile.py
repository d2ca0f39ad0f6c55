"""Captured states that are another's, damaged, or none: none of them is believed, and it is said why."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from support.cases import DBNAME, Case, open_case
from support.decoding import opened
from tailrace.catalog.state.catalog_state import CatalogState
from tailrace.catalog.state.state_file import read_state, write_state
from tailrace.errors import CorruptFile, UnsupportedFile, UsageError
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner, Source, capture


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return open_case("xact", 16, "with_slot", tmp_path)


@pytest.fixture
def state(case: Case) -> CatalogState:
    return capture(Source.open(case.before_dir), LocalRunner(1), DBNAME)


def test_states_of_another_database_or_system(case: Case, state: CatalogState) -> None:
    with pytest.raises(UsageError, match=f'the catalog state is of database "{DBNAME}", not "postgres"'):
        opened(case.data_dir, "postgres", catalog=state)
    with pytest.raises(UsageError, match="the catalog state is of system"):
        opened(case.data_dir, catalog=replace(state, system=state.system + 1))


def test_what_is_wrong_with_a_state_is_said_whatever_else_would_fail(case: Case, state: CatalogState) -> None:
    """Of a state of another system it was said that WAL is missing."""
    with pytest.raises(UsageError, match="the catalog state is of system"):
        opened(case.data_dir, catalog=replace(state, system=state.system + 1, lsn=Lsn(8), xids_open={}))


def test_a_file_that_is_no_state(state: CatalogState) -> None:
    written = write_state(state)
    for data in (b"", b"no", bytes(100), b"ARROW1\0\0" + bytes(100)):
        with pytest.raises(UnsupportedFile, match='"here" is not a catalog state') as caught:
            read_state(data, "here")
        assert caught.value.file == "here"
        assert "tailrace catalog capture" in caught.value.hint
    with pytest.raises(CorruptFile, match=f'catalog state "here" has {len(written) // 2} bytes, expected {len(written)}'):
        read_state(written[: len(written) // 2], "here")


def test_a_state_with_one_byte_changed_is_never_believed(state: CatalogState) -> None:
    """Of 400 such, one lost a row without a word, and nine ended the process."""
    written = write_state(state)
    dice = random.Random(9)
    for at in [*range(32), *(dice.randrange(len(written)) for _ in range(200))]:
        damaged = bytearray(written)
        damaged[at] ^= dice.randint(1, 255)
        with pytest.raises(UnsupportedFile if at < 20 else CorruptFile, match='"here"'):
            read_state(bytes(damaged), "here")


@pytest.mark.parametrize(("name", "value"), [("at", -8), ("length", 1 << 40), ("length", 30), ("catalog", 5), ("xmin", -5)])
def test_a_state_whose_checksum_is_right_and_whose_content_is_not(name: str, value: int, state: CatalogState) -> None:
    columns = state.versions.columns
    column = getattr(columns, name).copy()
    column[7] = value
    damaged = replace(state.versions, columns=columns._replace(**{name: column}))
    with pytest.raises(CorruptFile, match='"here" is no sound catalog state: '):
        read_state(write_state(replace(state, versions=damaged)), "here")
