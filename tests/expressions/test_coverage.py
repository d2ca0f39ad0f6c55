"""How many of the functions that PostgreSQL lets a row filter use are evaluated; and that the page about it is up to date."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

from tailrace.expressions.evaluate.executor.fmgrtab import FAMILIES
from tailrace.expressions.evaluate.fmgr.pg_proc import built_in_functions

ROOT = Path(__file__).parents[2]


def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("row_filters", ROOT / "tools/row_filters.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_most_functions_are_evaluated() -> None:
    made = tool()
    print(f"{made.share():.1%} of the functions that a row filter may use are evaluated")
    assert made.share() >= made.TARGET


def test_the_page_of_row_filters_is_current() -> None:
    made = tool()
    assert made.DOCUMENT.read_text() == made.render(), "run PYTHONPATH=src python tools/row_filters.py"


def test_each_implementation_is_of_a_function_that_there_is() -> None:
    symbols = {function.symbol for function in built_in_functions().values()}
    named = [symbol for family in FAMILIES for symbol in family.FUNCTIONS]
    assert sorted(set(named) - symbols) == []
    assert len(named) == len(set(named)), "a function is in two families"
