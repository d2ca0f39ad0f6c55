"""Slots as rows of pg_replication_slots, for `tailrace slot`."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import Any

from tailrace.cli.progress import warn
from tailrace.cli.tables import write_json
from tailrace.errors import TailraceError
from tailrace.replication.slot_location import SlotLocation
from tailrace.replication.slot_wal import status_of
from tailrace.replication.waiting import finish
from tailrace.slots.slot import Slot, WalStatus
from tailrace.storage.location_folder import is_received


def write_slot(location: SlotLocation, name: str, plain: str, *, as_json: bool) -> None:
    """What a verb says at its end: `plain`, or all that is known of the slot by then."""
    if as_json:
        write_json(row_of(location, location.slot(name)))
    elif plain:
        sys.stdout.write(f"{plain}\n")


def shown(value: Any) -> str:
    """A value of a row, for a person."""
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)


def row_of(location: SlotLocation, slot: Slot, receptions: dict[str, dict[str, Any]] | None = None) -> dict[str, Any]:
    """As pg_replication_slots has it, as far as it applies; and the source and the plugin's options, and what there is to say of a log that is
    received, which is the same for all rows: `receptions` are those known, by source."""
    receptions = {} if receptions is None else receptions
    if slot.source not in receptions:
        receptions[slot.source] = _reception_of(slot)
    status = _status_of(location, slot)
    if status.wal_status == "lost":
        slot = location.slot(slot.name)  # which may say so only now
    pid = location.active_pid(slot.name)
    since = (
        datetime.fromtimestamp(slot.inactive_since / 1e6, UTC).isoformat(sep=" ") if slot.inactive_since and pid is None else None
    )
    return {
        "slot_name": slot.name, "plugin": slot.plugin, "slot_type": "logical", "datoid": slot.database_oid, "database": slot.database,
        "temporary": slot.temporary, "active": pid is not None, "active_pid": pid, "restart_lsn": str(slot.restart_lsn),
        "confirmed_flush_lsn": str(slot.confirmed_flush_lsn), "wal_status": status.wal_status, "safe_wal_size": status.safe_wal_size,
        "two_phase": slot.two_phase, "two_phase_at": str(slot.two_phase_at) if slot.two_phase else None, "inactive_since": since,
        "invalidation_reason": slot.invalidation_reason or None, "source": slot.source, "options": slot.options, **receptions[slot.source],
    }  # fmt: skip


def _reception_of(slot: Slot) -> dict[str, Any]:
    """Of a log that is received, what there is to say."""
    if not is_received(slot.source):
        return {}
    from tailrace.cli.received_rows import reception_of  # noqa: PLC0415 - most logs are not, and need no client

    return reception_of(slot)


def _status_of(location: SlotLocation, slot: Slot) -> WalStatus:
    """What is known of it without a source is whether it is lost."""
    try:
        return finish(status_of(location, slot, location.settings.max_slot_wal_keep_size))
    except (OSError, TailraceError) as error:
        warn(f'replication slot "{slot.name}": {error}')
        return WalStatus("unknown", None)
