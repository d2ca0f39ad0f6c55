"""Records of a log changed on purpose, with the checksum that they then have: bytes that reach whatever decodes them.

In: the segments of a log. Out: one of them, with a record that is other than it was. Its length stays, so that the chain does; all else may be
anything, the lengths and counts within it above all.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tailrace.model import PAGE_SIZE, Lsn
from tailrace.wal.crc import record_crc
from tailrace.wal.page_header import LONG_PAGE_HEADER, SHORT_PAGE_HEADER

_HEADER = 24  # XLogRecord
_XID, _INFO, _MANAGER, _CRC = 4, 16, 17, 20
_REMAINING = 16  # xlp_rem_len
_HEADERS = 60
"""So far behind a record's own header lie those of its parts, with lengths and flags."""
_TOLD = frozenset({0, 1, 9, 10, 21})
"""Managers of which much is read: XLOG, XACT, HEAP2, HEAP, LOGICALMSG."""
_WORDS = (0, 1, 0x7F, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)


@dataclass(frozen=True)
class Where:
    """A record: its LSN, and where in its segment each of its bytes lies, without the headers of pages that it crosses."""

    lsn: Lsn
    places: NDArray[np.int64]


@cache
def records_of(path: Path, begin: int) -> tuple[Where, ...]:
    """The records that lie whole in a segment, which begins at `begin`, up to where none is."""
    raw = path.read_bytes()
    heads = [LONG_PAGE_HEADER if page == 0 else SHORT_PAGE_HEADER for page in range(0, len(raw), PAGE_SIZE)]
    places = np.concatenate([np.arange(i * PAGE_SIZE + head, (i + 1) * PAGE_SIZE) for i, head in enumerate(heads)])
    stream = np.frombuffer(raw, np.uint8)[places]
    at, found = (struct.unpack_from("<I", raw, _REMAINING)[0] + 7) & ~7, []
    while at + _HEADER <= len(stream):
        (length,) = struct.unpack_from("<I", stream[at : at + 4].tobytes())
        record = stream[at : at + length]
        if length < _HEADER or len(record) < length or _crc_of(record) != int(record_crc(record.copy(), 0, length)):
            break
        found.append(Where(Lsn(begin + int(places[at])), places[at : at + length]))
        at = (at + length + 7) & ~7
    return tuple(found)


def _crc_of(record: NDArray[np.uint8]) -> int:
    return int(struct.unpack_from("<I", record.tobytes(), _CRC)[0])


def resealed(path: Path, begin: int, since: int, dice: random.Random) -> tuple[bytes, Lsn] | None:
    """The segment with one of its records from the LSN `since` on changed, and that one's LSN; None if it has no record of those."""
    records = [record for record in records_of(path, begin) if record.lsn >= since]
    if not records:
        return None
    data = np.frombuffer(path.read_bytes(), np.uint8).copy()
    told = [record for record in records if data[record.places[_MANAGER]] in _TOLD]
    where = dice.choice(told if told and dice.random() < 0.9 else records)
    record = data[where.places]
    for _ in range(dice.choice((1, 1, 1, 2, 4))):
        dice.choice(_WAYS)(record, dice)
    record[_CRC : _CRC + 4] = np.frombuffer(struct.pack("<I", int(record_crc(record.copy(), 0, len(record)))), np.uint8)
    data[where.places] = record
    return data.tobytes(), where.lsn


def _put(record: NDArray[np.uint8], at: int, content: bytes) -> None:
    part = content[: len(record) - at]
    record[at : at + len(part)] = np.frombuffer(part, np.uint8)


def _somewhere(record: NDArray[np.uint8], dice: random.Random) -> int:
    """Behind the record's own header; half of the time among the headers of its parts."""
    stop = len(record) if dice.random() < 0.5 else min(len(record), _HEADER + _HEADERS)
    return dice.randrange(_HEADER, stop) if stop > _HEADER else _INFO


def _flip(record: NDArray[np.uint8], dice: random.Random) -> None:
    record[_somewhere(record, dice)] ^= 1 << dice.randrange(8)


def _scrawl(record: NDArray[np.uint8], dice: random.Random) -> None:
    _put(record, _somewhere(record, dice), dice.randbytes(dice.choice((1, 2, 4, 8, 64))))


def _number(record: NDArray[np.uint8], dice: random.Random) -> None:
    """A length or a count, if that is what it was, at an end of what it can be."""
    _put(record, _somewhere(record, dice), struct.pack("<I", dice.choice(_WORDS))[: dice.choice((1, 2, 4))])


def _other(record: NDArray[np.uint8], dice: random.Random) -> None:
    """Bytes of one place at another."""
    at, size = _somewhere(record, dice), dice.choice((2, 4, 8, 32))
    _put(record, _somewhere(record, dice), record[at : at + size].tobytes())


def _kind(record: NDArray[np.uint8], dice: random.Random) -> None:
    """Another opcode, or another manager's record."""
    record[dice.choice((_INFO, _INFO, _MANAGER))] ^= 1 << dice.randrange(8)


def _xid(record: NDArray[np.uint8], dice: random.Random) -> None:
    record[_XID + dice.randrange(4)] ^= 1 << dice.randrange(8)


_WAYS = (_flip, _flip, _flip, _scrawl, _scrawl, _number, _number, _number, _other, _kind, _xid)


def swapped_pages(data: bytes, used: int, dice: random.Random) -> tuple[bytes, Sequence[int]] | None:
    """Two pages of the first `used` bytes in each other's place; None if there are no two."""
    pages = used // PAGE_SIZE
    if pages < 2:
        return None
    one, other = sorted(dice.sample(range(pages), 2))
    cut = [data[page * PAGE_SIZE : (page + 1) * PAGE_SIZE] for page in (one, other)]
    between = data[(one + 1) * PAGE_SIZE : other * PAGE_SIZE]
    return b"".join((data[: one * PAGE_SIZE], cut[1], between, cut[0], data[(other + 1) * PAGE_SIZE :])), (one, other)
