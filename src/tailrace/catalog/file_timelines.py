"""Which relation a file was, from its first record on: what a plan says about each file of a stretch.

In: the history, and where transactions begin and commit. Out: for each file a `Timeline`: spans of WAL with the relation that the file was there,
once for transactions that left its catalog rows alone, and once for each that changed them, as it sees its own changes.

That can be another relation (or another version of it) only where some catalog row about the file begins or ends. So the history is asked at each of
those LSNs, and equal neighbours are one span. Of most files no such row changes after their first record; those are handled together, with array
operations, since there may be thousands of partitions.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.history import FIRST_UNPINNED_TYPE, History
from tailrace.catalog.rows import CatalogTable
from tailrace.errors import MissingHistory
from tailrace.model import Locator, Relation
from tailrace.transactions.fates import NEVER


@dataclass(frozen=True, slots=True)
class Span:
    """After `start`, up to and including the `start` of the next span, the file was that of `relation` (None: of no relation)."""

    start: int
    relation: Relation | None


@dataclass(frozen=True, slots=True)
class Timeline:
    """`spans` hold for transactions that did not change the file's catalog rows; `own` has, by ordinal, those of each that did."""

    spans: list[Span]
    own: dict[int, list[Span]]


About = tuple[CatalogTable, str, int | str]
"""Rows of a catalog: those whose column has a value."""


class FileTimelines:
    """By ordinal of a transaction, `begins` and `commits` are the LSNs of its first record and of its commit; one that is not `wanted` gets no spans
    of its own."""

    def __init__(
        self, history: History, begins: NDArray[np.int64], commits: NDArray[np.int64], wanted: NDArray[np.bool_]
    ) -> None:
        self._history = history
        self._begins = begins
        self._commits = commits
        self._wanted = wanted

    def of(self, files: Sequence[Locator], since: NDArray[np.int64]) -> list[Timeline]:
        """The timeline of each file, from the LSN of its first record, `since`, on."""
        steady = self._steady(files, since)
        return [
            self._one(file, first) if file_steady is None else Timeline([Span(first - 1, file_steady[0])], {})
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
        history, begins, commits, wanted = self._history, self._begins, self._commits, self._wanted
        about = [part for part in self._about(locator) if part[0].last_change(part[1], part[2]) >= since]
        until = int(
            history.table("pg_class").rows.end[history.classes_of(locator)].max(initial=since)
        )  # then no relation has it any more
        points: set[int] = set()
        inside: dict[int, set[int]] = {}
        for table, column, value in about:
            source, rows = table.rows, table.where(column, value)
            points.update(source.begin[rows].tolist())
            points.update(source.end[rows].tolist())
            for changer, at in ((source.made_by[rows], source.added[rows]), (source.unmade_by[rows], source.deleted[rows])):
                mine = np.flatnonzero((changer >= 0) & wanted[changer] & (commits[changer] > since) & (at <= until))
                for ordinal, point in zip(changer[mine].tolist(), at[mine].tolist(), strict=True):
                    inside.setdefault(ordinal, set()).add(point)
        in_order = sorted(point for point in points if since <= point <= until and point < NEVER)
        own = {}
        for ordinal, more in sorted(inside.items()):
            start = max(since, int(begins[ordinal]))
            meanwhile = in_order[bisect_left(in_order, start) : bisect_left(in_order, int(commits[ordinal]))]
            own[ordinal] = self._spans_of(
                locator, start, sorted({*meanwhile, *(point for point in more if point >= start)}), ordinal
            )
        return Timeline(self._spans_of(locator, since, in_order, -1), own)

    def _spans_of(self, locator: Locator, since: int, points: list[int], ordinal: int) -> list[Span]:
        """The file's relation at `since` and after each of these LSNs, as transaction `ordinal` sees it; one span while it is the same."""
        spans: list[Span] = []
        for point in [since - 1, *points]:
            try:
                relation = self._history.relation_at(locator, max(point + 1, self._history.known_from), ordinal)
            except MissingHistory:
                relation = None  # an error for rows that lie there, and for nobody else
            if not spans or spans[-1].relation is not relation:
                spans.append(Span(point, relation))
        return spans

    def _about(self, locator: Locator) -> Iterator[About]:
        """All catalog rows, of any time, that the relation of `locator` is made of, by the table and the value that finds them."""
        history = self._history
        classes, attributes = history.table("pg_class"), history.table("pg_attribute")
        for oid in set(classes["oid"][history.classes_of(locator)].tolist()):
            yield classes, "oid", oid
            for namespace in set(classes["relnamespace"][classes.where("oid", oid)].tolist()):
                yield history.table("pg_namespace"), "oid", namespace
            yield attributes, "attrelid", oid
            yield history.table("pg_index"), "indrelid", oid
            seen: set[int] = {0}
            for type_oid in set(attributes["atttypid"][attributes.where("attrelid", oid)].tolist()):
                yield from self._about_type(type_oid, seen)

    def _about_type(self, oid: int, seen: set[int]) -> Iterator[About]:
        """The same of a type and of the types that it is made of, unless they were `seen`."""
        if oid in seen or oid < FIRST_UNPINNED_TYPE:
            return  # built-in types do not change
        seen.add(oid)
        table = self._history.table
        types, ranges, attributes = table("pg_type"), table("pg_range"), table("pg_attribute")
        rows = types.where("oid", oid)
        yield types, "oid", oid
        for name in set(types.of("typname", rows).tolist()):
            yield types, "typname", name  # another of that name may come to stand before it on the search path
        yield table("pg_enum"), "enumtypid", oid
        for namespace in set(types["typnamespace"][rows].tolist()):
            yield table("pg_namespace"), "oid", namespace
        parts = {part for column in ("typelem", "typbasetype") for part in types[column][rows].tolist()}
        for relation in set(types["typrelid"][rows].tolist()) - {0}:
            yield attributes, "attrelid", relation
            parts.update(attributes["atttypid"][attributes.where("attrelid", relation)].tolist())
        for column in ("rngtypid", "rngmultitypid"):
            parts.update(ranges["rngsubtype"][ranges.where(column, oid)].tolist())
        for part in parts:
            yield from self._about_type(part, seen)
