"""Files -> what they meant, as the arrays that decoding takes along."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.history import History, Span
from tailrace.model import FIRST_UNPINNED_OID, Locator, Relation
from tailrace.plan.stretch import NOT_DECODED, UNMAPPED, FileMap, is_decoded
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
        self._rewrites = rewrites
        self._history = history
        self._begins = begins
        self._commits = commits
        self._wanted = wanted
        self._timelines: dict[Locator, tuple[list[Span], dict[int, list[Span]]]] = {}

    def map(self, found: Index) -> tuple[FileMap, tuple[Relation, ...]]:
        files = found.files
        mine = np.flatnonzero((files.database == self._history.database) & (files.number >= FIRST_UNPINNED_OID))
        rowless = mine[np.isin(files.number[mine], self._history.rowless_files)]
        known = mine[np.isin(files.number[mine], self._history.table("pg_class")["relfilenode"])]
        ours = np.setdiff1d(known, rowless)
        numbers: dict[Relation, int] = {}
        unknown = np.setdiff1d(mine, known)
        starts: list[int] = []
        meanings: list[int] = []
        bounds = [0]
        has_own: list[bool] = []
        own_keys: list[int] = []
        own_spans: list[list[Span]] = []

        def add(spans: list[Span]) -> None:
            for span in spans:
                starts.append(span.start)
                relation = span.relation
                if relation is None:
                    meanings.append(UNMAPPED)
                elif not is_decoded(relation, rewrites=self._rewrites):
                    meanings.append(NOT_DECODED)
                else:
                    meanings.append(numbers.setdefault(relation, len(numbers)))

        locators = zip(files.tablespace[ours].tolist(), files.database[ours].tolist(), files.number[ours].tolist(), strict=True)
        for position, (locator, first) in enumerate(
            zip((Locator(*parts) for parts in locators), files.first_lsn[ours].tolist(), strict=True)
        ):
            general, own = self._timeline(locator, first)
            add(general)
            bounds.append(len(starts))
            has_own.append(bool(own))
            for ordinal, spans in own.items():
                own_keys.append((position << 32) | ordinal)
                own_spans.append(spans)
        # Files that no relation ever had: rows in them cannot be decoded, and say so.
        for _ in unknown:
            add([Span(0, None)])
            bounds.append(len(starts))
            has_own.append(False)
        for _ in rowless:
            starts.append(0)
            meanings.append(NOT_DECODED)
            bounds.append(len(starts))
            has_own.append(False)
        own_bounds = [len(starts)]
        for spans in own_spans:
            add(spans)
            own_bounds.append(len(starts))
        rows = np.concatenate([ours, unknown, rowless])
        key = (files.database[rows].astype(np.int64) << 32) | files.number[rows]
        file_map = FileMap(
            key, files.tablespace[rows].astype(np.int64), np.array(bounds, np.int64), np.array(has_own, np.bool_), np.array(own_keys, np.int64),
            np.array(own_bounds, np.int64), np.array(starts, np.int64), np.array(meanings, np.int64),
        )  # fmt: skip
        return file_map, tuple(numbers)

    def _timeline(self, locator: Locator, first: int) -> tuple[list[Span], dict[int, list[Span]]]:
        if locator not in self._timelines:
            self._timelines[locator] = self._history.timelines(locator, first, self._begins, self._commits, self._wanted)
        return self._timelines[locator]
