"""What becomes of changes that cannot be applied to their table: the run stops, or they go into quarantine and the others on.

In: a window's tables, and what workers staged of them. Out: what is to be applied of a table, and which batches its commit is to name; or the changes
of a whole table, which stay in quarantine until it can go on.

    a value that the table's column cannot hold        the change goes into quarantine, and so does what comes behind it of the same row, since a
                                                       replay that is older than what is there would undo it; the rest is applied
    the table itself cannot go on: rows that cannot    the table is *held*: it stays where it is, and all that the log has of it from there on goes
    be told apart, a type that does not hold old rows  into quarantine

A table that is held goes on by itself where all its rows are replaced, by TRUNCATE or by ALTER TABLE: what was before counts no more in a mirror.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import field, replace
from itertools import chain

import numpy as np
import pyarrow as pa

from tailrace.apply.following import KeyReader, followers
from tailrace.catalog.names.qualified_names import write_table_name
from tailrace.changes import ORDER, change_schema
from tailrace.dataclass import dataclass
from tailrace.errors import InsufficientLogging, TailraceError, UsageError
from tailrace.feed import FeedTable, IntoQuarantine, OrderKey, WantedTable
from tailrace.lake.catalog import HeldTable, LakeCatalog, LakeTable
from tailrace.lake.files.changes_file import read_changes_file
from tailrace.lake.layouts.layout import LakeLayout
from tailrace.lake.quarantine import NamedBatches, Quarantine, held_batch, merged_names
from tailrace.lake.staging import FileWritten, Staged
from tailrace.lake.target_tables import TableErrors, TargetTable
from tailrace.model import Lsn
from tailrace.quarantine.definitions import write_relation
from tailrace.quarantine.quarantined_rows import QUARANTINE_SCHEMA, Reason, truncation_row
from tailrace.storage.store import Store
from tailrace.types.registry import ArrowStyle

STOP, QUARANTINE = "stop", "quarantine"
POLICIES = (STOP, QUARANTINE)
_BEHIND = Reason("an earlier change of the same row is in quarantine", "55000")
_HOLDING = frozenset({"42701", "42804", "42809", "42P16", "55006"})
"""Names that are one to the lake, types that do not hold what is there, what has no changes or no columns, rows that were replaced."""
_REPLACED = "all rows of the table were replaced while changes of it were in quarantine"


@dataclass(frozen=True, slots=True)
class QuarantineNews:
    """So many changes of a table went into quarantine, and why the first did. One that is held was not before if it `begins` to be."""

    table: str
    changes: int
    reason: str
    is_held: bool = False
    begins: bool = False


StageAgain = Callable[[Mapping[int, WantedTable], Store], Mapping[int, Staged]]
"""Decodes the changes of these tables once more."""


def check_policy(on_error: str) -> str:
    """Raises UsageError for what is none."""
    if on_error not in POLICIES:
        raise UsageError(
            f'invalid value for parameter "on_error": "{on_error}"', hint=f"Available values: {', '.join(POLICIES)}."
        )
    return on_error


def holds(error: TailraceError) -> bool:
    """Whether a table with this error can wait while the others go on, and it is not that something is away or damaged."""
    return isinstance(error, InsufficientLogging) or (isinstance(error, UsageError) and error.sqlstate in _HOLDING)


@dataclass(frozen=True, slots=True)
class TroubleInWindow:
    """`quarantine` is the lake's; `held` are the tables, by oid, that were held before this window."""

    quarantine: Quarantine
    layout: LakeLayout
    on_error: str
    held: Mapping[int, HeldTable]
    stage: StageAgain
    news: list[QuarantineNews] = field(default_factory=list)

    def wanted(self, wanted: WantedTable) -> WantedTable:
        """What a feed is asked for."""
        return replace(wanted, quarantine=IntoQuarantine(refused=True)) if self.on_error == QUARANTINE else wanted

    # -- some rows ---------------------------------------------------------------------------------------------------------------------

    def settled(self, target: TargetTable, staged: Staged, files: Store) -> tuple[TargetTable, Staged]:
        """The same with what is to be applied, once the rest is in quarantine. Raises the error of a table that is to be held."""
        named = NamedBatches.of(target.found.open()) if target.found.is_there else NamedBatches()
        oid, replaced = target.relation.oid, _replaced_at(target, staged)
        if (held := self.held.get(oid)) is not None and replaced is None:
            raise InsufficientLogging(held.message, sqlstate=held.sqlstate)
        if not (staged.quarantined or named.names):
            self.quarantine.is_touched |= held is not None
            return target, staged
        counts_from = replaced if self.layout.is_net else None
        quarantined = self._quarantined(staged, files, counts_from)
        if replaced is not None and self.layout.in_order:
            _check_apart(named, staged, quarantined, replaced)
        names = () if counts_from is not None else named.names
        if self.layout.is_net or self.layout.in_order:
            earlier = self.quarantine.in_order(oid, set(names))
            places = self._behind(target, staged, pa.concat_tables([earlier, quarantined]), files, counts_from)
            if places:
                asked = IntoQuarantine(
                    self.on_error == QUARANTINE, places=places, reason=_BEHIND.message, sqlstate=_BEHIND.sqlstate
                )
                wanted = replace(target.wanted(fill_missing=self.layout.fills_missing), quarantine=asked)
                staged = self.stage({oid: wanted}, files)[oid]
                quarantined = self._quarantined(staged, files, counts_from)
        version = target.found.version + 1
        if len(quarantined):
            names = (*names, self.quarantine.prepare(oid, version, quarantined))
            first = quarantined.sort_by([(name, "ascending") for name in ORDER])["reason"][0].as_py()
            self.news.append(QuarantineNews(target.name, len(quarantined), first))
        names = merged_names(self.quarantine, oid, version, names)
        self.quarantine.is_touched |= names != named.names or held is not None
        said = NamedBatches(names, target.relation).text
        return replace(target, quarantine=said if names or named.names else None), staged

    def _quarantined(self, staged: Staged, files: Store, after: OrderKey | None) -> pa.Table:
        """The rows that go into quarantine; those from before all rows were replaced count no more."""
        parts = list(_read(staged.quarantined, files))
        files.delete([file.path for file in staged.quarantined])
        quarantined = pa.concat_tables(parts) if parts else QUARANTINE_SCHEMA.empty_table()
        if after is None:
            return quarantined
        return quarantined.filter(pa.array([place > after for place in _places(quarantined)], pa.bool_()))

    def _behind(
        self, target: TargetTable, staged: Staged, quarantined: pa.Table, files: Store, after: OrderKey | None
    ) -> frozenset[OrderKey]:
        """Where changes stand that come behind one of the same row that is in quarantine."""
        if not len(quarantined) or not staged.files:
            return frozenset()
        reader = KeyReader(target.relation, target.style)
        schema = change_schema(target.relation, style=target.style)
        columns = ["commit_lsn", "lsn", "sequence", "new", "old"]

        def tables() -> Iterable[pa.Table]:
            for file in staged.files:
                yield read_changes_file(files, file.path, schema, columns)

        others = reader.of_changes(tables())
        follow = followers(reader.of_quarantined(quarantined), others, is_keyed=reader.is_keyed)
        places = (others.place(int(row)) for row in np.flatnonzero(follow))
        return frozenset(place for place in places if after is None or place > after)

    # -- a whole table -------------------------------------------------------------------------------------------------------------------

    def that_go_on(self, tables: Mapping[int, FeedTable], since: Lsn) -> dict[int, FeedTable]:
        """Without those that are held, unless all their rows may have been replaced."""
        return {oid: each for oid, each in tables.items() if oid not in self.held or self._begins_anew(each, since)}

    def _begins_anew(self, each: FeedTable, since: Lsn) -> bool:
        return self.layout.is_net and (bool(each.rewrites) or any(at.commit_lsn >= since for at in each.truncations))

    def with_held(
        self, catalog: LakeCatalog, tables: Mapping[int, FeedTable], errors: TableErrors, stop: Lsn,
        held_from: Callable[[LakeTable], Lsn | None], staging: Callable[[], AbstractContextManager[Store]],
    ) -> LakeCatalog:  # fmt: skip
        """The catalog with the tables that are held where the window ends, once all that it has of them is in quarantine. `held_from` says where a
        table stays. Raises the error of a table that is not to be held."""
        held = {oid: table.held for oid, table in catalog.tables.items() if table.held is not None and oid in tables}
        for oid, error in errors.by_oid.items():
            if oid not in held and self.on_error == QUARANTINE and holds(error):
                held[oid] = HeldTable(catalog.complete, error.message, error.sqlstate, "")
        waits = {id(error) for oid, error in errors.by_oid.items() if oid in held and holds(error)}
        for _, error in errors.of_tables:
            if id(error) not in waits:
                raise error
        for oid, why in held.items():
            each, table = tables[oid], catalog.tables[oid]
            since = max(catalog.complete, held_from(table) or catalog.complete)
            with staging() as files:
                self._hold(each, since, held_batch(oid, why.since), Reason(why.message, why.sqlstate), files)
            now = replace(why, definition=write_relation(each.relation))
            catalog = catalog.with_table(replace(table.named_as(each.relation), held=now, changed=stop))
        return catalog

    def _hold(self, each: FeedTable, since: Lsn, batch: str, reason: Reason, files: Store) -> None:
        """Put all changes that the window has of a table into quarantine, from `since` on. Raises UsageError where the feed gives none for it."""
        relation = each.relation
        asked = IntoQuarantine(everything=True, reason=reason.message, sqlstate=reason.sqlstate)
        wanted = WantedTable(relation, ArrowStyle(), int(since), quarantine=asked)
        staged = self.stage({relation.oid: wanted}, files)[relation.oid]
        if staged.files or staged.refused:
            raise UsageError(
                "changes of this feed cannot be put into quarantine", hint="Set on_error=stop.", context=f"table {relation}"
            )
        truncations = [
            truncation_row(relation, (int(at.commit_lsn), int(at.lsn)), at.committed, reason)
            for at in each.truncations
            if at.commit_lsn >= since
        ]
        self.quarantine.add_of_held(batch, relation.oid, chain(_read(staged.quarantined, files), truncations))
        rows = sum(file.rows for file in staged.quarantined) + len(truncations)
        name = write_table_name(relation.schema, relation.name)
        self.news.append(QuarantineNews(name, rows, reason.message, is_held=True, begins=relation.oid not in self.held))
        files.delete([file.path for file in staged.quarantined])


def quarantine_copied(
    quarantine: Quarantine, target: TargetTable, quarantined: Sequence[FileWritten], files: Store
) -> tuple[TargetTable, QuarantineNews]:
    """Put rows of the copy of a table into quarantine that its commit, which makes it, is to name; the table with what it is to say."""
    rows = pa.concat_tables(_read(quarantined, files))
    names = (quarantine.prepare(target.relation.oid, target.found.version + 1, rows),)
    reason = rows["reason"][0].as_py()
    return replace(target, quarantine=NamedBatches(names, target.relation).text), QuarantineNews(target.name, len(rows), reason)


def _check_apart(named: NamedBatches, staged: Staged, quarantined: pa.Table, replaced: OrderKey) -> None:
    """Raise UsageError where changes in quarantine come before all rows were replaced: what replaced them is to be told behind them."""
    if (
        named.names
        or any(file.rewrite for file in staged.quarantined)
        or any(place <= replaced for place in _places(quarantined))
    ):
        raise UsageError(_REPLACED, hint="tailrace lake replay", sqlstate="55006")


def _places(rows: pa.Table) -> list[OrderKey]:
    return list(zip(*(rows[name].to_pylist() for name in ORDER), strict=True))


def _replaced_at(target: TargetTable, staged: Staged) -> OrderKey | None:
    """Where all rows of the table were replaced last; None if they were not."""
    truncations = [(int(at.commit_lsn), int(at.lsn), 0) for at in target.truncations if at.commit_lsn >= target.span.start]
    return max([*truncations, *staged.rewrites], default=None)


def _read(quarantined: Iterable[FileWritten], files: Store) -> Iterable[pa.Table]:
    for file in quarantined:
        yield read_changes_file(files, file.path, QUARANTINE_SCHEMA)
