"""When pgoutput tells what a relation is, and what it says: Type and Relation messages (`maybe_send_schema` in `replication/pgoutput/pgoutput.c`).

A receiver must know a relation before its first change. It is told again after whatever made stale what the server's cache had of it: the end of a
transaction with such a command, and that command itself within its transaction (`plan/stale.py`). Streamed transactions have been told by themselves,
since nobody knows yet what becomes of them.

In: which rows are of which relation, in order. Out: the places before which something is to be told, and the messages.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tailrace.messages.formats import write_message
from tailrace.messages.message import Relation as RelationMessage
from tailrace.messages.message import RelationColumn, Type
from tailrace.model import Relation
from tailrace.plugins.plugin import PlanFacts, RelationUses
from tailrace.publications.published import Published
from tailrace.wal.invalidations import EVERY_RELATION

FIRST_TOLD_TYPE = 10000
"""Types with smaller oids are the same everywhere (`access/transam.h`, FirstGenbkiObjectId)."""
_FULL = "f"


@dataclass(slots=True)
class Told:
    """What the receiver knows: relations (oids), as far as that is not stale; and what it was told within each streamed transaction (full xid)."""

    known: set[int] = field(default_factory=set)
    in_stream: dict[int, set[int]] = field(default_factory=dict)

    def end_streams(self, tops: Iterable[int]) -> None:
        for xid in tops:
            self.in_stream.pop(xid, None)


class Telling:
    """One plan's relations being told. `told` is kept over plans."""

    def __init__(self, facts: PlanFacts, told: Told) -> None:
        self._facts = facts
        self._told = told
        self._ended = facts.stale.ended
        self._next_ended = 0
        self._passed: dict[tuple[int, int], int] = {}

    def of(self, uses: RelationUses) -> list[tuple[int, bytes]]:
        """By place, ascending, the messages that must stand before that row."""
        found: list[tuple[int, bytes]] = []
        transactions = self._facts.plan.transactions
        streamed = self._facts.plan.streams.streamed
        for place, relation in self._candidates(uses):
            ordinal, lsn = int(uses.ordinal[place]), int(uses.lsn[place])
            top = int(transactions.full_xid[ordinal])
            self._forget_before(int(transactions.commit_lsn[ordinal]))
            known = self._told.in_stream.setdefault(top, set()) if streamed[ordinal] else self._told.known
            self._forget_within(ordinal, relation, lsn, known)
            xid = int(uses.xid[place]) if streamed[ordinal] else None
            found += [(place, message) for message in self._messages(relation, lsn, ordinal, known, xid)]
        self._pass_over(uses)
        return found

    # -- where something may have to be told ------------------------------------------------------------------------------------------

    def _candidates(self, uses: RelationUses) -> Iterator[tuple[int, Relation]]:
        """Rows before which their relation may not be known: its first, its first of each streamed transaction, those behind whatever made it stale,
        and TRUNCATEs."""
        places = [(place, relation) for place, truncation in uses.truncations for relation in truncation.relations]
        by_relation = np.argsort(uses.relation, kind="stable")
        numbers, starts = np.unique(uses.relation[by_relation], return_index=True)
        parts = np.split(by_relation, starts[1:]) if len(numbers) else []
        for number, mine in zip(numbers.tolist(), parts, strict=True):
            if number >= 0:
                relation = uses.relations[number]
                places += [(place, relation) for place in mine[self._first_of_parts(uses, mine, relation)].tolist()]
        yield from sorted(places, key=lambda pair: pair[0])

    def _first_of_parts(self, uses: RelationUses, mine: NDArray[np.int64], relation: Relation) -> NDArray[np.bool_]:
        """Of the rows of a relation, in order, those that are the first behind one of these events, or the first at all."""
        plan = self._facts.plan
        ordinal = uses.ordinal[mine]
        ended = self._ended.lsn[np.isin(self._ended.oid, (relation.oid, EVERY_RELATION))]
        behind_ends = np.searchsorted(ended, plan.transactions.commit_lsn[ordinal])
        within = np.zeros(len(mine), np.int64)
        for each in self._facts.stale.within.keys() & set(np.unique(ordinal).tolist()):
            of = ordinal == each
            within[of] = np.searchsorted(self._facts.stale.points(each, relation.oid), uses.lsn[mine][of])
        first = np.ones(len(mine), np.bool_)
        streams = np.where(plan.streams.streamed[ordinal], ordinal, -1)
        first[1:] = np.logical_or.reduce([each[1:] != each[:-1] for each in (behind_ends, within, streams)])
        return first

    # -- what is known ----------------------------------------------------------------------------------------------------------------

    def _forget_within(self, ordinal: int, relation: Relation, lsn: int, known: set[int]) -> None:
        """What this transaction itself made stale before the row at `lsn` is not known there. A later block of it is told once more."""
        passed = bisect_left(self._facts.stale.points(ordinal, relation.oid), lsn)
        if passed != self._passed.get((ordinal, relation.oid), 0):
            known.discard(relation.oid)
            self._passed[ordinal, relation.oid] = passed

    def _forget_before(self, commit_lsn: int) -> None:
        """What the ends of earlier transactions made stale is not known any more."""
        stop = int(np.searchsorted(self._ended.lsn, commit_lsn))
        for oid in self._ended.oid[self._next_ended : stop].tolist():
            self._forget(oid)
        self._next_ended = max(self._next_ended, stop)

    def _forget(self, oid: int) -> None:
        for known in (self._told.known, *self._told.in_stream.values()):
            if oid == EVERY_RELATION:
                known.clear()
            known.discard(oid)

    def _pass_over(self, uses: RelationUses) -> None:
        """To behind the last of these rows."""
        if len(uses.ordinal) and (last := int(uses.ordinal.max(initial=-1))) >= 0:
            self._forget_before(int(self._facts.plan.transactions.commit_lsn[last]))

    # -- what is told -----------------------------------------------------------------------------------------------------------------

    def _messages(self, relation: Relation, lsn: int, ordinal: int, known: set[int], xid: int | None) -> Iterator[bytes]:
        """Of the table that it is published as, then of itself, what is not known."""
        publisher = self._facts.publisher
        if relation.oid in known or publisher is None:
            return
        what = publisher.published_at(relation, lsn, ordinal)
        if what is None:
            return
        known.add(relation.oid)
        if not what.as_itself:
            known.add(what.published_as.oid)
            yield from _described(what.published_as, what, xid)
        yield from _described(relation, what, xid)


def _described(relation: Relation, what: Published, xid: int | None) -> Iterator[bytes]:
    columns = what.shown_of(relation)
    for column in columns:
        assert column.type is not None
        if column.type.oid >= FIRST_TOLD_TYPE:
            base = column.type.base
            yield write_message(Type(column.type.oid, _namespace(base.schema), base.name, xid))
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


def _namespace(schema: str) -> str:
    return "" if schema == "pg_catalog" else schema
