"""The layout *mirror*: a table is as the source's was where the feed ends."""

from __future__ import annotations

from collections.abc import Sequence

from tailrace.dataclass import dataclass
from tailrace.lake.files.workers import HERE, Workers
from tailrace.lake.layouts.layout import is_defined_anew
from tailrace.lake.staging import Staged
from tailrace.lake.table_change import BroughtUp, bring_up, replaced_at
from tailrace.lake.target_tables import TargetTable
from tailrace.model import Column
from tailrace.storage.store import Store


@dataclass(frozen=True, slots=True)
class MirrorLayout:
    name: str = "mirror"
    reads_rewrites: bool = True
    fills_missing: bool = True
    keeps_dropped: bool = False
    follows_columns: bool = False
    in_place: bool = False
    is_net: bool = True
    in_order: bool = False
    has_rows_alone: bool = True

    def shaped(self, target: TargetTable, lost: Sequence[Column]) -> TargetTable:
        """What was dropped is not in the source any more."""
        return target

    def bring_up(
        self, target: TargetTable, store: Store, staged: Staged, *, deletion_vectors: bool, workers: Workers = HERE
    ) -> BroughtUp | None:
        staged = staged if target.dropped is None else staged.seen_by_others(target.dropped)
        replaced = replaced_at(target, staged)
        is_said = target.dropped is not None or target.quarantine is not None
        if not (staged.files or replaced or is_said or is_defined_anew(target)):
            return None
        return bring_up(target, store, staged.files, replaced, deletion_vectors=deletion_vectors, workers=workers)
