"""The door between a lake and what its tables are to hold.

In: a table to bring up, and what workers wrote of its changes. Out: one commit, and what was done. A lake has one layout: *mirror*, tables equal to
the source's; *changes*, each change as a row; *history*, each version of a row as a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tailrace.lake.files.workers import HERE, Workers
from tailrace.lake.position import columns_of
from tailrace.lake.staging import Staged
from tailrace.lake.table_change import BroughtUp
from tailrace.lake.target_tables import TargetTable
from tailrace.model import Column
from tailrace.storage.store import Store


class LakeLayout(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def reads_rewrites(self) -> bool:
        """Whether the rows are wanted that ALTER TABLE wrote anew."""
        ...

    @property
    def fills_missing(self) -> bool:
        """Whether rows that are older than a column are to have in it what ADD COLUMN gave them."""
        ...

    @property
    def keeps_dropped(self) -> bool:
        """Whether a table is made that is dropped already where the feed ends."""
        ...

    @property
    def follows_columns(self) -> bool:
        """Whether a table has its new columns at once, though none of its rows has changed."""
        ...

    @property
    def in_place(self) -> bool:
        """Whether what workers write becomes the table's files, and so is written to where they lie."""
        ...

    @property
    def is_net(self) -> bool:
        """Whether a table holds what its changes come to, so that of what lies before all its rows were replaced nothing counts."""
        ...

    @property
    def in_order(self) -> bool:
        """Whether a table holds what its changes were one after another, so that none is told without those before it."""
        ...

    @property
    def has_rows_alone(self) -> bool:
        """Whether a table has the columns of the source's and no others, so that rows that are copied are its rows as they come."""
        ...

    def shaped(self, target: TargetTable, lost: Sequence[Column]) -> TargetTable:
        """The target with the columns that its changes are wanted in; `lost` are those that were dropped in the span."""
        ...

    def bring_up(
        self, target: TargetTable, store: Store, staged: Staged, *, deletion_vectors: bool, workers: Workers = HERE
    ) -> BroughtUp | None:
        """Commit to the table what was staged in `store` for it; None if there is nothing to do. A table that is made has `deletion_vectors` if that
        says so; what is large is done by `workers`."""
        ...


def is_defined_anew(target: TargetTable) -> bool:
    """Whether the table has another name, other comments or other columns than it had."""
    position, relation = target.position, target.relation
    return position is not None and (is_told_anew(target) or position.columns != columns_of(relation, target.style))


def is_told_anew(target: TargetTable) -> bool:
    """Whether the table has another name, or other comments, than it had."""
    position, relation = target.position, target.relation
    is_renamed = position is not None and (position.schema, position.name) != (relation.schema, relation.name)
    return is_renamed or (position is not None and target.commented)
