"""Which relation each file of a stretch held, over which LSNs: looked up in the history and put into the arrays (`FileMap`) that a worker is sent."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.history.file_timelines import FileTimelines, RelationSpan
from tailrace.catalog.history.history import History
from tailrace.model import FIRST_UNPINNED_OID, Locator, Relation
from tailrace.plan.stretch_plan import NOT_DECODED, UNMAPPED, FileMap, is_decoded
from tailrace.ragged import lists_of
from tailrace.wal.index import Index


class FileMapper:
    """Files -> what they meant, found once per file for all stretches. By ordinal, `begins` and `commits` say where transactions lie; those that are
    not `wanted` need no timeline of their own."""

    def __init__(
        self,
        history: History,
        begins: NDArray[np.int64],
        commits: NDArray[np.int64],
        wanted: NDArray[np.bool_],
        *,
        rewrites: bool,
    ) -> None:
        self._history = history
        self._timelines = FileTimelines(history, begins, commits, wanted)
        self._spans = _AllSpans(rewrites=rewrites)
        self._places: dict[Locator, int] = {}
        self._own: dict[int, dict[int, int]] = {}

    def map(self, part: Index) -> tuple[FileMap, tuple[Relation, ...]]:
        files = part.files
        mine = np.flatnonzero((files.database == self._history.database) & (files.number >= FIRST_UNPINNED_OID))
        rowless = mine[np.isin(files.number[mine], self._history.rowless_files)]
        known = mine[np.isin(files.number[mine], self._history.table("pg_class")["relfilenode"])]
        ours = np.setdiff1d(known, rowless)
        # Files that no relation ever had: rows in them cannot be decoded, and say so.
        stray = np.setdiff1d(mine, known)
        rows = np.concatenate([ours, stray, rowless])
        key = (files.database[rows].astype(np.int64) << 32) | files.number[rows]
        places = self._places_of(part, ours)
        own_keys, own_places = [], []
        has_own = np.zeros(len(rows), np.bool_)
        for position, place in enumerate(places):
            for ordinal, own_place in self._own.get(place, {}).items():
                has_own[position] = True
                own_keys.append((position << 32) | ordinal)
                own_places.append(own_place)
        general = [*places, *[_STRAY] * len(stray), *[_ROWLESS] * len(rowless)]
        start, meaning, bounds = self._spans.of([*general, *own_places])
        numbers, relations = self._spans.numbered(meaning)
        file_map = FileMap(
            key, files.tablespace[rows].astype(np.int64), bounds[: len(rows) + 1], has_own, np.array(own_keys, np.int64), bounds[len(rows) :],
            start, numbers,
        )  # fmt: skip
        return file_map, relations

    def _places_of(self, part: Index, rows: NDArray[np.int64]) -> list[int]:
        """Where the timeline of each of these files lies among all spans; those met for the first time are made."""
        files = part.files
        parts = zip(files.tablespace[rows].tolist(), files.database[rows].tolist(), files.number[rows].tolist(), strict=True)
        locators = [Locator(*each) for each in parts]
        fresh = [i for i, locator in enumerate(locators) if locator not in self._places]
        made = self._timelines.of([locators[i] for i in fresh], files.first_lsn[rows[fresh]])
        for i, timeline in zip(fresh, made, strict=True):
            place = self._places[locators[i]] = self._spans.add(timeline.spans)
            if timeline.own:
                self._own[place] = {ordinal: self._spans.add(spans) for ordinal, spans in timeline.own.items()}
        return [self._places[locator] for locator in locators]


_STRAY, _ROWLESS = 0, 1


class _AllSpans:
    """The spans of all timelines, one after another: `_bounds` says where each begins. A relation is its number among those met."""

    def __init__(self, *, rewrites: bool) -> None:
        self._rewrites = rewrites
        self._start = [0, 0]
        self._meaning = [UNMAPPED, NOT_DECODED]
        self._bounds = [0, 1, 2]
        self._relations: list[Relation] = []
        self._number: dict[int, int] = {}  # by identity: the history has each relation once

    def add(self, spans: Sequence[RelationSpan]) -> int:
        """Append these timelines; returns where they lie."""
        for span in spans:
            self._start.append(span.start)
            self._meaning.append(self._meaning_of(span.relation))
        self._bounds.append(len(self._start))
        return len(self._bounds) - 2

    def _meaning_of(self, relation: Relation | None) -> int:
        if relation is None:
            return UNMAPPED
        if not is_decoded(relation, rewrites=self._rewrites):
            return NOT_DECODED
        number = self._number.setdefault(id(relation), len(self._relations))
        if number == len(self._relations):
            self._relations.append(relation)
        return number

    def of(self, places: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Starts and meanings of these timelines, one after another, and their bounds."""
        all_bounds, chosen = np.array(self._bounds, np.int64), np.array(places, np.int64)
        rows, bounds = lists_of(chosen, all_bounds)
        return np.array(self._start, np.int64)[rows], np.array(self._meaning, np.int64)[rows], bounds

    def numbered(self, meaning: NDArray[np.int64]) -> tuple[NDArray[np.int64], tuple[Relation, ...]]:
        """The meanings with relations counted anew, in the order in which they come here, and these relations."""
        decoded = meaning >= 0
        used, first, place = np.unique(meaning[decoded], return_index=True, return_inverse=True)
        order = np.argsort(first)
        number = np.empty(len(used), np.int64)
        number[order] = np.arange(len(used))
        anew = meaning.copy()
        anew[decoded] = number[place]
        return anew, tuple(self._relations[each] for each in used[order].tolist())
