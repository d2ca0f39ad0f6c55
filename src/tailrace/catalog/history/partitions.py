"""Which tables were partitions of a partitioned table, when, and which of its columns theirs are. Its changes are those of its partitions.

In: a history and the oid of the partitioned table. Out: `Partitions`, small enough to be sent to workers. It tells which changes of a partition
were made while the table was attached, as the change's transaction saw it (pg_inherits), and gives the partition's relation with its columns numbered
as the partitioned table's: PostgreSQL has a partition's columns by the same names, and not by the same numbers.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.history.history import History
from tailrace.catalog.rows.catalog_rows import CatalogRows
from tailrace.dataclass import dataclass
from tailrace.model import Relation

PARTITIONED = "p"
"""pg_class.relkind of a table that has no rows of its own."""
_NOT_THERE = -1


@dataclass(frozen=True, slots=True)
class Partitions:
    """The partitioned table `oid`: `links` are the rows of pg_inherits, of all times, that attach something below it, however deep; `columns` its
    rows of pg_attribute."""

    oid: int
    links: CatalogRows
    columns: CatalogRows

    @property
    def oids(self) -> frozenset[int]:
        """Every table that ever was below it."""
        return frozenset(self.links.columns["inhrelid"].tolist())

    def held(self, oid: int, lsn: NDArray[np.int64], ordinal: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether table `oid` was attached below the partitioned one, however deep, as a change at each `lsn` in transaction `ordinal` saw it."""
        attached = np.zeros(len(lsn), np.bool_)
        links = self.links
        for link in np.flatnonzero(links.columns["inhrelid"] == oid).tolist():
            begin = np.where(ordinal == links.made_by[link], links.added[link], links.begin[link])
            end = np.where(ordinal == links.unmade_by[link], links.deleted[link], links.end[link])
            seen = (begin < lsn) & (end >= lsn)
            above = int(links.columns["inhparent"][link])
            attached |= seen if above == self.oid or not seen.any() else seen & self.held(above, lsn, ordinal)
        return attached

    def numbered(self, leaf: Relation, lsn: int, ordinal: int) -> Relation:
        """The partition `leaf`, as a change at `lsn` in transaction `ordinal` saw it, with the numbers that its columns have in the partitioned
        table."""
        rows = self.columns.seen(np.arange(len(self.columns)), lsn, ordinal)
        named = dict(
            zip(self.columns.names["attname"][rows].tolist(), self.columns.columns["attnum"][rows].tolist(), strict=True)
        )
        to = {column.number: named.get(column.name, _NOT_THERE) for column in leaf.live_columns}
        columns = tuple(replace(column, number=to.get(column.number, _NOT_THERE)) for column in leaf.columns)
        return replace(leaf, columns=columns, identity=tuple(to[number] for number in leaf.identity))


def partitions_of(history: History, oid: int) -> Partitions:
    """Every table that was ever attached below the partitioned table `oid`."""
    inherits, attributes = history.table("pg_inherits"), history.table("pg_attribute")
    rows: list[int] = []
    above, seen = [oid], {oid}
    while above:
        mine = inherits.where("inhparent", above.pop())
        rows += mine.tolist()
        below = set(inherits.of("inhrelid", mine).tolist()) - seen
        seen |= below
        above += below
    return Partitions(
        oid=oid,
        links=inherits.rows.taken(np.array(rows, np.int64)),
        columns=attributes.rows.taken(attributes.where("attrelid", oid)),
    )
