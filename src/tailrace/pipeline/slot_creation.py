"""Where a slot can begin: a place in the log from which every transaction that commits is read whole, and the catalogs are known
(`SnapBuildFindSnapshot`).

PostgreSQL waits until all transactions have ended that were running; here only those are waited for whose beginning no log at hand holds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tailrace.catalog.state import CatalogState
from tailrace.errors import MissingHistory
from tailrace.pipeline import opened
from tailrace.pipeline.capture import capture
from tailrace.pipeline.first_pass import read_through
from tailrace.pipeline.following import Followed, up_to_its_end
from tailrace.pipeline.runner import Runner
from tailrace.pipeline.scanning import AS_SUITS
from tailrace.pipeline.windows import begin, carry
from tailrace.plan.carried import Carried
from tailrace.plan.demand import OF_TABLES
from tailrace.storage.source import Source
from tailrace.window import WindowSize, windows

_POLL = 0.1

Tell = Callable[[Sequence[int]], None]
"""Is told for which transactions (full xids) is waited."""


def consistent_place(
    path: Path, database: str, runner: Runner, tell: Tell, *, catalog: CatalogState | None = None, window: WindowSize | None = None
) -> Carried:  # fmt: skip
    """What is known at the end of the log. Raises MissingHistory where a transaction is open that the log does not
    hold from its beginning, and no server writes that could end it."""
    source = Source.open(path, catalog.needs_wal_from if catalog else None)
    state = catalog or capture(source, runner, database)
    source, scan_from = opened(source, database, state)
    first = read_through(source, runner, scan_from, AS_SUITS, state)
    carried, _ = begin(source, runner, first.outlines, database, state, start_lsn=None, upto_lsn=None, demand=OF_TABLES)
    del first.outlines
    for numbers in windows(range(len(first.pile)), first.pile.weights.__getitem__, window or runner.window):
        whole = [part for number in numbers if (part := up_to_its_end(first.pile.take(number))) is not None]
        if whole:
            carried = carry(source, runner, carried, whole)
    if carried.waits_for:
        carried = _waited(path, source, runner, carried, tell)
    return carried


def _waited(path: Path, source: Source, runner: Runner, carried: Carried, tell: Tell) -> Carried:
    followed = Followed(path, carried.lsn, carried.restart_lsn, source, last=carried.last)
    told: list[int] = []
    while carried.waits_for:
        if source.directory is None or not source.directory.is_running:
            raise MissingHistory(
                f"no consistent point: {len(carried.waits_for)} transactions are open whose beginning this log does not hold",
                hint="Create the slot with a catalog state that was captured earlier (--catalog), or give older WAL.",
                context=f"transaction {carried.waits_for[0] & 0xFFFFFFFF}, at {carried.lsn}",
                lsn=carried.lsn,
            )
        if carried.waits_for != told:
            tell(told := carried.waits_for)
        parts = list(followed.look(runner))
        if not parts:
            time.sleep(_POLL)
            continue
        carried = carry(followed.source, runner, carried, [part for _, part in parts])
        followed.needed_from = carried.restart_lsn
    return carried
