"""Lags of a client, by PostgreSQL's rules."""

from __future__ import annotations

from tailrace.model import Lsn
from tailrace.server.lag import NO_LAG, LagTracker

_SECOND = 1_000_000
_NONE = (NO_LAG, NO_LAG, NO_LAG)


def _replied(tracker: LagTracker, lsn: int, sent: int, now: int) -> tuple[int, int, int]:
    tracker.replied((Lsn(lsn), Lsn(lsn), Lsn(0)), Lsn(sent), now * _SECOND)
    return tracker.lags


def test_what_was_not_sent_has_no_lag() -> None:
    assert _replied(LagTracker(), 10, 10, 5) == _NONE


def test_from_sending_to_the_reply() -> None:
    tracker = LagTracker()
    tracker.sent(Lsn(100), 10 * _SECOND)
    assert _replied(tracker, 100, 100, 13) == (3 * _SECOND, 3 * _SECOND, 3 * _SECOND)
    assert _replied(tracker, 100, 100, 14) == (3 * _SECOND, 3 * _SECOND, 4 * _SECOND)  # nothing has been applied yet


def test_between_samples() -> None:
    tracker = LagTracker()
    tracker.sent(Lsn(100), 10 * _SECOND)
    tracker.sent(Lsn(150), 10 * _SECOND + 1)  # too soon for a sample
    tracker.sent(Lsn(200), 12 * _SECOND)
    assert _replied(tracker, 100, 200, 15)[0] == 5 * _SECOND
    assert _replied(tracker, 150, 200, 15)[0] == 4 * _SECOND


def test_an_idle_client_has_none() -> None:
    tracker = LagTracker()
    tracker.sent(Lsn(100), 10 * _SECOND)
    for now, lags in ((11, (_SECOND,) * 3), (21, _NONE)):
        tracker.replied((Lsn(100), Lsn(100), Lsn(100)), Lsn(100), now * _SECOND)
        assert tracker.lags == lags


def test_a_clock_that_went_back() -> None:
    tracker = LagTracker()
    tracker.sent(Lsn(100), 10 * _SECOND)
    assert _replied(tracker, 100, 100, 9)[0] == NO_LAG


def test_a_client_that_says_nothing() -> None:
    """Samples are bounded, and the newest counts."""
    tracker = LagTracker()
    for each in range(1, 10_001):
        tracker.sent(Lsn(each), each * _SECOND)
    assert _replied(tracker, 10_000, 10_000, 10_001)[0] == _SECOND
