"""The first pass: cut a log into stretches, and have a runner scan each of them into an index, or only count its records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from tailrace.dataclass import dataclass
from tailrace.errors import CorruptWal, MissingHistory
from tailrace.model import PAGE_SIZE, STRETCH_BYTES, Locator, Lsn, Stretch
from tailrace.pipeline.runner import Runner
from tailrace.pipeline.stored_indexes import LogIndexes, SharedIndexes
from tailrace.plan.whole_log import check_chain, ended_before
from tailrace.sources.source import Source
from tailrace.storage.index_store import IndexStore
from tailrace.storage.segments import Segments
from tailrace.transactions.scanned_log import ScannedLog
from tailrace.wal.index import Index
from tailrace.wal.pages import WalBytes
from tailrace.wal.scan import scan
from tailrace.wal.statistics import Counts, count
from tailrace.wal.stretch_bytes import read_whole
from tailrace.window import WindowSize


def scan_stretch(segments: Segments, also: Sequence[Locator], stretch: Stretch) -> Index:
    """Read a stretch and index it. Runs in a worker."""

    def work(wal: WalBytes, *, at_end_of_log: bool) -> Index:
        return scan(wal, stretch, segments.identity, at_end_of_log=at_end_of_log, also=also)

    return read_whole(segments.read, stretch, work)


def stretches_of(segments: Segments, start: int, stop: int, size: int = STRETCH_BYTES) -> list[Stretch]:
    """Cut `[start, stop)` at multiples of `size`; the first begins at the page of `start`."""
    return cut_at(int(start) // PAGE_SIZE * PAGE_SIZE, stop, size)


def cut_at(start: int, stop: int, size: int = STRETCH_BYTES) -> list[Stretch]:
    """Cut at multiples of `size`, and begin at `start` itself."""
    cuts = [int(start), *range((int(start) // size + 1) * size, int(stop), size), int(stop)]
    return [Stretch(Lsn(a), Lsn(b)) for a, b in zip(cuts, cuts[1:], strict=False) if a < b]


@dataclass(frozen=True, slots=True)
class Scanning:
    """How a log is scanned: in stretches of this size, and with indexes that an earlier run kept; and how large windows are.
    Without a size stretches have STRETCH_BYTES where indexes are kept, since they are of a stretch, and otherwise, as windows,
    what suits the runner. A store that others use at the same time has indexes of `shared_cell` bytes. But for indexes that
    are kept, none has more than a window."""

    stretch_bytes: int | None = None
    store: IndexStore | None = None
    window: WindowSize | None = None
    shared_cell: int | None = None

    def size_for(self, runner: Runner, log_bytes: int) -> int:
        size = self.shared_cell or self.stretch_bytes or (STRETCH_BYTES if self.store else runner.stretch_bytes(log_bytes))
        if self.store is None and self.window is not None:
            # No stretch lies in two cells of what is carried (`transactions.indexes_of_unfinished`), so its size is a power of two.
            size = min(size, 1 << max(self.window.wal_bytes, PAGE_SIZE).bit_length() - 1)
        return size


AS_SUITS = Scanning()


def scan_log(
    segments: Segments, runner: Runner, start: Lsn | None = None, how: Scanning = AS_SUITS, *, stop: Lsn | None = None
) -> list[Index]:  # fmt: skip
    """Index everything from `start` to the end of the log (or the records that start before `stop`), but for what is stored.
    Raises where the log has a hole."""
    return list(scanned(segments, runner, start, how, stop=stop))


def scanned(
    segments: Segments, runner: Runner, start: Lsn | None = None, how: Scanning = AS_SUITS, *, stop: Lsn | None = None
) -> Iterator[Index]:  # fmt: skip
    """The same as an iterator, so that not all indexes are in memory at once."""
    begin = segments.first_lsn if start is None else start
    if not segments.first_lsn <= begin <= segments.stop_lsn:
        raise MissingHistory(
            f"requested WAL segment {segments.name_at(begin)} has already been removed",
            hint=f"The source holds WAL from {segments.first_lsn} to {segments.stop_lsn}.",
            context=f"LSN {begin}",
            lsn=begin,
        )
    end = segments.stop_lsn if stop is None else stop
    stretches = stretches_of(segments, begin, end, how.size_for(runner, end - begin))
    yield from scanned_stretches(segments, runner, stretches, how)
    for missing, present in segments.gaps:
        if stop is not None and missing * segments.segment_size >= stop:
            break
        raise CorruptWal(
            f"WAL segment {segments.name_at(missing * segments.segment_size)} is missing, but {segments.by_number[present].path} is there",
            context=f"LSN {Lsn(missing * segments.segment_size)}",
            lsn=Lsn(missing * segments.segment_size),
            file=segments.name_at(missing * segments.segment_size),
        )


def scanned_stretches(
    segments: Segments, runner: Runner, stretches: Sequence[Stretch], how: Scanning = AS_SUITS
) -> Iterator[Index]:  # fmt: skip
    """The indexes of stretches that follow one another, up to where the log ends."""
    last: Index | None = None
    for part in _up_to_the_end(segments, _indexed(segments, runner, stretches, how)):
        check_chain([part] if last is None else [last, part])
        last = part if part.records else last
        yield part


def _indexed(segments: Segments, runner: Runner, stretches: Sequence[Stretch], how: Scanning) -> Iterator[Index]:
    """The index of each stretch: the stored one, or else a new one, which is stored."""
    scan_them = partial(runner.run, partial(scan_stretch, segments, ()))
    if how.store is None:
        return scan_them(stretches)
    indexes = LogIndexes(how.store, segments.identity, segments.read)
    if how.shared_cell is None:
        return indexes.stored_or_new(stretches, scan_them)
    # Others wait for so many at the most; of large cells as many as keep two threads at work.
    at_once = max(2, runner.window.wal_bytes // 4 // how.shared_cell)
    return SharedIndexes(indexes, how.shared_cell, at_once).of(stretches, scan_them)


def _up_to_the_end(segments: Segments, parts: Iterable[Index]) -> Iterator[Index]:
    """The indexes up to the one in which the log ends. Raises CorruptWal if records follow."""
    before: Index | None = None
    ended: Index | None = None
    for part in parts:
        if ended is not None:
            if part.records:
                raise CorruptWal(
                    ended.reason, hint="Valid WAL follows, so this is damage and not the end of the log.",
                    context=f'WAL record at {ended.next_lsn}, file "{segments.name_at(ended.place)}"', lsn=ended.next_lsn,
                    file=segments.name_at(ended.place),
                )  # fmt: skip
            continue
        before = ended_before(part, before)
        if before.sealed:
            yield before
        else:
            ended = before
    if ended is not None:
        yield ended


def oddity_at_end(log: ScannedLog, source: Source) -> str:
    """What is odd about where the log ends: a broken record, which a crash cut off or which is damaged; or whole segments
    behind the end that hold nothing of this log, where no data directory says that they were made ahead. A running server's
    may be read while it is written."""
    last, segments = log.indexes[-1], source.segments
    if source.lease is not None or last.sealed:
        return ""
    if last.torn:
        return f'the log ends at a record that is not whole, or damaged: {last.reason}, file "{segments.name_at(last.place)}"'
    behind = -(-last.next_lsn // segments.segment_size)
    if source.directory is None and (segment := segments.by_number.get(behind)) is not None and not segment.partial:
        return f'the log ends at {last.next_lsn}, and holds nothing of what "{segment.path}" should: it was made ahead, or is another\'s'
    return ""


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
    """Count the records of a stretch, in a worker."""
    return read_whole(segments.read, stretch, partial(count, stretch=stretch, log=segments.identity))
