"""A snapshot of a live server that goes with a new slot: it sees exactly what commits before the slot's `confirmed_flush_lsn`, and the slot gives
exactly what commits from there on (`SnapBuildInitialSnapshot` in `replication/logical/snapbuild.c`, whose snapshots are made of the log).

In: a slot that is to be created, and a session on the server. Out: the slot as it is to be created, and the session's transaction with the snapshot.

A snapshot of the server's is one of its transactions, not of the log: a transaction leaves the running ones a moment after its commit record is
in the log, so that one may be seen whose commit record lies behind that of one which is not. Such a snapshot belongs to no LSN, and another one is
taken.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tailrace.client.receiver import received_upto
from tailrace.client.source_session import SourceSession
from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.model import STRETCH_BYTES, Lsn
from tailrace.pipeline.runner import Runner
from tailrace.pipeline.scanning import cut_at, scan_stretch
from tailrace.replication.same_log import fingerprint_in
from tailrace.replication.service import NewSlot
from tailrace.replication.timelines import timeline_at
from tailrace.storage.segments import Segments
from tailrace.storage.wakeup import ReaderSocket
from tailrace.transactions.seen_transactions import SeenTransactions
from tailrace.wal import xact

_POLL = 0.05
_TOLD_AFTER, _NUDGED_AFTER, _GIVEN_UP_AFTER, _PATIENCE = 5.0, 0.25, 60.0, 60.0
"""Seconds after which it is told who is waited for; after which the server is made to write, where what it has written is not flushed yet; in which a
snapshot must be found; in which the log must come nearer."""


@dataclass(frozen=True, slots=True)
class Alignment:
    """What is made for one slot. `segments` gives the log at hand as it is then, which is received into `directory`; `warn` hears who is waited for;
    `nudge` has the server write something. The session's transaction is the snapshot's."""

    session: SourceSession
    directory: Path
    segments: Callable[[], Segments]
    runner: Runner
    warn: Callable[[str], None]
    is_stopping: Callable[[], bool]
    nudge: Callable[[], None]

    def aligned(self, new: NewSlot) -> NewSlot:
        """The slot as it is to be created. The session's transaction has the snapshot. Raises UsageError (55000) on a standby, (40001) where no
        snapshot was found, (57014) once it is to stop."""
        if self.session.is_in_recovery:
            raise UsageError(
                "recovery is in progress", sqlstate="55000",
                hint="Serve the primary's log while tables are copied to a subscriber. A slot without a snapshot is created with SNAPSHOT 'nothing', "
                "and a subscription that needs none WITH (copy_data = false).",
            )  # fmt: skip
        slot = new.slot
        self._await_older()
        consistent, tries, give_up = slot.confirmed_flush_lsn, 0, time.monotonic() + _GIVEN_UP_AFTER
        while True:
            self.session.begin()
            seen = self.session.seen()
            self._await_log(seen.end)
            found = _consistent_point(self._commits(consistent, seen.end, slot.database_oid), seen, consistent)
            consistent = found.lsn
            if found.is_exact:
                break
            self.session.end()
            tries += 1
            if time.monotonic() > give_up:
                raise UsageError(
                    f"could not find a snapshot that belongs to a position of the log, in {tries} tries", sqlstate="40001",
                    detail="Transactions became visible in another order than that of their commit records whenever one was taken.",
                    hint="Try again. Transactions that commit with synchronous_commit = off beside others that wait make it rarer.",
                )  # fmt: skip
            self._check()
        if consistent == slot.confirmed_flush_lsn:
            return new
        segments = self.segments()
        return replace(
            new,
            slot=replace(
                slot, confirmed_flush_lsn=consistent, two_phase_at=consistent, timeline=timeline_at(segments, consistent),
                fingerprint=fingerprint_in(segments, consistent, slot.restart_lsn),
            ),
        )  # fmt: skip

    def _await_older(self) -> None:
        """Until a snapshot sees all that has its commit record before the slot begins. Who has written it may still be running: for an instant, or
        for as long as it waits for a synchronous standby."""
        spent, began, is_told = self.session.spend_xid(), time.monotonic(), False
        while self.session.oldest_running() < spent:
            self._check()
            if not is_told and time.monotonic() - began > _TOLD_AFTER:
                is_told = True
                self.warn(f"a snapshot is taken once these transactions are over: {self.session.running()}")
            time.sleep(_POLL)

    def _await_log(self, lsn: Lsn) -> None:
        """Until it is at hand up to there."""
        began = nudged = came = time.monotonic()
        farthest = Lsn(0)
        with ReaderSocket(self.directory) as socket:
            while (now := received_upto(self.directory)) is None or now < lsn:
                self._check()
                if now is not None and now > farthest:
                    farthest, came = now, time.monotonic()
                if time.monotonic() - max(began, came) > _PATIENCE:
                    raise UsageError(f"the server's log did not come up to {lsn}", sqlstate="08006")
                if time.monotonic() - nudged > _NUDGED_AFTER:
                    nudged = time.monotonic()
                    self.nudge()
                socket.wait(_POLL)

    def _commits(self, begin: Lsn, end: Lsn, database: int) -> Iterator[_Commits]:
        """Those of the database that lie between, from one record's beginning on."""
        segments = self.segments()
        for stretch in cut_at(begin, end, STRETCH_BYTES):
            (part,) = self.runner.run(partial(scan_stretch, segments, ()), [stretch])
            ends = part.ends
            rows = np.isin(ends.kind, (xact.COMMIT, xact.COMMIT_PREPARED)) & np.isin(ends.database, (0, database))
            rows &= ends.lsn < end
            yield _Commits(ends.xid[rows].astype(np.int64), ends.lsn[rows], ends.end_lsn[rows])
            self._check()

    def _check(self) -> None:
        if self.is_stopping():
            raise UsageError("canceling statement due to user request", sqlstate="57014")


@dataclass(frozen=True, slots=True)
class _Commits:
    """By their top-level xids, 32 bits of them, with where their records begin and end."""

    xid: NDArray[np.int64]
    lsn: NDArray[np.int64]
    end_lsn: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Place:
    """An LSN before which the snapshot has seen all that commits; and behind which none, if it `is_exact`."""

    lsn: Lsn
    is_exact: bool


def _consistent_point(commits: Iterator[_Commits], seen: SeenTransactions, begin: Lsn) -> _Place:
    """Behind the last commit that was seen, if none before it was not; else before the first that was not, where the next look can begin."""
    last_seen = int(begin)
    for part in commits:
        saw = seen.saw(part.xid)
        unseen = part.lsn[~saw]
        behind = part.end_lsn[saw]
        if not len(unseen):
            last_seen = max(last_seen, int(behind.max(initial=last_seen)))
            continue
        first = int(unseen.min())
        before = part.end_lsn[saw & (part.lsn < first)]
        last_seen = max(last_seen, int(before.max(initial=last_seen)))
        is_exact = not (saw & (part.lsn > first)).any() and not any(seen.saw(each.xid).any() for each in commits)
        return _Place(Lsn(last_seen if is_exact else first), is_exact)
    return _Place(Lsn(last_seen), True)
