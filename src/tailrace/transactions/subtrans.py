"""Which top-level transaction a subtransaction belongs to (`SubTransGetTopmostTransaction` in `access/transam/subtrans.c`)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def named_everywhere(xid: NDArray[np.int64], top: NDArray[np.int64]) -> NDArray[np.int64]:
    """The top-level transaction of each xid of consecutive stretches, 0 for those that are none's. Only the first record of a subtransaction names
    it; later stretches know it from there."""
    named = np.flatnonzero(top != 0)
    named = named[np.argsort(xid[named], kind="stable")]
    if not len(named):
        return top
    place = np.minimum(np.searchsorted(xid[named], xid), len(named) - 1)
    return np.where(xid[named][place] == xid, top[named][place], 0)
