"""Transactions in progress, streamed in blocks: put together again, they are what comes where nothing is streamed, whatever the cuts."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from support.beginning import begin
from support.cases import Case, all_cases, open_case
from support.cuts import random_groups, random_stretches
from support.decoding import check_equal, state_before
from support.sampling import some_of
from support.streaming import Streamed, number_of_blocks, reassembled, split_rows, without_begin_lsns
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner, Source
from tailrace.pipeline.scanning import scan_stretch
from tailrace.pipeline.windows import step
from tailrace.plugins.printing import print_rows, up_to_zero
from tailrace.plugins.test_decoding import TestDecoding
from tailrace.transactions.outline import outline

# Not message_ties: which of a message and a row at one LSN comes first, the server decides anew in each block.
STORIES = (
    "concurrent_ddl_dml", "ddl", "insert_conflict", "messages", "multi_insert", "origin", "other_database", "prepared", "speculative",
    "spill", "subxact", "subxact_many", "toast", "truncate", "xact",
)  # fmt: skip
CASES = [(story, major) for story, major, variant in all_cases() if story in STORIES and variant == "with_slot"]
SEEDS = 2


def _decoded(case: Case, plugin: TestDecoding, dice: random.Random) -> str:
    """In random windows, each of many stretches."""
    runner = LocalRunner(1)
    state = state_before(case)
    source = Source.open(case.data_dir, state.needs_wal_from)
    cuts = random_stretches(source, dice, state.needs_wal_from, cell=1 << 16)
    indexes = [scan_stretch(source.segments, (), stretch) for stretch in cuts]
    outlines = [outline(part, np.array(sorted(state.xids_open), np.int64)) for part in indexes]
    plugin.startup(case.meta.get("options", {}), case.major)
    carried, asked = begin(
        source, runner, outlines, case.meta["dbname"], state,
        start_lsn=Lsn.parse(case.meta["start_lsn"]), upto_lsn=None, demand=plugin.demand,
    )  # fmt: skip
    told = b""
    for group in random_groups(indexes, dice):
        carried, window = step(source, runner, carried, group, asked)
        asked = replace(asked, streamed=window.blocks.after)
        for lines in window.lines(plugin):
            texts = up_to_zero(lines.texts)
            told += print_rows(lines.lsn, lines.xid, texts.offsets, texts.data).tobytes()
    return told.decode(errors="surrogateescape")


@pytest.mark.parametrize(("story", "major"), some_of([pytest.param(*each, id="-".join(map(str, each))) for each in CASES], 72))
def test_put_together(story: str, major: int, tmp_path: Path) -> None:
    case = open_case(story, major, "with_slot", tmp_path)
    for seed in range(SEEDS):
        dice = random.Random(f"{story} {major} {seed}")
        plain, streamed = TestDecoding(), Streamed()
        plain.context.two_phase = streamed.context.two_phase = seed % 2 == 1
        expected = split_rows(_decoded(case, plain, dice))
        blocks = split_rows(_decoded(case, streamed, dice))
        assert number_of_blocks(blocks)
        found = without_begin_lsns(reassembled(blocks))
        check_equal(_text(found), _text(without_begin_lsns(expected)), f"{story}, {major}, nothing streamed")


def _text(rows: list[tuple[str, str, str]]) -> str:
    return "".join(f"{lsn}\t{xid}\t{text}\n" for lsn, xid, text in rows)
