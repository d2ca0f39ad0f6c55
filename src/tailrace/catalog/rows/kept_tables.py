"""The tables of a catalog history, kept for the next one: where a log is followed, nearly every window has the catalogs of the window before.

State: the last versions and spans, and what was read of them. Whoever asks for others gets tables that are empty yet.
"""

from __future__ import annotations

import numpy as np

from tailrace.catalog.rows.catalog_rows import CatalogTable, Spans
from tailrace.catalog.rows.row_versions import Versions


class KeptTables:
    """Of one state, and of those that are made of it. One that was sent elsewhere begins anew."""

    def __init__(self) -> None:
        self._last: tuple[Versions, Spans, dict[str, CatalogTable]] | None = None

    def __reduce__(self) -> tuple[type[KeptTables], tuple[()]]:
        return KeptTables, ()

    def __eq__(self, other: object) -> bool:
        """What is kept is no part of a state."""
        return isinstance(other, KeptTables)

    def __hash__(self) -> int:
        return 0

    def of(self, versions: Versions, spans: Spans) -> dict[str, CatalogTable]:
        """By name, those that have been read of just these; whoever reads more adds them."""
        last = self._last
        if last is None or last[0] is not versions or not _are_equal(last[1], spans):
            last = self._last = versions, spans, {}
        return last[2]


def _are_equal(one: Spans, other: Spans) -> bool:
    return all(
        np.array_equal(mine, theirs)
        for mine, theirs in (
            (one.begin, other.begin),
            (one.end, other.end),
            (one.made_by, other.made_by),
            (one.unmade_by, other.unmade_by),
        )  # fmt: skip
    )
