"""A table whose changes are read: itself, or, if it is partitioned, its leaves.

In: a river and a name. Out: `Followed`: the table as it was at the end of the range, which relations to decode for it, and which changes of a batch
are its.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.identifiers import read_table_name
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
    def named(cls, river: River, table: str) -> Followed:
        """The table of that name at the end of the range (of a reversed one, at its later LSN). Raises UsageError if there is none."""
        schema, name = read_table_name(table)
        upto = min(int(river.plan.upto_lsn), int(river.indexes[-1].next_lsn), int(NEVER) - 1)
        end = max(upto, int(river.plan.start_lsn))
        history = river.catalogs.history()
        relation = history.relation_named(schema, name, end + 1)
        if relation is None:
            raise UsageError(f'relation "{table}" does not exist', sqlstate="42P01", context=f"at {Lsn(end)}")
        return cls(relation, partitions_of(history, relation.oid) if relation.kind == PARTITIONED else None)

    @property
    def oids(self) -> frozenset[int]:
        """The relations that have its rows."""
        return self.partitions.oids if self.partitions else frozenset({self.relation.oid})

    def changes_in(self, batch: Batch) -> tuple[Batch, NDArray[np.bool_]] | None:
        """The batch as one of this table's, and which of its changes are; None if none is."""
        if batch.relation.oid not in self.oids:
            return None
        if self.partitions is None:
            return batch, np.ones(len(batch), np.bool_)
        mine = self.partitions.held(batch.relation.oid, batch.lsn, batch.ordinal)
        if not mine.any():
            return None
        first = int(np.flatnonzero(mine)[0])
        leaf = self.partitions.numbered(batch.relation, int(batch.lsn[first]), int(batch.ordinal[first]))
        return replace(batch, relation=leaf), mine
