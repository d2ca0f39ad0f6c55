"""A log, record by record: counts per resource manager, heap file and transaction, or each record in words.

In: a stretch's bytes, or segments. Out: `Counts`, which add up, the largest first. Framing checks the chain but not the checksums; `wal verify` does.
Bytes are those of records; page headers, padding and what lies behind a segment switch belong to nobody. A record counts for the file of its first
block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from tailrace.dataclass import dataclass
from tailrace.errors import CorruptWal
from tailrace.kernels import kernel
from tailrace.model import PAGE_SIZE, Locator, Lsn, Stretch
from tailrace.wal import framing, records
from tailrace.wal.describe import Described, describe
from tailrace.wal.end_of_log import NeedMoreWal, explain, place_of
from tailrace.wal.framing import LENGTH, NEED_MORE, POSITION, PREVIOUS, REACHED_STOP, RECORD_HEADER, next_record
from tailrace.wal.pages import LogIdentity, WalBytes, first_written_page
from tailrace.wal.resource_managers import name_of

_WALKED = 1 << 20


class Log(Protocol):
    """What this needs of segments."""

    @property
    def identity(self) -> LogIdentity: ...
    @property
    def first_lsn(self) -> Lsn: ...
    @property
    def stop_lsn(self) -> Lsn: ...
    def read(self, start: int, stop: int, extra: int = 0) -> WalBytes: ...


class Counted:
    """Records and bytes by key; keys are rows of `width` numbers, and `name` (a function of a module, so that it travels) says what they mean."""

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

    def count(self, keys: NDArray[np.int64], sizes: NDArray[np.int64]) -> Self:
        """Count one record of each size for each key."""
        self._add(keys, np.stack([np.ones(len(sizes), np.int64), sizes], axis=1))
        return self

    def merge(self, other: Counted) -> None:
        """Count what the other has counted."""
        self._add(other._keys, other._sums)

    def _add(self, keys: NDArray[np.int64], sums: NDArray[np.int64]) -> None:
        self._keys, inverse = np.unique(np.concatenate([self._keys, keys]), axis=0, return_inverse=True)
        all_sums = np.concatenate([self._sums, sums])
        self._sums = np.stack(
            [np.bincount(inverse.ravel(), all_sums[:, i], len(self._keys)).astype(np.int64) for i in range(2)], axis=1
        )

    def largest(self, count: int) -> list[tuple[str, int, int]]:
        """(name, records, bytes) of those with the most bytes."""
        rows = np.argsort(-self._sums[:, 1], kind="stable")[:count]
        return [(self._name(*self._keys[row].tolist()), *self._sums[row].tolist()) for row in rows.tolist()]


def _file_name(*parts: int) -> str:
    return str(Locator(*parts))


@dataclass(slots=True)
class Counts:
    """Of the records that start in `[first, stop)`. Where the walk ended before it was to, `reason` says why, and `place` where."""

    managers: Counted
    files: Counted
    transactions: Counted
    first: Lsn
    stop: Lsn
    reason: str
    place: Lsn

    def follow(self, later: Counts) -> None:
        """Add the counts of what lies right behind."""
        for mine, others in (
            (self.managers, later.managers),
            (self.files, later.files),
            (self.transactions, later.transactions),
        ):
            mine.merge(others)
        self.stop, self.reason, self.place = later.stop, later.reason, later.place


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


def count(wal: WalBytes, stretch: Stretch, log: LogIdentity, *, at_end_of_log: bool) -> Counts:
    """Count the records that start in `stretch`. Raises NeedMoreWal if `wal` ends within the last of them, though the log does not."""
    frame = framing.new_frame(wal, log, first_written_page(wal, stretch, log.segment_size), stretch.stop, check_crc=False)
    rows = np.zeros((wal.raw // RECORD_HEADER + 1, _FIELDS), np.int64)
    number, ended = tally(wal.buf, frame, log.form.image_compressed, rows)
    if ended == NEED_MORE and not at_end_of_log:
        raise NeedMoreWal(explain(ended, frame))
    rows = rows[:number]
    of_file, of_transaction = rows[rows[:, _NUMBER] != 0], rows[rows[:, _XID] != 0]
    return Counts(
        Counted(1, name_of).count(rows[:, _MANAGER, None], rows[:, _SIZE]),
        Counted(3, _file_name).count(of_file[:, _SPACE : _NUMBER + 1], of_file[:, _SIZE]),
        Counted(1, str).count(of_transaction[:, _XID, None], of_transaction[:, _SIZE]),
        stretch.start, Lsn(int(frame[POSITION])), "" if ended == REACHED_STOP else explain(ended, frame), place_of(ended, frame),
    )  # fmt: skip


def walk(log: Log, start: int | None = None, stop: int | None = None, chunk: int = _WALKED) -> Iterator[Described]:
    """Every record that starts in `[start, stop)`, in words. Raises CorruptWal where a record's checksum is wrong."""
    identity, parsed = log.identity, records.new_parsed()
    position, previous, size = int(start if start is not None else log.first_lsn), 0, chunk
    begin, last = position, int(stop if stop is not None else log.stop_lsn)
    # A walk can only begin at a page; what comes before `start` there is passed over.
    position = max(position // PAGE_SIZE * PAGE_SIZE, int(log.first_lsn))
    while position < last:
        base = position // PAGE_SIZE * PAGE_SIZE
        wal = log.read(base, base + size)
        frame = framing.new_frame(wal, identity, position, min(base + size, last), previous=previous)
        count = 0
        while (at := next_record(wal.buf, frame)) >= 0:
            count += 1
            if frame[framing.LSN] >= begin:
                yield describe(wal.buf, at, int(frame[LENGTH]), int(frame[framing.LSN]), identity.form, parsed)
        if at == framing.INVALID_CHECKSUM:
            damaged = Lsn(int(frame[POSITION]))
            raise CorruptWal(
                explain(at, frame),
                context=f"WAL record at {damaged}{wal.in_file(damaged)}",
                lsn=damaged,
                file=wal.name_at(damaged),
            )
        if at not in (NEED_MORE, REACHED_STOP) or (at == NEED_MORE and wal.raw < size):
            return
        if at == NEED_MORE and not count:
            size *= 2  # a record longer than a chunk
        position, previous = int(frame[POSITION]), int(frame[PREVIOUS])
