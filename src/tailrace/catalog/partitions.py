"""The changes of a partitioned table are those of its leaves: which table was a leaf of it, when, and what the leaf's columns are to it.

In: a history and the partitioned table as somebody asks for it. Out: `Partitions`, small, which a worker takes along: for rows of a leaf, which of
them were the partitioned table's as the change saw it (pg_inherits; a table may come and go, and a transaction sees what it did itself), and the
leaf's version with its columns numbered as the partitioned table's. PostgreSQL keeps the names alike while a leaf is attached, the numbers not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.history import History
from tailrace.catalog.rows import CatalogRows
from tailrace.model import Relation

PARTITIONED = "p"
"""pg_class.relkind of a table that has no rows of its own."""
_NOT_THERE = -1


@dataclass(frozen=True, slots=True)
class Partitions:
    """`links` are the rows of pg_inherits below the table, of all times; `columns` those of pg_attribute about it."""

    oid: int
    links: CatalogRows
    columns: CatalogRows

    @property
    def oids(self) -> frozenset[int]:
        """Every table that ever was below it."""
        return frozenset(self.links.columns["inhrelid"].tolist())

    def held(self, oid: int, lsn: NDArray[np.int64], ordinal: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which changes, each at an `lsn` in a transaction, found the table `oid` below the partitioned one, however deep."""
        found = np.zeros(len(lsn), np.bool_)
        links = self.links
        for link in np.flatnonzero(links.columns["inhrelid"] == oid).tolist():
            begin = np.where(ordinal == links.made_by[link], links.added[link], links.begin[link])
            end = np.where(ordinal == links.unmade_by[link], links.deleted[link], links.end[link])
            seen = (begin < lsn) & (end >= lsn)
            above = int(links.columns["inhparent"][link])
            found |= seen if above == self.oid or not seen.any() else seen & self.held(above, lsn, ordinal)
        return found

    def numbered(self, leaf: Relation, lsn: int, ordinal: int) -> Relation:
        """`leaf`, as a change saw it, with the numbers that its columns have in the partitioned table."""
        rows = self.columns.seen(np.arange(len(self.columns)), lsn, ordinal)
        named = dict(
            zip(self.columns.names["attname"][rows].tolist(), self.columns.columns["attnum"][rows].tolist(), strict=True)
        )
        to = {column.number: named.get(column.name, _NOT_THERE) for column in leaf.live_columns}
        columns = tuple(replace(column, number=to.get(column.number, _NOT_THERE)) for column in leaf.columns)
        return replace(leaf, columns=columns, identity=tuple(to[number] for number in leaf.identity))


def partitions_of(history: History, oid: int) -> Partitions:
    """All that was ever below the partitioned table `oid`."""
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
        oid, inherits.rows.taken(np.array(rows, np.int64)), attributes.rows.taken(attributes.where("attrelid", oid))
    )
