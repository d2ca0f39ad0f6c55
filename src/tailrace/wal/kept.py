"""Records that indexes kept whole, read again: what the server said of its transactions at moments of the log.

In: the indexes of consecutive stretches. Out: any kind of kept record, parsed; checkpoints (`catalog/pg_control.h`, CheckPoint), RUNNING_XACTS
(`storage/standbydefs.h`, xl_running_xacts) and ends of recovery as values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailrace.model import Lsn
from tailrace.wal import index, records
from tailrace.wal.index import Index
from tailrace.wal.unaligned import number
from tailrace.wal.versions import FORMATS

_OPCODE = 0xF0
_SHUTDOWN = 0x00
_END_OF_RECOVERY = 0x90


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """`next_xid` carries the epoch; it was the next where the checkpoint began."""

    lsn: Lsn
    redo: Lsn
    next_xid: int
    is_shutdown: bool


@dataclass(frozen=True, slots=True)
class RunningXacts:
    """All xids are 32 bits wide; `running` are those of transactions and of as many of their subtransactions as the server still knew."""

    lsn: Lsn
    next_xid: int
    oldest: int
    running: NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class EndOfRecovery:
    """A promotion: what was open then has no end but this one."""

    lsn: Lsn


Moment = Checkpoint | RunningXacts | EndOfRecovery


def kept_records(indexes: Sequence[Index], *kinds: int) -> Iterator[tuple[Index, int, NDArray[np.uint8], NDArray[np.int64]]]:
    """Every kept record of these kinds: its index, its row there, its bytes, and the bytes parsed (one array, overwritten by the next)."""
    parsed = records.new_parsed()
    for found in indexes:
        for row in found.kept.rows_of(*kinds).tolist():
            raw = np.frombuffer(found.kept.record(row), np.uint8).copy()
            records.parse(raw, 0, len(raw), FORMATS[found.major].image_compressed, parsed)
            yield found, row, raw, parsed


def moments(indexes: Sequence[Index]) -> Iterator[Moment]:
    """Checkpoints, RUNNING_XACTS and ends of recovery, in WAL order."""
    for found, row, raw, parsed in kept_records(indexes, index.CHECKPOINT, index.RUNNING_XACTS, index.TIMELINE_END):
        lsn, main, kind = Lsn(int(found.kept.lsn[row])), int(parsed[records.MAIN]), found.kept.kind[row]
        if kind == index.CHECKPOINT:
            yield Checkpoint(lsn, Lsn(number(raw, main, 8)), number(raw, main + 24, 8), (raw[16] & _OPCODE) == _SHUTDOWN)
        elif kind == index.RUNNING_XACTS:
            count = number(raw, main, 4) + number(raw, main + 4, 4)
            running = np.frombuffer(raw[main + 24 : main + 24 + 4 * count].tobytes(), "<u4")
            yield RunningXacts(lsn, number(raw, main + 12, 4), number(raw, main + 16, 4), running)
        elif raw[16] & _OPCODE == _END_OF_RECOVERY:
            yield EndOfRecovery(lsn)
