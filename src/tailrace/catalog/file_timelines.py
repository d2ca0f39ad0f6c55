"""What a file meant from its first record on, as spans: what decoding takes along.

In: the history, and where transactions begin and commit. Out: for each file the relation that it was, and from where on, to others and to those
transactions that changed its meaning themselves.

What a file means can change only where some catalog row about it begins or ends, so a timeline is the answer of the history at each of those points,
equal neighbours joined. Of most files no such row changes after their first record. Those are told apart, and their relations put together, all at
once: columns instead of questions, since there may be thousands of partitions.
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
    """From `start` (exclusive) on, until the next span, the file meant `relation` (None: nothing)."""

    start: int
    relation: Relation | None


@dataclass(frozen=True, slots=True)
class Timeline:
    """What a file meant to others, and to each transaction, by ordinal, that changed it itself."""

    spans: list[Span]
    own: dict[int, list[Span]]


About = tuple[CatalogTable, str, int | str]
"""Rows of a catalog: those whose column has a value."""


class FileTimelines:
    """By ordinal, `begins` and `commits` say where transactions lie; those that are not `wanted` need no timeline of their own."""

    def __init__(
        self, history: History, begins: NDArray[np.int64], commits: NDArray[np.int64], wanted: NDArray[np.bool_]
    ) -> None:
        self._history = history
        self._begins = begins
        self._commits = commits
        self._wanted = wanted

    def of(self, files: Sequence[Locator], since: NDArray[np.int64]) -> list[Timeline]:
        """All that each file meant from its first record on, at `since`."""
        steady = self._steady(files, since)
        return [
            self._one(file, first) if file_steady is None else Timeline([Span(first - 1, file_steady[0])], {})
            for file, first, file_steady in zip(files, since.tolist(), steady, strict=True)
        ]

    # -- files that nothing happened to --------------------------------------------------------------------------------------------

    def _steady(self, files: Sequence[Locator], since: NDArray[np.int64]) -> list[tuple[Relation | None] | None]:
        """The one relation of each file about which no catalog row changed after `since`; None for files to be looked at one by one."""
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
        """All that `locator` meant from its first record at `since` on: to others, and to each wanted transaction that changed its meaning itself
        and committed after that record. The latter tell of no more than the time from where it begins."""
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
        """What it meant at `since`, and what after each of these points, where that is something else."""
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
        """Every catalog row, of any time, that has a say in what `locator` meant."""
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
