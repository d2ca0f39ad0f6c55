"""How long the client of a stream takes to write, flush and apply what it is sent: write_lag, flush_lag and replay_lag of pg_stat_replication
(`LagTrackerWrite`, `LagTrackerRead`, `ProcessStandbyReplyMessage` of `replication/walsender.c`).

In: when the stream came to which position, and what the client says that it has. Out: three lags in microseconds, NO_LAG where there is none to
tell of.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from tailrace.model import Lsn

NO_LAG = -1
_INTERVAL = 1_000_000
"""Microseconds between two samples (`WALSND_LOGICAL_LAG_TRACK_INTERVAL_MS`)."""
_MOST = 8192
"""Samples that are kept for a client that says nothing (`LAG_TRACKER_BUFFER_SIZE`); beyond that the newest is replaced."""


class _Sample(NamedTuple):
    lsn: Lsn
    time: int


class _PositionLag:
    """One of write, flush and apply. State: the samples that the client is not at yet, and the last one that it was at, unless it has them all."""

    def __init__(self) -> None:
        self._ahead: deque[_Sample] = deque()
        self._behind: _Sample | None = None

    def add(self, sample: _Sample) -> None:
        if len(self._ahead) == _MOST:
            self._ahead.pop()
        self._ahead.append(sample)

    def lag(self, lsn: Lsn, now: int) -> int:
        """Of a client that is at `lsn` now."""
        time = None
        while self._ahead and self._ahead[0].lsn <= lsn:
            self._behind = self._ahead.popleft()
            time = self._behind.time
        if not self._ahead:
            self._behind = None
        elif time is None:
            time = self._between(lsn)
        return NO_LAG if time is None or time > now else now - time

    def _between(self, lsn: Lsn) -> int | None:
        """When the stream was at `lsn`, which is before the next sample: by the straight line to it from the last, or at the latest then."""
        before, after = self._behind, self._ahead[0]
        if before is None:
            return after.time
        if lsn < before.lsn or before.time > after.time:
            return None
        return before.time + int((after.time - before.time) * (lsn - before.lsn) / (after.lsn - before.lsn))


class LagTracker:
    """`lags` are those of write, flush and apply, as the client's last words told them."""

    def __init__(self) -> None:
        self.lags = (NO_LAG, NO_LAG, NO_LAG)
        self._readers = _PositionLag(), _PositionLag(), _PositionLag()
        self._sampled = _Sample(Lsn(0), 0)
        self._had_all = False

    def sent(self, lsn: Lsn, now: int) -> None:
        """The stream has come to `lsn`, behind a transaction."""
        if lsn > self._sampled.lsn and now - self._sampled.time >= _INTERVAL:
            self._sampled = _Sample(lsn, now)
            for each in self._readers:
                each.add(self._sampled)

    def replied(self, positions: tuple[Lsn, Lsn, Lsn], sent: Lsn, now: int) -> None:
        """The client has written, flushed and applied so much. Where it says for the second time that it has applied all there is, it says so
        because some time has gone by: what it took before is no news any more."""
        lags = tuple(reader.lag(lsn, now) for reader, lsn in zip(self._readers, positions, strict=True))
        has_all = positions[2] == sent
        is_idle, self._had_all = has_all and self._had_all, has_all
        write, flush, apply = (
            new if new != NO_LAG or is_idle else old for new, old in zip(lags, self.lags, strict=True)
        )  # fmt: skip
        self.lags = write, flush, apply
