"""A log cut anywhere: at records, and at pages in the middle of one."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Sequence

from tailrace.model import PAGE_SIZE, STRETCH_BYTES, Lsn, Stretch
from tailrace.pipeline import LocalRunner, Source
from tailrace.pipeline.scanning import scan_log
from tailrace.wal.framing import LSN, new_frame, next_record
from tailrace.wal.index import Index

MOST_CUTS = 40


def random_stretches(
    source: Source, dice: random.Random, since: Lsn | None, always: Collection[int] = (), *, cell: int = STRETCH_BYTES
) -> list[Stretch]:  # fmt: skip
    """All of the log, from record to record, some as short as one; cut at these LSNs as well, and at multiples of `cell`."""
    begin, lsns = records_of(source, since)
    cuts = {dice.choice(lsns[1:]) for _ in range(dice.randrange(1, MOST_CUTS))}
    cuts |= set(range((begin // cell + 1) * cell, lsns[-1], cell))
    return stretches_between([begin, *sorted(cuts | set(always)), int(source.segments.stop_lsn)])


def records_of(source: Source, since: Lsn | None) -> tuple[int, list[int]]:
    """Where the first stretch begins, and where each record does."""
    segments = source.segments
    end = scan_log(segments, LocalRunner(1), since)[-1].next_lsn
    begin = (since if since is not None else segments.first_lsn) // PAGE_SIZE * PAGE_SIZE
    wal = segments.read(begin, segments.stop_lsn)
    frame = new_frame(wal, segments.identity, begin, int(end))
    lsns = []
    while next_record(wal.buf, frame) >= 0:
        lsns.append(int(frame[LSN]))
    return begin, lsns


def stretches_between(bounds: Sequence[int]) -> list[Stretch]:
    """From each bound to the next."""
    return [Stretch(Lsn(a), Lsn(b)) for a, b in zip(bounds, bounds[1:], strict=False)]


def pages_in(begin: int, end: int) -> Iterable[int]:
    """Where pages begin behind `begin`."""
    return range((begin // PAGE_SIZE + 1) * PAGE_SIZE, end, PAGE_SIZE)


def random_groups(indexes: Sequence[Index], dice: random.Random) -> list[list[Index]]:
    """Windows of neighbouring stretches."""
    groups: list[list[Index]] = [[]]
    for part in indexes:
        if groups[-1] and dice.random() < 0.6:
            groups.append([])
        groups[-1].append(part)
    return groups
