"""What a table needs now and then: small files gathered, files that no version needs removed, and a log that does not grow without end.

In: a table, and how its rows lie in files. Out: commits that change no row, and a store without what nobody can ask for any more. All of it is
safe beside readers, who are given the retention that the table's configuration says, and beside another run: a commit is the next version or
none, and what is removed is what the log itself has let go of, or what a run left that died before its commit.
"""

from __future__ import annotations

import math

from tailrace.dataclass import dataclass
from tailrace.lake.files.gathering import gather
from tailrace.lake.table import DAY, FileLayout, Gathered, Removed, TableVersion


@dataclass(frozen=True, slots=True)
class Maintained:
    """The table as it then is, and what was done."""

    version: TableVersion
    gathered: Gathered
    removed: Removed


def maintain(
    found: TableVersion, name: str, layout: FileLayout | None, *, deadline: float = math.inf, orphans_older_than: float = DAY
) -> Maintained:
    """Files are gathered until the `deadline` of `time.monotonic`, where it is known how rows are to lie; what is unneeded is removed. Raises
    Overtaken where somebody else commits meanwhile: another time will do."""
    gathered = Gathered()
    if layout is not None:
        found, gathered = gather(found, name, layout, deadline)
    found, removed = found.remove_unneeded(orphans_older_than)
    return Maintained(found, gathered, removed)
