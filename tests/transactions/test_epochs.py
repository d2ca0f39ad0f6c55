"""Full xids: an xid of the 2^31 before the next one is found again from its low word: alone, among many, and in a kernel."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tailrace.transactions.epochs import FIRST_NORMAL_XID, LOW_WORD, XidClock, with_epoch

HALF = 1 << 31


@given(st.integers(FIRST_NORMAL_XID + 1, 1 << 40), st.data())
def test_an_xid_in_use_is_found_again(next_xid: int, data: st.DataObject) -> None:
    clock = XidClock.of((), (1000, next_xid))
    in_use = st.integers(max(FIRST_NORMAL_XID, next_xid - HALF), next_xid - 1)
    xids = [xid for xid in data.draw(st.lists(in_use, max_size=20)) if xid & LOW_WORD >= FIRST_NORMAL_XID]
    low = np.array([xid & LOW_WORD for xid in xids], np.uint32)
    assert clock.all_full(low, np.arange(len(xids))).tolist() == xids
    for xid in xids:
        assert clock.full(xid & LOW_WORD, 2000) == xid
        assert with_epoch(np.int64(xid & LOW_WORD), np.int64(next_xid)) == xid


@given(st.integers(FIRST_NORMAL_XID, 1 << 40))
def test_what_stands_for_no_transaction_has_no_epoch(next_xid: int) -> None:
    clock = XidClock.of((), (0, next_xid))
    none = list(range(FIRST_NORMAL_XID))
    assert clock.all_full(np.array(none, np.uint32), np.zeros(len(none), np.int64)).tolist() == none
    assert [clock.full(xid, 0) for xid in none] == none
    assert [with_epoch(np.int64(xid), np.int64(next_xid)) for xid in none] == none
