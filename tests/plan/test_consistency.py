"""From where on transactions are known whole: small logs, and what is to be said of each."""

from __future__ import annotations

import re

import numpy as np
import pytest

from support.logs import log, scanned
from tailrace.errors import MissingHistory
from tailrace.model import Lsn
from tailrace.plan.consistency import consistency, first_redo, left_out, whole
from tailrace.plan.xids import all_xids
from tailrace.transactions.commit_or_abort import outcomes_of
from tailrace.wal.index import Index

CONSISTENT = {
    # a log; the transactions that may have begun before it, and from where on every commit is read whole
    "nothing runs": (
        """
        === 100
        110 running next=20
        120 checkpoint redo=110 next=20
        """,
        set(), 110,
    ),
    "a shutdown checkpoint": (
        """
        === 100
        110 shutdown redo=110 next=20
        120 rows 20
        130 commit 20
        """,
        set(), 110,
    ),
    "some run, and all of them end": (
        """
        === 100
        110 running 18 19 next=20
        120 checkpoint redo=110 next=20
        130 commit 18
        === 140
        150 abort 19
        160 commit 20
        """,
        {18, 19}, 151,
    ),
    "one has no end in this log": (
        """
        === 100
        110 running 18 19 next=20
        120 checkpoint redo=110 next=20
        130 commit 19
        """,
        {18, 19}, 131,
    ),
    "what runs before the first redo pointer says nothing": (
        """
        === 100
        110 running 17 next=18
        120 commit 17
        130 running 18 next=19
        140 checkpoint redo=130 next=19
        150 commit 18
        """,
        {17, 18}, 151,
    ),
    "nor does a checkpoint whose redo pointer lies before the log": (
        """
        === 100
        110 checkpoint redo=90 next=18
        120 running 18 next=19
        130 checkpoint redo=120 next=19
        140 commit 18
        """,
        {18}, 141,
    ),
    "one that began behind the redo pointer is read whole": (
        """
        === 100
        110 running 18 next=19
        120 rows 19
        130 running 18 19 next=20
        140 checkpoint redo=115 next=19
        150 commit 18
        160 commit 19
        """,
        {18}, 161,
    ),
    "one that ended between the redo pointer and RUNNING_XACTS": (
        """
        === 100
        110 commit 18
        120 running next=19
        130 checkpoint redo=105 next=19
        """,
        {18}, 120,
    ),
    "prepared before the log": (
        """
        === 100
        110 shutdown redo=110 next=20
        120 commit_prepared 15 gid=p
        130 commit 20
        """,
        {15}, 121,
    ),
    "prepared within it": (
        """
        === 100
        110 shutdown redo=110 next=20
        120 prepare 20 gid=p
        130 commit_prepared 20 gid=p
        """,
        set(), 110,
    ),
    "rolled back, though prepared before": (
        """
        === 100
        110 shutdown redo=110 next=20
        120 rollback_prepared 15 gid=p
        """,
        set(), 110,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "unread", "since"), CONSISTENT.values(), ids=CONSISTENT.keys())
def test_the_log_tells(text: str, unread: set[int], since: int) -> None:
    assert _consistency(log(text), None) == (unread, since)


CAPTURED = {
    # what a captured state knows to have been open, each with its first record
    "open from before the log": ({18: 50}, {18}, 131),
    "open, but all of it is at hand": ({18: 100, 19: 115}, set(), 100),
    "one and the other": ({18: 120, 19: 60}, {19}, 141),
    "nothing was open": ({}, set(), 100),
}


@pytest.mark.parametrize(("open_at_start", "unread", "since"), CAPTURED.values(), ids=CAPTURED.keys())
def test_a_captured_state_tells(open_at_start: dict[int, int], unread: set[int], since: int) -> None:
    """And the log is not asked: what runs at 110 does not matter."""
    indexes = log("""
        === 100
        110 running 17 18 19 next=20
        120 checkpoint redo=110 next=20
        130 commit 18
        140 commit 19
    """)
    assert _consistency(indexes, open_at_start) == (unread, since)


def test_a_state_does_not_name_what_was_prepared_before_the_log() -> None:
    indexes = log("""
        === 100
        110 commit_prepared 15 gid=p
    """)
    assert _consistency(indexes, {}) == ({15}, 111)


def test_nobody_tells() -> None:
    indexes = log("""
        === 100
        110 rows 20
        120 checkpoint redo=90 next=20
        130 commit 20
    """)
    with pytest.raises(MissingHistory, match=f"no consistent point between {Lsn(110)} and {Lsn(138)}"):
        _consistency(indexes, None)


def _consistency(indexes: list[Index], open_at_start: dict[int, int] | None) -> tuple[set[int], int]:
    unread, since = consistency(scanned(indexes, open_at_start=open_at_start))
    return set(unread), int(since)


def test_no_checkpoint_to_begin_with() -> None:
    with pytest.raises(
        MissingHistory, match=f"no checkpoint whose redo pointer lies between {Lsn(110)} and {Lsn(128)}"
    ) as caught:
        first_redo(log("=== 100\n 110 checkpoint redo=90 next=7\n 120 rows 7"))
    assert "--catalog" in caught.value.hint


# -- what of it can be shown -------------------------------------------------------------------------------------------------------------

SHOWN = log("""
    === 100
    110 rows 7
    120 rows 8
    130 rows 9
    140 commit 8
    150 rows 10
    160 commit 7
    === 200
    210 commit 9
    220 commit 10
""")
"""Committed in the order 8, 7, 9, 10, which have the ordinals 0 to 3."""
WHOLE = {
    # xids that may have begun before; from where on catalogs are known; the xids that can be shown; why another is not, if the start was named
    "all": (set(), 0, [8, 7, 9, 10], None),
    "one began before the WAL": ({9}, 0, [8, 7, 10], f"transaction 9 began before the WAL at hand and commits at {Lsn(210)}"),
    "two, and the first is named": ({9, 7}, 0, [8, 10], f"transaction 7 began before the WAL at hand and commits at {Lsn(160)}"),
    "catalogs are known later": (
        set(), 130, [9, 10],
        f"what tables were is known from {Lsn(130)} on, and transaction 8, which commits at {Lsn(140)}, began before that",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("unread", "known_from", "kept", "why"), WHOLE.values(), ids=WHOLE.keys())
def test_what_lies_whole(unread: set[int], known_from: int, kept: list[int], why: str | None) -> None:
    outcomes = outcomes_of([part.ends for part in SHOWN])
    xids = all_xids(SHOWN, outcomes)
    transactions = outcomes.transactions.beginning_at(xids.first_lsns(outcomes.transactions))
    assert transactions.first_lsn.tolist() == [120, 110, 130, 150]
    told = np.arange(4)
    taken = whole(transactions, told, frozenset(unread), Lsn(250), known_from, explicit=False)
    assert transactions.xid[taken].tolist() == kept
    if why is None:
        assert whole(transactions, told, frozenset(unread), Lsn(250), known_from, explicit=True).tolist() == told.tolist()
        assert left_out(transactions, xids, told, taken, "why") == ""
        return
    with pytest.raises(MissingHistory, match=f"^{re.escape(why)}") as caught:
        whole(transactions, told, frozenset(unread), Lsn(250), known_from, explicit=True)
    assert f"start at {Lsn(250)}, from where every transaction is read whole" in caught.value.hint


def test_what_is_left_out_is_counted() -> None:
    indexes = log("""
        === 100
        110 rows 7 n=3
        120 commit 7
        130 rows 8 n=5
        140 rows 9 n=2 top=8
        150 abort 9
        160 commit 8
        === 200
        210 rows 10
        220 commit 10
    """)
    outcomes = outcomes_of([part.ends for part in indexes])
    said = left_out(outcomes.transactions, all_xids(indexes, outcomes), np.arange(3), np.array([2]), "for a reason")
    assert said == f"left out are 2 transactions with 10 rows at hand, which commit from {Lsn(120)} to {Lsn(160)}: for a reason"


def test_of_what_is_left_out_only_what_has_rows_is_told() -> None:
    indexes = log("""
        === 100
        110 rows 7
        120 commit 7
        130 commit 8
        === 200
    """)
    outcomes = outcomes_of([part.ends for part in indexes])
    transactions, xids, none = outcomes.transactions, all_xids(indexes, outcomes), np.zeros(0, np.int64)
    one = left_out(transactions, xids, np.arange(2), none, "for a reason")
    assert one == f"left out is 1 transaction with 1 row at hand, which commits at {Lsn(120)}: for a reason"
    assert left_out(transactions, xids, np.array([1]), none, "for a reason") == ""
