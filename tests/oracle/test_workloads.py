"""Generated workloads on live servers: concurrent transactions with DDL, rewritten catalogs, rollbacks, savepoints and TOAST.

Schedules are told to two clones of a cluster. One has a slot, and PostgreSQL decodes it. The other never had one, so that its catalogs are pruned
as they are everywhere; its WAL is ours to decode. Threads race each other, and savepoints are nested, on one server with a slot.
The seed is in the test's name, and
`make fuzz` tries seeds that nobody has seen.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import psycopg
import pytest

from support.cases import Case
from support.decoding import check_both_ways
from support.live import live_case
from support.savepoints import run_savepoints
from support.schedule import make_schedule, run_schedule
from support.threads import run_threads

pytestmark = [pytest.mark.matrix, pytest.mark.postgres]


@pytest.mark.parametrize(
    ("major", "seed", "steps"),
    [(18, 4, 500)]
    + [
        pytest.param(*each, 2000, marks=pytest.mark.marathon)
        for each in ((14, 1), (15, 2), (16, 3), (17, 1), (18, 1), (18, 2), (18, 3))
    ],
)
def test_schedule_without_a_slot(major: int, seed: int, steps: int, tmp_path: Path) -> None:
    schedule = make_schedule(seed, steps)
    case = live_case(major, lambda server: run_schedule(server, schedule), tmp_path, slot=False)
    assert case.expected.count("\n") > 2 * steps, "the workload must have done something"
    check_both_ways(case)


@pytest.mark.parametrize("major", [15, 16, 18])
def test_threads_with_a_slot(major: int, tmp_path: Path) -> None:
    """Six clients at once, known to the LSN: not a byte may differ."""
    tallies: list[Counter[str]] = []
    case = _of_threads(major, tallies, tmp_path)
    assert tallies[-1]["committed"] > 500, tallies
    check_both_ways(case)


def _of_threads(major: int, tallies: list[Counter[str]], directory: Path) -> Case:
    """PostgreSQL's decoder fails now and then where a table was rewritten in a race ("could not map filenumber … to relation OID"): there is nothing
    to compare with, so another race is run."""
    for attempt in range(4):
        try:
            return live_case(major, lambda server: tallies.append(run_threads(server, seed=3, transactions=1000)), directory)
        except psycopg.errors.InternalError_ as error:
            if attempt == 3 or "could not map file" not in str(error):
                raise
    raise AssertionError


@pytest.mark.parametrize("major", [14, 15, 16, 17, 18])
def test_savepoints_with_a_slot(major: int, tmp_path: Path) -> None:
    """Where a message ties with the row behind it, only all that the server had queued before decides."""
    case = live_case(major, lambda server: run_savepoints(server, seed=major, transactions=300), tmp_path)
    assert case.expected.count("\tCOMMIT") > 250
    assert case.expected.count("message: transactional: 1") > 1000
    check_both_ways(case)
