"""A function of ours that the engine calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tailrace.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class EngineFunction:
    """Types of arguments and result are the engine's. One that is strict gives NULL of NULL."""

    function: Callable[..., Any]
    arguments: tuple[str, ...]
    result: str
    is_strict: bool = True
