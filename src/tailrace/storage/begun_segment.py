"""The segment that somebody still receives into, as far as it is written now: who goes over a log twice must find the same both times.

In: segments, the last of which may be a partial one. Out: the same, of which nothing is read that comes later. All pages but the last that is in its
place are done with, since they are written in their order; that one is kept as it was.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from dataclasses import replace

from tailrace.model import PAGE_SIZE
from tailrace.storage.segment import Segment
from tailrace.storage.segments import Segments
from tailrace.storage.spool_copies import written_pages
from tailrace.storage.wal_files import WalDirectory
from tailrace.wal.page_header import SHORT_PAGE_HEADER, page_address


def as_written(segments: Segments) -> Segments:
    """A partial segment that is compressed is not written to any more."""
    number = segments.stop_lsn // segments.segment_size - 1
    last = segments.by_number[number]
    if not last.partial or last.compression or last.settled is not None:
        return segments
    if not isinstance(last.lies_in, WalDirectory):
        try:
            return _with(segments, last, *_as_it_is(last, segments.segment_size))
        except FileNotFoundError:
            return replace(segments, by_number=segments.by_number | {number: last.completed()})
    try:
        file = os.open(last.path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:  # it is whole by now, and has its own name
        return replace(segments, by_number=segments.by_number | {number: last.completed()})
    try:
        pages = written_pages(file, number * segments.segment_size, segments.segment_size)
        settled = max(0, pages - 1) * PAGE_SIZE
        filling = os.pread(file, PAGE_SIZE, settled) if pages else b""
    finally:
        os.close(file)
    return _with(segments, last, settled, filling)


def _as_it_is(last: Segment, size: int) -> tuple[int, bytes]:
    """Of an object, which somebody may replace by one in which more is written."""
    data = last.lies_in.head(last.name, -1)
    pages = bisect_left(
        range(len(data) // PAGE_SIZE),
        True,
        key=lambda page: page_address(data[page * PAGE_SIZE :][:SHORT_PAGE_HEADER]) != last.number * size + page * PAGE_SIZE,
    )
    settled = max(0, pages - 1) * PAGE_SIZE
    return settled, data[settled : settled + PAGE_SIZE] if pages else b""


def _with(segments: Segments, last: Segment, settled: int, filling: bytes) -> Segments:
    return replace(segments, by_number=segments.by_number | {last.number: replace(last, settled=settled, filling=filling)})
