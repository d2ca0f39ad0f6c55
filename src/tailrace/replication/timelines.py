"""Whether a log goes on from where a slot is: timelines branch off where a standby was promoted, or a backup recovered.

In: a slot, and the segments of its log with their history. Out: on which timeline a position lies; or the error, if the consumer
has what never was.
"""

from __future__ import annotations

from tailrace.errors import MissingHistory, UsageError
from tailrace.model import Lsn
from tailrace.slots.slot import Slot
from tailrace.storage.segments import Segments
from tailrace.transactions.commit_or_abort import NEVER


def left_at(segments: Segments) -> dict[int, Lsn]:
    """Where each timeline of this line of history was left."""
    return dict(segments.history) | {segments.timeline: Lsn(NEVER)}


def timeline_at(segments: Segments, lsn: Lsn) -> int:
    """On which timeline everything before `lsn` can be read."""
    return min((timeline for timeline, left in left_at(segments).items() if lsn <= left), default=segments.timeline)


def check_line(slot: Slot, segments: Segments) -> None:
    """Raise unless the log goes on from where the slot is."""
    if slot.system != segments.system:
        raise UsageError(
            f'replication slot "{slot.name}" is of system {slot.system}, "{slot.source}" of {segments.system}', sqlstate="55000"
        )
    check_taken(slot, segments, slot.timeline, slot.confirmed_flush_lsn, "confirmed")


def check_taken(slot: Slot, segments: Segments, timeline: int, upto: Lsn, done: str) -> None:
    """Raise unless what the slot's consumer has `done` up to a position on a timeline is of this log's past."""
    if timeline < segments.timeline and not segments.history:
        name = f"{segments.timeline:08X}.history"
        raise MissingHistory(
            f'could not open file "{name}": No such file or directory',
            hint=f"It says where timeline {segments.timeline} branched off. Put it where the segments are.",
            sqlstate="58P01",
            file=name,
        )
    switch = left_at(segments).get(timeline)
    if switch is None:
        raise UsageError(
            f"requested timeline {timeline} is not in this server's history",
            hint=f'The consumer of replication slot "{slot.name}" may have changes of a branch that was abandoned. '
            "Undo that, then create the slot again.",
            context=f'"{slot.source}" is on timeline {segments.timeline}',
            sqlstate="55000",
        )
    if upto > switch:
        raise UsageError(
            f'replication slot "{slot.name}" has {done} {upto} on timeline {timeline}, which timeline {segments.timeline} left at {switch}',
            hint=f"What its consumer took between {switch} and {upto} is of a branch that was abandoned. "
            "Undo that, then create the slot again.",
            sqlstate="55000",
            lsn=switch,
        )
