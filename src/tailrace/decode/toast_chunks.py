"""The TOAST chunks that hold values of the rows of a stretch: its own, and those of earlier stretches whose row is in this one.

In: where they lie. Out: `Chunks`, all in one array, which is the bytes of the stretch with room behind them for the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailrace.kernels import kernel
from tailrace.model import PAGE_SIZE, Lsn
from tailrace.plan.stretch_plan import EarlierToastChunks, StretchPlan
from tailrace.tuples.errors import CorruptTuple
from tailrace.tuples.toast import Chunks
from tailrace.wal import framing, records
from tailrace.wal.end_of_log import changed_since
from tailrace.wal.framing import LENGTH, LSN, next_record
from tailrace.wal.hashing import grown
from tailrace.wal.pages import LogIdentity, WalBytes
from tailrace.wal.records import DATA, DATA_LENGTH, FIRST_BLOCK
from tailrace.wal.stretch_bytes import Reader
from tailrace.wal.versions import FORMATS

_SMALLEST_RECORD = 48
"""Bytes of WAL that a chunk takes at least."""


class ChunkTuples(NamedTuple):
    """Tuples of TOAST tables in WAL order: where they lie, which turn of their transaction's rows they serve
    (:mod:`tailrace.tuples.toast`), and the LSNs of their records."""

    at: NDArray[np.int64]
    length: NDArray[np.int64]
    turn: NDArray[np.int64]
    lsn: NDArray[np.int64]

    @classmethod
    def room(cls, raw: int) -> ChunkTuples:
        """For all that `raw` bytes of WAL can hold."""
        return cls._make(np.empty(raw // _SMALLEST_RECORD + 64, np.int64) for _ in cls._fields)

    @classmethod
    def none(cls) -> ChunkTuples:
        return cls._make(np.zeros(0, np.int64) for _ in cls._fields)

    @classmethod
    def joined(cls, parts: Sequence[ChunkTuples]) -> ChunkTuples:
        """All of them, in that order."""
        return cls._make(np.concatenate(columns) for columns in zip(*parts, strict=True))


class CarriedChunks(NamedTuple):
    """The same of earlier stretches, copied to `data`."""

    data: NDArray[np.uint8]
    tuples: ChunkTuples

    @classmethod
    def of(cls, plan: StretchPlan, read: Reader) -> CarriedChunks:
        """Read those that the plan names. Raises CorruptWal if they are not the ones that were indexed."""
        data, parts = [np.zeros(0, np.uint8)], [ChunkTuples.none()]
        size = 0
        for part in plan.earlier_toast:
            copied, bounds = _copied(plan, read, part)
            data.append(copied)
            turn = np.searchsorted(plan.xid, part.xid)  # the first of its transaction here, as `WantedXids` numbers them
            parts.append(ChunkTuples(size + bounds[:-1], np.diff(bounds), turn, part.lsn))
            size += len(copied)
        return cls(np.concatenate(data), ChunkTuples.joined(parts))


def _copied(plan: StretchPlan, read: Reader, part: EarlierToastChunks) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Chunk tuples of an earlier stretch, and their bounds."""
    form = FORMATS[plan.major]
    stretch, lsns = part.stretch, part.lsn
    wal = read(int(lsns[0]) // PAGE_SIZE * PAGE_SIZE, int(lsns[-1]) // PAGE_SIZE * PAGE_SIZE + 4 * PAGE_SIZE)
    frame = framing.new_frame(wal, LogIdentity(form, plan.segment_size), int(lsns[0]), int(lsns[-1]) + 1)
    data, bounds, count, reason = copy_chunks(wal.buf, frame, form.image_compressed, lsns, part.crc)
    if count != len(lsns):
        raise changed_since(stretch, wal, reason, frame)
    return data, bounds


@kernel
def copy_chunks(buf, frame, compressed, lsns, crcs):  # type: ignore[no-untyped-def]
    """Block data of the records at `lsns` (sorted), which have these checksums, one after another. Returns the data, its bounds,
    how many, and why the walk ended."""
    parsed = np.zeros(records.PARSED_SIZE, np.int64)
    out = np.zeros(2048 * max(1, len(lsns)), np.uint8)
    bounds = np.zeros(len(lsns) + 1, np.int64)
    count = 0
    reason = framing.REACHED_STOP
    while count < len(lsns):
        at = next_record(buf, frame)
        if at < 0:
            reason = at
            break
        if frame[LSN] != lsns[count]:
            continue
        if records.crc_of(buf, at) != crcs[count]:
            break
        if not records.parse(buf, at, frame[LENGTH], compressed, parsed):
            break
        data = parsed[FIRST_BLOCK + DATA]
        length = parsed[FIRST_BLOCK + DATA_LENGTH]
        used = bounds[count]
        if used + length > len(out):
            out = grown(out, 2 * len(out) + length)
        out[used : used + length] = buf[data : data + length]
        count += 1
        bounds[count] = used + length
    return out[: bounds[count]].copy(), bounds, count, reason


def all_chunks(wal: WalBytes, carried: CarriedChunks, here: ChunkTuples) -> Chunks:
    """Chunks of earlier stretches, copied behind the raw bytes, then those of this one. Raises CorruptTuple, which names the
    record, for one that is damaged."""
    behind = (wal.raw + 7) & ~7
    wal.buf[behind : behind + len(carried.data)] = carried.data
    every = ChunkTuples.joined([carried.tuples._replace(at=behind + carried.tuples.at), here])
    try:
        return Chunks.of(wal.buf, every.at, every.length, every.turn)
    except CorruptTuple as error:
        lsn = Lsn(int(every.lsn[error.row]))
        error.context, error.file = f"WAL record at {lsn}{wal.in_file(lsn)}", wal.name_at(lsn)
        raise error.at(lsn) from None
