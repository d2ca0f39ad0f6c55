"""What of a relation is decoded, and a stretch's plan for some of its transactions only."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from support.changes_by_hand import relation
from tailrace.model import Lsn, Stretch
from tailrace.plan.stretch_plan import EarlierToastChunks, FileMap, StretchPlan, is_decoded

DECODED = {
    # what differs from a user's table; whether its rows are shown, and whether with the rows of rewrites
    "a table": ({}, True, True),
    "a partition's parent": ({"kind": "p"}, True, True),
    "a materialized view": ({"kind": "m"}, True, True),
    "a sequence": ({"kind": "S"}, False, False),
    "a TOAST table": ({"kind": "t"}, False, False),
    "unlogged": ({"persistence": "u"}, False, False),
    "temporary": ({"persistence": "t"}, False, False),
    "a catalog": ({"oid": 1259}, False, False),
    "the last oid of a catalog": ({"oid": 11_999}, False, False),
    "information_schema's": ({"oid": 12_000}, True, True),
    "the new heap of a rewrite": ({"rewrite_of": 20000}, False, True),
    "the new heap of an unlogged one's": ({"rewrite_of": 20000, "persistence": "u"}, False, False),
}


@pytest.mark.parametrize(("differs", "shown", "with_rewrites"), DECODED.values(), ids=DECODED.keys())
def test_what_is_decoded(differs: dict[str, object], shown: bool, with_rewrites: bool) -> None:
    of = replace(relation(), **differs)  # type: ignore[arg-type]
    assert (is_decoded(of), is_decoded(of, rewrites=True)) == (shown, with_rewrites)


RESTRICTED = {
    # ordinals that are wanted; the xids that stay, their ordinals and bytes, and what is carried for them: (LSNs, xids) by stretch
    "all": ([0, 1, 2, 3], [7, 8, 9], [2, 0, 3], [70, 80, 90], [([10, 20], [7, 9]), ([30], [9])]),
    "one, with what is carried for it": ([2], [7], [2], [70], [([10], [7])]),
    "one, for which nothing is": ([0, 1], [8], [0], [80], []),
    "two": ([0, 3], [8, 9], [0, 3], [80, 90], [([20], [9]), ([30], [9])]),
    "none of those here": ([1], None, None, None, None),
}


@pytest.mark.parametrize(("wanted", "xids", "ordinals", "row_bytes", "carried"), RESTRICTED.values(), ids=RESTRICTED.keys())
def test_restricted_to_some(
    wanted: list[int],
    xids: list[int] | None,
    ordinals: list[int] | None,
    row_bytes: list[int] | None,
    carried: list[tuple[list[int], list[int]]] | None,
) -> None:
    plan = _plan()
    mine = plan.restricted_to(np.isin(np.arange(4), wanted))
    if xids is None:
        assert mine is None
        return
    assert mine is not None
    assert (mine.xid.tolist(), mine.ordinal.tolist(), mine.row_bytes.tolist()) == (xids, ordinals, row_bytes)
    assert (mine.since + 7).tolist() == xids
    assert [(part.lsn.tolist(), part.xid.tolist()) for part in mine.earlier_toast] == carried
    assert [part.crc.tolist() for part in mine.earlier_toast] == [[lsn + 1 for lsn in lsns] for lsns, _ in carried or []]
    assert (mine.stretch, mine.files, mine.confirmed.tolist()) == (plan.stretch, plan.files, [5])


def _plan() -> StretchPlan:
    none = np.zeros(0, np.int64)
    return StretchPlan(
        stretch=Stretch(Lsn(100), Lsn(200)),
        start=100,
        segment_size=1 << 20,
        major=16,
        fingerprint=1,
        xid=np.array([7, 8, 9]),
        ordinal=np.array([2, 0, 3]),
        row_bytes=np.array([70, 80, 90]),
        since=np.array([0, 1, 2]),
        stream=np.array([0, 8, 9], np.uint32),
        files=FileMap(none, none, none, none.astype(np.bool_), none, none, none, none),
        relations=(),
        earlier_toast=(_chunks(0, [10, 20], [7, 9]), _chunks(50, [30], [9])),
        confirmed=np.array([5]),
    )


def _chunks(start: int, lsns: list[int], xids: list[int]) -> EarlierToastChunks:
    return EarlierToastChunks(
        Stretch(Lsn(start), Lsn(start + 50)), np.array(lsns), np.array(xids), np.array([lsn + 1 for lsn in lsns], np.uint32)
    )
