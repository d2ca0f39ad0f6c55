"""The windows of a slot that tables are brought up with: each ends where a table gets another key.

In: an acquired slot, and how far to go. Out: its next window. A change says by the key of then which row it is of: what it does not name did not
change in that, and may have in another. Rows are looked for by the key that a table has where the window ends; so one that is given another key is
brought up to there first, and then goes on by that.
"""

from __future__ import annotations

from dataclasses import replace

from tailrace.catalog.history.dropped_and_retyped import key_changes
from tailrace.model import Lsn
from tailrace.pipeline.following import NothingNew
from tailrace.pipeline.pipeline import Pipeline
from tailrace.plan.demand import OF_TABLES
from tailrace.replication.acquired_slot import AcquiredSlot
from tailrace.replication.next_window import Limit


def next_for_tables(acquired: AcquiredSlot, limit: Limit) -> Pipeline | NothingNew:
    """As `AcquiredSlot.poll`."""
    polled = acquired.poll(OF_TABLES, limit)
    if isinstance(polled, NothingNew) or (cut := _first_other_key(polled)) is None:
        return polled
    acquired.go_to(acquired.read_upto)  # the window was not taken
    return acquired.poll(OF_TABLES, replace(limit, upto=cut))


def _first_other_key(window: Pipeline) -> Lsn | None:
    """The first commit of the window that gives a table another key, and has others of it before itself."""
    commits = window.plan.transactions.commit_lsn[window.plan.shown]
    if not len(commits):
        return None
    first = int(commits.min())
    return next((lsn for lsn in key_changes(window.history, first + 1, window.span.stop)), None)
