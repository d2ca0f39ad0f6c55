"""Records that indexes kept whole, read again: each by itself, or those that say what the server knew of all its transactions at an LSN.

In: the indexes of consecutive stretches. Out: `KeptRecord`s, whose data the structs of their resource manager read; `ServerState`s.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tailrace.dataclass import dataclass
from tailrace.errors import CorruptWal
from tailrace.kernels import kernel
from tailrace.model import Lsn
from tailrace.wal import index, records, xlog
from tailrace.wal.index import Index
from tailrace.wal.record_types import RecordData
from tailrace.wal.standby import RunningXacts
from tailrace.wal.versions import FORMATS
from tailrace.wal.xlog import Checkpoint, EndOfRecovery, ParameterChange

Data = TypeVar("Data", bound=RecordData)


@dataclass(frozen=True, slots=True)
class KeptRecord:
    """A record in WAL of `major`. `kind` and `followed_by` are as in the index, `xid` is 32 bits wide, `origin` the replication origin's number or 0;
    `main` are its main data."""

    kind: int
    lsn: Lsn
    end_lsn: Lsn
    followed_by: int
    manager: int
    info: int
    xid: int
    origin: int
    major: int
    main: bytes

    def read(self, struct: type[Data]) -> Data:
        """What it says. Raises CorruptWal if it is too short for that."""
        try:
            return struct.read(self.main, self.major)
        except CorruptWal as error:
            error.at(self.lsn)
            raise


def kept_records(indexes: Sequence[Index], *kinds: int) -> Iterator[KeptRecord]:
    """Every kept record of these kinds, in WAL order."""
    parsed = records.new_parsed()
    for part in indexes:
        kept = part.kept
        for row in kept.rows_of(*kinds).tolist():
            raw = np.frombuffer(kept.record(row), np.uint8).copy()
            records.parse(raw, 0, len(raw), FORMATS[part.major].image_compressed, parsed)
            main = int(parsed[records.MAIN])
            yield KeptRecord(
                kind=int(kept.kind[row]),
                lsn=Lsn(int(kept.lsn[row])),
                end_lsn=Lsn(int(kept.end_lsn[row])),
                followed_by=int(kept.followed_by[row]),
                manager=int(parsed[records.MANAGER]),
                info=int(parsed[records.INFO]),
                xid=int(parsed[records.XID]),
                origin=int(parsed[records.ORIGIN]),
                major=part.major,
                main=raw[main : main + int(parsed[records.MAIN_LENGTH])].tobytes(),
            )


@dataclass(frozen=True, slots=True)
class MainData:
    """Of many kept records, in WAL order: LSN, xid (32 bits), and the main data, which are `data[at[i] : at[i] + length[i]]`."""

    lsn: NDArray[np.int64]
    xid: NDArray[np.int64]
    data: NDArray[np.uint8]
    at: NDArray[np.int64]
    length: NDArray[np.int64]


def main_data(part: Index, kind: int) -> MainData:
    """The main data of all records of a kind that one index kept, where there may be very many."""
    kept = part.kept.taken(part.kept.rows_of(kind))
    found = np.zeros((3, len(kept)), np.int64)
    _find_main(kept.data, kept.at, kept.length, FORMATS[part.major].image_compressed, records.new_parsed(), found)
    return MainData(kept.lsn, found[0], kept.data, found[1], found[2])


@kernel
def _find_main(data, at, length, compressed, parsed, found):  # type: ignore[no-untyped-def]
    """Xid, place and length of each record's main data."""
    for row in range(len(at)):
        records.parse(data, at[row], length[row], compressed, parsed)
        found[0, row] = parsed[records.XID]
        found[1, row] = parsed[records.MAIN]
        found[2, row] = parsed[records.MAIN_LENGTH]


@dataclass(frozen=True, slots=True)
class ServerState:
    """What the server wrote at `lsn` of all its transactions; `is_shutdown`, that it is a shutdown checkpoint."""

    lsn: Lsn
    record: Checkpoint | RunningXacts | EndOfRecovery
    is_shutdown: bool = False


def server_states(indexes: Sequence[Index]) -> Iterator[ServerState]:
    """Checkpoints, RUNNING_XACTS and ends of recovery, in WAL order."""
    for kept in kept_records(indexes, index.KEPT_CHECKPOINT, index.KEPT_RUNNING_XACTS, index.KEPT_TIMELINE_END):
        opcode = kept.info & xlog.OPCODE
        if kept.kind == index.KEPT_CHECKPOINT:
            yield ServerState(kept.lsn, kept.read(Checkpoint), opcode == xlog.CHECKPOINT_SHUTDOWN)
        elif kept.kind == index.KEPT_RUNNING_XACTS:
            yield ServerState(kept.lsn, kept.read(RunningXacts))
        elif opcode == xlog.END_OF_RECOVERY:
            yield ServerState(kept.lsn, kept.read(EndOfRecovery))


def wal_level_changes(indexes: Sequence[Index]) -> list[tuple[Lsn, int]]:
    """(LSN, wal_level) of each change of parameters."""
    return [
        (kept.lsn, kept.read(ParameterChange).wal_level)
        for kept in kept_records(indexes, index.KEPT_WAL_SETTINGS)
        if kept.info & xlog.OPCODE == xlog.PARAMETER_CHANGE
    ]
