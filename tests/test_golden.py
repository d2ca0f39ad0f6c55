"""Golden cases: what a real server wrote, decoded here, equals what that server's own decoder made of it, byte for byte.

Each case is decoded twice: `rebuilt`, where the catalogs are read from the stopped data directory and followed from the first
checkpoint on; and `captured`, from the state that was written down before the story began. The second is also cut into the
smallest stretches that are worth it, so that records, long values and speculative inserts lie across their borders.
"""

from __future__ import annotations

import difflib
from itertools import islice
from pathlib import Path

import pytest

from support.cases import Case, all_cases, open_case
from support.normalise import normalise
from tailrace.catalog.state import CatalogState
from tailrace.catalog.statefile import read_state, write_state
from tailrace.model import Lsn
from tailrace.plugins.driver import print_rows
from tailrace.plugins.test_decoding import TestDecoding
from tailrace.river import LocalRunner, Runner, Source, capture, open_river

SMALL_STRETCH = 1 << 17
SHOWN_LINES = 25
ON_SPARK = [case for case in all_cases() if case[0] in {"xact", "toast", "catalog_rewrite"} and case[2] == "with_slot"]


def _name(case: tuple[str, int, str]) -> str:
    return "-".join(map(str, case))


CASES = [pytest.param(case, id=_name(case)) for case in all_cases()]


@pytest.mark.parametrize("catalogs", ["rebuilt", "captured"])
@pytest.mark.parametrize("case", CASES)
def test_golden(case: tuple[str, int, str], catalogs: str, tmp_path: Path) -> None:
    golden = open_case(*case, tmp_path)
    check(golden, decode(golden, LocalRunner(2), captured=catalogs == "captured"))


@pytest.mark.spark
@pytest.mark.parametrize("case", ON_SPARK, ids=_name)
def test_golden_on_spark(case: tuple[str, int, str], tmp_path: Path, request: pytest.FixtureRequest) -> None:
    jobs = pytest.importorskip("tailrace.spark.jobs")
    if not hasattr(jobs, "SparkRunner"):
        pytest.skip("tailrace.spark.jobs has no SparkRunner")
    golden = open_case(*case, tmp_path)
    check(golden, decode(golden, jobs.SparkRunner(request.getfixturevalue("spark")), captured=True))


def decode(golden: Case, runner: Runner, *, captured: bool) -> str:
    """The text of all rows, as `pg_logical_slot_get_changes` gives them; normalised if only that is known of the case."""
    river = open_river(
        golden.data_dir,
        golden.meta["dbname"],
        start_lsn=Lsn.parse(golden.meta["start_lsn"]),
        runner=runner,
        catalog=_state_before(golden) if captured else None,
        **({"stretch_bytes": SMALL_STRETCH} if captured else {}),
    )
    plugin = TestDecoding()
    plugin.startup({}, golden.major)
    rows = (print_rows(part.lsn, part.xid, part.texts.offsets, part.texts.data).tobytes() for part in river.lines(plugin))
    text = b"".join(rows).decode()
    return text if golden.is_exact else normalise(text)


def check(golden: Case, text: str) -> None:
    """Equal to the last byte; else the first lines of the difference, each cut to what a screen shows."""
    if text == golden.expected:
        return
    lines = difflib.unified_diff(golden.expected.splitlines(), text.splitlines(), "PostgreSQL", "tailrace", lineterm="", n=1)
    pytest.fail("\n".join(line[:250] for line in islice(lines, SHOWN_LINES)) or "only ends of lines differ", pytrace=False)


def _state_before(golden: Case) -> CatalogState:
    """The state captured before the story, by way of its file."""
    state = capture(Source.open(golden.before_dir), LocalRunner(1), golden.meta["dbname"])
    return read_state(write_state(state), "captured before the story")
