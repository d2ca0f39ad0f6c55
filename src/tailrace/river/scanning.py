"""The first pass: a log cut into stretches, and each stretch indexed, or only counted, somewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TypeVar

from tailrace.catalog.pages import ControlFile
from tailrace.errors import CorruptWal, MissingHistory, TailraceError
from tailrace.model import PAGE_SIZE, Locator, Lsn, Stretch
from tailrace.plan.consistency import check_chain
from tailrace.river.runner import Runner
from tailrace.storage.index_store import IndexStore
from tailrace.storage.segments import Segments
from tailrace.wal.framing import WalBytes
from tailrace.wal.index import Index, NeedMoreWal, scan
from tailrace.wal.statistics import Counts, count
from tailrace.wal.versions import FORMATS

STRETCH_BYTES = 64 << 20
Found = TypeVar("Found")


def scan_stretch(segments: Segments, also: Sequence[Locator], stretch: Stretch) -> Index:
    """Read a stretch and index it; errors name the file. Runs in a worker."""
    form = FORMATS[segments.major]

    def work(wal: WalBytes, *, at_end_of_log: bool) -> Index:
        return scan(
            wal, stretch, form, segments.segment_size, system=segments.system, timeline=segments.timeline,
            at_end_of_log=at_end_of_log, also=also,
        )  # fmt: skip

    with files_named(segments):
        return read_whole(segments, stretch, work)


@contextmanager
def files_named(segments: Segments) -> Iterator[None]:
    """Errors whose context ends with an LSN also name the file."""
    try:
        yield
    except TailraceError as error:
        position = error.context.rpartition(" ")[2]
        if "/" in position and not position.endswith('"'):
            error.context += f', file "{segments.name_at(Lsn.parse(position))}"'
        raise


def read_whole(segments: Segments, stretch: Stretch, work: Callable[..., Found]) -> Found:
    """`work(wal, at_end_of_log=…)` on the bytes of a stretch, and on as many behind it as its last record takes: until it no longer raises
    NeedMoreWal."""
    ahead = 4 * PAGE_SIZE
    while True:
        wal = segments.read(stretch.start, stretch.stop + ahead)
        try:
            return work(wal, at_end_of_log=wal.base + wal.raw < stretch.stop + ahead)
        except NeedMoreWal:
            ahead *= 16


def stretches_of(segments: Segments, start: int, stop: int, size: int = STRETCH_BYTES) -> list[Stretch]:
    """Cut `[start, stop)` at multiples of `size`; the first begins at the page of `start`."""
    begin = int(start) // PAGE_SIZE * PAGE_SIZE
    cuts = [begin, *range((begin // size + 1) * size, int(stop), size), int(stop)]
    return [Stretch(Lsn(a), Lsn(b)) for a, b in zip(cuts, cuts[1:], strict=False) if a < b]


def scan_log(
    segments: Segments, runner: Runner, start: Lsn | None = None, size: int = STRETCH_BYTES, store: IndexStore | None = None, *,
    stop: Lsn | None = None,
) -> list[Index]:  # fmt: skip
    """Index everything from `start` to the end of the log (or the records that start before `stop`), but for what `store` has. Raises where the log
    has a hole."""
    begin = segments.first_lsn if start is None else start
    if not segments.first_lsn <= begin <= segments.stop_lsn:
        raise MissingHistory(
            f"requested WAL segment {segments.name_at(begin)} has already been removed",
            hint=f"The source holds WAL from {segments.first_lsn} to {segments.stop_lsn}.",
            context=f"LSN {begin}",
        )
    found: list[Index] = []
    ended: Index | None = None
    stretches = stretches_of(segments, begin, segments.stop_lsn if stop is None else stop, size)
    stored = {stretch: store.load(segments.system, segments.timeline, stretch) for stretch in stretches} if store else {}
    scanned = runner.run(partial(scan_stretch, segments, ()), [stretch for stretch in stretches if stored.get(stretch) is None])
    for stretch in stretches:
        part = stored.get(stretch) or next(scanned)
        if ended is not None and part.records:
            raise CorruptWal(
                ended.reason, hint="Valid WAL follows, so this is damage and not the end of the log.",
                context=f'WAL record at {ended.next_lsn}, file "{segments.name_at(ended.place)}"',
            )  # fmt: skip
        if ended is None and _is_not_written(part, found):
            ended = replace(
                part, sealed=False, next_lsn=found[-1].next_lsn, reason=f"invalid magic number 0000 in WAL page at {stretch.start}",
                place=stretch.start,
            )  # fmt: skip
            found.append(ended)
        elif ended is None:
            found.append(part)
            if not part.sealed:
                ended = part
            elif store and part.records and stored.get(stretch) is None:
                store.save(part)  # what has no records, or lies behind the end of the log, may yet be written
    for missing, present in segments.gaps:
        if stop is not None and missing * segments.segment_size >= stop:
            break
        raise CorruptWal(
            f"WAL segment {segments.name_at(missing * segments.segment_size)} is missing, but {segments.by_number[present].path} is there",
            context=f"LSN {Lsn(missing * segments.segment_size)}",
        )
    check_chain(found)
    return found


def _is_not_written(part: Index, before: Sequence[Index]) -> bool:
    """Whether a stretch is zeros, and not because the log went on in another segment."""
    zeros = (
        part.sealed and not part.records and part.place == part.stretch.start
    )  # and not a part of a record that a crash cut off
    return zeros and bool(before) and before[-1].next_lsn < part.stretch.stop


def check_reaches(found: Sequence[Index], control: ControlFile | None) -> None:
    """Raise if the log ends before the checkpoint that the data directory's control file names: a server has written at least that far."""
    if control is not None and found[-1].next_lsn <= control.checkpoint:
        raise CorruptWal(
            f"could not locate a valid checkpoint record at {control.checkpoint}",
            hint="pg_control names it, but the log ends before it: what lies between is lost or damaged.",
            context=f"{found[-1].reason or f'end of the log at {found[-1].next_lsn}'}",
        )


def count_log(segments: Segments, runner: Runner, size: int = STRETCH_BYTES) -> Counts:
    """Count every record, to the end of the log or to where it is damaged; `scan_log` tells the one from the other."""
    stretches = stretches_of(segments, segments.first_lsn, segments.stop_lsn, size)
    parts = runner.run(partial(_count_stretch, segments), stretches)
    counts = next(parts)
    for part in parts:
        if counts.reason:
            break
        counts.follow(part)
    return counts


def _count_stretch(segments: Segments, stretch: Stretch) -> Counts:
    """Runs in a worker."""
    return read_whole(
        segments, stretch,
        partial(count, stretch=stretch, form=FORMATS[segments.major], segment_size=segments.segment_size, system=segments.system),
    )  # fmt: skip
