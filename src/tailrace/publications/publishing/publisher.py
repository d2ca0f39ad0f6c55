"""A `Publisher` makes of changes those that publications publish (`pgoutput_change` in `replication/pgoutput/pgoutput.c`).

In: batches as decoding gives them, and an `EntryTimeline`. Out: batches of published changes, before anything is formatted:
without actions and rows that are not published, with UPDATEs that a row filter turned into INSERTs or DELETEs, with the published
columns, and as changes of the partitioned table that a partition is published as. It does not ask which transactions are shown.

A `Publisher` travels to workers. It keeps conditions that it compiled, and no changes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.history.history import History
from tailrace.dataclass import dataclass
from tailrace.decode import DELETE, INSERT, NO_OLD, UPDATE, Batch
from tailrace.errors import UsageError
from tailrace.model import Lsn, Relation
from tailrace.plan import Plan
from tailrace.plan.events import Truncation
from tailrace.publications.publication import RowFilter
from tailrace.publications.publishing.entry_timeline import Definitions, EntryTimeline, created_at, timeline_of
from tailrace.publications.publishing.published_relation import PublishedRelation, check_publications_exist, published_relation
from tailrace.publications.publishing.relation_sync_entry import RelationSyncEntry, is_publishable
from tailrace.publications.publishing.replica_identity import replica_identity_error
from tailrace.publications.publishing.row_filter import (
    NEW,
    NONE,
    RowChanges,
    RowColumns,
    RowCondition,
    chosen,
    filtered,
    from_old,
)
from tailrace.types.style import TextStyle
from tailrace.types.values import Values
from tailrace.wal.pages import LogIdentity

if TYPE_CHECKING:
    from tailrace.publications.publishing.filter_compiler import StoredFilters

Compile = Callable[[tuple[RowFilter, ...], Relation], RowCondition]
"""Compiles the row filters of a relation, of which one must be true. The `columns` of the condition are that relation's
numbers."""

_COMMANDS = {UPDATE: "update", DELETE: "delete"}


@dataclass(slots=True)
class Publisher:
    """`stored` has the node trees of row filters in SQL. `made` says from which LSN on publications exist, where the history
    tells; `passed_over` names those that did not exist where changes were published."""

    timeline: EntryTimeline
    major: int
    compile: Compile
    stored: StoredFilters = field(default_factory=dict)
    made: Mapping[str, Lsn] = field(default_factory=dict)
    passed_over: set[str] = field(default_factory=set)
    _published: dict[tuple[int, int], PublishedRelation] = field(default_factory=dict, repr=False)
    _conditions: dict[tuple[tuple[RowFilter, ...], int], RowCondition] = field(default_factory=dict, repr=False)
    _kept: list[object] = field(default_factory=list, repr=False)

    def __getstate__(self) -> tuple[object, ...]:
        return self.timeline, self.major, self.compile, self.stored, self.made

    def __setstate__(self, state: tuple[EntryTimeline, int, Compile, StoredFilters, Mapping[str, Lsn]]) -> None:
        self.timeline, self.major, self.compile, self.stored, self.made = state
        self.passed_over, self._published, self._conditions, self._kept = set(), {}, {}, []

    def part(self, oids: Collection[int], ordinals: Collection[int]) -> Publisher:
        """As much of it as changes of these relations in these transactions need."""
        timeline = self.timeline.part(oids, ordinals)
        tables = {table for oid in oids for table in timeline.tables_of(oid)} if self.stored else ()
        stored = {each: found for each, found in self.stored.items() if (each[1].rewrite_of or each[1].oid) in tables}
        return Publisher(timeline, self.major, self.compile, stored, self.made)

    def tables_of(self, relation: Relation) -> tuple[Relation, ...]:
        """The tables, in each of their versions, that changes of a relation are published as anywhere in the log."""
        if not is_publishable(relation) and not relation.rewrite_of:
            return ()
        entries = [entry for entry in self.timeline.entries_of(relation.rewrite_of or relation.oid) if entry.actions.rows]
        if relation.rewrite_of:
            return (relation,) if any(entry.published_as is None for entry in entries) else ()
        return tuple(dict.fromkeys(entry.published_as or relation for entry in entries))

    def publish(self, batch: Batch) -> Iterator[Batch]:
        """The published changes of a batch; each batch that comes out has one `PublishedRelation`. Raises UsageError for
        publications that do not exist or contradict each other, InsufficientLogging where the replica identity does not
        suffice."""
        for entry, part in self.parts(batch):
            yield from self.publish_part(part, entry)

    def parts(self, batch: Batch) -> Iterator[tuple[RelationSyncEntry, Batch]]:
        """The changes by their entry, in their order, without those of relations that no publication may have."""
        for entry, rows in self._by_entry(batch):
            yield entry, batch if len(rows) == len(batch) else batch.take(rows)

    def publish_part(self, batch: Batch, entry: RelationSyncEntry) -> Iterator[Batch]:
        """The published changes among these, which have this entry; at most one batch. Each change alone would raise the same
        error."""
        first = batch.relations[batch.number[0]]
        self._check_found(entry, int(batch.lsn[0]))
        if not entry.actions.rows:
            return
        what = self._published_of(entry, first)
        conditions = self._all_conditions(what)
        if any(member.defined_here for member in entry.members):
            self._check_identities(batch, entry)
        shown = _published_rows(batch, what, conditions)
        if len(shown):
            yield shown if what.as_itself else replace(shown, published_as=(what.published_as,) * len(batch.relations))

    def published_at(self, relation: Relation, lsn: int, ordinal: int) -> PublishedRelation | None:
        """What is published of a relation at `lsn`; None if no action is. Raises as `publish` does."""
        if not is_publishable(relation):
            return None
        entry = self.timeline.entry_at(relation.oid, lsn, ordinal)
        self._check_found(entry, lsn)
        return self._published_of(entry, relation) if entry.actions.rows or entry.actions.truncate else None

    def truncations(self, all_of: Iterable[Truncation]) -> Iterator[Truncation]:
        """The TRUNCATEs that are published, with the relations that are."""
        for truncation in all_of:
            if relations := self.truncated(truncation):
                yield replace(truncation, relations=relations)

    def truncated(self, truncation: Truncation) -> tuple[Relation, ...]:
        """The relations of a TRUNCATE that are published. A partition that is published as another table is none; the other is
        one if the TRUNCATE named it."""
        found: list[Relation] = []
        for relation in truncation.relations:
            what = self.published_at(relation, truncation.lsn, truncation.ordinal)
            if what is not None and what.actions.truncate and what.as_itself:
                found.append(relation)
        return tuple(found)

    def rewritten(self, batch: Batch) -> Iterator[Batch]:
        """Of rows that ALTER TABLE wrote anew, those that an initial copy would have. A table that is published as another, or
        without one of the actions, has none: a mirror of it must keep the rows that it has."""
        for entry, rows in self.timeline.parts(batch.relation.rewrite_of, batch.lsn, batch.ordinal):
            self._check_found(entry, int(batch.lsn[rows[0]]))
            actions = entry.actions
            if entry.published_as is not None or not (actions.insert and actions.update and actions.delete):
                continue
            what = self._published_of(entry, batch.relation)
            part = batch.take(rows)
            place = _places(part, what)
            condition = None if what.copy is None else self._condition(what.copy, what.published_as)
            if condition is not None and condition.error is not None:
                raise condition.error
            kind = filtered(_changes(part, place), {INSERT: condition})
            if (kind != 0).any():
                yield _with_columns(part.take(np.flatnonzero(kind != 0)), what, place)

    # -- by entry ----------------------------------------------------------------------------------------------------------------

    def _by_entry(self, batch: Batch) -> Iterator[tuple[RelationSyncEntry, NDArray[np.int64]]]:
        lsn, ordinal = batch.lsn, batch.ordinal
        found: dict[int, tuple[RelationSyncEntry, list[NDArray[np.int64]]]] = {}
        for number, rows in batch.rows_by_relation:
            relation = batch.relations[number]
            if is_publishable(relation):
                every = len(rows) == len(lsn)
                for entry, mine in self.timeline.parts(
                    relation.oid, lsn if every else lsn[rows], ordinal if every else ordinal[rows]
                ):
                    found.setdefault(id(entry), (entry, []))[1].append(mine if every else rows[mine])
        for entry, parts in found.values():
            yield entry, parts[0] if len(parts) == 1 else np.sort(np.concatenate(parts))

    def _check_found(self, entry: RelationSyncEntry, lsn: int) -> None:
        check_publications_exist(entry, self.major, lsn, self.made)
        self.passed_over.update(entry.missing)

    def _published_of(self, entry: RelationSyncEntry, relation: Relation) -> PublishedRelation:
        key = id(entry), id(relation)
        if key not in self._published:
            self._kept += [entry, relation]  # so that nobody else has their ids
            self._published[key] = published_relation(entry, relation, self.major)
        return self._published[key]

    def _check_identities(self, batch: Batch, entry: RelationSyncEntry) -> None:
        """Raise for the first UPDATE or DELETE that the server would have refused, had it known of the publication."""
        for kind, command in _COMMANDS.items():
            mine = np.flatnonzero(batch.kind == kind)
            numbers, first = np.unique(batch.number[mine], return_index=True)
            for number, row in zip(numbers.tolist(), mine[first].tolist(), strict=True):
                error = replica_identity_error(entry, batch.relations[number], command, self.major, self._columns_of)
                if error is not None:
                    error.lsn = Lsn(int(batch.lsn[row]))
                    raise error

    def _columns_of(self, row_filter: RowFilter, relation: Relation) -> Sequence[int]:
        return self._condition((row_filter,), relation).columns

    def _condition(self, row_filters: tuple[RowFilter, ...], relation: Relation) -> RowCondition:
        key = row_filters, id(relation)
        if key not in self._conditions:
            self._kept.append(relation)
            self._conditions[key] = self.compile(tuple(self._stored(each, relation) for each in row_filters), relation)
        return self._conditions[key]

    def _stored(self, row_filter: RowFilter, relation: Relation) -> RowFilter:
        found = self.stored.get((row_filter, relation), row_filter)
        if isinstance(found, UsageError):
            raise found
        return found

    def _all_conditions(self, what: PublishedRelation) -> dict[int, RowCondition | None]:
        """The condition of each action. All are compiled before the first change, so the error of one is raised whatever the
        change is."""
        filters = {INSERT: what.insert, UPDATE: what.update, DELETE: what.delete}
        conditions = {
            kind: None if found is None else self._condition(found, what.published_as) for kind, found in filters.items()
        }
        for condition in conditions.values():
            if condition is not None and condition.error is not None:
                raise condition.error
        return conditions


def publisher_of(
    plan: Plan,
    history: History,
    names: Sequence[str],
    style: TextStyle,
    definitions: Definitions = (),
    log: LogIdentity | None = None,
) -> Publisher:
    """Publishes the changes of a plan by publications of these names. Row filters are evaluated with the settings of `style`, and
    what they ask of the log is said of `log`."""
    # Expressions take long to load; what is decoded without publications needs none.
    from tailrace.publications.publishing.database_facts import facts_of  # noqa: PLC0415
    from tailrace.publications.publishing.filter_compiler import FilterCompiler, stored_filters  # noqa: PLC0415

    compiler = FilterCompiler(history.major, facts_of(history, style, log))
    timeline = timeline_of(plan, history, names, definitions)
    stored = stored_filters(compiler, timeline.filters_of(plan.relations)) if definitions else {}
    return Publisher(timeline, history.major, compiler, stored, created_at(history, names, definitions))


def _published_rows(batch: Batch, what: PublishedRelation, conditions: dict[int, RowCondition | None]) -> Batch:
    """The published changes of a batch."""
    is_published = np.array([False, what.actions.insert, what.actions.update, what.actions.delete])[batch.kind]
    # A DELETE without an old tuple has nothing to send.
    is_published &= (batch.kind != DELETE) | batch.has_old
    kept = np.flatnonzero(is_published)
    batch = batch if len(kept) == len(batch) else batch.take(kept)
    place = _places(batch, what)
    kind = filtered(_changes(batch, place), conditions)
    batch = _transformed(batch, kind)
    passed = np.flatnonzero(kind != 0)
    if len(passed) < len(batch):
        batch = batch.take(passed)
    return _with_columns(batch, what, place)


def _places(batch: Batch, what: PublishedRelation) -> dict[int, int]:
    """Where each column of the published table stands in the batch, by its attribute number. A partition's columns are matched by
    name."""
    if what.as_itself:
        return {column.number: place for place, column in enumerate(batch.columns)}
    named = {column.name: place for place, column in enumerate(batch.columns)}
    return {column.number: named[column.name] for column in what.published_as.live_columns if column.name in named}


def _changes(batch: Batch, place: dict[int, int]) -> RowChanges:
    old = batch.old
    return RowChanges(
        kind=batch.kind,
        old_kind=batch.old_kind,
        lsn=batch.lsn,
        new=RowColumns(lambda number: batch.new[place[number]]),
        old=None if old is None else RowColumns(lambda number: old[place[number]]),
    )


def _transformed(batch: Batch, kind: NDArray[np.uint8]) -> Batch:
    """The batch with these kinds. An UPDATE that became an INSERT loses its old row, whose values fill in what the record left
    out of the new one; an UPDATE that became a DELETE loses its new row."""
    inserted, deleted = (batch.kind == UPDATE) & (kind == INSERT), (batch.kind == UPDATE) & (kind == DELETE)
    new, old, old_kind = batch.new, batch.old, batch.old_kind
    if inserted.any():
        assert old is not None
        new = [_filled(mine, other, inserted) for mine, other in zip(new, old, strict=True)]
        old = [chosen(values, None, np.where(inserted, NONE, NEW)) for values in old]
        old_kind = np.where(inserted, NO_OLD, old_kind).astype(np.uint8)
    if deleted.any():
        new = [chosen(values, None, np.where(deleted, NONE, NEW)) for values in new]
    return replace(batch, kind=kind, new=new, old=old, old_kind=old_kind)


def _filled(new: Values, old: Values, which: NDArray[np.bool_]) -> Values:
    """The new values, with those of the old row in their place where `which` says so and they are unchanged."""
    if new.unchanged is None or not (new.unchanged & which).any():
        return new
    return from_old(new, replace(old, valid=old.valid & which))


def _with_columns(batch: Batch, what: PublishedRelation, place: dict[int, int]) -> Batch:
    places = [place[column.number] for column in what.columns]
    return replace(
        batch,
        columns=what.columns,
        new=[batch.new[each] for each in places],
        old=None if batch.old is None else [batch.old[each] for each in places],
    )
