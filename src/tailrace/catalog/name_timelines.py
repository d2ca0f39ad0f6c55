"""What regclass and its kin printed when: the names of `references` at all moments of a stretch at which one of them changed.

In: a history, a stretch, and the transactions with rows in it. Out: `NameTimeline`, which goes along with a stretch whose tables have columns of
such types, and sorts their rows by the names that they saw.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.references import CatalogNames, Names, catalogs_of, names_at, pointing_types
from tailrace.model import Relation, Stretch

if TYPE_CHECKING:
    from tailrace.catalog.history import History


@dataclass(frozen=True, slots=True)
class NameTimeline:
    """From `starts[i]` (exclusive) on, the names are `names[i]`; `own` is how transactions (by ordinal) saw them that changed some themselves."""

    starts: tuple[int, ...]
    names: tuple[CatalogNames, ...]
    own: dict[int, NameTimeline]

    def parts(self, lsn: NDArray[np.int64], ordinal: NDArray[np.int64]) -> Iterator[tuple[CatalogNames, NDArray[np.int64]]]:
        """The rows, by number, that saw the same names, in their order."""
        changers = [number for number in np.unique(ordinal).tolist() if number in self.own]
        yield from self._parts(lsn, np.flatnonzero(~np.isin(ordinal, changers)))
        for number in changers:
            yield from self.own[number]._parts(lsn, np.flatnonzero(ordinal == number))

    def _parts(self, lsn: NDArray[np.int64], rows: NDArray[np.int64]) -> Iterator[tuple[CatalogNames, NDArray[np.int64]]]:
        held = np.searchsorted(np.array(self.starts, np.int64), lsn[rows]) - 1
        for place in np.unique(held).tolist():
            yield self.names[place], rows[held == place]


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
    reg_types = frozenset[int]().union(*map(pointing_types, relations))
    if not reg_types:
        return None
    start, stop = int(stretch.start), int(stretch.stop)
    points: set[int] = set()
    inside: dict[int, set[int]] = {}
    for source in (history.table(name).rows for name in catalogs_of(reg_types)):
        points.update(source.begin.tolist(), source.end.tolist())
        for changer, at in ((source.made_by, source.added), (source.unmade_by, source.deleted)):
            mine = np.isin(changer, ordinal)
            for number, point in zip(changer[mine].tolist(), at[mine].tolist(), strict=True):
                inside.setdefault(number, set()).add(point)
    common = names_at(history, reg_types, start, -1)

    def between(first: int, last: int, more: set[int], number: int) -> NameTimeline:
        found: list[tuple[int, CatalogNames]] = []
        for point in [first - 1, *sorted(point for point in points | more if first <= point < last)]:
            names = _different(common, names_at(history, reg_types, point + 1, number))
            if not found or found[-1][1].different != names.different:
                found.append((point, names))
        return NameTimeline(tuple(point for point, _ in found), tuple(names for _, names in found), {})

    own = {
        number: between(int(first_lsn[ordinal == number].min()), min(int(commits[number]), stop), more, number)
        for number, more in sorted(inside.items())
    }
    others = between(start, stop, set(), -1)
    return NameTimeline(others.starts, others.names, own)


def _different(others: Names, names: Names) -> CatalogNames:
    return CatalogNames(
        others, {key: names.get(key) for key in others.keys() | names.keys() if others.get(key) != names.get(key)}
    )
