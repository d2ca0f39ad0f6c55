"""A slot that does not exist yet, for the verbs that create one.

In: what the command line says of it. Out: the state location, the slot, and the place in the log where it begins.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from tailrace.catalog.state.state_file import read_state
from tailrace.cli.choice import On
from tailrace.cli.engine import runner_for
from tailrace.cli.progress import counted, warn
from tailrace.cli.slot_rows import write_slot
from tailrace.model import PG_EPOCH, Lsn
from tailrace.pipeline import Source
from tailrace.plan.carried import Carried
from tailrace.plugins.registry import announce_slot
from tailrace.replication.creation import Moment, consistent_place
from tailrace.replication.slot_location import SlotLocation, new_identity
from tailrace.slots.slot import Slot, check_name
from tailrace.storage.directory import DataDirectory
from tailrace.storage.server_settings import setting_of
from tailrace.window import WindowSize

_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSlot:
    """What is asked for. `moment` is a past one to begin at; `catalog` a file."""

    name: str
    source: Path
    database: str
    plugin: str
    options: dict[str, str | None]
    catalog: Path | None
    two_phase: bool
    temporary: bool = False
    moment: Moment | None = None

    def placed(self, state: Path, on: On, window: WindowSize | None) -> tuple[SlotLocation, Slot, Carried]:
        """Where it can begin, which may have to be waited for. The location is made if there is none."""
        check_name(self.name)
        segments = Source.open(self.source).segments
        announce_slot(self.plugin, self.name, self.options, segments.major)
        location = None if _is_nothing(state) else SlotLocation.open_or_create(state, segments.system, warn=warn)
        if location is not None:
            location.check_free(self.name)
        captured = read_state(self.catalog.read_bytes(), str(self.catalog)) if self.catalog else None
        with counted("records") as progress:
            runner = runner_for(on, segments.stop_lsn - segments.first_lsn, progress.tell)
            place = consistent_place(
                self.source.absolute(), self.database, runner, _waits, catalog=captured, window=window, moment=self.moment,
                location=location,
            )  # fmt: skip
            if location is None:
                location = SlotLocation.open_or_create(state, segments.system, warn=warn)
                progress.tell(f'"{state}" is a new state location')
        _warn_of_recycling(self.source)
        slot = Slot(
            name=self.name, plugin=self.plugin, options=self.options, database=self.database, database_oid=place.state.database,
            system=segments.system, timeline=place.state.timeline, source=str(self.source.absolute()), two_phase=self.two_phase,
            two_phase_at=place.lsn, temporary=self.temporary, restart_lsn=place.restart_lsn, confirmed_flush_lsn=place.lsn,
            inactive_since=int(time.time() * 1e6), identity=new_identity(), stood=place.stood,
        )  # fmt: skip
        return location, slot, place


def create(wanted: NewSlot, state: Path, on: On, window: WindowSize | None, *, as_json: bool) -> None:
    """Create the slot, and print where it begins."""
    location, slot, place = wanted.placed(state, on, window)
    location.create_slot(slot, place)
    write_slot(location, wanted.name, f"{wanted.name}\t{place.lsn}", as_json=as_json)


def start_point(text: str, since: Lsn | datetime | None) -> Moment | None:
    """A past moment to begin at, which the command line has as `text`."""
    if isinstance(since, datetime):
        return Moment(text, time=(since - PG_EPOCH) // timedelta(microseconds=1))
    return None if since is None else Moment(text, since)


def _is_nothing(state: Path) -> bool:
    """Whether a location would have to be made there, which is not done for a slot that cannot be created."""
    return not state.exists() or (state.is_dir() and not any(state.iterdir()))


def _warn_of_recycling(source: Path) -> None:
    """A server knows nothing of the slot, and recycles the WAL that it needs with the next checkpoints, unless it is told to keep some."""
    directory = DataDirectory.at(source)
    if directory is None or not directory.is_running:
        return
    try:
        kept = setting_of(directory.path, "wal_keep_size")
    except OSError:
        return  # somewhere else, or another user's
    if kept is None or re.fullmatch(r"0+\s*[A-Za-z]*", kept):
        warn(
            f'wal_keep_size is 0 on the server of "{source}": it removes WAL at its checkpoints, though the slot may still need it\n'
            "HINT:  Set wal_keep_size to more than is written while nobody consumes the slot, or create the slot on an archive of the server's WAL."
        )


def _waits(xids: Sequence[int]) -> None:
    """Where PostgreSQL logs for how many it waits (`snapbuild.c`)."""
    named = ", ".join(str(xid & 0xFFFFFFFF) for xid in xids[:_NAMED]) + (", …" if len(xids) > _NAMED else "")
    warn(f"waiting for transactions to end whose beginning is not in the log at hand: {named}")
