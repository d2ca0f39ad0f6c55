"""The points in a log after which what some rows of catalogs say may be another, and to whom.

In: rows of catalogs (`About`), and where transactions begin and commit. Out: `ChangePoints`: the LSNs after which it may be another, to all who
left these rows alone; and by transaction those after which it may be another to one that changed them itself. Whoever asks the history at each of
them has asked often enough."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.history.history import FIRST_UNPINNED_TYPE, History
from tailrace.catalog.rows.catalog_rows import CatalogTable
from tailrace.dataclass import dataclass
from tailrace.transactions.commit_or_abort import NEVER

About = tuple[CatalogTable, str, int | str]
"""Rows of a catalog: those whose column has a value."""


@dataclass(frozen=True, slots=True)
class Committed:
    """By ordinal of a transaction, the LSNs of its first record and of its commit; one that is not `wanted` gets no points of its own."""

    begins: NDArray[np.int64]
    commits: NDArray[np.int64]
    wanted: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ChangePoints:
    """`points` ascend. `own` has, by ordinal, where its transaction begins (not before the first LSN that was asked about), and its points."""

    points: list[int]
    own: dict[int, tuple[int, list[int]]]


def change_points_of(about: Iterable[About], since: int, until: int, transactions: Committed) -> ChangePoints:
    """The points from `since` up to `until` of what these rows say. A transaction that commits before `since` changed them for all."""
    points: set[int] = set()
    inside: dict[int, set[int]] = {}
    commits, wanted = transactions.commits, transactions.wanted
    for table, column, value in about:
        if table.last_change(column, value) < since:
            continue
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
        start = max(since, int(transactions.begins[ordinal]))
        meanwhile = in_order[bisect_left(in_order, start) : bisect_left(in_order, int(commits[ordinal]))]
        own[ordinal] = start, sorted({*meanwhile, *(point for point in more if point >= start)})
    return ChangePoints(in_order, own)


def about_relation(history: History, oid: int) -> Iterator[About]:
    """All catalog rows, of any time, that the relation `oid` is made of, by the table and the value that finds them."""
    classes, attributes = history.table("pg_class"), history.table("pg_attribute")
    yield classes, "oid", oid
    for namespace in set(classes["relnamespace"][classes.where("oid", oid)].tolist()):
        yield history.table("pg_namespace"), "oid", namespace
    yield attributes, "attrelid", oid
    yield history.table("pg_index"), "indrelid", oid
    seen: set[int] = {0}
    for type_oid in set(attributes["atttypid"][attributes.where("attrelid", oid)].tolist()):
        yield from _about_type(history, type_oid, seen)


def _about_type(history: History, oid: int, seen: set[int]) -> Iterator[About]:
    """The same of a type and of the types that it is made of, unless they were `seen`."""
    if oid in seen or oid < FIRST_UNPINNED_TYPE:
        return  # built-in types do not change
    seen.add(oid)
    table = history.table
    types, ranges, attributes = table("pg_type"), table("pg_range"), table("pg_attribute")
    rows = types.where("oid", oid)
    yield types, "oid", oid
    for name in set(types.of("typname", rows).tolist()):
        yield types, "typname", name  # another of that name may come to stand before it on the search path
    yield table("pg_enum"), "enumtypid", oid
    for function in history.functions_of_types(rows):
        yield table("pg_proc"), "oid", function
    for namespace in set(types["typnamespace"][rows].tolist()):
        yield table("pg_namespace"), "oid", namespace
    parts = {part for column in ("typelem", "typbasetype") for part in types[column][rows].tolist()}
    for relation in set(types["typrelid"][rows].tolist()) - {0}:
        yield attributes, "attrelid", relation
        parts.update(attributes["atttypid"][attributes.where("attrelid", relation)].tolist())
    for column in ("rngtypid", "rngmultitypid"):
        parts.update(ranges["rngsubtype"][ranges.where(column, oid)].tolist())
    for part in parts:
        yield from _about_type(history, part, seen)
