"""Records in words, against pg_waldump on the same segments."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from support.builds import find_build
from support.cases import open_case
from tailrace.storage.segment_files import open_segments
from tailrace.wal.describe import Described
from tailrace.wal.resource_managers import READ, SMGR
from tailrace.wal.statistics import walk

_BLOCK = re.compile(r"blkref #\d+: rel [\d/]+(?: fork \w+)? blk \d+(?: FPW)?")


@pytest.mark.parametrize("major", [16, 18])
@pytest.mark.parametrize("story", ["catalog_rewrite", "subxact", "toast", "prepared", "messages"])
def test_as_pg_waldump(story: str, major: int, tmp_path: Path) -> None:
    case = open_case(story, major, "with_slot", tmp_path)
    segments = open_segments(case.wal_dir)
    ours = list(walk(segments))
    command = [find_build(major, test_decoding=False).bin("pg_waldump"), "-p", case.wal_dir, "-s", str(ours[0].lsn)]
    theirs = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120).stdout.splitlines()
    assert len(ours) == len(theirs) > 100
    compared = 0
    for mine, line in zip(ours, theirs, strict=True):
        head, _, said = line.partition(", desc: ")
        assert str(mine).partition(", desc: ")[0] == head
        assert list(mine.blocks) == _BLOCK.findall(said)
        if mine.manager in READ:
            assert mine.operation == said.split()[0].rstrip(","), line
        compared += _same_words(mine, said)
    assert compared > 100


def _same_words(mine: Described, said: str) -> int:
    """Fields that both name alike say the same; how many there are."""
    theirs = dict(re.findall(r"(\w+): (\d+)\b", said.partition(", blkref")[0]))
    ours = dict(re.findall(r"(\w+): (\d+)\b", mine.fields))
    shared = ours.keys() & theirs.keys() if mine.manager in READ - {SMGR} else set()
    assert {name: ours[name] for name in shared} == {name: theirs[name] for name in shared}
    return len(shared)


def test_a_part_of_the_log(tmp_path: Path) -> None:
    segments = open_segments(open_case("subxact", 16, "with_slot", tmp_path).wal_dir)
    whole = [record.lsn for record in walk(segments)]
    assert [record.lsn for record in walk(segments, whole[40], whole[60])] == whole[40:60]
    assert [record.lsn for record in walk(segments, chunk=16384)] == whole
