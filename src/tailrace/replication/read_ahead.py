"""What lies behind a large window is scanned while the window is put to use, so that the next one is found sooner.

In: a window that ends before the log does, and the location whose indexes its slots share. Out: indexes in that store, and nothing else: who looks
for the next window finds them there. What is wrong with the log is raised by who reads it then.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import field
from itertools import islice
from threading import Event

from tailrace.dataclass import dataclass
from tailrace.errors import TailraceError
from tailrace.model import STRETCH_BYTES, Stretch
from tailrace.pipeline.pipeline import Pipeline
from tailrace.pipeline.runner import LocalRunner
from tailrace.pipeline.scanning import cut_at, scanned_stretches
from tailrace.pipeline.stored_indexes import UNSETTLED
from tailrace.replication.from_mark import sharing
from tailrace.replication.slot_location import SlotLocation
from tailrace.storage.segments import Segments


@dataclass(slots=True)
class ReadAhead:
    """By one thread of this process, beside those that decode. State: whether it is at work, and whether it is to stop behind the cell at hand."""

    location: SlotLocation
    _pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "read ahead"))
    _work: Future[None] | None = None
    _stop: Event = field(default_factory=Event)

    def begin(self, window: Pipeline, wal_bytes: int) -> None:
        """So many bytes behind the window. Ends what was begun before."""
        self.end()
        segments = window.source.segments
        cell = min(segments.segment_size, STRETCH_BYTES)
        start, end = window.span.stop // cell * cell, min(window.span.stop + wal_bytes, segments.written_upto)
        stretches = cut_at(start, end // cell * cell, cell)
        if (settled := len(stretches) - UNSETTLED * segments.segment_size // cell) > 0:
            self._stop.clear()
            self._work = self._pool.submit(self._scan, segments, stretches, settled)

    def end(self) -> None:
        """Behind the cell at hand; what is scanned by then stays."""
        self._stop.set()
        if self._work is not None:
            self._work.result()
            self._work = None

    def close(self) -> None:
        self.end()
        self._pool.shutdown()

    def _scan(self, segments: Segments, stretches: Sequence[Stretch], settled: int) -> None:
        """Of the last ones nothing would be stored."""
        parts = scanned_stretches(segments, LocalRunner(workers=1), stretches, sharing(self.location, segments))
        with suppress(TailraceError, OSError), closing(parts):
            for _ in islice(parts, settled):
                if self._stop.is_set():
                    return
