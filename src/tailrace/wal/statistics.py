"""A log, record by record: counts per resource manager, heap file and transaction, or each record in words.

In: segments. Out: `Counts`, the largest first. Framing checks the chain but not the checksums; `wal verify` does. Bytes are
those of records; page headers, padding and what lies behind a segment switch belong to nobody. A record counts for the file
of its first block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tailrace.errors import CorruptWal
from tailrace.kernels import kernel
from tailrace.model import PAGE_SIZE, Locator, Lsn
from tailrace.wal import framing, records
from tailrace.wal.describe import Described, describe
from tailrace.wal.framing import LENGTH, NEED_MORE, POSITION, PREVIOUS, REACHED_STOP, WalBytes, next_record
from tailrace.wal.resource_managers import name_of
from tailrace.wal.versions import FORMATS

_CHUNK = 64 << 20
_WALKED = 1 << 20


class Log(Protocol):
    """What this needs of segments."""

    segment_size: int
    system: int
    magic: int
    major: int

    @property
    def first_lsn(self) -> Lsn: ...
    @property
    def stop_lsn(self) -> Lsn: ...
    def read(self, start: int, stop: int, extra: int = 0) -> WalBytes: ...


class Counted:
    """Records and bytes by key, added up chunk by chunk; keys are rows of numbers."""

    def __init__(self, width: int, name: Callable[..., str]) -> None:
        self._name = name
        self._keys = np.zeros((0, width), np.int64)
        self._sums = np.zeros((0, 2), np.int64)

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def total_records(self) -> int:
        return int(self._sums[:, 0].sum())

    @property
    def total_bytes(self) -> int:
        return int(self._sums[:, 1].sum())

    def add(self, keys: NDArray[np.int64], sizes: NDArray[np.int64]) -> None:
        """Count one record of each size for each key."""
        found, inverse = np.unique(np.concatenate([self._keys, keys]), axis=0, return_inverse=True)
        sums = np.zeros((len(found), 2), np.int64)
        before, here = inverse.ravel()[: len(self)], inverse.ravel()[len(self) :]
        sums[before] = self._sums
        sums[:, 0] += np.bincount(here, minlength=len(found))
        sums[:, 1] += np.bincount(here, weights=sizes, minlength=len(found)).astype(np.int64)
        self._keys, self._sums = found, sums

    def largest(self, count: int) -> list[tuple[str, int, int]]:
        """(name, records, bytes) of those with the most bytes."""
        rows = np.argsort(-self._sums[:, 1], kind="stable")[:count]
        return [(self._name(*self._keys[row].tolist()), *self._sums[row].tolist()) for row in rows.tolist()]


@dataclass(slots=True)
class Counts:
    """Of the records from `first` on; at `stop` the walk ended, and `reason` says why."""

    managers: Counted
    files: Counted
    transactions: Counted
    first: Lsn
    stop: Lsn
    reason: str


# Columns of a tally
_MANAGER, _SIZE, _XID, _SPACE, _DATABASE, _NUMBER, _FIELDS = 0, 1, 2, 3, 4, 5, 6


@kernel
def tally(buf, frame, compressed, rows):  # type: ignore[no-untyped-def]
    """One row per record: manager, bytes, xid, file of its first block (number 0: none). Returns how many, and why it ended."""
    parsed = np.zeros(records.PARSED_SIZE, np.int64)
    count = 0
    while True:
        at = next_record(buf, frame)
        if at < 0:
            return count, at
        if not records.parse(buf, at, frame[LENGTH], compressed, parsed):
            frame[POSITION] = frame[framing.LSN]
            return count, framing.INVALID_LENGTH
        row = rows[count]
        row[_MANAGER] = parsed[records.MANAGER]
        row[_SIZE] = frame[LENGTH]
        row[_XID] = parsed[records.XID]
        if parsed[records.BLOCKS] > 0:
            row[_SPACE] = parsed[records.FIRST_BLOCK + records.TABLESPACE]
            row[_DATABASE] = parsed[records.FIRST_BLOCK + records.DATABASE]
            row[_NUMBER] = parsed[records.FIRST_BLOCK + records.NUMBER]
        count += 1


def count_records(log: Log, chunk: int = _CHUNK) -> Counts:
    """Walk the whole log once."""
    managers, transactions = Counted(1, name_of), Counted(1, str)
    files = Counted(3, lambda *parts: str(Locator(*parts)))
    form = FORMATS[log.major]
    position, previous, size, reason = int(log.first_lsn), 0, chunk, ""
    while position < log.stop_lsn:
        base = position // PAGE_SIZE * PAGE_SIZE
        wal = log.read(base, base + size)
        frame = framing.new_frame(
            wal, position, base + size, log.segment_size, log.magic, check_crc=False,
            custom_managers=form.custom_resource_managers, system=log.system, previous=previous,
        )  # fmt: skip
        rows = np.zeros((wal.raw // framing.RECORD_HEADER + 1, _FIELDS), np.int64)
        count, ended = tally(wal.buf, frame, form.image_compressed, rows)
        rows = rows[:count]
        managers.add(rows[:, _MANAGER, None], rows[:, _SIZE])
        for counted, columns, key in ((transactions, slice(_XID, _XID + 1), _XID), (files, slice(_SPACE, _NUMBER + 1), _NUMBER)):
            mine = rows[rows[:, key] != 0]
            counted.add(mine[:, columns], mine[:, _SIZE])
        reason = framing.explain(ended, frame)
        if ended not in (NEED_MORE, REACHED_STOP) or (ended == NEED_MORE and base + wal.raw >= log.stop_lsn):
            position = int(frame[POSITION])
            break
        if ended == NEED_MORE and not count:
            if wal.raw < size:
                break
            size *= 2  # a record longer than a chunk
        position, previous = int(frame[POSITION]), int(frame[PREVIOUS])
    return Counts(managers, files, transactions, Lsn(log.first_lsn), Lsn(position), reason)


def walk(log: Log, start: int | None = None, stop: int | None = None, chunk: int = _WALKED) -> Iterator[Described]:
    """Every record that starts in `[start, stop)`, in words. Raises CorruptWal where a record's checksum is wrong."""
    form, parsed = FORMATS[log.major], records.new_parsed()
    position, previous, size = int(start if start is not None else log.first_lsn), 0, chunk
    begin, last = position, int(stop if stop is not None else log.stop_lsn)
    # A walk can only begin at a page; what comes before `start` there is passed over.
    position = max(position // PAGE_SIZE * PAGE_SIZE, int(log.first_lsn))
    while position < last:
        base = position // PAGE_SIZE * PAGE_SIZE
        wal = log.read(base, base + size)
        frame = framing.new_frame(
            wal, position, min(base + size, last), log.segment_size, log.magic, check_crc=True,
            custom_managers=form.custom_resource_managers, system=log.system, previous=previous,
        )  # fmt: skip
        count = 0
        while (at := next_record(wal.buf, frame)) >= 0:
            count += 1
            if frame[framing.LSN] >= begin:
                yield describe(wal.buf, at, int(frame[LENGTH]), int(frame[framing.LSN]), form, parsed)
        if at == framing.INVALID_CHECKSUM:
            raise CorruptWal(framing.explain(at, frame), context=f"WAL record at {Lsn(int(frame[POSITION]))}")
        if at not in (NEED_MORE, REACHED_STOP) or (at == NEED_MORE and wal.raw < size):
            return
        if at == NEED_MORE and not count:
            size *= 2  # a record longer than a chunk
        position, previous = int(frame[POSITION]), int(frame[PREVIOUS])
