"""Whatever windows a log is decoded in, the same comes out: golden cases, cut at random records."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from support.cases import all_cases, open_case
from support.decoding import check, decode_in_windows
from support.sampling import some_of

OF_CATALOGS = ("catalog_rewrite", "concurrent_ddl_dml", "ddl", "rewrite_under_ddl")
CASES = [case for case in all_cases() if case[1] in (16, 18) or (case[1] == 14 and case[0] in OF_CATALOGS)]


@pytest.mark.parametrize("captured", [False, True], ids=["rebuilt", "captured"])
@pytest.mark.parametrize("name", some_of(CASES, 28))
def test_golden_cases_in_random_windows(name: tuple[str, int, str], captured: bool, tmp_path: Path) -> None:
    case = open_case(*name, tmp_path)
    check(case, decode_in_windows(case, random.Random(f"{name} {captured}"), captured=captured))
