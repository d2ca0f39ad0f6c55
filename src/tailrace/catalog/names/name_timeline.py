"""The names that regclass and its kin print at all moments of a stretch.

In: a history, a stretch, and the transactions with rows in it. Out: `NameTimeline`, which goes along with a stretch whose tables have columns of
such types. It has the names of all objects as they were at the start of the stretch (`lookup`), and of those whose names changed, from where on they
were what (`name_changes`). So its size, and the time that it takes, are in proportion to what changed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.names.name_changes import CatalogSpan, Changes, NamingCatalogs
from tailrace.catalog.names.oid_names import Names, names_at, oid_alias_types
from tailrace.dataclass import dataclass
from tailrace.model import Relation, Stretch

if TYPE_CHECKING:
    from tailrace.catalog.history.history import History


@dataclass(frozen=True, slots=True)
class NameTimeline:
    """`common` are the names at the start; `changes` are what others saw of those that changed; `own` are, by ordinal, what transactions saw that
    changed catalogs themselves, of every name that they affected."""

    common: Names
    changes: Changes
    own: dict[int, Changes]

    def name_at(self, reg_type: int, oid: int, lsn: int, ordinal: int) -> str | None:
        """What the reg type prints for the oid to a change at `lsn` in that transaction."""
        key = (reg_type, oid)
        for changes in (self.own.get(ordinal, {}), self.changes):
            starts, texts = changes.get(key, ((), ()))
            if place := bisect_left(starts, lsn):
                return texts[place - 1]
        return self.common.get(key)

    def parts(self, lsn: NDArray[np.int64], ordinal: NDArray[np.int64]) -> Iterator[tuple[NamesAt, NDArray[np.int64]]]:
        """The rows, by number and in their order, in parts that saw the same names."""
        if not len(lsn):
            return
        changes_before = np.searchsorted(_all_starts(self.changes), lsn)
        changers = np.where(np.isin(ordinal, list(self.own)), ordinal, -1)
        order = np.argsort(changers, kind="stable")
        for rows in np.split(order, np.flatnonzero(np.diff(changers[order])) + 1):
            changer = int(changers[rows[0]])
            # Both counts only grow with the LSN: their sum is the same where neither has changed.
            seen = changes_before[rows] + np.searchsorted(_all_starts(self.own.get(changer, {})), lsn[rows])
            by_seen = np.argsort(seen, kind="stable")
            for part in np.split(rows[by_seen], np.flatnonzero(np.diff(seen[by_seen])) + 1):
                yield NamesAt(self, int(lsn[part[0]]), changer), part


@dataclass(frozen=True, slots=True)
class NamesAt:
    """The names that changes at one LSN of one transaction saw. A `style.NameOf`."""

    timeline: NameTimeline
    lsn: int
    ordinal: int

    def __call__(self, reg_type: int, oid: int) -> str | None:
        return self.timeline.name_at(reg_type, oid, self.lsn, self.ordinal)


def name_timeline(
    history: History,
    stretch: Stretch,
    relations: Iterable[Relation],
    ordinal: NDArray[np.int64],
    first_lsn: NDArray[np.int64],
    commits: NDArray[np.int64],
) -> NameTimeline | None:
    """What the names were to rows of the stretch; None if no column of the relations prints any. `ordinal` are the transactions with rows here,
    one per xid, each from its `first_lsn` on; `commits` are the commits of all, by ordinal."""
    by_columns = {id(relation.columns): relation for relation in relations}  # partitions have the same
    reg_types = frozenset[int]().union(*map(oid_alias_types, by_columns.values()))
    if not reg_types:
        return None
    start, stop = int(stretch.start), int(stretch.stop)
    common = names_at(history, reg_types, start, -1)
    catalogs = NamingCatalogs(history, reg_types)
    changes = CatalogSpan(catalogs, -1, start, stop).changes(_came_or_went(catalogs, start, stop), common)
    begins: dict[int, int] = {}
    for number, lsn in zip(ordinal.tolist(), first_lsn.tolist(), strict=True):
        begins[number] = min(lsn, begins.get(number, lsn))
    own: dict[int, Changes] = {}
    for number, rows in sorted(_changed_by(catalogs, begins, stop).items()):
        first, last = begins[number], min(int(commits[number]), stop)
        seen = CatalogSpan(catalogs, number, first, last).changes(rows, common)
        own[number] = {key: spans for key, spans in seen.items() if key in changes or spans[1] != (common.get(key),)}
    return NameTimeline(common, changes, {number: seen for number, seen in own.items() if seen})


def _came_or_went(catalogs: NamingCatalogs, start: int, stop: int) -> dict[str, NDArray[np.int64]]:
    """The rows that began or ended for others from `start` up to `stop`, by catalog."""
    came_or_went = {}
    for catalog in catalogs.catalogs:
        begin, end = catalogs.table(catalog).rows.begin, catalogs.table(catalog).rows.end
        came_or_went[catalog] = np.flatnonzero(
            (begin < end) & (begin < stop) & (end >= start) & ((begin >= start) | (end < stop))
        )
    return came_or_went


def _changed_by(catalogs: NamingCatalogs, begins: dict[int, int], stop: int) -> dict[int, dict[str, NDArray[np.int64]]]:
    """By transaction and catalog, the rows that it inserted or deleted before `stop`, without those that it had deleted again where it `begins`."""
    numbers = np.array(sorted(begins), np.int64)
    firsts = np.array([begins[number] for number in numbers.tolist()], np.int64)
    changed: dict[int, dict[str, NDArray[np.int64]]] = {}
    for catalog in catalogs.catalogs:
        source = catalogs.table(catalog).rows
        inserted = np.flatnonzero(np.isin(source.made_by, numbers) & (source.added < stop))
        deleted = np.flatnonzero(np.isin(source.unmade_by, numbers) & (source.deleted < stop))
        both = deleted[source.made_by[deleted] == source.unmade_by[deleted]]
        brief = both[source.deleted[both] < firsts[np.searchsorted(numbers, source.unmade_by[both])]]
        rows = np.concatenate([inserted, deleted])
        changer = np.concatenate([source.made_by[inserted], source.unmade_by[deleted]])
        kept = ~np.isin(rows, brief)
        rows, changer = rows[kept], changer[kept]
        order = np.argsort(changer, kind="stable")
        for part in np.split(order, np.flatnonzero(np.diff(changer[order])) + 1):
            if len(part):
                none = dict.fromkeys(catalogs.catalogs, np.zeros(0, np.int64))
                changed.setdefault(int(changer[part[0]]), none)[catalog] = np.unique(rows[part])
    return changed


def _all_starts(changes: Changes) -> NDArray[np.int64]:
    """Every LSN after which some name is another."""
    starts = [start for starts, _ in changes.values() for start in starts]
    return np.unique(np.array(starts, np.int64))
