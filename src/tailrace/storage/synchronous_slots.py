"""Slots as synchronous standbys of the server whose log they are on: which of them its COMMIT waits for at `synchronous_commit = remote_apply`.

In: a state location, whose setting synchronous_standby_names says which slots count. Out: up to where enough of them have confirmed, which a receiver
reports as applied. A receiver waits for nobody: while the location is being changed, it gets what was known before.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tailrace.dataclass import dataclass
from tailrace.errors import TailraceError
from tailrace.model import Lsn
from tailrace.slots.slot import read_slot
from tailrace.slots.syncrep import Standby, SyncStandbyNames, parse_synchronous_standby_names, sync_state
from tailrace.storage.file_lock import FileLock
from tailrace.storage.location_folder import LOCATION
from tailrace.storage.state_location import StateLocation

SLOT, OWNER = "slot", "owner"
"""The files of a slot's folder: what it is, and the lock of who consumes it."""


def is_synchronous(location: StateLocation, name: str) -> bool:
    """Whether a server may wait for what the slot of that name confirms."""
    return bool(parse_synchronous_standby_names(location.settings.synchronous_standby_names).priority(name))


@dataclass(slots=True)
class SynchronousSlots:
    """Those of the location at `state`, which need not be there yet. `tell` hears, once, why they cannot be read. State: what they have confirmed."""

    state: Path
    tell: Callable[[str], None]
    _confirmed: Lsn = Lsn(0)
    _told: str = ""

    def confirmed(self) -> Lsn | None:
        """Up to where enough of those that count have; None where none counts."""
        if not (self.state / LOCATION).exists():
            return None
        try:
            location = StateLocation(self.state, self.tell)
            setting = parse_synchronous_standby_names(location.settings.synchronous_standby_names)
            if not setting.names:
                return None
            lock = location.lock_if_free()
            if lock is not None:
                try:
                    standbys = _standbys(self.state / "slots", setting)
                finally:
                    lock.release()
                self._confirmed = Lsn(max(self._confirmed, sync_state(setting, standbys).confirmed[2]))
        except (TailraceError, OSError) as error:
            if str(error) != self._told:
                self._told = str(error)
                self.tell(f"what is confirmed cannot be read, and no more counts as applied: {error}")
        return self._confirmed


def _standbys(folder: Path, setting: SyncStandbyNames) -> list[Standby]:
    """The slots that the setting names, while nobody changes the location. Where others would take the place of one that is away, it counts while
    somebody consumes it; else what it has confirmed counts, whoever did so."""
    found = []
    names = sorted(each.name for each in folder.iterdir() if "." not in each.name) if folder.is_dir() else []
    for number, name in enumerate(names):
        if setting.priority(name):
            path = folder / name / SLOT
            slot = read_slot(path.read_bytes(), str(path))
            is_away = setting.has_substitutes and not FileLock.is_taken(folder / name / OWNER)
            found.append(Standby(number, name, not slot.invalidation_reason and not is_away, (slot.confirmed_flush_lsn,) * 3))
    return found
