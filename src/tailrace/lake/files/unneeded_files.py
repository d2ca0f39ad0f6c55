"""Which files of a table may be removed from its store by now, whatever its format.

In: files of ours that the table does not need, all that lies in the store, and when the table let go of which. Out: those whose time is over, and
when the next one's is. A file that no version has let go of is a dead run's, or one of a run that has not committed yet: a run is given up by the
youngest file that it wrote.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from tailrace.lake.files.data_files import run_of
from tailrace.storage.store import StoredObject


def unneeded_files(
    ours: Iterable[StoredObject],
    there: Sequence[StoredObject],
    released: Mapping[str, float],
    at: float,
    orphans_older_than: float,
) -> tuple[list[StoredObject], float]:
    """Of `ours` those that may be removed `at` this time, and when the next may be (infinite: none waits). A file that is `released` may be from then
    on, all others once their run's youngest is that old."""
    youngest: dict[str, float] = {}
    for each in there:
        if run := run_of(each.name):
            youngest[run] = max(youngest.get(run, 0.0), each.modified)
    unneeded, due = [], math.inf
    for each in ours:
        end = released.get(each.name, youngest.get(run_of(each.name), each.modified) + orphans_older_than)
        if end < at:
            unneeded.append(each)
        else:
            due = min(due, end)
    return unneeded, due
