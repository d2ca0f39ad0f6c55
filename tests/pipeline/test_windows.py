"""Whatever windows a log is decoded in, the same comes out: golden cases, cut at random records."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from support.cases import all_cases, open_case, some_of
from support.cuts import random_groups, random_stretches
from support.decoding import check, state_before, text_of
from support.normalise import normalise
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner, Source
from tailrace.pipeline.scanning import scan_stretch
from tailrace.pipeline.windows import begin, step
from tailrace.plugins.test_decoding import TestDecoding
from tailrace.transactions.outline import outline

OF_CATALOGS = ("catalog_rewrite", "concurrent_ddl_dml", "ddl", "rewrite_under_ddl")
CASES = [case for case in all_cases() if case[1] in (16, 18) or (case[1] == 14 and case[0] in OF_CATALOGS)]


@pytest.mark.parametrize("captured", [False, True], ids=["rebuilt", "captured"])
@pytest.mark.parametrize("name", some_of(CASES, 4))
def test_golden_cases_in_random_windows(name: tuple[str, int, str], captured: bool, tmp_path: Path) -> None:
    case = open_case(*name, tmp_path)
    dice = random.Random(f"{name} {captured}")
    runner = LocalRunner(1)
    state = state_before(case) if captured else None
    source = Source.open(case.data_dir, state.needs_wal_from if state else None)
    stretches = random_stretches(source, dice, state.needs_wal_from if state else None)
    indexes = [scan_stretch(source.segments, (), stretch) for stretch in stretches]
    plugin = TestDecoding()
    plugin.startup(case.meta.get("options", {}), case.major)
    running = np.array(sorted(state.xids_open if state else ()), np.int64)
    outlines = [outline(part, running) for part in indexes] if state else indexes
    carried, asked = begin(
        source, runner, outlines, case.meta["dbname"], state,
        start_lsn=Lsn.parse(case.meta["start_lsn"]), upto_lsn=None, demand=plugin.demand,
    )  # fmt: skip
    text = ""
    for group in random_groups(indexes, dice):
        carried, window = step(source, runner, carried, group, asked)
        text += text_of(window, case.meta.get("options", {}))
    check(case, text if case.is_exact else normalise(text))
