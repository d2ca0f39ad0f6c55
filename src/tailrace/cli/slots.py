"""`tailrace slot ls | show | copy | rename | drop | set`: what there is in a state location. No record of a log is read."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from tailrace.cli.progress import warn
from tailrace.cli.slot_rows import row_of, shown, write_slot
from tailrace.cli.tables import Listing, write_json, write_listing
from tailrace.errors import UsageError
from tailrace.replication import service
from tailrace.replication.slot_location import SlotLocation
from tailrace.slots.location import format_settings


def ls(state: Path, *, as_json: bool) -> None:
    """Print the slots, with the columns of pg_replication_slots."""
    location = SlotLocation.open(state, warn=warn)
    receptions: dict[str, dict[str, Any]] = {}
    rows = [row_of(location, slot, receptions) for slot in location.slots()]
    if as_json:
        write_json(rows)
        return
    columns: tuple[str, ...] = (
        "slot_name",
        "plugin",
        "database",
        "temporary",
        "active_pid",
        "restart_lsn",
        "confirmed_flush_lsn",
        "wal_status",
    )
    if any("received_lsn" in row for row in rows):
        columns = (*columns, "received_lsn", "receiving")
    write_listing(Listing(columns, [tuple(shown(row.get(name)) for name in columns) for row in rows]))


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
    """Change these settings, and print all: those of the location, and of the server whose log is received into it."""
    from tailrace.sources.received_log import RESTORE, SETTINGS, ReceivedLog  # noqa: PLC0415 - no other verb here needs a client

    location = SlotLocation.take_over(state, warn=warn) if is_moved else SlotLocation.open(state, warn=warn)
    log = ReceivedLog.in_location(state)
    # Of logs in files the location itself says what brings the rest of them.
    of_server = {name: value for name, value in settings.items() if name in SETTINGS and (log is not None or name != RESTORE)}
    if of_server and log is None:
        raise UsageError(
            f'no log of a server is received into "{state}"', hint="Create a slot on a connection string first.", sqlstate="55000"
        )  # fmt: skip
    own = {name: value for name, value in settings.items() if name not in of_server}
    now = location.configure(own) if own else location.settings
    if of_server and log is not None:
        log.configure(of_server, warn)
    received = log.format_settings() if log is not None else {}
    if as_json:
        named = {name: value for name, value in asdict(now).items() if name != RESTORE or value}
        write_json(named | {"system": str(now.system)} | received)
    else:
        write_listing(Listing(("name", "setting"), list((format_settings(now) | received).items())))
