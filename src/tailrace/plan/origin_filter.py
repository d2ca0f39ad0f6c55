"""Which replication origins are filtered (manual, "Origin Filter Callback"; `FilterByOrigin` in `replication/logical/decode.c`).

In: the callback, and the origins that there are. Out: the numbers of those whose changes nobody is to see. Each is asked for once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.history.history import History
from tailrace.dataclass import dataclass
from tailrace.transactions.commit_or_abort import Transactions

OriginFilter = Callable[[int], bool]
"""Whether what comes from an origin (its number, 0 for here) is not wanted."""
NO_ORIGINS: NDArray[np.uint16] = np.zeros(0, np.uint16)


def from_elsewhere(origin: int) -> bool:
    """Filter all changes that were replicated here (`origin = none`)."""
    return origin != 0


@dataclass(frozen=True, slots=True)
class _Among:
    origins: tuple[int, ...]

    def __call__(self, origin: int) -> bool:
        return origin in self.origins


def among(origins: tuple[int, ...]) -> OriginFilter:
    """Filters these. Filters of the same origins are equal."""
    return _Among(origins)


def unwanted_origins(
    filtered: OriginFilter | None, history: History, transactions: Transactions, others: Iterable[int]
) -> NDArray[np.uint16]:
    """Of the origins in the catalogs, those of transactions, and `others`, those that are filtered: sorted."""
    if filtered is None:
        return NO_ORIGINS
    known = {0, *history.table("pg_replication_origin")["roident"].tolist(), *np.unique(transactions.origin).tolist(), *others}
    return np.array([origin for origin in sorted(known) if filtered(origin)], np.uint16)
