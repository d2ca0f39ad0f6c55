"""Check that a log is still the one that a consumer has read: a server that was restored from an earlier copy of itself may have written other
records since, on the same timeline.

In: what stood before a position (`wal.log_fingerprint`), and the segments of the log as they are now. Out: nothing; or the error, which
says what the consumer has seen of a history that is gone.
"""

from __future__ import annotations

from functools import partial

from tailrace.errors import MissingHistory, TailraceError, UsageError
from tailrace.model import Lsn
from tailrace.plan.carried import Carried
from tailrace.replication.slot_location import SlotLocation
from tailrace.replication.timelines import check_line, left_at
from tailrace.slots.slot import Slot
from tailrace.storage.segments import Segments
from tailrace.wal.log_fingerprint import Difference, Kind, LogFingerprint, difference, fingerprint_before


def fingerprint_in(segments: Segments, upto: Lsn, needed_from: Lsn) -> LogFingerprint | None:
    """What stands there before `upto`, of the segments from the one with `needed_from` on."""
    found = fingerprint_before(segments.read, segments.identity, upto, _first(segments, needed_from))
    return found or fingerprint_before(segments.read, segments.identity, upto, segments.first_lsn)


def difference_in(segments: Segments, fingerprint: LogFingerprint, needed_from: Lsn) -> Difference | None:
    """How these segments differ from the log that the fingerprint was taken of; None if they do not."""
    found = difference(fingerprint, segments.read, segments.identity, _first(segments, needed_from))
    if found is not None and found.kind is Kind.UNKNOWN:
        found = difference(fingerprint, segments.read, segments.identity, segments.first_lsn)
    return found


def fits(segments: Segments, carried: Carried) -> bool:
    """Whether what is carried is of this log, as far as that can be told."""
    if carried.fingerprint is None:
        return True
    found = difference_in(segments, carried.fingerprint, carried.restart_lsn)
    return found is None or found.kind is Kind.UNKNOWN


def fitting_mark(location: SlotLocation, database: int, upto: Lsn, segments: Segments) -> Carried:
    """The latest mark up to there that is of this log. Raises MissingHistory if none is."""
    return location.mark_upto(database, upto, left_at(segments), fits=partial(fits, segments))


def check_same(
    whose: str,
    segments: Segments,
    fingerprint: LogFingerprint | None,
    needed_from: Lsn,
    done: str,
    location: SlotLocation,
    database: int,
) -> bool:
    """Raise unless the log still has this fingerprint, before whose end a consumer (`whose`, in words) has `done` all. False where
    that cannot be told, since the log begins behind it by now."""
    if fingerprint is None:
        return True
    found = difference_in(segments, fingerprint, needed_from)
    if found is None:
        return True
    if found.kind is Kind.UNKNOWN:
        return False
    raise gone(whose, segments, fingerprint, found, done, _common(location, database, segments, fingerprint.last))


def check_slot(location: SlotLocation, slot: Slot, segments: Segments) -> bool:
    """Raise unless the log goes on from where the slot is, and is the one that was read up to there. False where the record
    before what is confirmed is gone, so that nobody can tell."""
    check_line(slot, segments)
    return check_same(slot_in_words(slot), segments, slot.fingerprint, slot.restart_lsn, "confirmed", location, slot.database_oid)


def slot_in_words(slot: Slot) -> str:
    return f'replication slot "{slot.name}"'


def gone(
    whose: str, segments: Segments, fingerprint: LogFingerprint, found: Difference, done: str, common: Lsn | None
) -> TailraceError:
    """The error. `common` is up to where the log is known to be the same."""
    since = f"{common} and " if common is not None else ""
    between = f"between {since}{fingerprint.upto}" if since else f"before {fingerprint.upto}, nobody knows since when,"
    begin = (
        f"begin there (tailrace slot create --at {common}, tailrace decode --start-lsn {common})"
        if since
        else "create a new slot"
    )
    about = {
        "detail": f"The last record before {fingerprint.upto} was at {fingerprint.last}, with checksum {fingerprint.crc:08X}."
        + (f" Up to {common} the log is the same." if since else ""),
        "hint": f"The server was put back to an earlier copy of itself, or lost the end of its log: what the consumer took {between} is of a history "
        f"that is gone. Undo that, and {begin}; or begin with a new copy and a new slot.",
        "sqlstate": "55000",
        "lsn": int(fingerprint.last),
        "file": segments.name_at(fingerprint.last),
    }  # fmt: skip
    if found.kind is Kind.SHORT:  # more of it may be on its way
        return MissingHistory(
            f"{whose} has {done} {fingerprint.upto}, but its log ends at {found.at}",
            context=found.why,
            **about,  # type: ignore[arg-type]
        )
    return UsageError(
        f"{whose} has {done} {fingerprint.upto}, but its log has another record at {found.at} than was read there", context=found.why,
        **about, # type: ignore[arg-type]
    )  # fmt: skip


def _first(segments: Segments, needed_from: Lsn) -> Lsn:
    return max(segments.first_lsn, Lsn(needed_from // segments.segment_size * segments.segment_size))


def _common(location: SlotLocation, database: int, segments: Segments, upto: Lsn) -> Lsn | None:
    """The latest mark that is of this log."""

    def same(carried: Carried) -> bool:
        return carried.fingerprint is not None and difference_in(segments, carried.fingerprint, carried.restart_lsn) is None

    try:
        return location.mark_upto(database, upto, left_at(segments), fits=same).lsn
    except MissingHistory:
        return None
