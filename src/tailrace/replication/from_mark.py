"""Plan a log up to its end from the newest mark of a state location, so that nothing before the mark is read again.

In: a location, a database of which it has slots, and a log. Out: `Carried` at the log's end; or the catalogs as they are there.
"""

from __future__ import annotations

from functools import partial

from tailrace.catalog.history.history import History
from tailrace.errors import MissingHistory
from tailrace.model import STRETCH_BYTES, Lsn
from tailrace.pipeline.following import FollowedLog, open_source, weight_of
from tailrace.pipeline.runner import Runner
from tailrace.pipeline.scanning import Scanning
from tailrace.pipeline.windows import carry, history_at
from tailrace.plan.carried import Carried
from tailrace.replication.same_log import fitting_mark
from tailrace.replication.slot_location import SlotLocation
from tailrace.replication.timelines import check_line
from tailrace.replication.waiting import finish
from tailrace.sources.source import Source
from tailrace.sources.source_name import SourceName
from tailrace.storage.segments import Segments
from tailrace.wal.xlog import LOGICAL
from tailrace.window import windows


def sharing(location: SlotLocation, segments: Segments) -> Scanning:
    """How those scan who have a location in common: what one of them has scanned, the others need not."""
    return Scanning(store=location.index_store, shared_cell=min(segments.segment_size, STRETCH_BYTES))


def known_at_end(
    location: SlotLocation, database: str, source: Source, name: SourceName, runner: Runner
) -> tuple[Carried, Source] | None:
    """At the end of the log that goes by this name, which may have grown; and the source that reaches there. None if no mark of the database lies in
    what the source holds of it, if the database is another one by now, or if wal_level is, or was, too low."""
    if source.control is not None and source.control.wal_level < LOGICAL:
        return None
    oids = {slot.database_oid for slot in location.slots() if slot.database == database and not slot.invalidation_reason}
    for oid in oids:
        try:
            mark = fitting_mark(location, oid, source.segments.stop_lsn, source.segments)
        except MissingHistory:
            continue
        if mark.restart_lsn >= source.segments.first_lsn:
            carried, reaches = _carried_on(location, mark, source, name, runner)
            is_low = any(level < LOGICAL for _, level in carried.earlier.wal_levels)
            if history_at(carried).names_database(database) and not is_low:
                return carried, reaches
    return None


def catalogs_at_end(location: SlotLocation, name: str, runner: Runner) -> tuple[History, Lsn]:
    """What the tables of a slot's database are at the end of its log, and where that is; whoever owns the slot."""
    slot = location.slot(name)
    source = finish(open_source(slot.source, slot.restart_lsn, partial(check_line, slot)))
    mark = fitting_mark(location, slot.database_oid, slot.confirmed_flush_lsn, source.segments)
    carried, _ = _carried_on(location, mark, source, slot.source, runner)
    return history_at(carried), carried.lsn


def _carried_on(
    location: SlotLocation, carried: Carried, source: Source, name: SourceName, runner: Runner
) -> tuple[Carried, Source]:
    news = FollowedLog.behind(carried, name, source).look(runner, sharing(location, source.segments))
    for parts in windows(news, weight_of, runner.window):
        source = parts[-1][0]
        carried = carry(source, runner, carried, [part for _, part in parts])
    return carried, source
