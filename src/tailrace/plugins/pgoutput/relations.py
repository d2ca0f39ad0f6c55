"""When pgoutput sends a relation, and what it sends: Type and Relation messages (`maybe_send_schema` in
`replication/pgoutput/pgoutput.c`).

A subscriber must know a relation before its first change. The server's RelationSyncCache says whether the schema was sent
(`schema_sent`); it is sent again after an invalidation: at the end of a transaction with such a command, and behind that command
within its transaction (`plan/invalidations.py`). To streamed transactions relations are sent by themselves (`streamed_txns`), since
nobody knows yet what becomes of them; what was sent in one, the subscriber knows once it commits.

In: which rows are of which relation, in order. Out: the messages, and the places before which they stand. What is invalidated by
the end of a plan, though no row of the plan asks for it, is forgotten by then (`written_upto`): the next plan knows its own part
of the log alone.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tailrace.dataclass import dataclass
from tailrace.logicalproto.formats import write_message
from tailrace.logicalproto.message import Relation as RelationMessage
from tailrace.logicalproto.message import RelationColumn, Type
from tailrace.model import Relation
from tailrace.plan import Plan
from tailrace.plugins.relation_callbacks import PlanFacts, RelationUses
from tailrace.publications.publishing.published_relation import PublishedRelation
from tailrace.transactions.commit_or_abort import BLOCK, STREAM_ABORT
from tailrace.types.encodings.conversion import check_utf8
from tailrace.types.values import Texts
from tailrace.wal import xact
from tailrace.wal.invalidations import EVERY_RELATION

FIRST_GENBKI_OBJECT_ID = 10000
"""Types with smaller oids are the same everywhere (`access/transam.h`, FirstGenbkiObjectId)."""
_FULL = "f"


@dataclass(slots=True)
class SentRelations:
    """Which relations (oids) the subscriber knows: `known` for good, until they are invalidated (`schema_sent`), and those that
    were sent in each streamed transaction, by its full xid (`streamed_txns`). All that was invalidated at ends of transactions
    before `upto` has been forgotten."""

    known: set[int] = field(default_factory=set)
    in_stream: dict[int, set[int]] = field(default_factory=dict)
    upto: int = 0

    def forget(self, oid: int) -> None:
        for known in (self.known, *self.in_stream.values()):
            if oid == EVERY_RELATION:
                known.clear()
            known.discard(oid)

    def end_stream(self, top: int, *, is_commit: bool) -> None:
        """What was sent in a streamed transaction, the subscriber knows once that commits, and may have forgotten otherwise
        (`cleanup_rel_sync_cache`)."""
        known = self.in_stream.pop(top, set())
        if is_commit:
            self.known |= known


class RelationSync:
    """Sends the relations of one plan. `sent` is kept over plans. With `in_utf8`, names that are no UTF-8 are refused. It
    travels, without the catalogs."""

    def __init__(self, facts: PlanFacts, sent: SentRelations, *, in_utf8: bool = False) -> None:
        self._in_utf8 = in_utf8
        self._plan, self._invalidations, self._publisher = facts.plan, facts.invalidations, facts.publisher
        self._sent = sent
        self._ended = facts.invalidations.ended
        by_oid = np.argsort(self._ended.oid, kind="stable")
        self._ended_oids, self._ended_lsns = self._ended.oid[by_oid], self._ended.lsn[by_oid]
        self._changed = np.array(sorted(facts.invalidations.within), np.int64)
        self._next_ended = int(np.searchsorted(self._ended.lsn, sent.upto))
        self._stream_ends = _ends_of_streams(facts.plan)
        self._next_stream_end = 0
        self._passed: dict[tuple[int, int], int] = {}

    def messages(self, uses: RelationUses) -> list[tuple[int, bytes]]:
        """By place, ascending, the messages that must stand before that row."""
        found: list[tuple[int, bytes]] = []
        transactions = self._plan.transactions
        streamed = self._plan.streams.streamed
        for place, relation in self._candidates(uses):
            ordinal, lsn = int(uses.ordinal[place]), int(uses.lsn[place])
            self._end_streams(int(np.searchsorted(self._stream_ends, ordinal)))
            self._forget_invalidated(ordinal, relation, lsn)
            known = self._sent.known
            if streamed[ordinal]:
                known = self._sent.in_stream.setdefault(int(transactions.full_xid[ordinal]), set())
            xid = int(uses.xid[place]) if streamed[ordinal] else None
            found += [(place, message) for message in self._described(relation, lsn, ordinal, known, xid)]
        return found

    def written_upto(self, lsn: int) -> None:
        """All that commits before `lsn` has been written, which may be where the plan's log ends."""
        # At the log's end blocks end, and what a crash cut off.
        side: Literal["left", "right"] = "right" if lsn >= self._invalidations.end else "left"
        ends = self._plan.transactions.commit_lsn[self._stream_ends]
        self._end_streams(int(np.searchsorted(ends, lsn, side)))
        self._forget(int(np.searchsorted(self._ended.lsn, lsn, side)))
        self._sent.upto = max(self._sent.upto, lsn)

    # -- where a relation may have to be sent ------------------------------------------------------------------------------------

    def _candidates(self, uses: RelationUses) -> Iterator[tuple[int, Relation]]:
        """Rows before which their relation may not be known: its first, its first of each streamed transaction, those behind
        whatever invalidated it, and TRUNCATEs."""
        places = [(place, relation) for place, truncation in uses.truncations for relation in truncation.relations]
        for number, mine in _by_relation(uses.relation, len(uses.relations)):
            relation = uses.relations[number]
            places += [(place, relation) for place in mine[self._first_of_parts(uses, mine, relation)].tolist()]
        yield from sorted(places, key=lambda pair: pair[0])

    def _first_of_parts(self, uses: RelationUses, mine: NDArray[np.int64], relation: Relation) -> NDArray[np.int64]:
        """Of the rows of a relation, in order, those that are the first behind one of these events, or the first at all; and,
        what does no harm, some that are the first of their transaction."""
        plan = self._plan
        # Ordinals ascend, as do LSNs within a transaction, so most is asked of transactions, not of rows.
        ordinal = uses.ordinal[mine]
        starts = np.flatnonzero(np.append(True, ordinal[1:] != ordinal[:-1]))
        stops = np.append(starts[1:], len(mine))
        of = ordinal[starts]
        behind_ends = np.searchsorted(self._ends_for(relation.oid), plan.transactions.commit_lsn[of])
        streams = np.where(plan.streams.streamed[of], of, -1)
        found = [starts[np.append(True, (behind_ends[1:] != behind_ends[:-1]) | (streams[1:] != streams[:-1]))]]
        for each in np.flatnonzero(_among(of, self._changed)).tolist():
            start, stop = int(starts[each]), int(stops[each])
            points = self._invalidations.points(int(of[each]), relation.oid)
            # The next transaction's first row is behind what only this one saw.
            found += [start + np.searchsorted(uses.lsn[mine[start:stop]], points, "right"), stops[each : each + 1]]
        first = np.unique(np.concatenate(found))
        return first[first < len(mine)]

    def _ends_for(self, oid: int) -> NDArray[np.int64]:
        """The LSNs, ascending, behind which transactions find it invalidated."""
        oids = self._ended_oids
        either = (slice(*np.searchsorted(oids, (each, each + 1)).tolist()) for each in (oid, EVERY_RELATION))
        return np.sort(np.concatenate([self._ended_lsns[part] for part in either]))

    # -- what is known -----------------------------------------------------------------------------------------------------------

    def _forget_invalidated(self, ordinal: int, relation: Relation, lsn: int) -> None:
        """Forget what was invalidated before this row of the transaction."""
        self._forget(int(np.searchsorted(self._ended.lsn, self._plan.transactions.commit_lsn[ordinal])))
        points = self._invalidations.points(ordinal, relation.oid)
        passed = bisect_left(points, lsn)
        # What lies before the rows of a streamed transaction has been passed with its blocks before, which end like transactions.
        if passed != self._passed.get((ordinal, relation.oid), bisect_left(points, self._plan.streams.since[ordinal])):
            self._sent.forget(relation.oid)
            self._passed[ordinal, relation.oid] = passed

    def _forget(self, stop: int) -> None:
        """What was invalidated at the first so many ends of transactions is not known any more."""
        for oid in self._ended.oid[self._next_ended : stop].tolist():
            self._sent.forget(oid)
        self._next_ended = max(self._next_ended, stop)

    def _end_streams(self, stop: int) -> None:
        """The first so many have ended."""
        transactions = self._plan.transactions
        for ordinal in self._stream_ends[self._next_stream_end : stop].tolist():
            xid = int(transactions.full_xid[ordinal])
            self._sent.end_stream(self._plan.streams.tops.get(xid, xid), is_commit=int(transactions.kind[ordinal]) == xact.COMMIT)
        self._next_stream_end = max(self._next_stream_end, stop)

    # -- what is sent ------------------------------------------------------------------------------------------------------------

    def _described(self, relation: Relation, lsn: int, ordinal: int, known: set[int], xid: int | None) -> Iterator[bytes]:
        """Of the table that it is published as, then of itself, what is not known."""
        publisher = self._publisher
        if relation.oid in known or publisher is None:
            return
        what = publisher.published_at(relation, lsn, ordinal)
        if what is None:
            return
        # The ancestor that it is published as is sent each time; it counts as sent where it has a change of its own, a TRUNCATE.
        known.add(relation.oid)
        if self._in_utf8:
            for each in (what.published_as, relation):
                _check_names(each, what)
        if not what.as_itself:
            yield from _relation_messages(what.published_as, what, xid)
        yield from _relation_messages(relation, what, xid)


def _ends_of_streams(plan: Plan) -> NDArray[np.int64]:
    """Ordinals, ascending, of what ends streamed transactions, or rolls back something of one."""
    kind = plan.transactions.kind
    return np.flatnonzero((plan.streams.streamed & (kind != BLOCK)) | (kind == STREAM_ABORT))


def _by_relation(relation: NDArray[np.int32], count: int) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """The rows of each of so many relations that has some, in order."""
    rows = np.flatnonzero(relation >= 0)
    if count <= 1:
        yield from ((0, rows) for _ in range(int(len(rows) > 0)))
        return
    # Numbers of 16 bits are sorted in linear time.
    number = relation[rows].astype(np.int16 if count <= 1 << 15 else np.int32)
    order = np.argsort(number, kind="stable")
    counts = np.bincount(number, minlength=count)
    for each, mine in enumerate(np.split(rows[order], np.cumsum(counts)[:-1])):
        if len(mine):
            yield each, mine


def _among(some: NDArray[np.int64], ascending: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which of `some` are in the other."""
    place = np.searchsorted(ascending, some)
    return np.append(ascending, -1)[place] == some


def _relation_messages(relation: Relation, what: PublishedRelation, xid: int | None) -> Iterator[bytes]:
    columns = what.shown_of(relation)
    for column in columns:
        if column.live_type.oid >= FIRST_GENBKI_OBJECT_ID:
            base = column.live_type.base
            yield write_message(Type(column.live_type.oid, _namespace(base.schema), base.name, xid))
    is_full = relation.replica_identity == _FULL
    yield write_message(
        RelationMessage(
            relation.oid, _namespace(relation.schema), relation.name, relation.replica_identity,
            tuple(
                RelationColumn(int(is_full or column.number in relation.identity), column.name, column.type.oid if column.type else 0, column.typmod)
                for column in columns
            ),
            xid,
        )
    )  # fmt: skip


def _check_names(relation: Relation, what: PublishedRelation) -> None:
    """Raises UsageError for the first name, of those that are sent, that is not UTF-8."""
    names = [relation.schema, relation.name]
    for column in what.shown_of(relation):
        pg_type = column.live_type
        names += [column.name, *((pg_type.base.schema, pg_type.base.name) if pg_type.oid >= FIRST_GENBKI_OBJECT_ID else ())]
    check_utf8(Texts.of([name.encode("utf-8", "surrogateescape") for name in names]))


def _namespace(schema: str) -> str:
    return "" if schema == "pg_catalog" else schema
