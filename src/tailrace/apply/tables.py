"""What a net change leaves to the target: the values that only the target has."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from tailrace.apply.keys import joined, row_codes
from tailrace.apply.net_change import NetChange
from tailrace.errors import MissingHistory


def filled(net: NetChange, target: pa.Table) -> NetChange:
    """The net change with the values put in that only `target` has. Raises MissingHistory if it does not have the row either."""
    upserts = net.upserts
    for fill in net.fills:
        codes = row_codes([joined(target[name], fill.keys[name]) for name in net.key])
        there, wanted = codes[: len(target)], codes[len(target) :]
        place = np.full(int(codes.max(initial=-1)) + 1, -1, np.int64)
        place[there] = np.arange(len(there))
        at = place[wanted]
        if (at < 0).any():
            missing = fill.keys.slice(int(np.flatnonzero(at < 0)[0]), 1).to_pylist()[0]
            raise MissingHistory(
                f'the value of column "{fill.column}" was not sent with an update, and the table does not have it either',
                hint="The row was written before the WAL at hand begins. Start from a copy of the table.",
                context=f"row {missing}",
            )
        position = upserts.schema.get_field_index(fill.column)
        source = np.arange(len(upserts))
        source[fill.rows] = len(upserts) + np.arange(len(fill.rows))
        values = joined(upserts[fill.column], target[fill.column].take(pa.array(at))).take(pa.array(source))
        upserts = upserts.set_column(position, upserts.schema.field(position), values)
    return replace(net, upserts=upserts, fills=[])
