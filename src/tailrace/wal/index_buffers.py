"""The buffers in which the facts of one stretch are noted (:mod:`tailrace.wal.facts`) before they become its index: columns long enough for any
stretch of its size (what is not written to costs nothing), of which the first `used[0]` rows are in use."""

from __future__ import annotations

from typing import NamedTuple, TypeVar, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

from tailrace.kernels import inner_kernel
from tailrace.wal import records, xact
from tailrace.wal.framing import RECORD_HEADER
from tailrace.wal.hashing import new_table

_SMALLEST_RECORD = 48
"""Bytes of WAL that a transaction id, a heap file or a chunk takes at least: a record with one block reference."""
_XIDS_OF_RECORD = 2
_SMALLEST_END = 32
"""Bytes of a commit or abort record with nothing but its time."""


_FEW, _MORE = 1 / 8, 8


class Room:
    """For which share of all transaction ids and files that a stretch could name there is room: for a few, since tables must be cleared that nearly
    always stay nearly empty; and for more in this process once that was too few, as of a log of short transactions."""

    share = _FEW

    @classmethod
    def grow(cls, share: float) -> float:
        """What to try where `share` was too few. Of a stretch that names more than any server writes the next ones learn nothing."""
        more = share * _MORE
        cls.share = max(cls.share, min(more, 1.0))
        return more


class Record(NamedTuple):
    """One record: the offset of its bytes, its LSN, its length, and where it ends."""

    at: int
    lsn: int
    length: int
    end_lsn: int


class XidBuffer(NamedTuple):
    """By transaction id, in the order in which they appear; `table` finds them. `toast_run` counts the rows so far that made use of TOAST chunks: the
    chunks that were noted in an earlier run have their row."""

    table: NDArray[np.int32]
    used: NDArray[np.int64]
    xid: NDArray[np.int64]
    top: NDArray[np.int64]
    first_lsn: NDArray[np.int64]
    flags: NDArray[np.uint8]
    rows: NDArray[np.int64]
    bytes: NDArray[np.int64]
    speculative: NDArray[np.int64]
    queued_lsn: NDArray[np.int64]
    origin: NDArray[np.uint16]
    toast_run: NDArray[np.int64]


class FileBuffer(NamedTuple):
    """By heap file; `key` is database and number (`file_key`), `last[0]` the row that was asked for last."""

    table: NDArray[np.int32]
    used: NDArray[np.int64]
    last: NDArray[np.int64]
    key: NDArray[np.int64]
    tablespace: NDArray[np.int64]
    first_lsn: NDArray[np.int64]
    records: NDArray[np.int64]
    tracked: NDArray[np.bool_]


class EndBuffer(NamedTuple):
    """By commit, abort and prepare; `fields` are `xact.parse_end`'s."""

    used: NDArray[np.int64]
    fields: NDArray[np.int64]
    lsn: NDArray[np.int64]
    end_lsn: NDArray[np.int64]
    origin: NDArray[np.int64]


class KeptBuffer(NamedTuple):
    """By record that is kept whole; `at` is where its bytes are now."""

    used: NDArray[np.int64]
    kind: NDArray[np.uint8]
    at: NDArray[np.int64]
    length: NDArray[np.int64]
    lsn: NDArray[np.int64]
    end_lsn: NDArray[np.int64]
    followed_by: NDArray[np.uint32]


class ChunkBuffer(NamedTuple):
    """By TOAST chunk: the row of its xid, and that one's `toast_run` when it came."""

    used: NDArray[np.int64]
    xid_row: NDArray[np.int64]
    toast_run: NDArray[np.int64]
    lsn: NDArray[np.int64]
    crc: NDArray[np.uint32]


_AnyBuffer = TypeVar("_AnyBuffer", XidBuffer, FileBuffer, EndBuffer, KeptBuffer, ChunkBuffer)
_DTYPES: dict[type, dict[str, np.dtype]] = {
    buffer: {name: np.dtype(get_args(get_args(hint)[1])[0]) for name, hint in get_type_hints(buffer).items()}
    for buffer in (XidBuffer, FileBuffer, EndBuffer, KeptBuffer, ChunkBuffer)
}
"""Of their columns, each an `NDArray[dtype]`."""


class IndexBuffers(NamedTuple):
    """All of them, and one for the headers of the record at hand."""

    xids: XidBuffer
    files: FileBuffer
    ends: EndBuffer
    kept: KeptBuffer
    chunks: ChunkBuffer
    parsed: NDArray[np.int64]


def new_buffers(raw: int, share: float) -> IndexBuffers:
    """Room for everything that `raw` bytes of WAL hold that a server wrote; of transaction ids and files, for a `share` of as many as there could be.
    Even more of those could be named by records of nothing else, so that has to be counted (`is_full`)."""
    small, ends = raw // _SMALLEST_RECORD + 64, raw // _SMALLEST_END + 64
    named = int(share * small) + 64
    files = _columns(FileBuffer, named, table=new_table(named), last=np.zeros(1, np.int64))
    files.key[0] = -1  # so that the first one asked for is not taken for the last
    return IndexBuffers(
        xids=_columns(XidBuffer, named, table=new_table(named)),
        files=files,
        ends=_columns(EndBuffer, ends, fields=np.empty((ends, xact.E_FIELDS), np.int64)),
        kept=_columns(KeptBuffer, raw // RECORD_HEADER + 64),
        chunks=_columns(ChunkBuffer, small),
        parsed=records.new_parsed(),
    )


@inner_kernel
def is_full(buffers):  # type: ignore[no-untyped-def]
    """Whether there may be no room for what one more record names: its transaction and the top-level one, and a file for each of its blocks."""
    return buffers.xids.used[0] + _XIDS_OF_RECORD > len(buffers.xids.xid) or buffers.files.used[0] + records.MAX_BLOCKS > len(
        buffers.files.key
    )


def _columns(buffer: type[_AnyBuffer], rows: int, **others: NDArray) -> _AnyBuffer:
    """An empty buffer of columns as they are annotated, but for `others`. Nothing is cleared: whoever makes a row fills all of it."""
    others["used"] = np.zeros(1, np.int64)
    return buffer(**others, **{name: np.empty(rows, dtype) for name, dtype in _DTYPES[buffer].items() if name not in others})
