"""A catalog state taken from a data directory, to decode from later: `tailrace catalog capture`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tailrace.catalog.pages import ABORTED, COMMITTED
from tailrace.catalog.row_versions import XMAX_COMMITTED, XMIN_ABORTED, XMIN_COMMITTED, Versions
from tailrace.catalog.state import CatalogState
from tailrace.errors import UsageError
from tailrace.model import Lsn
from tailrace.plan.consistency import consistency
from tailrace.river.catalogs import know_catalogs, with_full_xids
from tailrace.river.runner import Runner
from tailrace.river.scanning import check_reaches, scan_log
from tailrace.river.source import Source
from tailrace.transactions.epochs import FIRST_NORMAL_XID
from tailrace.transactions.fates import Fates
from tailrace.transactions.unfinished import still_open
from tailrace.wal import xact
from tailrace.wal.index import Index


def capture(source: Source, runner: Runner, database: str) -> CatalogState:
    """The catalog state at the end of the source's WAL (of a stopped directory: at its checkpoint), complete, to decode from later."""
    directory = source.directory
    if directory is None:
        raise UsageError("a catalog state is captured from a data directory", hint=f'"{source.segments.directory}" is only WAL.')
    control = directory.control()
    prepared = directory.prepared()
    is_quiet = control.shut_down and not prepared
    # A directory that was stopped knows nothing after its checkpoint, whatever WAL lies beside it. In another, what is open may have begun before;
    # prepared transactions are open in either.
    start = control.redo if is_quiet else None
    stop = Lsn(control.redo + 1) if control.shut_down else None
    scanned = scan_log(source.segments, runner, start, stop=stop)
    check_reaches(scanned, source.control)
    indexes, clock = with_full_xids(source, scanned)
    catalogs = know_catalogs(source, indexes, clock, runner, database, None)
    state = catalogs.state
    open_xids: dict[int, int] = {}
    if not is_quiet:
        unread, _ = consistency(indexes, None, catalogs.fates.transactions, clock)
        open_xids = still_open(indexes, clock, catalogs.fates, unread, prepared)
    if control.shut_down:
        open_xids = {xid: open_xids.get(xid, 0) for xid in prepared | _subxids_of(prepared, indexes)}
    return replace(
        state, versions=_settled(state, catalogs.fates), status=None, multixacts=None, complete=True, xids_open=open_xids,
        lsn=control.checkpoint if control.shut_down else indexes[-1].next_lsn,
        timeline=control.timeline if control.shut_down else source.segments.timeline,
    )  # fmt: skip


def _subxids_of(prepared: set[int], indexes: Sequence[Index]) -> set[int]:
    """Their subtransactions, as far as the PREPAREs are at hand."""
    return {
        xid
        for found in indexes
        for row in np.flatnonzero((found.ends.kind == xact.PREPARE) & np.isin(found.ends.xid, sorted(prepared))).tolist()
        for xid in found.ends.subxids[found.ends.subxact_bounds[row] : found.ends.subxact_bounds[row + 1]].tolist()
    }


def _settled(state: CatalogState, fates: Fates) -> Versions:
    """Versions whose transactions' ends are written into their hint bits, so that the state needs no commit status files."""
    columns = state.versions.columns
    hints = columns.hints.copy()
    for xids, committed, aborted in ((columns.xmin, XMIN_COMMITTED, XMIN_ABORTED), (columns.xmax, XMAX_COMMITTED, 0)):
        ordinals = fates.ordinals_of(xids)
        hints[ordinals >= 0] |= committed
        hints[ordinals == -1] |= aborted
        if state.status is not None:
            asked = np.flatnonzero((ordinals == -2) & (xids >= FIRST_NORMAL_XID) & (hints & (committed | aborted) == 0))
            status = state.status.of(xids[asked])
            hints[asked[status == COMMITTED]] |= committed
            hints[asked[status == ABORTED]] |= aborted
    return replace(state.versions, columns=columns._replace(hints=hints))
