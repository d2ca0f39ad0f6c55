"""What publications say of each relation over a part of the log: workers publish changes by it, without a history.

In: a history, the names of publications, definitions that stand in a state location, the transactions to be shown, and the
relations with changes. Out: `EntryTimeline`: for each relation, spans of the log with the `RelationSyncEntry` that holds there.
One set of spans is for transactions that changed no catalog; each transaction that changed what an entry is made of has spans
of its own. Definitions of a state location hold from a transaction on, in commit order, so there is one set of all this for each
`Generation`: the transactions that are published by the same definitions.

Most relations have one entry for the whole log, and equal entries are one object.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.history.change_points import Committed, change_points_of
from tailrace.catalog.history.history import History
from tailrace.dataclass import dataclass
from tailrace.errors import MissingHistory
from tailrace.model import Lsn, Relation
from tailrace.plan import Plan
from tailrace.publications.publication import Publication, RowFilter
from tailrace.publications.publishing.relation_sync_entry import RelationAncestry, RelationSyncEntry, member_of, publish_as
from tailrace.publications.source_publications import SourcePublications
from tailrace.transactions.commit_or_abort import NEVER

NOTHING = RelationSyncEntry()
"""The entry of a relation that nobody publishes."""


@dataclass(frozen=True, slots=True)
class EntrySpans:
    """After `starts[i]`, up to and including the next start, `entries[i]` holds."""

    starts: tuple[int, ...]
    entries: tuple[RelationSyncEntry, ...]

    def at(self, lsn: int) -> RelationSyncEntry:
        place = bisect_left(self.starts, lsn)
        return self.entries[place - 1] if place else NOTHING


@dataclass(frozen=True, slots=True)
class Generation:
    """Spans by relation: `common` for transactions that changed no catalog, `own` by ordinal for each of the others."""

    common: Mapping[int, EntrySpans]
    own: Mapping[int, Mapping[int, EntrySpans]]

    def spans_of(self, oid: int, ordinal: int) -> EntrySpans | None:
        return self.own.get(ordinal, {}).get(oid) or self.common.get(oid)


@dataclass(frozen=True, slots=True)
class EntryTimeline:
    """Transactions from ordinal `since[i]` on, up to the next, belong to `generations[i]`."""

    since: tuple[int, ...]
    generations: tuple[Generation, ...]

    def entry_at(self, oid: int, lsn: int, ordinal: int) -> RelationSyncEntry:
        """The entry of a relation for a change at `lsn` in that transaction."""
        spans = self.generations[bisect_right(self.since, ordinal) - 1].spans_of(oid, ordinal)
        return spans.at(lsn) if spans else NOTHING

    def parts(
        self, oid: int, lsn: NDArray[np.int64], ordinal: NDArray[np.int64]
    ) -> Iterator[tuple[RelationSyncEntry, NDArray[np.int64]]]:
        """The changes of a relation, by number, in parts that have one entry each; those of a part in their order."""
        if not len(lsn):
            return
        by_entry: dict[int, tuple[RelationSyncEntry, list[NDArray[np.int64]]]] = {}
        for spans, rows in self._by_spans(oid, ordinal):
            for entry, mine in _by_place(spans, rows, lsn):
                by_entry.setdefault(id(entry), (entry, []))[1].append(mine)
        for entry, parts in by_entry.values():
            yield entry, parts[0] if len(parts) == 1 else np.sort(np.concatenate(parts))

    def entries_of(self, oid: int) -> Iterator[RelationSyncEntry]:
        """Every entry that a relation has for anybody, each once."""
        found: dict[int, RelationSyncEntry] = {}
        for each in self.generations:
            for spans in (each.common.get(oid), *(own.get(oid) for own in each.own.values())):
                found |= {id(entry): entry for entry in (spans.entries if spans else ())}
        yield from found.values()

    def tables_of(self, oid: int) -> set[int]:
        """The oids as which changes of a relation are published."""
        return {oid if entry.published_as is None else entry.published_as.oid for entry in self.entries_of(oid)}

    def filters_of(self, relations: Iterable[Relation]) -> Iterator[tuple[RowFilter, Relation]]:
        """Every filter that may be asked about changes of these relations, and the relation that it is of."""
        for relation in relations:
            for entry in self.entries_of(relation.rewrite_of or relation.oid):
                for member in entry.members:
                    if member.filter is not None:
                        yield member.filter, entry.published_as or relation

    def part(self, oids: Collection[int], ordinals: Collection[int]) -> EntryTimeline:
        """As much of it as these transactions need for changes of these relations."""
        generations = []
        for each in self.generations:
            common = {oid: spans for oid, spans in each.common.items() if oid in oids}
            own = {
                number: {oid: spans for oid, spans in theirs.items() if oid in oids}
                for number, theirs in each.own.items()
                if number in ordinals
            }
            generations.append(Generation(common, {number: theirs for number, theirs in own.items() if theirs}))
        return EntryTimeline(self.since, tuple(generations))

    def _by_spans(self, oid: int, ordinal: NDArray[np.int64]) -> Iterator[tuple[EntrySpans | None, NDArray[np.int64]]]:
        """The changes of a relation, by number, that have the same spans."""
        least, most = int(ordinal.min()), int(ordinal.max())
        first, last = bisect_right(self.since, least) - 1, bisect_right(self.since, most) - 1
        every = np.arange(len(ordinal))
        changers = {number for each in self.generations for number, spans in each.own.items() if oid in spans}
        own = np.array(sorted(number for number in changers if least <= number <= most), np.int64)
        own = own[np.isin(own, ordinal)] if len(own) else own
        if first == last and not len(own):  # nearly always
            yield self.generations[first].common.get(oid), every
            return
        generation = np.searchsorted(self.since, ordinal, "right") - 1
        changer = np.searchsorted(own, ordinal)
        changer[~np.isin(ordinal, own)] = len(own)
        both, which = np.unique(generation * (len(own) + 1) + changer, return_inverse=True)
        for group, each in enumerate(both.tolist()):
            number, at = divmod(each, len(own) + 1)
            mine = int(own[at]) if at < len(own) else -1
            yield self.generations[number].spans_of(oid, mine), every[which == group]


def _by_place(
    spans: EntrySpans | None, rows: NDArray[np.int64], lsn: NDArray[np.int64]
) -> Iterator[tuple[RelationSyncEntry, NDArray[np.int64]]]:
    """These rows by the entry that holds where they stand."""
    mine = lsn if len(rows) == len(lsn) else lsn[rows]
    starts = spans.starts if spans else ()
    first, last = np.searchsorted(starts, [mine.min(), mine.max()]).tolist()
    place = np.searchsorted(starts, mine) if first < last else None
    for at in range(first, last + 1):
        there = rows if place is None else rows[place == at]
        if len(there):
            yield spans.entries[at - 1] if spans and at else NOTHING, there


Definitions = Sequence[tuple[int, Sequence[Publication]]]
"""Publications that are defined here, all of them, by the LSN from which on transactions that commit are told with them; in that
order."""


def timeline_of(plan: Plan, history: History, names: Sequence[str], definitions: Definitions = ()) -> EntryTimeline:
    """What publications of these names say of every relation with rows or TRUNCATEs in a plan."""
    transactions = plan.transactions
    wanted = np.zeros(len(transactions), np.bool_)
    wanted[plan.shown] = True
    since = min([int(plan.start_lsn), *transactions.first_lsn[plan.shown].tolist()])
    relations = {relation.rewrite_of or relation.oid for relation in plan.relations}
    relations |= {relation.oid for truncation in plan.truncations for relation in truncation.relations}
    committed = Committed(transactions.first_lsn, transactions.commit_lsn, wanted)
    return entry_timeline(history, relations, names, committed, since, definitions)


def entry_timeline(
    history: History, relations: Iterable[int], names: Sequence[str], transactions: Committed, since: int, definitions: Definitions = (),
) -> EntryTimeline:  # fmt: skip
    """What publications of these names say of the relations (oids) to these transactions, whose first change lies at `since`."""
    oids = sorted(set(relations))
    stages = [(0, ()), *definitions]
    first = [0, *np.searchsorted(transactions.commits, [lsn for lsn, _ in definitions]).tolist()]
    # Of definitions that begin at the same ordinal the last hold; no transaction is published by the others.
    kept = [i for i in range(len(stages)) if i + 1 == len(stages) or first[i + 1] > first[i]]
    source = SourcePublications(history)
    shared: dict[RelationSyncEntry, RelationSyncEntry] = {}
    generations = [SyncEntryBuilder(source, names, stages[i][1], shared).generation(oids, transactions, since) for i in kept]
    return EntryTimeline(tuple(first[i] for i in kept), tuple(generations))


class SyncEntryBuilder:
    """Builds the entries of relations by one set of definitions. Equal entries become one object, which is kept in `shared`."""

    def __init__(
        self,
        source: SourcePublications,
        names: Sequence[str],
        defined: Sequence[Publication],
        shared: dict[RelationSyncEntry, RelationSyncEntry],
    ) -> None:
        self._source = source
        self._names = names
        self._defined = {publication.name: publication for publication in defined}
        self._of_source = [name for name in names if name not in self._defined]
        self._shared = shared

    def generation(self, oids: Sequence[int], transactions: Committed, since: int) -> Generation:
        common: dict[int, EntrySpans] = {}
        own: dict[int, dict[int, EntrySpans]] = {}
        for oid in oids:
            moments = change_points_of(self._source.about(oid, self._of_source), since, int(NEVER) - 1, transactions)
            common[oid] = self._spans(oid, since, moments.points, -1)
            for ordinal, (start, points) in moments.own.items():
                own.setdefault(ordinal, {})[oid] = self._spans(oid, start, points, ordinal)
        return Generation(common, own)

    def _spans(self, oid: int, since: int, points: Sequence[int], ordinal: int) -> EntrySpans:
        starts: list[int] = []
        entries: list[RelationSyncEntry] = []
        for point in [since - 1, *points]:
            entry = self.entry(oid, max(point + 1, self._source.history.known_from), ordinal)
            entry = self._shared.setdefault(entry, entry)
            if not entries or entries[-1] is not entry:
                starts.append(point)
                entries.append(entry)
        return EntrySpans(tuple(starts), tuple(entries))

    def entry(self, oid: int, lsn: int, ordinal: int) -> RelationSyncEntry:
        """The entry for a change at `lsn`: NOTHING for a relation that does not exist there. Where the catalogs are not at hand
        the entry says so, and only a change that lies there raises it."""
        try:
            ancestry = self._source.ancestry(oid, lsn, ordinal)
            return self._entry(ancestry, lsn, ordinal) if ancestry else NOTHING
        except MissingHistory as error:
            return RelationSyncEntry(unknown=error.message)

    def _entry(self, ancestry: RelationAncestry, lsn: int, ordinal: int) -> RelationSyncEntry:
        about = ((ancestry.oid, ancestry.schema), *ancestry.ancestors)
        publications: list[Publication] = []
        missing: list[str] = []
        for name in self._names:
            found = self._defined.get(name) or self._source.named(name, lsn, ordinal, about)
            if found is None:
                missing.append(name)
            else:
                publications.append(found)
        actions, target, counting = publish_as(ancestry, publications)
        above = self._source.history.relation_by_oid(target.oid, lsn, ordinal) if target.level else None
        members = tuple(member_of(publication, target) for publication in counting) if actions.rows else ()
        return RelationSyncEntry(actions, above, members, tuple(missing))


def created_at(history: History, names: Sequence[str], definitions: Definitions) -> dict[str, Lsn]:
    """From where on publications of these names exist, of those that come only later."""
    created: dict[str, Lsn] = {}
    for since, defined in definitions:
        for each in defined:
            created.setdefault(each.name, Lsn(since))
    publications = history.table("pg_publication")
    for name in names:
        begins = publications.rows.begin[publications.where("pubname", name)]
        if len(begins) and 0 < (first := int(begins.min())) < NEVER:
            created.setdefault(name, Lsn(first))
    return created
