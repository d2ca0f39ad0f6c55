"""Tables that came to be published while the log was followed: what was written to them before is in no change that was published.

In: catalogs, and publications. Out: `JoinedTable`s. It does not count that a table was not published where it was not there, nor while the
transaction that made it had written nothing to it. So a table that is made while all are published, or as a partition, has joined nothing.

A table that was published joins once more where more of it is published than was: it was taken out of a publication in between, was published as a
part of another table, for other actions, by another row filter, or without columns that its publications have now. One that is published as a whole
does not join with each partition that comes or goes: those are `MovedPartition`s.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field

import numpy as np

from tailrace.catalog.history.change_points import Committed, change_points_of
from tailrace.catalog.history.history import History
from tailrace.dataclass import dataclass
from tailrace.model import FIRST_NORMAL_OID, Lsn, Relation
from tailrace.publications.publication import NO_GENERATED_COLUMNS
from tailrace.publications.publishing.entry_timeline import Definitions, SyncEntryBuilder
from tailrace.publications.publishing.relation_sync_entry import RelationSyncEntry
from tailrace.publications.source_publications import SourcePublications
from tailrace.transactions.commit_or_abort import NEVER

_PUBLISHED_BY = ("pg_publication", "pg_publication_rel", "pg_publication_namespace")
Stages = Sequence[tuple[int, SyncEntryBuilder]]
"""What is defined in a state location, by the LSN from which on it holds."""
Wrote = Callable[[int, int, int, int], bool]
"""Whether a table (by oid) has rows of a transaction (by ordinal) in that part of the log."""


@dataclass(frozen=True, slots=True)
class JoinedTable:
    """All that is published of a table now is published for transactions that commit behind `since`."""

    relation: Relation
    since: Lsn


@dataclass(frozen=True, slots=True)
class MovedPartition:
    """With a commit at `lsn` the rows of a partition became rows of the table that is published as a `whole`, or, if it `has_left`, ceased to be."""

    partition: Relation
    whole: Relation
    lsn: Lsn
    has_left: bool


@dataclass(slots=True)
class JoinedTables:
    """`names` are those of the publications, of which `definitions` say what stands in a state location; `transactions` are those of the log that
    `history` is of."""

    history: History
    names: Sequence[str]
    definitions: Definitions
    transactions: Committed
    wrote: Wrote
    _source: SourcePublications = field(init=False)

    def __post_init__(self) -> None:
        self._source = SourcePublications(self.history)

    def found(self, since: Lsn, stop: Lsn, known: Mapping[int, Lsn]) -> Iterator[JoinedTable]:
        """Those that have joined by commits in `[since, stop)`, and are published there. Of some it is `known` up to where they are published as
        they are."""
        stages = self._stages(since, stop)
        for oid in self._may_have_joined(since, stop, is_defined_anew=len(stages) > 1):
            now = stages[-1][1].entry(oid, stop, -1)
            if now.published_as is not None or not now.actions.rows:
                continue
            begin = max(since, known.get(oid, since))
            if (joined := self._joined(oid, now, stages, begin, stop)) is not None:
                relation = self.history.relation_by_oid(oid, stop)
                assert relation is not None, "it is published"
                yield JoinedTable(relation, joined)

    def moved_partitions(self, since: Lsn, stop: Lsn, joined: Collection[int]) -> Iterator[MovedPartition]:
        """Those of tables that have not `joined` meanwhile, in the order of their oids."""
        history, stages = self.history, self._stages(since, stop)
        for oid in self._may_have_joined(since, stop, is_defined_anew=False):
            whole: Relation | None = None
            was_there = False
            for lsn in self._moments(oid, stages, since, stop):
                now = _builder_at(stages, lsn).entry(oid, lsn, -1).published_as
                if was_there and (whole.oid if whole else 0) != (now.oid if now else 0):
                    for table, seen, has_left in ((whole, lsn - 1, True), (now, lsn, False)):
                        partition = history.relation_by_oid(oid, seen)
                        if table is not None and partition is not None and table.oid not in joined:
                            yield MovedPartition(partition, table, Lsn(lsn - 1), has_left)
                whole, was_there = now, len(history.table("pg_class").seen_where("oid", oid, lsn, -1)) > 0

    def _stages(self, since: Lsn, stop: Lsn) -> list[tuple[int, SyncEntryBuilder]]:
        """What is defined in a state location, from where on."""
        stages: list[tuple[int, SyncEntryBuilder]] = []
        for lsn, defined in [(0, ()), *self.definitions]:
            if lsn < stop:
                stages = [each for each in stages if lsn > since]
                stages.append((max(lsn, int(since)), SyncEntryBuilder(self._source, self.names, defined, {})))
        return stages

    def _may_have_joined(self, since: Lsn, stop: Lsn, *, is_defined_anew: bool) -> list[int]:
        """The tables that are there in this part of the log, all if publications have changed, or a table of which others are parts."""
        classes, inherits = self.history.table("pg_class"), self.history.table("pg_inherits")
        kinds = classes["relkind"]
        is_one = ((kinds == ord("r")) | (kinds == ord("p"))) & (classes["oid"] >= FIRST_NORMAL_OID) & (classes["relrewrite"] == 0)
        is_one &= classes["relpersistence"] == ord("p")
        rows = np.flatnonzero(is_one & (classes.rows.begin < stop) & (classes.rows.end >= since))
        oids = classes["oid"][rows].astype(np.int64)
        last = np.maximum(classes.last_changes("oid", oids), inherits.last_changes("inhrelid", oids))
        changed = last >= since
        everywhere = is_defined_anew or (changed & (kinds[rows] == ord("p"))).any()
        if everywhere or any(self._has_changed(name, since) for name in _PUBLISHED_BY):
            changed[:] = True
        return sorted(set(oids[changed].tolist()))

    def _has_changed(self, name: str, since: Lsn) -> bool:
        rows = self.history.table(name).rows
        return bool(((rows.begin >= since) | ((rows.end >= since) & (rows.end < NEVER))).any())

    # -- one table -----------------------------------------------------------------------------------------------------------------------

    def _joined(self, oid: int, now: RelationSyncEntry, stages: Stages, since: Lsn, stop: Lsn) -> Lsn | None:
        """The commit behind which it is published as it is `now`, if it was not before, for anybody."""
        transactions = self.transactions
        ours = transactions.wanted & (transactions.commits >= since) & (transactions.commits < stop)
        asked_from = min([int(since), *transactions.begins[ours].tolist()])
        about = list(self._source.about(oid, self.names))
        points = change_points_of(about, asked_from, int(stop) - 1, Committed(transactions.begins, transactions.commits, ours))
        joined: Lsn | None = None
        lacked = False
        for lsn in self._moments(oid, stages, since, stop):
            lacks = self._lacks(stages, oid, lsn, -1, now)
            if lacked and not lacks:
                joined = Lsn(lsn - 1)
            lacked = lacks
        if joined is not None:
            return joined
        for ordinal, (start, own) in points.own.items():
            commit = int(transactions.commits[ordinal])
            begins = [start, *(point + 1 for point in own if point < commit)]
            for lsn, end in zip(begins, [*begins[1:], commit], strict=True):
                if self._lacks(stages, oid, lsn, ordinal, now) and self.wrote(oid, ordinal, lsn, end):
                    return Lsn(commit)
        return None

    def _moments(self, oid: int, stages: Stages, since: Lsn, stop: Lsn) -> list[int]:
        """Where what is published of it may have become another for all others than who made it so."""
        transactions = self.transactions
        nobody = Committed(transactions.begins, transactions.commits, np.zeros(len(transactions.commits), np.bool_))
        about = self._source.about(oid, self.names) if len(transactions.commits) else ()
        points = change_points_of(about, int(since), int(stop) - 1, nobody).points
        return sorted({int(since), *(lsn for lsn, _ in stages if lsn > since), *(point + 1 for point in points)})

    def _lacks(self, stages: Stages, oid: int, lsn: int, ordinal: int, now: RelationSyncEntry) -> bool:
        """Whether the table is there for a change at `lsn` in that transaction, and less of it is published than `now`."""
        classes = self.history.table("pg_class")
        rows = classes.seen_where("oid", oid, lsn, ordinal)
        if not len(rows):
            return False
        if chr(classes["relpersistence"][rows[-1]]) != "p":
            return True  # no log has its changes
        commit = lsn if ordinal < 0 else int(self.transactions.commits[ordinal])
        return _says_less(_builder_at(stages, commit).entry(oid, lsn, ordinal), now)


def _builder_at(stages: Stages, commit: int) -> SyncEntryBuilder:
    """What holds for transactions that commit there."""
    return next(each for since, each in reversed(stages) if since <= commit)


def _says_less(then: RelationSyncEntry, now: RelationSyncEntry) -> bool:
    """Whether rows may have changed unnoticed `then` that are published `now`, or are not published any more."""
    if then.unknown:
        return False
    if then.published_as is not None or then.actions | now.actions != then.actions:
        return True
    return {each.filter for each in then.members} != {each.filter for each in now.members} or _has_fewer_columns(then, now)


def _has_fewer_columns(then: RelationSyncEntry, now: RelationSyncEntry) -> bool:
    before, after = _listed(then), _listed(now)
    if before is None:
        generated = [any(each.generated_columns != NO_GENERATED_COLUMNS for each in entry.members) for entry in (then, now)]
        return after is None and generated == [False, True]
    return after is None or not after <= before


def _listed(entry: RelationSyncEntry) -> set[int] | None:
    """The numbers of the columns that are published; None: all, but maybe generated ones."""
    lists = [each.columns for each in entry.members]
    return {number for each in lists if each is not None for number in each} if None not in lists else None
