"""`tailrace wal stat | dump | verify`: look at the records of a log."""

from __future__ import annotations

import sys
from typing import Any

from tailrace.cli.choice import On
from tailrace.cli.engine import runner_for
from tailrace.cli.progress import counted
from tailrace.cli.tables import Listing, write_json, write_listing
from tailrace.dataclass import dataclass
from tailrace.errors import count_of
from tailrace.model import Lsn
from tailrace.pipeline.runner import LocalRunner, Runner
from tailrace.pipeline.scanning import count_log, scan_log
from tailrace.plan.whole_log import check_reaches
from tailrace.sources.source import Source
from tailrace.storage.segment_files import list_segments
from tailrace.storage.segments import Segments
from tailrace.wal.describe import Described
from tailrace.wal.statistics import Counted, walk


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """Which records `dump` prints: those of `managers`, if there are any, of the transaction, and on the file."""

    managers: frozenset[int] = frozenset()
    xid: int | None = None
    relation: str = ""

    def passes(self, record: Described) -> bool:
        if self.managers and record.manager not in self.managers:
            return False
        return (self.xid is None or record.xid == self.xid) and (not self.relation or self.relation in map(str, record.files))


def stat(source: str, top: int, on: On, *, as_json: bool) -> None:
    """Print what takes how much of the log; `top` of the relations and transactions."""
    opened = Source.open(source)
    segments = opened.segments
    runner = _runner(on, segments)
    counts = count_log(segments, runner)
    parts = {
        "resource manager": (counts.managers, len(counts.managers)), "tablespace/database/file": (counts.files, top),
        "transaction": (counts.transactions, top),
    }  # fmt: skip
    if as_json:
        document: dict[str, Any] = {"from": str(counts.first), "to": str(counts.stop), "reason": counts.reason}
        for name, (part, most) in parts.items():
            document[name] = [{"name": each, "records": records, "bytes": size} for each, records, size in part.largest(most)]
        write_json({"records": counts.managers.total_records, **document})
    else:
        for name, (part, most) in parts.items():
            write_listing(_listing(name, part, most))
        total = f"{count_of(counts.managers.total_records, 'record')} from {counts.first} to {counts.stop}"
        sys.stdout.write(f"{total}, where the walk ended: {counts.reason or 'no file follows'}\n")
    _check_end(segments, counts.stop - 1, runner=runner)


def _listing(noun: str, counted: Counted, top: int) -> Listing:
    shown = counted.largest(top)
    rows = [(name, records, size, round(100 * size / counted.total_bytes, 1)) for name, records, size in shown]
    rest = "" if len(shown) == len(counted) else f"the largest {len(shown)} of {len(counted):,}"
    return Listing((noun, "records", "bytes", "%"), [*rows], rest)


def dump(source: str, begin: Lsn | None, stop: Lsn | None, wanted: RecordFilter, limit: int | None, *, as_json: bool) -> None:
    """Print the records that are wanted, at most `limit`."""
    opened = Source.open(source, begin)
    segments = opened.segments
    last, printed = int(begin or segments.first_lsn), 0
    for record in walk(segments, begin, stop):
        if limit is not None and printed >= limit:
            return
        last = record.lsn
        if wanted.passes(record):
            if as_json:
                write_json(record.as_dict())
            else:
                sys.stdout.write(f"{record}\n")
            printed += 1
    _check_end(segments, last, stop)


def _check_end(segments: Segments, last: int, stop: Lsn | None = None, runner: Runner | None = None) -> None:
    """Raise if that is not where the log ends, but damage: `last` lies in the last record that was read."""
    scan_log(segments, runner or LocalRunner(), Lsn(max(last, segments.first_lsn)), stop=stop)


def verify(source: str, on: On, *, as_json: bool) -> None:
    """Print that all records are sound, and where the log ends. Raises CorruptWal where it is damaged."""
    opened = Source.open(source)
    segments = opened.segments
    indexes = scan_log(segments, _runner(on, segments))
    check_reaches(indexes, opened.control)
    records, last = sum(part.records for part in indexes), indexes[-1]
    chosen = {segment.path for segment in segments.by_number.values()}
    others = [each.name for each in list_segments(segments.lies_in) if each.path not in chosen]
    if as_json:
        end = (
            {"reason": last.reason, "at": str(last.place), "file": segments.name_at(last.place), "torn": last.torn}
            if last.reason
            else None
        )
        write_json(
            {"records": records, "from": str(indexes[0].first), "to": str(last.next_lsn), "end": end, "not_checked": others}
        )
        return
    sound = f"{count_of(records, 'record')} from {indexes[0].first} to {last.next_lsn}, all sound"
    ends = "the log ends at a record that is not whole, or damaged" if last.torn else "the log ends there"
    end_words = f'; {ends}: {last.reason}, file "{segments.name_at(last.place)}"' if last.reason else ""
    sys.stdout.write(f"{sound}{end_words}\n")
    if others:
        sys.stdout.write(f"not checked, since of other history or second copies: {', '.join(others)}\n")


def _runner(on: On, segments: Segments) -> Runner:
    with counted("records") as progress:
        return runner_for(on, segments.stop_lsn - segments.first_lsn, progress.tell)
