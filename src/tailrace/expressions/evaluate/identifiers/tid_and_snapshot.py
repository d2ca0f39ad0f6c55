"""tid (`adt/tid.c`), and pg_snapshot and txid_snapshot (`adt/xid8funcs.c`): (xmin, xmax, what ran between)."""

from __future__ import annotations

import operator

from tailrace.expressions.evaluate.comparison.type_comparison import plain
from tailrace.expressions.evaluate.fmgr.function_calls import Implementation, rows


def _visible(xid: int, snapshot: tuple[int, int, tuple[int, ...]]) -> bool:
    xmin, xmax, running = snapshot
    xid &= (1 << 64) - 1
    return xid < xmin or (xid < xmax and xid not in running)


FUNCTIONS: dict[str, Implementation] = {
    **{f"tid{name}": rows(getattr(operator, name), True) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    "tidlarger": rows(max, True), "tidsmaller": rows(min, True), "bttidcmp": rows(plain, True),
    "pg_snapshot_xmin": rows(lambda snapshot: snapshot[0], True), "pg_snapshot_xmax": rows(lambda snapshot: snapshot[1], True),
    "pg_visible_in_snapshot": rows(_visible, True),
}  # fmt: skip
