"""What cannot be opened: one clear error, before anything is decoded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.cases import Case, open_case
from support.damage import segments_of
from support.decoding import opened
from tailrace.errors import MissingHistory, UsageError
from tailrace.model import Lsn
from tailrace.pipeline import Source


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return open_case("catalog_rewrite", 16, "with_slot", tmp_path)


def test_a_database_that_does_not_exist(case: Case) -> None:
    with pytest.raises(UsageError, match='database "nowhere" does not exist') as caught:
        opened(case.data_dir, "nowhere")
    assert caught.value.sqlstate == "3D000"


def test_the_command_line_says_one_thing(case: Case) -> None:
    run = [sys.executable, "-m", "tailrace", "decode", str(case.data_dir), "--on", "local", "--database", "nowhere"]
    done = subprocess.run(run, capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == 'tailrace: error: database "nowhere" does not exist\n'


def test_a_start_behind_the_log(case: Case) -> None:
    with pytest.raises(MissingHistory, match="outside of the WAL") as caught:
        opened(case.data_dir, start_lsn="7F/0")
    assert caught.value.lsn == Lsn.parse("7F/0")


def test_a_start_before_the_log(case: Case) -> None:
    before = Source.open(case.data_dir).segments.first_lsn - (1 << 20)
    with pytest.raises(MissingHistory, match="outside of the WAL"):
        opened(case.data_dir, start_lsn=before)


def test_an_archive_without_catalogs(case: Case) -> None:
    with pytest.raises(UsageError, match="does not say what its tables are"):
        opened(case.wal_dir)


def test_a_start_whose_segment_has_been_removed(case: Case) -> None:
    segments_of(case)[0].unlink()
    with pytest.raises(MissingHistory, match="outside of the WAL") as caught:
        opened(case.data_dir, start_lsn=case.meta["start_lsn"])
    assert str(Source.open(case.data_dir).segments.first_lsn)[:3] in caught.value.hint
