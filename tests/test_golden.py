"""Golden cases: what a real server wrote, decoded here, equals what that server's own decoder made of it, byte for byte.

Each case is decoded with catalogs rebuilt from the WAL, and from a captured state. The second is also cut into the smallest stretches that are
worth it, so that records, long values and speculative inserts lie across their borders; and both are done on Spark as well.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cases import all_cases, open_case
from support.decoding import check, decode
from tailrace.pipeline import LocalRunner

SMALL_STRETCH = 1 << 17


def _name(case: tuple[str, int, str]) -> str:
    return "-".join(map(str, case))


@pytest.mark.parametrize("captured", [False, True], ids=["rebuilt", "captured"])
@pytest.mark.parametrize("case", all_cases(), ids=_name)
def test_golden(case: tuple[str, int, str], captured: bool, tmp_path: Path) -> None:
    golden = open_case(*case, tmp_path)
    check(golden, decode(golden, LocalRunner(2), captured=captured, stretch_bytes=SMALL_STRETCH if captured else None))


@pytest.mark.spark
@pytest.mark.parametrize("case", all_cases(), ids=_name)
def test_golden_on_spark(case: tuple[str, int, str], tmp_path: Path, request: pytest.FixtureRequest) -> None:
    from tailrace.spark.jobs import SparkRunner  # noqa: PLC0415 - tests that need no Spark import none

    golden = open_case(*case, tmp_path)
    runner = SparkRunner(request.getfixturevalue("spark"))
    for captured in (False, True):
        check(golden, decode(golden, runner, captured=captured))
