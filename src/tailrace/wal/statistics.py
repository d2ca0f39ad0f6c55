"""Counts over a log: records and bytes per resource manager, heap file and transaction.

In: segments. Out: `Counts`, the largest first. Framing checks the chain but not the checksums; `wal verify` does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numba import njit
from numpy.typing import NDArray

from tailrace.wal import framing, records
from tailrace.wal.framing import LENGTH, PREVIOUS, WalBytes, next_record
from tailrace.wal.resource_managers import name_of
from tailrace.wal.versions import FORMATS

_CHUNK = 64 << 20
_SHOWN = 20


class Log(Protocol):
    """What this needs of segments."""

    segment_size: int
    magic: int
    major: int

    @property
    def first_lsn(self) -> int: ...
    @property
    def stop_lsn(self) -> int: ...
    def read(self, start: int, stop: int, extra: int = 0) -> WalBytes: ...


@dataclass(slots=True)
class Counts:
    """(name, records, bytes) of each, the largest first."""

    managers: list[tuple[str, int, int]]
    files: list[tuple[str, int, int]]
    transactions: list[tuple[str, int, int]]


@njit(cache=True, nogil=True)
def tally(buf, frame, compressed, manager, size, xid, key):  # type: ignore[no-untyped-def]
    """One row per record: its manager, bytes, xid and first block's file (`database << 32 | number`, -1 without)."""
    parsed = np.zeros(records.PARSED_SIZE, np.int64)
    count = 0
    while True:
        at = next_record(buf, frame)
        if at < 0:
            return count, at
        records.parse(buf, at, frame[LENGTH], compressed, parsed)
        manager[count] = parsed[records.MANAGER]
        size[count] = frame[LENGTH]
        xid[count] = parsed[records.XID]
        key[count] = -1
        if parsed[records.BLOCKS] > 0:
            block = records.FIRST_BLOCK
            key[count] = (parsed[block + records.DATABASE] << 32) | parsed[block + records.NUMBER]
        count += 1


def count_records(log: Log) -> Counts:
    """Walk the whole log once."""
    totals: list[dict[int, NDArray[np.int64]]] = [{}, {}, {}]
    position, previous = int(log.first_lsn), 0
    while position < log.stop_lsn:
        base = position // framing.PAGE_SIZE * framing.PAGE_SIZE
        wal = log.read(base, base + _CHUNK)
        frame = framing.new_frame(wal, position, base + _CHUNK, log.segment_size, log.magic, check_crc=False, previous=previous)
        room = wal.raw // framing.RECORD_HEADER + 1
        columns = np.zeros((4, room), np.int64)
        count, reason = tally(wal.buf, frame, FORMATS[log.major].image_compressed, columns[0], columns[1], columns[2], columns[3])
        for total, column in zip(totals, (0, 3, 2), strict=True):
            _add(total, columns[column, :count], columns[1, :count])
        moved = int(frame[framing.POSITION])
        if reason not in (framing.NEED_MORE, framing.REACHED_STOP) or moved == position:
            break
        position, previous = moved, int(frame[PREVIOUS])
    totals[1].pop(-1, None)
    totals[2].pop(0, None)
    return Counts(
        _largest({name_of(key): value for key, value in totals[0].items()}),
        _largest({f"{key >> 32}/{key & 0xFFFFFFFF}": value for key, value in totals[1].items()}),
        _largest({str(key): value for key, value in totals[2].items()}),
    )


def _add(total: dict[int, NDArray[np.int64]], keys: NDArray[np.int64], sizes: NDArray[np.int64]) -> None:
    found, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)
    summed = np.bincount(inverse, weights=sizes, minlength=len(found)).astype(np.int64)
    for key, records_, size in zip(found.tolist(), counts.tolist(), summed.tolist(), strict=True):
        total[key] = total.get(key, np.zeros(2, np.int64)) + np.array([records_, size])


def _largest(total: dict[str, NDArray[np.int64]]) -> list[tuple[str, int, int]]:
    ordered = sorted(total.items(), key=lambda item: -item[1][1])
    return [(name, int(value[0]), int(value[1])) for name, value in ordered[:_SHOWN]]
