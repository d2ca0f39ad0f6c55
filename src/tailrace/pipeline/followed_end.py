"""Where a log ends, asked again and again: by each client that arrives (IDENTIFY_SYSTEM), and by functions of SQL.

In: a source. Out: the LSN behind the last whole record at hand. It is the same as long as the log's tail is (`sources.log_growth`); once the log has
grown, it is read from the last record on that was found before, instead of from the last checkpoint.

State: that record, and the tail behind it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace

from tailrace.dataclass import dataclass
from tailrace.errors import CorruptWal, MissingHistory
from tailrace.model import Lsn
from tailrace.pipeline.runner import Runner
from tailrace.pipeline.scanning import scanned
from tailrace.sources.log_growth import LogEnd, StoredEnd, StoredTail, Tail, end_of
from tailrace.sources.named import files_of
from tailrace.sources.source import Source
from tailrace.sources.source_name import SourceName
from tailrace.storage.segment_files import open_segments

_TRUSTED = 5.0
"""For how many seconds a tail that stays the same is believed."""


@dataclass(frozen=True, slots=True)
class _KnownEnd:
    """The end is at `lsn`, behind the record at `last` (0: there is none). `tail` is what stood there before the log was read to its end, None where
    that tells nothing; it is believed `until` then."""

    lsn: Lsn
    last: Lsn
    end: LogEnd | StoredEnd
    tail: Tail | StoredTail | None = None
    until: float = 0.0


class FollowedEnd:
    """The end of one source's log. Whoever asks while another looks waits for that."""

    def __init__(self, source: SourceName) -> None:
        self._source = source
        self._lock = threading.Lock()
        self._found: _KnownEnd | None = None

    def find(self, runner_for: Callable[[int], Runner]) -> Lsn:
        """Raises what reading the log raises."""
        with self._lock:
            before, self._found = self._found, None
            found = self._again(before, runner_for) if before is not None else None
            if found is None:
                found = self._read(self._checkpoint(), runner_for)
            if found.last:
                self._found = found
            return found.lsn

    def _again(self, before: _KnownEnd, runner_for: Callable[[int], Runner]) -> _KnownEnd | None:
        """None where it is another log by now, or what was known of it has been removed."""
        tail = before.end.tail()
        if tail is not None and tail == before.tail and time.monotonic() < before.until:
            return before
        try:
            found = self._read(before.last, runner_for)
        except (CorruptWal, MissingHistory):
            return None
        if not found.last:
            return None
        return replace(found, tail=tail, until=time.monotonic() + _TRUSTED) if found.end == before.end else found

    def _checkpoint(self) -> Lsn:
        """A place from which on there are records, if there are any: segments that were made ahead have none."""
        segments = open_segments(files_of(self._source))
        first = Lsn(max(segments.first_lsn, segments.stop_lsn - segments.segment_size))
        control = Source.open(self._source, first, for_catalogs=False).control
        if control is not None and segments.first_lsn <= control.checkpoint:
            first = Lsn(min(first, control.checkpoint))
        return first

    def _read(self, first: Lsn, runner_for: Callable[[int], Runner]) -> _KnownEnd:
        source = Source.open(self._source, first, for_catalogs=False)
        segments = source.segments
        lsn, last = first, Lsn(0)
        for part in scanned(segments, runner_for(segments.stop_lsn - first), first):
            lsn, last = Lsn(part.next_lsn), part.last if part.records else last
        return _KnownEnd(lsn, last, end_of(self._source, segments, lsn, last or None))
