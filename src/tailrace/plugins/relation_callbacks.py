"""What a plugin is called for that must know of which relation each row is, in the order of the stream, and what the plan knows
of relations.

pgoutput sends a relation before its first row, and again after an invalidation (`maybe_send_schema` in
`replication/pgoutput/pgoutput.c`); a plugin that is written per change has its callbacks called with the relation.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.history.history import History
from tailrace.dataclass import dataclass
from tailrace.model import Relation
from tailrace.plan import Plan
from tailrace.plan.events import Truncation
from tailrace.plan.invalidations import RelationInvalidations
from tailrace.publications.publishing.publisher import Publisher
from tailrace.types.values import Texts


@dataclass(frozen=True, slots=True)
class PlanFacts:
    """What a plugin that sends relations knows of a plan: what is published, when caches of relations are invalidated, and what
    catalogs were."""

    plan: Plan
    history: History
    invalidations: RelationInvalidations
    publisher: Publisher | None


@dataclass(frozen=True, slots=True)
class RelationUses:
    """Rows in order: of which of `relations` each is (-1: of none), of which transaction, where it stands, and of a streamed one
    the xid of its subtransaction; and by place the TRUNCATEs among them."""

    relations: tuple[Relation, ...]
    relation: NDArray[np.int32]
    ordinal: NDArray[np.int64]
    lsn: NDArray[np.int64]
    xid: NDArray[np.uint32]
    truncations: Sequence[tuple[int, Truncation]]


class RelationCallbacks:
    """What a plugin has that must know of which relation each row is, in order, as to send the relation before its first row."""

    def planned(self, facts: PlanFacts) -> None:
        """What comes next is of this plan."""

    def relation_texts(self, uses: RelationUses) -> tuple[NDArray[np.int64], Texts]:
        """Texts that describe relations, each with the place of the row before which it stands. Called once for all rows, in
        order."""
        raise NotImplementedError
