"""`tailrace serve --status`: who is connected to the server of a state location, and what enough of them have."""

from __future__ import annotations

from pathlib import Path

from tailrace.cli.tables import Listing, write_listing
from tailrace.errors import UsageError
from tailrace.model import Lsn
from tailrace.replication.server_activity import read_activity
from tailrace.storage.location_folder import check_is_location


def print_status(state: Path) -> None:
    """As it was a second ago at most. Raises UsageError where nobody serves the location."""
    check_is_location(state)
    activity = read_activity(state)
    if activity is None:
        raise UsageError(f'nobody serves the state location "{state}"', hint="tailrace serve SOURCE --state LOCATION does.")
    columns = ("pid", "user", "application_name", "client", "state", "slot", "sent_lsn", "write_lsn", "flush_lsn", "sync_state")
    rows: list[tuple[str | int | float, ...]] = [
        (
            str(each.pid), each.user, each.application_name, f"{each.address}:{each.port}" if each.address else "[local]",
            each.stream or each.state, each.slot, *(str(Lsn(lsn)) if lsn else "" for lsn in (each.sent, each.written, each.flushed)),
            each.sync_state,
        )
        for each in activity.clients
    ]  # fmt: skip
    write_listing(Listing(columns, rows))
    if activity.synchronous_standby_names:
        written, flushed, applied = (str(Lsn(each)) if each else "nothing" for each in activity.confirmed)
        names = activity.synchronous_standby_names
        write_listing(
            Listing(("synchronous_standby_names", "written", "flushed", "applied"), [(names, written, flushed, applied)])
        )
