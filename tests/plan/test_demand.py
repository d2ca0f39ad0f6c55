"""An outlet is given no plan that was made for another demand: it would print something else than it was told to, without a word."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.cases import Case, open_case
from tailrace.errors import UsageError
from tailrace.lake.changelog import append_changes
from tailrace.lake.mirror import mirror
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner, Pipeline, open_pipeline
from tailrace.plan.demand import Demand
from tailrace.plan.origin_filter import from_elsewhere
from tailrace.plugins.test_decoding import TestDecoding
from tailrace.transactions.commit_or_abort import TwoPhase
from tailrace.types.style import TextStyle


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return open_case("origin", 16, "with_slot", tmp_path_factory.mktemp("origin"))


def _pipeline(case: Case, demand: Demand) -> Pipeline:
    start = Lsn.parse(case.meta["start_lsn"])
    return open_pipeline(case.data_dir, "app", start_lsn=start, runner=LocalRunner(1), demand=demand)


def _plugin(options: dict[str, str | None], *, two_phase: bool = False, search_path: str = "") -> TestDecoding:
    plugin = TestDecoding()
    plugin.context.two_phase = two_phase
    if search_path:
        plugin.context.style = TextStyle(search_path=search_path)
    plugin.startup(options, 16)
    return plugin


ASKED = {
    "only-local": _plugin({"only-local": "on"}),
    "include-rewrites": _plugin({"include-rewrites": "on"}),
    "two phases": _plugin({}, two_phase=True),
    "search path": _plugin({}, search_path="mine"),
}


@pytest.mark.parametrize("plugin", ASKED.values(), ids=ASKED.keys())
def test_a_plugin_is_given_its_own_plan_only(plugin: TestDecoding, case: Case) -> None:
    with pytest.raises(UsageError, match=r"test_decoding asks for \w+ .*, and the log was planned with"):
        list(_pipeline(case, Demand()).lines(plugin))
    with pytest.raises(UsageError, match="test_decoding asks for"):
        list(_pipeline(case, plugin.demand).lines(_plugin({})))
    assert sum(len(lines) for lines in _pipeline(case, plugin.demand).lines(plugin))


def test_what_would_have_been_printed_without_a_word(case: Case) -> None:
    """The case has rows that came from elsewhere, and rows that did not."""
    local, everything = _plugin({"only-local": "on"}), _plugin({})
    counts = [sum(len(lines) for lines in _pipeline(case, each.demand).lines(each)) for each in (local, everything)]
    assert 0 < counts[0] < counts[1]


def test_plugins_of_one_kind_with_equal_options_ask_for_the_same() -> None:
    assert _plugin({}, two_phase=True).demand == _plugin({"include-xids": "off"}, two_phase=True).demand
    assert _plugin({}).demand == Demand()


@pytest.mark.parametrize("demand", [Demand(two_phase=TwoPhase()), Demand(rewrites=True), Demand(filter_by_origin=from_elsewhere)])
@pytest.mark.parametrize("write", [append_changes, mirror])
def test_tables_are_not_made_from_another_plan(
    write: Callable[[Pipeline, Path], object], demand: Demand, case: Case, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="asks for"):
        write(_pipeline(case, demand), tmp_path / "lake")
    assert not (tmp_path / "lake").exists()
