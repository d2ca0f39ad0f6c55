"""A table and its net change -> the table after it, all in Arrow: what bringing up a table of a lake must come to."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tailrace.apply.keys import joined, row_codes
from tailrace.apply.net_change import NetChange
from tailrace.apply.tables import filled


def applied(net: NetChange, target: pa.Table) -> pa.Table:
    """`target` after the change; both in the same columns. Rows that stay keep their order, and come first."""
    net = filled(net, target)
    if net.truncated:
        return net.upserts
    if not net.key:
        return pa.concat_tables([target.filter(pa.array(_without_one_each(target, net.deletes))), net.upserts])
    gone = pa.concat_tables([net.deletes.select(net.key), net.upserts.select(net.key)])
    codes = row_codes([joined(target[name], gone[name]) for name in net.key])
    keep = ~np.isin(codes[: len(target)], codes[len(target) :])
    return pa.concat_tables([target.filter(pa.array(keep)), net.upserts])


def _without_one_each(target: pa.Table, deletes: pa.Table) -> NDArray[np.bool_]:
    """Which rows of `target` stay when one copy goes for each row of `deletes`."""
    if not len(deletes):
        return np.ones(len(target), np.bool_)
    codes = row_codes([joined(target[name], deletes[name]) for name in target.schema.names])
    there, gone = codes[: len(target)], np.bincount(codes[len(target) :], minlength=int(codes.max()) + 1)
    order = np.argsort(there, kind="stable")
    ranked = there[order]
    first = np.searchsorted(ranked, ranked)
    keep = np.ones(len(target), np.bool_)
    keep[order] = np.arange(len(ranked)) - first >= gone[ranked]
    return keep
