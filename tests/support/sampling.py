"""Which cases of a test run when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from _pytest.mark.structures import ParameterSet


def some_of(params: Sequence[Any], one_in: int) -> list[Any]:
    """Parameters of a test that costs seconds each: `make test` runs one in so many, and `make marathon` the others. Which, their order decides."""
    wrapped = [
        param if isinstance(param, ParameterSet) else pytest.param(param, id="-".join(map(str, param))) for param in params
    ]
    return [
        param if number % one_in == 0 else param._replace(marks=[*param.marks, pytest.mark.marathon])
        for number, param in enumerate(wrapped)
    ]
