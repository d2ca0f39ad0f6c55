"""Which relation a file was, from its first record on: what a plan says about each file of a stretch.

In: the history, and where transactions begin and commit. Out: for each file a `Timeline`: spans of WAL with the relation that the file was there,
once for transactions that left its catalog rows alone, and once for each that changed them, as it sees its own changes.

That can be another relation (or another version of it) only where some catalog row about the file begins or ends. So the history is asked at each of
those LSNs, and equal neighbours are one span. Of most files no such row changes after their first record; those are handled together, with array
operations, since there may be thousands of partitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.history.change_points import Committed, about_relation, change_points_of
from tailrace.catalog.history.history import FIRST_UNPINNED_TYPE, History
from tailrace.dataclass import dataclass
from tailrace.errors import MissingHistory
from tailrace.model import Locator, Relation


@dataclass(frozen=True, slots=True)
class RelationSpan:
    """After `start`, up to and including the `start` of the next span, the file was that of `relation` (None: of no relation)."""

    start: int
    relation: Relation | None


@dataclass(frozen=True, slots=True)
class Timeline:
    """`spans` hold for transactions that did not change the file's catalog rows; `own` has, by ordinal, those of each that did."""

    spans: list[RelationSpan]
    own: dict[int, list[RelationSpan]]


class FileTimelines:
    """By ordinal of a transaction, `begins` and `commits` are the LSNs of its first record and of its commit; one that is not `wanted` gets no spans
    of its own."""

    def __init__(
        self, history: History, begins: NDArray[np.int64], commits: NDArray[np.int64], wanted: NDArray[np.bool_]
    ) -> None:
        self._history = history
        self._transactions = Committed(begins, commits, wanted)

    def of(self, files: Sequence[Locator], since: NDArray[np.int64]) -> list[Timeline]:
        """The timeline of each file, from the LSN of its first record, `since`, on."""
        steady = self._steady(files, since)
        return [
            self._one(file, first) if file_steady is None else Timeline([RelationSpan(first - 1, file_steady[0])], {})
            for file, first, file_steady in zip(files, since.tolist(), steady, strict=True)
        ]

    # -- files that nothing happened to --------------------------------------------------------------------------------------------

    def _steady(self, files: Sequence[Locator], since: NDArray[np.int64]) -> list[tuple[Relation | None] | None]:
        """Of each file about which no catalog row changed after `since`, its one relation, in a tuple, or None in one; of others None."""
        history = self._history
        classes, attributes = history.table("pg_class"), history.table("pg_attribute")
        rows, of = classes.where_any("relfilenode", np.array([file.number for file in files], np.int64))
        mine = history.has_tablespace(rows, np.array([file.tablespace for file in files], np.int64)[of])
        rows, of = rows[mine], of[mine]
        at = np.maximum(since, history.known_from)
        oids = classes["oid"][rows]
        changed = np.maximum(classes.last_changes("oid", oids), attributes.last_changes("attrelid", oids))
        changed = np.maximum(changed, history.table("pg_index").last_changes("indrelid", oids))
        changed = np.maximum(changed, history.table("pg_namespace").last_changes("oid", classes["relnamespace"][rows]))
        unsteady = np.zeros(len(files), np.bool_)
        unsteady[of[changed >= since[of]]] = True
        visible = (classes.rows.begin[rows] < at[of]) & (classes.rows.end[rows] >= at[of])
        answer = np.full(len(files), -1, np.int64)
        answer[of[visible]] = rows[visible]  # the last that is seen, as one by one
        typed, attribute_of = attributes.where_any("attrelid", oids)
        fancy = attributes["atttypid"][typed] >= FIRST_UNPINNED_TYPE
        unsteady[of[attribute_of[fancy]]] = True
        asked = np.flatnonzero(~unsteady & (answer >= 0))
        relations = dict(zip(asked.tolist(), history.relations_of(answer[asked], at[asked]), strict=True))
        return [None if moves else (relations.get(i),) for i, moves in enumerate(unsteady.tolist())]

    # -- one by one ----------------------------------------------------------------------------------------------------------------

    def _one(self, locator: Locator, since: int) -> Timeline:
        """The timeline of a file whose first record is at `since`. Wanted transactions that changed its catalog rows and committed later have spans
        of their own, from where they begin."""
        history = self._history
        oids = set(history.table("pg_class")["oid"][history.classes_of(locator)].tolist())
        until = int(
            history.table("pg_class").rows.end[history.classes_of(locator)].max(initial=since)
        )  # then no relation has it any more
        moments = change_points_of(
            chain.from_iterable(about_relation(history, oid) for oid in oids), since, until, self._transactions
        )
        own = {ordinal: self._spans_of(locator, start, points, ordinal) for ordinal, (start, points) in moments.own.items()}
        return Timeline(self._spans_of(locator, since, moments.points, -1), own)

    def _spans_of(self, locator: Locator, since: int, points: list[int], ordinal: int) -> list[RelationSpan]:
        """The file's relation at `since` and after each of these LSNs, as transaction `ordinal` sees it; one span while it is the same."""
        spans: list[RelationSpan] = []
        for point in [since - 1, *points]:
            try:
                relation = self._history.relation_at(locator, max(point + 1, self._history.known_from), ordinal)
            except MissingHistory:
                relation = None  # an error for rows that lie there, and for nobody else
            if not spans or spans[-1].relation is not relation:
                spans.append(RelationSpan(point, relation))
        return spans
