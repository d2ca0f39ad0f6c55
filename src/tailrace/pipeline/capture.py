"""A catalog state taken from a data directory, to decode from later: `tailrace catalog capture`."""

from __future__ import annotations

from dataclasses import replace

from tailrace.catalog.state.catalog_state import CatalogState, with_hint_bits
from tailrace.errors import UsageError
from tailrace.model import Lsn
from tailrace.pipeline.catalogs import know_catalogs, with_full_xids
from tailrace.pipeline.runner import Runner
from tailrace.pipeline.scanning import scan_log
from tailrace.plan.consistency import consistency
from tailrace.plan.whole_log import check_reaches
from tailrace.sources.source import Source
from tailrace.transactions.unfinished import subxids_of_prepared, unfinished


def capture(
    source: Source, runner: Runner, database: str, upto: Lsn | None = None, since: Lsn | None = None
) -> CatalogState:  # fmt: skip
    """The catalog state at the end of the source's WAL (of a stopped directory: at its checkpoint), complete, to decode from
    later. Of WAL that grows meanwhile only what begins before `upto` is read, and nothing from before `since`."""
    directory = source.directory
    if directory is None:
        raise UsageError("a catalog state is captured from a data directory", hint=f'"{source.segments.directory}" is only WAL.')
    control = directory.control()
    prepared = directory.prepared()
    is_quiet = control.shut_down and not prepared
    # A directory that was stopped knows nothing after its checkpoint, whatever WAL lies beside it. In another, what is open may
    # have begun before; prepared transactions are open in either.
    start = control.redo if is_quiet else since
    stop = Lsn(control.redo + 1) if control.shut_down else upto
    indexes = scan_log(source.segments, runner, start, stop=stop)
    check_reaches(indexes, source.control)
    log = with_full_xids(source, indexes)
    state = know_catalogs(source, runner, log, database, None).state
    open_xids: dict[int, int] = {}
    if not is_quiet:
        unread, _ = consistency(log)
        open_xids = unfinished(log, unread, prepared).first_lsns
    if control.shut_down:
        open_xids = {xid: open_xids.get(xid, 0) for xid in prepared | subxids_of_prepared(prepared, log.indexes)}
    return replace(
        state, versions=with_hint_bits(state.versions, log.outcomes, state.status), status=None, multixacts=None, complete=True,
        xids_open=open_xids, lsn=control.checkpoint if control.shut_down else log.end,
        timeline=control.timeline if control.shut_down else source.segments.timeline,
    )  # fmt: skip
