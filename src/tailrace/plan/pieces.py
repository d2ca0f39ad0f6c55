"""A `Piece` is a stretch with its plan, for the changes of some tables: the unit of work that an outlet sends to its workers.

In: a plan and the oids of relations. Out: `Piece`s, which travel to workers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tailrace.dataclass import dataclass
from tailrace.model import Relation
from tailrace.plan import Plan
from tailrace.plan.stretch_plan import StretchPlan
from tailrace.transactions.commit_or_abort import Transactions


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch, with the facts of the transactions in it: `facts[i]` belongs to the one whose ordinal in the plan is `ordinals[i]`. Small, for it
    travels to a worker."""

    plan: StretchPlan
    ordinals: NDArray[np.int64]
    facts: Transactions

    @property
    def relations(self) -> tuple[Relation, ...]:
        """Whose changes come out of it."""
        return self.plan.relations


def pieces_of(plan: Plan, oids: frozenset[int], since: int = 0) -> list[Piece]:
    """What to decode for the changes of these relations that commit at or after `since`."""
    pieces = []
    for stretch in plan.restricted_to(plan.transactions.commit_lsn >= since):
        if any(relation.oid in oids for relation in stretch.relations):
            mine = np.unique(stretch.ordinal)
            pieces.append(Piece(stretch, mine, plan.transactions.subset(mine)))
    return pieces
