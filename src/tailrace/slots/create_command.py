"""The command that creates a slot (`CreateReplicationSlotCmd` in `nodes/replnodes.h`), whichever door it comes by:
the command line, SQL, a stream.

In: the command, and what is known where the slot begins. Out: the `Slot`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

import numpy as np

from tailrace.catalog.state.catalog_state import CatalogState
from tailrace.dataclass import dataclass
from tailrace.model import Lsn
from tailrace.plan.carried import Carried
from tailrace.slots.slot import Slot
from tailrace.wal import xact
from tailrace.wal.index import Index


@dataclass(frozen=True, slots=True)
class PastMoment:
    """A past one, as it was asked for: an LSN; or a time, in microseconds since 2000, which stands for the first commit that
    is not before it."""

    text: str
    lsn: Lsn | None = None
    time: int = 0

    def place_in(self, part: Index) -> Lsn | None:
        """Where it is in a stretch; None if that lies before it."""
        if self.lsn is not None:
            return self.lsn if self.lsn < part.stretch.stop else None
        ends = part.ends
        later = ends.lsn[np.isin(ends.kind, (xact.COMMIT, xact.COMMIT_PREPARED)) & (ends.time >= self.time)]
        return Lsn(int(later.min())) if len(later) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateReplicationSlot:
    """`source` is the path where the log is read. The slot begins at the end of the log, or at a past `moment`, which needs a
    `catalog` state that was captured before."""

    name: str
    source: str
    database: str
    plugin: str
    options: Mapping[str, str | None] = field(default_factory=dict)
    two_phase: bool = False
    temporary: bool = False
    catalog: CatalogState | None = None
    moment: PastMoment | None = None

    def slot_at(self, begins: Carried, identity: str, now: int) -> Slot:
        """The slot, if it begins there, `now` in microseconds since the Unix epoch."""
        state = begins.state
        return Slot(
            name=self.name, plugin=self.plugin, options=dict(self.options), database=self.database, database_oid=state.database,
            system=state.system, timeline=state.timeline, source=self.source, two_phase=self.two_phase, two_phase_at=begins.lsn,
            temporary=self.temporary, restart_lsn=begins.restart_lsn, confirmed_flush_lsn=begins.lsn, inactive_since=now,
            identity=identity, fingerprint=begins.fingerprint,
        )  # fmt: skip
