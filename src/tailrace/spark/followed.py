"""A table whose changes are read: itself, or, if it is partitioned, its leaves.

In: a river and a name. Out: `Followed`: the table as it was at the end of the range, which relations to decode for it, and which changes of a batch
are its.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.partitions import PARTITIONED, Partitions, partitions_of
from tailrace.decode import Batch
from tailrace.errors import UsageError
from tailrace.model import Lsn, Relation
from tailrace.river import River
from tailrace.transactions.fates import NEVER


@dataclass(frozen=True, slots=True)
class Followed:
    """The table by its oid, through renames and rewrites; `partitions` if it is partitioned."""

    relation: Relation
    partitions: Partitions | None

    @classmethod
    def named(cls, river: River, schema: str, name: str) -> Followed:
        """The table of that name at the end of the range (of a reversed one, at its later LSN). Raises UsageError if there is none."""
        upto = min(int(river.plan.upto_lsn), int(river.indexes[-1].next_lsn), int(NEVER) - 1)
        end = max(upto, int(river.plan.start_lsn))
        history = river.catalogs.history()
        relation = history.relation_named(schema, name, end + 1)
        if relation is None:
            raise UsageError(f'relation "{schema}.{name}" does not exist', sqlstate="42P01", context=f"at {Lsn(end)}")
        return cls(relation, partitions_of(history, relation.oid) if relation.kind == PARTITIONED else None)

    @property
    def oids(self) -> frozenset[int]:
        """The relations that have its rows."""
        return self.partitions.oids if self.partitions else frozenset({self.relation.oid})

    def held(self, batch: Batch) -> NDArray[np.bool_]:
        """Which changes of a batch are this table's."""
        if self.partitions is not None:
            return self.partitions.held(batch.relation.oid, batch.lsn, batch.ordinal)
        return np.full(len(batch), batch.relation.oid == self.relation.oid)

    def numbered(self, batch: Batch, held: NDArray[np.bool_]) -> Relation:
        """The batch's relation with its columns numbered as this table's."""
        if self.partitions is None:
            return batch.relation
        first = int(np.flatnonzero(held)[0])
        return self.partitions.numbered(batch.relation, int(batch.lsn[first]), int(batch.ordinal[first]))
