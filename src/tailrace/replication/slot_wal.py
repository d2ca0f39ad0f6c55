"""Check whether the WAL that slots need is still there, in their source or in the spool, and invalidate those whose WAL is gone.

In: a state location and its slots. Out: their status, as pg_replication_slots has it. A slot whose WAL is found to be gone is
lost, and stays so even if somebody puts the WAL back, as one that a checkpoint of PostgreSQL's invalidated.
"""

from __future__ import annotations

from dataclasses import replace

from tailrace.errors import UsageError
from tailrace.model import Lsn
from tailrace.pipeline.following import NothingNew, Steps
from tailrace.replication.slot_location import SlotLocation
from tailrace.slots.slot import WAL_REMOVED, Slot, WalStatus, wal_status
from tailrace.sources.named import directory_of, files_of
from tailrace.storage.segment_files import open_segments
from tailrace.storage.spool import spool_directory, with_copies

_IN_USE, _UNDEFINED = "55006", "42704"


def status_of(location: SlotLocation, slot: Slot, max_slot_wal_keep_size: int) -> Steps[WalStatus]:
    """What becomes of the slot's WAL. Raises as `open_segments` does, and OSError, where the source cannot be read: nothing is
    known of it then."""
    if slot.invalidation_reason:
        return WalStatus("lost", None)
    status = _seen(slot, max_slot_wal_keep_size)
    if status.wal_status != "lost":
        return status
    yield NothingNew.for_a_moment()  # a listing may be made while files are renamed
    status = _seen(slot, max_slot_wal_keep_size)
    if status.wal_status == "lost" and not lose(location, slot):
        return WalStatus("unreserved", None)  # whoever has it may be further than its file says, and then it goes on
    return status


def _seen(slot: Slot, keep_size: int) -> WalStatus:
    first, stop = _at_hand(slot)
    return wal_status(slot, available_from=first, flushed=stop, max_slot_wal_keep_size=keep_size)


def _at_hand(slot: Slot) -> tuple[Lsn, Lsn]:
    """Where the log begins that a consumer of the slot would have, and where its last segment ends."""
    segments = open_segments(files_of(slot.source))
    stop = segments.stop_lsn
    if directory_of(slot.source):  # of an archive nothing is copied
        segments, lease = with_copies(segments, spool_directory(), slot.restart_lsn)
        if lease:
            lease.end()
    return segments.first_lsn, stop


def lose(location: SlotLocation, slot: Slot) -> bool:
    """The slot cannot go on, for good. Not if somebody consumes it, who finds out for itself, or if it has moved on or was
    dropped since."""
    try:
        with location.owned(slot.name) as now:
            if now.restart_lsn != slot.restart_lsn:
                return False
            location.save(replace(now, invalidation_reason=WAL_REMOVED))
            return True
    except UsageError as error:
        if error.sqlstate not in (_IN_USE, _UNDEFINED):
            raise
        return False
