"""A catalog state: all that decoding must know about the catalogs at one LSN, to go on from there (rule 5).

In: relation maps, commit status and pages of a data directory, or a file that an earlier run captured; then the catalog records of the WAL. Out:
`CatalogState`. Both ways are one: pages of a directory count as long as no record touched them since the redo pointer; a page that was touched
is, from its first touch, what its full-page image says. A state that is complete knows every page and needs no images.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace

import numpy as np

from tailrace.catalog.data_directory.commit_status import ABORTED, COMMITTED, CommitStatus
from tailrace.catalog.data_directory.multixacts import Multixacts
from tailrace.catalog.pages.catalog_files import CatalogFiles, FileKey
from tailrace.catalog.pages.heap_pages import CatalogPages
from tailrace.catalog.redo.replay import BeforeLog, CatalogLog, replay
from tailrace.catalog.redo.untouched_pages import untouched_pages
from tailrace.catalog.rows.kept_tables import KeptTables
from tailrace.catalog.rows.row_versions import XMAX_COMMITTED, XMAX_MULTI, XMIN_ABORTED, XMIN_COMMITTED, Versions
from tailrace.dataclass import dataclass
from tailrace.errors import MissingHistory, UsageError
from tailrace.model import Lsn
from tailrace.transactions.commit_or_abort import COMMITTED_ELSEWHERE, NEVER, NO_END, ROLLED_BACK, Outcomes
from tailrace.transactions.epochs import FIRST_NORMAL_XID, XidClock
from tailrace.wal.versions import FORMATS


@dataclass(slots=True)
class CatalogState:
    """The catalogs of one database (and the shared ones) as of `lsn`; `encoding` is the database's, by PostgreSQL's number.

    `files` says which catalog each file holds, files of the past included. `complete` states know every page. `status` and `multixacts` are
    pg_xact and pg_multixact of the directory, for transactions that ended before the WAL at hand. All xids are full; `next_xid` was the next near
    `lsn`. `xids_open` are the transactions open at `lsn` with the LSN of their first record, or 0 if that lies before all WAL that was at hand: what
    such a one did cannot be read. WAL is needed from the least of the others, or from `lsn`.
    """

    system: int
    timeline: int
    major: int
    lsn: Lsn
    database: int
    database_name: str
    default_tablespace: int
    encoding: int
    next_xid: int
    versions: Versions
    files: dict[FileKey, int]
    complete: bool
    status: CommitStatus | None
    multixacts: Multixacts | None
    xids_open: dict[int, int]
    knows_comments: bool = True
    """Whether all of pg_description is known. It is not where a mark goes on that was made before anybody kept it."""
    kept_tables: KeptTables = field(default_factory=KeptTables, compare=False, repr=False)

    @property
    def needs_wal_from(self) -> Lsn:
        """Where scanning must begin so that the transactions open here are read whole, as far as that can be."""
        return Lsn(min([self.lsn, *(lsn for lsn in self.xids_open.values() if lsn)]))

    def check_fits(self, database: str, system: int, major: int, timeline: int, history: Sequence[tuple[int, Lsn]]) -> None:
        """Raise unless the state is of this database of this system, and WAL of a timeline with this history goes on from where the state is, rather
        than from before, on another timeline. To be asked before anything is read by the state: what fails then may be for quite another reason."""
        if self.system != system:
            raise UsageError(
                f"the catalog state is of system {self.system}, the WAL of {system}",
                hint="Capture a state from the data directory that wrote this WAL, or from a backup of it.",
            )
        if self.major != major:
            raise UsageError(f"the catalog state is of PostgreSQL {self.major}, the WAL of {major}")
        if self.database_name != database:
            raise UsageError(f'the catalog state is of database "{self.database_name}", not "{database}"')
        left = dict(history) | {timeline: Lsn(NEVER)}
        if self.timeline > timeline or (history and self.lsn > left.get(self.timeline, 0)):
            raise UsageError(
                f"the catalog state is at {self.lsn} on timeline {self.timeline}, which is not in the history of timeline {timeline}",
                hint="Capture a state on the timeline that the WAL follows, or before it branched off.",
            )


def advance(
    state: CatalogState, log: CatalogLog, pages: CatalogPages, clock: XidClock, until: Lsn, tablespaces: frozenset[int]
) -> CatalogState:
    """The state after the catalog records of `log`; the database lay in these tablespaces. Raises MissingHistory where a page was changed that
    nothing tells the content of."""
    form = FORMATS[state.major]
    # Versions name a file by its place in the state, so files are only ever added at the end.
    files = CatalogFiles.of(state.files, tablespaces)
    before = untouched_pages(log, pages, state.files, files, form, until) if pages else BeforeLog.none()
    versions = replay(state.versions, before, log, clock, files, form, complete=state.complete)
    _name_updaters(versions, state.multixacts, clock, state.lsn)
    return replace(state, lsn=until, next_xid=clock.next_at_end, versions=versions)


def _name_updaters(versions: Versions, multixacts: Multixacts | None, clock: XidClock, start: Lsn) -> None:
    """Put a transaction in place of each multixact that is an xmax. What it is was written before the log at hand, which begins at `start`."""
    xmax, hints = versions.columns.xmax, versions.columns.hints
    for row in np.flatnonzero(hints & XMAX_MULTI).tolist():
        updater = multixacts.updater_of(int(xmax[row])) if multixacts else None
        if updater is None:
            raise MissingHistory(
                f"MultiXactId {xmax[row]} does no longer exist",
                hint="A catalog row was updated under it before the WAL at hand. Start later, or from a captured state (--catalog).",
            )
        xmax[row] = clock.full(updater, start)
        hints[row] &= ~XMAX_MULTI


def with_hint_bits(versions: Versions, outcomes: Outcomes, status: CommitStatus | None) -> Versions:
    """Versions whose hint bits (`access/htup_details.h`) say how their transactions ended, so that a state needs no commit status files. What the log
    does not tell is asked of `status`, pg_xact."""
    columns = versions.columns
    hints = columns.hints.copy()
    for xids, committed, aborted in ((columns.xmin, XMIN_COMMITTED, XMIN_ABORTED), (columns.xmax, XMAX_COMMITTED, 0)):
        ordinals = outcomes.ordinals_of(xids)
        hints[(ordinals >= 0) | (ordinals == COMMITTED_ELSEWHERE)] |= committed
        hints[ordinals == ROLLED_BACK] |= aborted
        if status is not None:
            asked = np.flatnonzero((ordinals == NO_END) & (xids >= FIRST_NORMAL_XID) & (hints & (committed | aborted) == 0))
            ended = status.of(xids[asked])
            hints[asked[ended == COMMITTED]] |= committed
            hints[asked[ended == ABORTED]] |= aborted
    return replace(versions, columns=columns._replace(hints=hints))
