"""Stretches that make one log, and such that do not: small ones, and what is to be said of each."""

from __future__ import annotations

import pytest

from support.logs import log
from tailrace.errors import CorruptWal
from tailrace.model import Lsn
from tailrace.plan.whole_log import check_chain

FIT = {
    "neighbours": ("=== 100\n 110 rows 7\n === 200\n 210 rows 7", None),
    "a stretch without records between": ("=== 100\n 110 rows 7\n === 200\n === 300\n 310 rows 7", None),
    "a record that a crash cut off is passed over": ("=== 100\n 110 rows 7\n === 200 previous=90\n 210 overwrite", None),
    "the first may name anything": ("=== 100 previous=7\n 110 rows 7", None),
    "one is missing": ("=== 100\n 110 rows 7\n === 200 previous=190\n 210 rows 7", (190, 210, 110)),
    "one is of another log": ("=== 100\n 110 rows 7\n === 200\n 210 rows 7\n === 300 previous=110\n 310 rows 7", (110, 310, 210)),
    "what comes later does not excuse it": ("=== 100\n 110 rows 7\n === 200 previous=90\n 210 rows 7\n 220 overwrite", (90, 210, 110)),
}  # fmt: skip


@pytest.mark.parametrize(("text", "broken"), FIT.values(), ids=FIT.keys())
def test_neighbours_must_fit(text: str, broken: tuple[int, int, int] | None) -> None:
    """Where they do not: what the first record names, where it is, and what really lies before it."""
    if broken is None:
        check_chain(log(text))
        return
    previous, first, last = map(Lsn, broken)
    with pytest.raises(CorruptWal) as caught:
        check_chain(log(text))
    assert caught.value.message == f"record with incorrect prev-link {previous} at {first}"
    assert caught.value.context == f"the record before it is at {last}"
