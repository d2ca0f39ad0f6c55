"""The fingerprint of a log before a position: by it a log is known again as the one that was read, and not another that began as it did.

In: a way to read a log, and a position up to which it was read. Out: `LogFingerprint`, a few numbers to be kept beside that position; and later, of
a log that is to be read on from there, why it is not the same (None if it is). A server that was put back to an earlier copy of itself has the same
system identifier and timeline, and writes other records over the same positions.

Two records may be equal in all their bytes though what stands before them differs: xl_prev is a position, and a RUNNING_XACTS tells no time. So
besides the last record as many before it count as 64 kB hold, commits with their times among them.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from enum import Enum
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailrace.checksummed_file import fact
from tailrace.dataclass import dataclass
from tailrace.errors import CorruptWal
from tailrace.model import PAGE_SIZE, Lsn, Stretch
from tailrace.wal import framing
from tailrace.wal.end_of_log import NeedMoreWal, explain
from tailrace.wal.framing import F_AT, F_LSN, NEED_MORE, POSITION, REACHED_STOP, next_records
from tailrace.wal.pages import LogIdentity, WalBytes, first_written_page
from tailrace.wal.record_header import H_CRC
from tailrace.wal.stretch_bytes import Reader, read_whole

_REACH = 1 << 16
_FARTHER = 8


@dataclass(frozen=True, slots=True)
class LogFingerprint:
    """Before `upto` the last record began at `last`, with this `crc` (xl_crc). `together` is the CRC-32 of the checksums of all that begin at `since`
    or later, up to that one."""

    upto: Lsn
    last: Lsn
    crc: int
    since: Lsn
    together: int

    def facts(self) -> list[int]:
        """In what JSON can hold."""
        return [int(self.upto), int(self.last), self.crc, int(self.since), self.together]

    @classmethod
    def of(cls, facts: Any) -> LogFingerprint | None:
        """None for None, which files say of before it was known. Raises ValueError or TypeError for what `facts` does not give."""
        if facts is None:
            return None
        upto, last, crc, since, together = fact(facts, list)
        fingerprint = cls(fact(upto, Lsn), fact(last, Lsn), fact(crc, int), fact(since, Lsn), fact(together, int))
        if not fingerprint.since <= fingerprint.last < fingerprint.upto:
            raise ValueError(f"no record at {fingerprint.last} lies between {fingerprint.since} and {fingerprint.upto}")
        return fingerprint


class Kind(Enum):
    """How a log differs from the one that was read."""

    SHORT = "ends before"
    OTHER = "is another"
    UNKNOWN = "cannot be told"


@dataclass(frozen=True, slots=True)
class Difference:
    """`at` is where the log ends, or where its record is that ought to be `LogFingerprint.last`."""

    kind: Kind
    at: Lsn
    why: str = ""


@dataclass(frozen=True, slots=True)
class _Walked:
    """Records of a range by LSN and checksum; where the walk ended, and why, empty if at the end of the range."""

    lsn: NDArray[np.int64]
    crc: NDArray[np.uint32]
    end: Lsn
    why: str


def fingerprint_before(read: Reader, log: LogIdentity, upto: Lsn, first: Lsn) -> LogFingerprint | None:
    """What stands before `upto` in a log that is at hand from `first` on, which begins a page. None if no record does. Raises CorruptWal where the
    log ends before."""
    reach = _REACH
    while first < upto:
        since = Lsn(max(int(first), (int(upto) - reach) // PAGE_SIZE * PAGE_SIZE))
        walked = _walked(read, log, since, upto)
        if walked.why and (len(walked.lsn) or since == first):
            raise CorruptWal(walked.why, context=f"the log ends at {walked.end}, and was read up to {upto}", lsn=walked.end)
        if not walked.why and len(walked.lsn):
            return _fingerprint(walked, since, upto)
        if since == first:
            return None
        # One record may be longer than that; and behind a switch of segments nothing begins, nor is all of it copied.
        within = int(upto) - (int(upto) - 1) // log.segment_size * log.segment_size
        reach = within if reach < within else reach * _FARTHER
    return None


def difference(fingerprint: LogFingerprint, read: Reader, log: LogIdentity, first: Lsn) -> Difference | None:
    """How the log that is at hand from `first` on differs from the one that the fingerprint was taken of; None if it does not. Where only a part of
    that is left, that counts; UNKNOWN is where not even the last record is."""
    if fingerprint.last < first:
        return Difference(Kind.UNKNOWN, first)
    since = max(fingerprint.since, first)
    walked = _walked(read, log, since, fingerprint.upto)
    if walked.why and walked.end <= fingerprint.last:
        return Difference(Kind.SHORT, walked.end, walked.why)
    if not (len(walked.lsn) or _is_written(read, since) or _is_written(read, walked.end)):
        return Difference(Kind.SHORT, since, "nothing is written there")
    if walked.why or not len(walked.lsn):
        return Difference(Kind.OTHER, walked.end, walked.why)
    now = _fingerprint(walked, since, fingerprint.upto)
    if (now.last, now.crc) != (fingerprint.last, fingerprint.crc) or (
        since == fingerprint.since and now.together != fingerprint.together
    ):
        return Difference(Kind.OTHER, now.last)
    return None


def _is_written(read: Reader, lsn: Lsn) -> bool:
    """Whether a page that begins there has anything."""
    wal = read(lsn, lsn + PAGE_SIZE)
    return bool(wal.buf[: wal.raw].any())


def _fingerprint(walked: _Walked, since: Lsn, upto: Lsn) -> LogFingerprint:
    return LogFingerprint(
        upto, Lsn(int(walked.lsn[-1])), int(walked.crc[-1]), since, zlib.crc32(walked.crc.astype("<u4").tobytes())
    )


def _walked(read: Reader, log: LogIdentity, since: Lsn, upto: Lsn) -> _Walked:
    return read_whole(read, Stretch(since, upto), partial(_walk, since=since, upto=upto, log=log))


def _walk(wal: WalBytes, *, at_end_of_log: bool, since: Lsn, upto: Lsn, log: LogIdentity) -> _Walked:
    frame = framing.new_frame(wal, log, first_written_page(wal, Stretch(since, upto), log.segment_size), upto)
    parts = list(_records(wal, frame))
    reason, rows = parts[-1][0], np.concatenate([rows for _, rows in parts])
    if reason == NEED_MORE and not at_end_of_log:
        raise NeedMoreWal(explain(reason, frame))
    crc = wal.buf[rows[:, F_AT, None] + H_CRC + np.arange(4)].view("<u4").ravel()
    return _Walked(rows[:, F_LSN], crc, Lsn(int(frame[POSITION])), "" if reason == REACHED_STOP else explain(reason, frame))


def _records(wal: WalBytes, frame: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Batches; the last is empty, with the reason why none follows."""
    while True:
        batch = np.zeros((framing.BATCH, framing.F_FIELDS), np.int64)
        count = int(next_records(wal.buf, frame, batch))
        yield count, batch[: max(0, count)]
        if count < 0:
            return
