"""Outcomes and order: whatever ends in whatever order, and however the log is cut, each xid has the outcome that a simple reading gives it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tailrace.transactions.commit_or_abort import NEVER, TwoPhase, outcomes_of
from tailrace.wal import xact
from tailrace.wal.xact import Ends

RECORD = 8


@dataclass(frozen=True)
class End:
    """One record that ends something."""

    kind: int
    xid: int
    subxids: tuple[int, ...] = ()
    gid: str = ""


@st.composite
def histories(draw: st.DrawFn) -> list[End]:
    """Ends of some transactions, interleaved at random; a subtransaction that is rolled back is so before its parent ends."""
    queues: list[list[End]] = []
    xid = 700
    for _ in range(draw(st.integers(0, 7))):
        xid += 1
        top, lost, kept = xid, [], []
        for _ in range(draw(st.integers(0, 3))):
            xid += 1
            (lost if draw(st.booleans()) else kept).append(xid)
        gid = f"gid {top}{draw(st.sampled_from(['', ' plain']))}"
        last = {
            "commit": [End(xact.COMMIT, top, tuple(kept))],
            "abort": [End(xact.ABORT, top, tuple(kept))],
            "prepare": [End(xact.PREPARE, top, tuple(kept), gid)],
            "commit prepared": [End(xact.PREPARE, top, tuple(kept), gid), End(xact.COMMIT_PREPARED, top, tuple(kept), gid)],
            "rollback prepared": [End(xact.PREPARE, top, tuple(kept), gid), End(xact.ABORT_PREPARED, top, tuple(kept), gid)],
            "never": [],
        }
        how = draw(st.sampled_from(sorted(last)))
        queues.append([*(End(xact.ABORT, sub) for sub in lost), *last[how]])
    told = []
    while any(queues):
        queue = draw(st.sampled_from([queue for queue in queues if queue]))
        told.append(queue.pop(0))
    return told


@given(histories(), st.data())
def test_one_phase(history: list[End], data: st.DataObject) -> None:
    outcomes = outcomes_of(_pieces(history, data))
    committed = [(lsn, end) for lsn, end in _placed(history) if end.kind in (xact.COMMIT, xact.COMMIT_PREPARED)]
    assert outcomes.transactions.xid.tolist() == [end.xid for _, end in committed]
    assert outcomes.transactions.commit_lsn.tolist() == [lsn for lsn, _ in committed]
    expected = {
        xid: (NEVER, -1) for end in history if end.kind in (xact.ABORT, xact.ABORT_PREPARED) for xid in (end.xid, *end.subxids)
    }
    for ordinal, (lsn, end) in enumerate(committed):
        expected |= dict.fromkeys((end.xid, *end.subxids), (lsn, ordinal))
    for xid in range(700, 740):
        seen, ordinals = outcomes.seen_of(np.array([xid], np.uint32))
        assert (int(seen[0]), int(ordinals[0])) == tuple(map(int, expected.get(xid, (NEVER, -2)))), xid
    for ordinal, (_, end) in enumerate(committed):
        assert outcomes.transactions[ordinal].subxids == end.subxids


@given(histories(), st.data())
def test_two_phases(history: list[End], data: st.DataObject) -> None:
    """Prepared transactions are told at PREPARE, with their rows; what ends them is told by itself; their work is seen from COMMIT PREPARED on."""
    outcomes = outcomes_of(_pieces(history, data), TwoPhase(is_plain=lambda xid, gid: gid.endswith("plain")))
    plain = {end.xid for end in history if end.gid.endswith("plain")}
    told = [
        (lsn, end)
        for lsn, end in _placed(history)
        if end.kind == xact.COMMIT
        or (end.xid not in plain and end.kind != xact.ABORT)
        or (end.xid in plain and end.kind == xact.COMMIT_PREPARED)
    ]
    kinds = [xact.COMMIT if end.xid in plain else end.kind for _, end in told]
    transactions = outcomes.transactions
    assert list(zip(transactions.commit_lsn.tolist(), transactions.xid.tolist(), transactions.kind.tolist(), strict=True)) == [
        (lsn, end.xid, kind) for (lsn, end), kind in zip(told, kinds, strict=True)
    ]
    for ordinal, (kind, (lsn, end)) in enumerate(zip(kinds, told, strict=True)):
        seen, mine = outcomes.seen_of(np.array([end.xid, *end.subxids], np.uint32))
        if kind == xact.COMMIT:
            assert set(mine.tolist()) == {ordinal}
            assert set(seen.tolist()) == {lsn}
        elif kind == xact.PREPARE:
            ends = [lsn for lsn, other in told if other.kind == xact.COMMIT_PREPARED and other.xid == end.xid]
            assert set(mine.tolist()) == {ordinal}
            assert set(seen.tolist()) == {ends[0] if ends else int(NEVER)}
        else:
            assert transactions.kind[transactions.prepared[ordinal]] == xact.PREPARE
            assert transactions.xid[transactions.prepared[ordinal]] == end.xid


def _placed(history: list[End]) -> list[tuple[int, End]]:
    return [((row + 1) * RECORD, end) for row, end in enumerate(history)]


def _pieces(history: list[End], data: st.DataObject) -> list[Ends]:
    """The ends as indexes of consecutive stretches hold them, cut at random."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(history)), max_size=4), label="cuts"))
    bounds = [0, *cuts, len(history)]
    placed = _placed(history)
    return [_ends(placed[start:stop]) for start, stop in zip(bounds, bounds[1:], strict=False)]


def _ends(placed: list[tuple[int, End]]) -> Ends:
    lsn = np.array([lsn for lsn, _ in placed], np.int64)
    rows = len(placed)
    gids = [end.gid.encode() for _, end in placed]
    return Ends(
        kind=np.array([end.kind for _, end in placed], np.uint8),
        xid=np.array([end.xid for _, end in placed], np.uint32),
        lsn=lsn,
        end_lsn=lsn + RECORD,
        time=lsn,
        database=np.full(rows, 5, np.uint32),
        origin=np.zeros(rows, np.uint16),
        origin_lsn=np.zeros(rows, np.int64),
        origin_time=np.zeros(rows, np.int64),
        subxact_bounds=np.cumsum([0, *(len(end.subxids) for _, end in placed)]),
        subxids=np.array([xid for _, end in placed for xid in end.subxids], np.uint32),
        gid_bounds=np.cumsum([0, *(len(gid) for gid in gids)]),
        gids=np.frombuffer(b"".join(gids), np.uint8),
        invalidation_bounds=np.zeros(rows + 1, np.int64),
        invalidations=np.zeros(0, np.uint8),
    )
