"""A table whose changes are read: itself, or, if it is partitioned, its leaves.

In: a feed and a name. Out: `ChangedTable`: the table as it was at the end of the range, which relations to decode for
it, and which changes of a batch are its.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.history.comments import comments_at
from tailrace.catalog.history.partitions import PARTITIONED, Partitions, partitions_of
from tailrace.dataclass import dataclass
from tailrace.decode import Batch
from tailrace.errors import UsageError
from tailrace.model import Lsn, Relation
from tailrace.pipeline import Pipeline
from tailrace.pipeline.log_feed import LogFeed


@dataclass(frozen=True, slots=True)
class ChangedTable:
    """The table by its oid, through renames and rewrites, with the columns that the feed shows; `partitions` if it is partitioned, and its
    changes are not published as its own."""

    relation: Relation
    partitions: Partitions | None

    @classmethod
    def named(cls, feed: Pipeline | LogFeed, schema: str, name: str) -> ChangedTable:
        """The table of that name at the end of the range (of a reversed one, at its later LSN). Raises UsageError if there is none."""
        end = max(int(feed.span.stop), int(feed.span.start))
        history = feed.history
        relation = history.relation_named(schema, name, end + 1)
        if relation is None:
            raise UsageError(f'relation "{schema}.{name}" does not exist', sqlstate="42P01", context=f"at {Lsn(end)}")
        shown = feed.shown(relation)
        if shown is None:
            raise UsageError(
                f'relation "{schema}.{name}" is not part of the publication', sqlstate="42704", context=f"at {Lsn(end)}"
            )
        return cls(shown, partitions_of(history, relation.oid) if has_partitions(shown, feed) else None)

    def comments(self, feed: Pipeline | LogFeed) -> dict[str, str]:
        """On its columns, by name, as they are at the end of the range."""
        found = comments_at(feed.history, self.relation.oid, max(int(feed.span.stop), int(feed.span.start)) + 1)
        said = dict(found.columns) if found is not None else {}
        return {column.name: said[column.number] for column in self.relation.live_columns if column.number in said}

    def within(self, window: Pipeline) -> ChangedTable:
        """The same, with what `window`, whose transactions have ordinals of their own, tells of its partitions."""
        if self.partitions is None:
            return self
        return replace(self, partitions=partitions_of(window.history, self.relation.oid))

    @property
    def oids(self) -> frozenset[int]:
        """The relations that have its rows."""
        return self.partitions.oids if self.partitions else frozenset({self.relation.oid})

    def held(self, batch: Batch, ordinals: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which changes of a batch, whose transactions have these ordinals in the plan, are this table's."""
        if self.partitions is not None:
            return self.partitions.held(batch.relation.oid, batch.lsn, ordinals)
        return np.full(len(batch), batch.relation.oid == self.relation.oid)

    def numbered(self, batch: Batch, ordinals: NDArray[np.int64], held: NDArray[np.bool_]) -> Relation:
        """The batch's relation with its columns numbered as this table's."""
        if self.partitions is None:
            return batch.relation
        first = int(np.flatnonzero(held)[0])
        return self.partitions.numbered(batch.relation, int(batch.lsn[first]), int(ordinals[first]))


def has_partitions(relation: Relation, feed: Pipeline | LogFeed) -> bool:
    """Whether its changes are told of its partitions. What is published of a partitioned table is told of the table itself."""
    return relation.kind == PARTITIONED and not feed.span.publications
