"""A `Demand` is what an outlet asks of the planner: options that decide which transactions and rows are decoded, at PREPARE or COMMIT, and under
which names. An outlet is what changes leave by: an output plugin, a DataFrame, tables of the lake.

A plan is made for one demand. An outlet that asks for another would print something else than it was told to, without a word; so it is refused
(`Demand.check_met`).
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.plan.origin_filter import OriginFilter
from tailrace.transactions.commit_or_abort import TwoPhase
from tailrace.types.style import SEARCH_PATH, TextStyle


@dataclass(frozen=True, slots=True)
class Demand:
    """`rewrites`: the rows that a rewrite of a table writes anew come as well. `filter_by_origin`: nothing comes from the origins that it filters;
    None: all comes. `two_phase`: prepared transactions come at PREPARE. `search_path` decides which types, and which names in values, are printed
    with their schema. `streaming`: transactions come in blocks before they end, once rows of theirs that wait take more bytes of WAL than this
    (logical_decoding_work_mem); None: they come when they end. `commits`: rows come with what is told of their transaction's end. `defaults`: columns
    have the texts of their default expressions, in that style; None: they have none."""

    rewrites: bool = False
    filter_by_origin: OriginFilter | None = None
    two_phase: TwoPhase | None = None
    search_path: tuple[str, ...] = SEARCH_PATH
    streaming: int | None = None
    commits: bool = False
    defaults: TextStyle | None = None

    def check_met(self, planned: Demand, outlet: str) -> None:
        """Raise UsageError if what was planned is not what `outlet` asks for."""
        for field in fields(self):
            asked, given = getattr(self, field.name), getattr(planned, field.name)
            if asked != given:
                raise UsageError(
                    f"{outlet} asks for {field.name} {_shown(asked)}, and the log was planned with {field.name} {_shown(given)}",
                    hint="Open the source with the demand of the outlet: open_pipeline(…, demand=plugin.demand); for tables of changes, with none.",
                )


OF_TABLES = Demand()
"""What lake tables and DataFrames ask for: every committed change of a user's, at its commit."""


def _shown(value: Any) -> str:
    if callable(value):
        return f"by {getattr(value, '__qualname__', value)}"
    if isinstance(value, TwoPhase):
        return f"on, by {getattr(value.is_plain, '__qualname__', value.is_plain)}"
    if isinstance(value, tuple):
        return f'"{", ".join(value)}"'
    if isinstance(value, int) and not isinstance(value, bool):
        return f"above {value} bytes"
    return "on" if value else "off"
