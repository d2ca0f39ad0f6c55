"""A catalog state without what nobody will ask for again: rows that ended, for everybody, before a horizon.

In: a state, how transactions ended, and the horizon: nothing that is still to be decoded begins before it. Out: the state without the versions that
were over by then, their bytes, and the files that catalogs were moved away from. It is what would be there had each been forgotten at once, so
forgetting twice is forgetting once, at the later horizon.

A dead row may still lie on its page, whose image brings it again, and VACUUM FULL may copy it. So its place keeps the xid by which it is known as
over (`row_versions.Versions`), until another row is put there: what ended that xid must be remembered for as long (`xids_of_forgotten`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.history.user_tables import UserTables, files_of_user_tables, user_files
from tailrace.catalog.pages.catalog_files import FileKey
from tailrace.catalog.pages.tids import NO_VERSION, files_of, moved_tids
from tailrace.catalog.rows.catalog_rows import Spans, rows_of, spans_of
from tailrace.catalog.rows.layouts import layouts_of
from tailrace.catalog.rows.row_versions import XMIN_FROZEN, VersionColumns, Versions
from tailrace.catalog.state.catalog_state import CatalogState
from tailrace.model import FIRST_NORMAL_OID
from tailrace.ragged import bounds_of, ranges
from tailrace.transactions.commit_or_abort import ROLLED_BACK, EndedElsewhere, outcomes_of
from tailrace.wal.index import TRACKED_CATALOGS

_PG_CLASS = 1259
_ALIGNED = 7


def forgotten(state: CatalogState, ended: EndedElsewhere, horizon: int) -> CatalogState:
    """The state as whoever begins at `horizon` or later needs it. `ended` has the transactions that made or unmade versions, if they are over."""
    versions, columns = state.versions, state.versions.columns
    spans, is_dead, is_over = _over(state, ended, horizon)
    kept = np.flatnonzero(~is_over)
    left = replace(versions, columns=VersionColumns(*(column[kept] for column in columns)))
    files = _files_in_use(state, left, Spans(*(column[kept] for column in _columns(spans))))
    gone = np.array(sorted(user_files(state.files) - user_files(files)), np.int64)
    if len(gone):
        is_over |= np.isin(columns.catalog, gone)
        kept = np.flatnonzero(~is_over)
        left = replace(versions, columns=VersionColumns(*(column[kept] for column in columns)))
    number = np.full(len(versions) + 1, NO_VERSION, np.int64)  # the last stands for none
    number[:-1] = np.where(is_over, NO_VERSION - np.where(is_dead, columns.xmax, columns.xmin), np.cumsum(~is_over) - 1)
    tids, version_at = _places_in(state, versions, files)
    version_at = np.where(version_at >= 0, number[np.maximum(version_at, NO_VERSION)], version_at)
    return replace(state, versions=_compact(replace(left, tids=tids, version_at=version_at)), files=files)


def knows_dead(state: CatalogState, ended: EndedElsewhere, horizon: int) -> bool:
    """Whether it has a version to forget."""
    return bool(_over(state, ended, horizon)[2].any())


def _over(state: CatalogState, ended: EndedElsewhere, horizon: int) -> tuple[Spans, NDArray[np.bool_], NDArray[np.bool_]]:
    """Where each version is visible; which were deleted before the horizon; and those, with what was rolled back."""
    outcomes = outcomes_of((), elsewhere=ended)
    spans, columns = spans_of(state.versions, outcomes, state.status), state.versions.columns
    is_dead = (columns.xmax != 0) & (spans.end < horizon)
    return spans, is_dead, is_dead | ((outcomes.ordinals_of(columns.xmin) == ROLLED_BACK) & (columns.hints & XMIN_FROZEN == 0))


def xids_of_forgotten(versions: Versions) -> NDArray[np.int64]:
    """By which rows are known as over, whose versions are forgotten."""
    return np.unique(NO_VERSION - versions.version_at[versions.version_at < NO_VERSION])


def _columns(spans: Spans) -> tuple[NDArray[np.int64], ...]:
    return spans.begin, spans.end, spans.made_by, spans.unmade_by


def _files_in_use(state: CatalogState, versions: Versions, spans: Spans) -> dict[FileKey, int]:
    """The files that a version of pg_class names; of a catalog that the relation map names instead, the last: from when the map is written, which is
    directly before the mover's commit, nothing is written into the one before."""
    rows = rows_of(versions, spans, _PG_CLASS, layouts_of(state.major)["pg_class"], ("oid", "relfilenode"))
    named: dict[int, set[int]] = {}
    for oid, number in zip(rows.columns["oid"].tolist(), rows.columns["relfilenode"].tolist(), strict=True):
        if oid in TRACKED_CATALOGS:
            named.setdefault(oid, set()).add(number)
    last = {(database, oid): number for (database, number), oid in state.files.items()}
    users = files_of_user_tables(UserTables.of(versions, spans, state.major)) if user_files(state.files) else set()

    def is_in_use(database: int, number: int, oid: int) -> bool:
        if oid >= FIRST_NORMAL_OID:
            return oid in users
        numbers = named.get(oid)
        # Of one that no version names, nothing is known.
        return numbers is None or number in numbers or (0 in numbers and last[database, oid] == number)

    return {key: oid for key, oid in state.files.items() if is_in_use(*key, oid)}


def _places_in(state: CatalogState, versions: Versions, files: dict[FileKey, int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The places in these files, which are numbered anew, and what stands there."""
    number = np.array([list(files).index(key) if key in files else -1 for key in state.files], np.int64)
    moved_to = number[files_of(versions.tids)]
    there = np.flatnonzero(moved_to >= 0)
    return moved_tids(versions.tids[there], moved_to[there]), versions.version_at[there]


def _compact(versions: Versions) -> Versions:
    """The same in as few bytes as they take."""
    at, length = versions.columns.at, versions.columns.length
    bounds = bounds_of(length + _ALIGNED & ~_ALIGNED)
    tuples = np.zeros(bounds[-1], np.uint8)
    tuples[ranges(bounds[:-1], length)] = versions.tuples[ranges(at, length)]
    return replace(versions, columns=versions.columns._replace(at=bounds[:-1].copy()), tuples=tuples)
