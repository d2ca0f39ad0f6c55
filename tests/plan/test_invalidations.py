"""When what pgoutput keeps of a relation is invalidated: small logs by hand, and drawn ones against the server's caches played through command by
command."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.logs import DATABASE, MAJOR, log, scanned
from tailrace.plan.invalidations import RelationInvalidations, committed_invalidations, relation_invalidations
from tailrace.transactions.commit_or_abort import TwoPhase
from tailrace.transactions.scanned_log import Earlier, InvalidatedRelations, ScannedLog

T, U, EVERY = 20000, 20001, 0
Pairs = set[tuple[int, int]]

CASES: dict[str, tuple[str, Pairs, dict[int, Pairs]]] = {
    # a log; behind which LSNs which relation is invalidated for whoever ends later; and within transactions, by xid
    "within its own transaction, and where that ends": (
        f"110 rows 7\n 120 invalidates 7 oids={T},{U}\n 130 commit 7", {(130, T), (130, U)}, {7: {(120, T), (120, U)}},
    ),
    "within another that is in progress where it commits, and where that ends": (
        f"110 rows 8\n 120 invalidates 7 oids={T}\n 130 commit 7\n 140 rows 8\n 150 commit 8", {(130, T), (150, T)},
        {7: {(120, T)}, 8: {(130, T)}},
    ),
    "not within one that begins later, or has ended": (
        f"110 rows 8\n 115 invalidates 7 oids={T}\n 120 commit 8\n 130 commit 7\n 140 rows 9\n 150 commit 9", {(130, T)}, {7: {(115, T)}},
    ),
    "at once without a transaction": (f"110 rows 8\n 120 invalidates oids={EVERY}\n 130 commit 8", {(120, EVERY)}, {}),
    "of a transaction that is rolled back nothing": (f"110 invalidates 7 oids={T}\n 120 abort 7\n 130 rows 8\n 140 commit 8", set(), {}),
    "of a subtransaction that is rolled back only where the transaction ends": (
        f"110 rows 7\n 120 invalidates 8 top=7 oids={T}\n 130 abort 8\n 140 commit 7", {(140, T)}, {},
    ),
    "of a subtransaction as of its transaction": (
        f"110 rows 7\n 120 invalidates 8 top=7 oids={T}\n 130 commit 7 subs=8", {(130, T)}, {7: {(120, T)}},
    ),
    "of another database nothing": (f"110 rows 7\n 120 invalidates 7 oids={T} db=1\n 130 commit 7", set(), {}),
}  # fmt: skip
"""A log opens with a moment at which nothing runs."""


def _scanned(text: str, earlier: InvalidatedRelations | None = None, two_phase: TwoPhase | None = None) -> ScannedLog:
    indexes = log(f"=== 100\n 104 running next=7\n {text}")
    held = Earlier({}) if earlier is None else Earlier({}, invalidated=earlier)
    return ScannedLog.of(indexes, (0, 7), 1 << 20, earlier=held, two_phase=two_phase)


def _found(made: RelationInvalidations, log: ScannedLog) -> tuple[Pairs, dict[int, Pairs]]:
    xids = log.outcomes.transactions.xid
    return set(made.ended.pairs()), {int(xids[ordinal]): set(found.pairs()) for ordinal, found in made.within.items()}


@pytest.mark.parametrize("case", CASES)
def test_when_relations_are_invalidated(case: str) -> None:
    text, ended, within = CASES[case]
    read = _scanned(text)
    assert _found(relation_invalidations(read, DATABASE, MAJOR), read) == (ended, within)


def test_a_prepared_transaction_ends_twice() -> None:
    """Where it was prepared others do not see it yet."""
    text = f"""110 rows 8
        120 invalidates 7 oids={T}
        130 prepare 7 gid=g
        140 rows 8
        150 commit_prepared 7 gid=g
        160 commit 8"""
    read = _scanned(text, two_phase=TwoPhase(0, lambda xid, gid: False))
    made = relation_invalidations(read, DATABASE, MAJOR)
    within = {int(read.outcomes.transactions.full_xid[ordinal]): set(found.pairs()) for ordinal, found in made.within.items()}
    assert (set(made.ended.pairs()), within) == ({(130, T), (150, T), (160, T)}, {7: {(120, T)}, 8: {(150, T)}})


def test_what_commits_before_the_log_invalidated() -> None:
    """A transaction that was open then, and goes on here, has come by it; one that begins here has not."""
    text = "110 rows 8\n 120 rows 7\n 130 commit 7\n 140 commit 8"
    earlier = InvalidatedRelations.of([(90, T), (115, U)])
    read = _scanned(text, earlier)
    made = relation_invalidations(read, DATABASE, MAJOR)
    assert _found(made, read) == ({(140, U)}, {8: {(115, U)}})
    assert committed_invalidations(read, DATABASE, MAJOR).pairs() == [(90, T), (115, U)]
    more = _scanned(f"{text}\n 150 invalidates 9 oids={T}\n 160 commit 9", earlier)
    assert committed_invalidations(more, DATABASE, MAJOR).pairs() == [(90, T), (115, U), (160, T)]


def test_the_points_of_a_relation_within_a_transaction() -> None:
    read = _scanned(f"110 rows 7\n 120 invalidates 7 oids={T},{U}\n 130 invalidates 7 oids={EVERY}\n 140 commit 7")
    made = relation_invalidations(read, DATABASE, MAJOR)
    assert [made.points(0, oid) for oid in (T, U, 5)] == [[120, 130], [120, 130], [130]]
    assert made.points(1, T) == []


@st.composite
def _logs(draw: st.DrawFn) -> list[tuple[int, str, int, int]]:
    """(LSN, what, xid, oid) of records of a few transactions, each of which begins with a row and may end with the log still going on."""
    lsn, records = 104, []
    running, left = [7, 8, 9], {7, 8, 9, 10, 11}
    for _ in range(draw(st.integers(3, 24))):
        lsn += 8
        xid = draw(st.sampled_from(running))
        what = draw(st.sampled_from(("rows", "invalidates", "invalidates", "commit", "abort")))
        records.append((lsn, what, xid, draw(st.sampled_from((T, U, EVERY)))))
        if what in ("commit", "abort"):
            left.discard(xid)
            running = sorted(left)[:3]
            if not running:
                break
    return records


def _played(records: Iterable[tuple[int, str, int, int]]) -> tuple[Pairs, dict[int, Pairs]]:
    """What the server's caches hear, as `ReorderBufferAddInvalidations` and `SnapBuildDistributeSnapshotAndInval` tell them."""
    said: dict[int, list[tuple[int, int]]] = defaultdict(list)
    began: dict[int, int] = {}
    within: dict[int, Pairs] = defaultdict(set)
    ended: Pairs = set()
    for lsn, what, xid, oid in records:
        if what == "invalidates":
            said[xid].append((lsn, oid))
        if what not in ("commit", "abort"):
            began.setdefault(xid, lsn)
            continue
        began.pop(xid, None)
        if what == "abort":
            within.pop(xid, None)
            continue
        ended |= {(lsn, each) for _, each in (*said[xid], *within.get(xid, ()))}
        within[xid] |= set(said[xid])
        for other in began:
            within[other] |= {(lsn, each) for _, each in said[xid]}
    return ended, {xid: found for xid, found in within.items() if found and xid not in began}


@settings(deadline=None, max_examples=200)
@given(_logs())
def test_as_the_servers_caches_hear_of_it(records: list[tuple[int, str, int, int]]) -> None:
    text = "\n".join(f"{lsn} {what} {xid}{f' oids={oid}' if what == 'invalidates' else ''}" for lsn, what, xid, oid in records)
    read = _scanned(text)
    assert _found(relation_invalidations(read, DATABASE, MAJOR), read) == _played(records)


def test_nothing_invalidated_is_nothing() -> None:
    read = scanned(log("=== 100\n 110 rows 7\n 120 commit 7"))
    assert _found(relation_invalidations(read, DATABASE, MAJOR), read) == (set(), {})
