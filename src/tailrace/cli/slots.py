"""`tailrace slot ls | show | copy | rename | drop | set`: what there is in a state location. No record of a log is read."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from tailrace.cli.progress import warn
from tailrace.cli.slot_rows import row_of, shown, write_slot
from tailrace.cli.tables import Listing, write_json, write_listing
from tailrace.replication import service
from tailrace.replication.slot_location import SlotLocation
from tailrace.slots.location import format_settings


def ls(state: Path, *, as_json: bool) -> None:
    """Print the slots, with the columns of pg_replication_slots."""
    location = SlotLocation.open(state, warn=warn)
    rows = [row_of(location, slot) for slot in location.slots()]
    if as_json:
        write_json(rows)
        return
    columns = ("slot_name", "plugin", "database", "temporary", "active_pid", "restart_lsn", "confirmed_flush_lsn", "wal_status")
    write_listing(Listing(columns, [tuple(shown(row[name]) for name in columns) for row in rows]))


def show(name: str, state: Path, *, as_json: bool) -> None:
    """Print all that is known of one slot."""
    location = SlotLocation.open(state, warn=warn)
    row = row_of(location, location.slot(name))
    if as_json:
        write_json(row)
        return
    write_listing(Listing(("column", "value"), [(key, shown(value)) for key, value in row.items()]))


def copy(name: str, new: str, state: Path, *, as_json: bool) -> None:
    """Make another slot, and print where it stands."""
    location = SlotLocation.open(state, warn=warn)
    copied = service.copy_whole(location, name, new)
    write_slot(location, new, f"{new}\t{copied.confirmed_flush_lsn}", as_json=as_json)


def rename(name: str, new: str, state: Path, *, as_json: bool) -> None:
    """Give a slot another name."""
    location = SlotLocation.open(state, warn=warn)
    location.rename(name, new)
    write_slot(location, new, "", as_json=as_json)


def drop(name: str, state: Path, *, as_json: bool) -> None:
    """Remove a slot, and what only it needed."""
    location = SlotLocation.open(state, warn=warn)
    service.drop(location, name)
    if as_json:
        write_json({"slot_name": name, "dropped": True})


def set_settings(state: Path, settings: dict[str, str | None], *, is_moved: bool, as_json: bool) -> None:
    """Change these settings, and print all."""
    location = SlotLocation.take_over(state, warn=warn) if is_moved else SlotLocation.open(state, warn=warn)
    now = location.configure(settings) if settings else location.settings
    if as_json:
        write_json(asdict(now) | {"system": str(now.system)})
    else:
        write_listing(Listing(("name", "setting"), list(format_settings(now).items())))
