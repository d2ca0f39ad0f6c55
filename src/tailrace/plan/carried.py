"""`Carried` is what planning a window needs to know of the log before it, so that nothing before the window is read again but rows of transactions
that were open.

In: a scanned window, and the catalogs at its end. Out: `Carried`, at the LSN where the next window begins. It is a function of the log alone, however
that was cut into windows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.rows.row_versions import XMIN_COMMITTED, XMIN_FROZEN, Versions
from tailrace.catalog.state.catalog_state import CatalogState
from tailrace.catalog.state.forget import forgotten, knows_dead, xids_of_forgotten
from tailrace.dataclass import dataclass
from tailrace.model import Lsn
from tailrace.plan.consistency import consistency
from tailrace.plan.decodable import levels_that_matter
from tailrace.plan.invalidations import committed_invalidations
from tailrace.plan.message_order import catalog_changes
from tailrace.plan.xids import all_xids
from tailrace.transactions.commit_or_abort import NEVER, NO_END, EndedElsewhere, Outcomes
from tailrace.transactions.indexes_of_unfinished import indexes_of_unfinished
from tailrace.transactions.scanned_log import Earlier, InvalidatedRelations, ScannedLog
from tailrace.transactions.unfinished import Unfinished, unfinished
from tailrace.wal.log_fingerprint import LogFingerprint


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Carried:
    """`lsn` is where the next window begins; `next_xid`, an LSN near it and the full xid that was next there. The catalogs' state may be of later;
    what tables were is known from `known_from` on, before which nothing begins that is still to be decoded. `last` is the last record before `lsn`,
    which the next one must name; 0 if none was read. `fingerprint` says more of what stands there, in what is kept for longer."""

    lsn: Lsn
    next_xid: tuple[int, int]
    earlier: Earlier
    state: CatalogState
    known_from: Lsn
    last: Lsn = Lsn(0)
    fingerprint: LogFingerprint | None = None

    @property
    def restart_lsn(self) -> Lsn:
        """No WAL from before it is read any more: rows of transactions that are open may lie from here on."""
        return Lsn(min([self.lsn, *(part.stretch.start for part in self.earlier.indexes_of_unfinished)]))

    @property
    def waits_for(self) -> list[int]:
        """Transactions that are open, and began where nothing is known of them; top-level ones and others, by full xid."""
        return sorted(self.earlier.open_at_start or ())


def carried_from(log: ScannedLog, state: CatalogState, before: Carried, horizon: Lsn) -> Carried:
    """What to carry on from the end of `log`, at whose beginning it was `before`. What the catalogs were before `horizon`, and before what is open
    began, is forgotten."""
    unread, _ = consistency(log)
    # Of those that began before the log some may be prepared; no restart ends them.
    still = unfinished(log, unread, unread)
    # One that began before the log will never be decoded, so it keeps nothing.
    began = still.first_lsn[still.first_lsn > 0]
    horizon = Lsn(min(int(began.min(initial=log.end)), horizon))
    wal_levels, began_low = levels_that_matter(log, horizon)
    ended = ended_in(state.versions, log.outcomes)
    if state.versions is not before.state.versions or knows_dead(state, ended, horizon):
        state = forgotten(state, ended, horizon)
        ended = ended_in(state.versions, log.outcomes)
    return Carried(
        lsn=log.end,
        next_xid=(int(log.end), log.clock.next_at_end),
        earlier=Earlier(
            open_at_start={xid: 0 for xid, lsn in still.first_lsns.items() if not lsn},
            indexes_of_unfinished=indexes_of_unfinished(log.indexes, still),
            ended=_without_hinted(ended, state.versions, horizon),
            catalog_changes=_catalog_changes(log, still),
            invalidated=_invalidated(log, still, state),
            wal_levels=wal_levels,
            began_low=began_low,
        ),
        state=state,
        known_from=max(before.known_from, horizon),
        last=next((part.last for part in reversed(log.scanned) if part.records), before.last),
    )


def _without_hinted(ended: EndedElsewhere, versions: Versions, horizon: int) -> EndedElsewhere:
    """Without the makers of versions that say themselves that they committed, where nobody asks when. A user catalog table's rows that VACUUM FULL
    has copied are of transactions that a window before may have passed without any cause to keep their ends."""
    columns = versions.columns
    says_so = columns.hints & (XMIN_COMMITTED | XMIN_FROZEN) != 0
    asked = np.concatenate([columns.xmin[~says_so], columns.xmax, xids_of_forgotten(versions)])
    kept = ~np.isin(ended.xid, columns.xmin[says_so]) | np.isin(ended.xid, asked) | (ended.seen_from >= horizon)
    return EndedElsewhere(ended.xid[kept], ended.seen_from[kept])


def _catalog_changes(log: ScannedLog, still: Unfinished) -> NDArray[np.int64]:
    """Those that an open transaction can have come by."""
    transactions = log.outcomes.transactions
    here = transactions.commit_lsn[catalog_changes(all_xids(log.indexes, log.outcomes), transactions)]
    every = np.concatenate([log.earlier.catalog_changes, here])
    return every[every > still.first_lsn.min(initial=NEVER)]


def _invalidated(log: ScannedLog, still: Unfinished, state: CatalogState) -> InvalidatedRelations:
    """What commits invalidated that an open transaction has come by."""
    every = committed_invalidations(log, state.database, state.major)
    mine = every.lsn > still.first_lsn.min(initial=NEVER)
    return InvalidatedRelations(every.lsn[mine], every.oid[mine])


def ended_in(versions: Versions, outcomes: Outcomes) -> EndedElsewhere:
    """Of the transactions that made and unmade versions, those whose end is known. Prepared ones have none yet, though they may have been told.
    Whoever deleted a row that is forgotten did so for good; if no record says when, it was before all WAL."""
    deleters = xids_of_forgotten(versions)
    xids = np.unique(np.concatenate([versions.columns.xmin, versions.columns.xmax, deleters]))
    seen, ordinal = outcomes.seen_of(xids)
    known = (ordinal != NO_END) & ~((ordinal >= 0) & (seen == NEVER))
    before = ~known & np.isin(xids, deleters)
    seen[before] = 0
    known |= before
    return EndedElsewhere(xids[known], seen[known])
