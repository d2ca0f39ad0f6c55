"""Every recorded case × every plugin with the options that change what it remembers × every way in which a log can come: at once, in windows, cut
anywhere with a kill and a new consumer at each cut, live, on Spark. The same comes out.

What comes at once is compared with PostgreSQL elsewhere: for test_decoding by `test_golden.py`, for pgoutput by `tests/oracle`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.cases import all_cases, open_case
from support.outlets import OUTLETS, Outlet, Told
from support.sampling import COMPARED, some_of
from support.ways import Road, check_same, check_understood, one_by_one, some_cuts

CASES = [case for case in all_cases() if case[2] == "with_slot"]
SHORT = ("origin", 18, "with_slot")
"""So few records that it goes through in seconds."""
EVERY = some_of([SHORT, *(case for case in CASES if case != SHORT)], len(CASES))
MOST_WINDOWS = 20
ONE_BY_ONE, FEW = 1000, 200
KILLS, GROWTHS = 12, 8


class Compared:
    """Of one case, what each outlet gave at once. Counts what was compared with it."""

    total = 0

    def __init__(self, road: Road) -> None:
        self.road = road
        self.outlets = road.outlets(OUTLETS)
        self._at_once = road.at_once([*self.outlets, *(outlet.whole() for outlet in self.outlets if outlet.streams)])

    def check(self, outlet: Outlet, found: Told, way: str) -> None:
        what = f"{self.road.case.story} of {self.road.case.major}, {outlet}, {way}"
        if outlet.streams:
            check_understood(outlet, found, self._at_once[outlet.whole()], what)
        else:
            check_same(found, self._at_once[outlet], what)
        Compared.total += 1

    def check_all(self, found: dict[Outlet, Told], way: str) -> None:
        assert found.keys() <= set(self.outlets)
        for outlet, told in found.items():
            self.check(outlet, told, way)


@pytest.fixture(autouse=True)
def counted(record_property: Callable[[str, object], None]) -> Iterator[None]:
    """How much of the product was there goes to where it is summed up (`conftest.py`), from whichever process."""
    before = Compared.total
    yield
    record_property(COMPARED, Compared.total - before)


def _compared(name: tuple[str, int, str], home: Path) -> tuple[Compared, random.Random]:
    return Compared(Road(open_case(*name, home / "case"))), random.Random("-".join(map(str, name)))


@pytest.mark.parametrize("name", some_of(CASES, len(CASES)))
def test_cut_anywhere(name: tuple[str, int, str], tmp_path: Path) -> None:
    """By one consumer, and by those that come after kills."""
    compared, dice = _compared(name, tmp_path)
    cuts = some_cuts(compared.road.records, MOST_WINDOWS, dice)
    compared.check_all(compared.road.in_windows(compared.outlets, cuts), f"in windows up to {cuts}")
    for outlet in compared.outlets:
        cuts = some_cuts(compared.road.records, KILLS, dice)
        compared.check(outlet, compared.road.with_kills(outlet, cuts, dice), f"with kills at {cuts}")


def test_what_was_rolled_back_before_the_first_block_is_not_told(tmp_path: Path) -> None:
    """Of this story subtransactions have rows in one window, none of them published, and end in another, which the first block follows."""
    name = ("rewrite", 16, "with_slot")
    compared, _ = _compared(name, tmp_path)
    streamed = [outlet for outlet in compared.outlets if outlet.streams and outlet.plugin == "pgoutput"]
    for seed in (3, 5):
        cuts = some_cuts(compared.road.records, MOST_WINDOWS, random.Random(seed))
        compared.check_all(compared.road.in_windows(streamed, cuts), f"in windows up to {cuts}")


@pytest.mark.matrix
def test_a_speculative_insert_waits_for_its_verdict_whatever_comes_between(tmp_path: Path) -> None:
    """Records of its transaction in indexes come before the verdict: a block that ended behind those left the row out."""
    name = ("insert_conflict", 18, "with_slot")
    compared, dice = _compared(name, tmp_path)
    streamed = [outlet for outlet in compared.outlets if outlet.streams and outlet.plugin == "test_decoding"]
    cuts = one_by_one(compared.road.records, ONE_BY_ONE, dice)
    compared.check_all(compared.road.in_windows(streamed, cuts), f"record by record, {len(cuts)} from {cuts[0]} on")


@pytest.mark.soak
@pytest.mark.parametrize(
    ("name", "count"),
    [pytest.param(SHORT, FEW, id="a-few"), *(pytest.param(case, ONE_BY_ONE, marks=pytest.mark.marathon) for case in CASES)],
)
def test_windows_of_one_record(name: tuple[str, int, str], count: int, tmp_path: Path) -> None:
    """Of logs that are longer, so many in a row."""
    compared, dice = _compared(name, tmp_path)
    cuts = one_by_one(compared.road.records, count, dice)
    compared.check_all(compared.road.in_windows(compared.outlets, cuts), f"record by record, {len(cuts)} from {cuts[0]} on")


@pytest.mark.marathon
@pytest.mark.parametrize("name", EVERY)
def test_live(name: tuple[str, int, str], tmp_path: Path) -> None:
    compared, dice = _compared(name, tmp_path)
    for number, outlet in enumerate(compared.outlets):
        cuts = some_cuts(compared.road.records, GROWTHS, dice)
        compared.check(outlet, compared.road.live(outlet, cuts, tmp_path / str(number), dice), f"live, growing by {cuts}")


@pytest.mark.spark
@pytest.mark.parametrize("name", some_of(CASES, len(CASES)))
def test_on_spark(name: tuple[str, int, str], tmp_path: Path, request: pytest.FixtureRequest) -> None:
    from tailrace.spark.jobs import SparkRunner  # noqa: PLC0415 - tests that need no Spark import none

    compared, _ = _compared(name, tmp_path)
    # Workers cannot import the plugin that the tests stream with.
    known = [outlet for outlet in compared.outlets if not (outlet.streams and outlet.plugin == "test_decoding")]
    compared.check_all(compared.road.at_once(known, SparkRunner(request.getfixturevalue("spark"))), "on Spark")
