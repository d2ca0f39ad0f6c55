"""`tailrace lake status | wait`: what readers of a lake ask. The log is not read."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from tailrace.catalog.names.qualified_names import write_table_name
from tailrace.cli.progress import warn
from tailrace.cli.tables import Listing, write_json, write_listing
from tailrace.client.wal_archive import written_upto
from tailrace.delta_log.file_bounds import row_count
from tailrace.errors import PeerError
from tailrace.lake.catalog import LakeCatalog, LakeTable, StoredCatalog, no_lake, no_table_any_more
from tailrace.lake.formats import format_named
from tailrace.lake.lake import Lake
from tailrace.lake.quarantine import Quarantine
from tailrace.model import Lsn, datetime_of
from tailrace.replication.slot_location import SlotLocation
from tailrace.sources.source import Source
from tailrace.storage.local_store import LocalStore
from tailrace.storage.location_folder import is_received
from tailrace.storage.open_store import open_store
from tailrace.storage.store import Store

_COLUMNS = ("table", "folder", "rows", "files", "deleted_rows", "bytes", "version", "changed", "dropped")
_LOOK_HERE, _LOOK_THERE = 0.05, 0.5
"""Seconds from one look to the next: at a file, at an object."""


def status(url: str, options: dict[str, str], state: Path | None, slot: str, *, as_json: bool) -> None:
    """Print the tables, and up to where all are complete."""
    store = open_store(url, options)
    catalog = StoredCatalog.read(store).catalog
    if catalog is None:
        raise no_lake(store.url)
    quarantined = _quarantined(store, catalog)
    whole = {**_facts(catalog, state, slot), "quarantined": sum(quarantined.values()) or None}
    tables = [
        {**_table(store, catalog.format, each), **_trouble(each, quarantined)}
        for each in sorted(catalog.tables.values(), key=lambda each: (each.schema, each.name, each.oid))
    ]
    if as_json:
        write_json({"url": store.url, **whole, "tables": tables})
        return
    columns = (*_COLUMNS, *(("quarantined",) if whole["quarantined"] else ()))
    said = [f"{name.replace('_', ' ')}: {value}" for name, value in whole.items() if value is not None]
    said += [
        f"table {row['table']} is held since {row['held']}: {row['held_because']}" for row in tables if row["held"] is not None
    ]
    rows = [tuple("" if row[name] is None else row[name] for name in columns) for row in tables]
    write_listing(Listing(columns, rows, note="\n".join(said)))


def _quarantined(store: Store, catalog: LakeCatalog) -> dict[int, int]:
    """How many changes of each table, by oid, wait there."""
    quarantine = Quarantine.of(store, catalog.format)
    counts = quarantine.counts()
    if not counts:
        return {}
    lake, found = Lake.open(store), dict[int, int]()
    for (oid, batch), count in counts.items():
        names = lake.names_of(oid)
        if names is not None and batch in names.all:
            found[oid] = found.get(oid, 0) + count
    return found


def _trouble(table: LakeTable, quarantined: dict[int, int]) -> dict[str, Any]:
    held = table.held
    return {
        "quarantined": quarantined.get(table.oid, 0), "held": str(held.since) if held is not None else None,
        "held_because": held.message if held is not None else None,
    }  # fmt: skip


def wait(url: str, options: dict[str, str], lsn: Lsn, seconds: float | None) -> None:
    """Raises PeerError (57014) where that takes longer, and UsageError where there is no lake, unless it is said how long to wait for one."""
    store = open_store(url, options)
    deadline = None if seconds is None else time.monotonic() + seconds
    told = False
    while True:
        catalog = StoredCatalog.read(store).catalog
        if catalog is not None and catalog.complete >= lsn and not catalog.awaits_tables:
            sys.stdout.write(f"{catalog.complete}\n")
            return
        if catalog is None and deadline is None:
            error = no_lake(store.url)
            error.hint += " Give --timeout to wait for one that is about to be made."
            raise error
        if catalog is None and not told:
            warn(f'there is no lake at "{store.url}" yet; waiting for one')
            told = True
        if deadline is not None and time.monotonic() >= deadline:
            raise _late(store.url, catalog, lsn, seconds or 0.0)
        time.sleep(_LOOK_HERE if isinstance(store, LocalStore) else _LOOK_THERE)


def _late(url: str, catalog: LakeCatalog | None, lsn: Lsn, seconds: float) -> PeerError:
    if catalog is None:
        message = f'lake "{url}" is not there after {seconds:g} seconds'
    elif catalog.awaits_tables:
        message = f'lake "{url}" awaits a copy of {catalog.awaited} after {seconds:g} seconds'
    else:
        message = f'lake "{url}" is complete up to {catalog.complete} only after {seconds:g} seconds, not up to {lsn}'
    return PeerError(message, sqlstate="57014", lsn=lsn)


def _facts(catalog: LakeCatalog, state: Path | None, slot: str) -> dict[str, Any]:
    at = datetime_of(catalog.committed) if catalog.committed else None
    facts: dict[str, Any] = {
        "complete": str(catalog.complete) if not catalog.awaits_copy else None, "commit_time": at.isoformat(sep=" ") if at is not None else None,
        "age_seconds": round(max(0.0, time.time() - at.timestamp()), 3) if at is not None else None,
        "system": str(catalog.system), "timeline": catalog.timeline, "database": catalog.database,
        "publications": ", ".join(catalog.publications) or None, "awaits_copy": catalog.awaits_copy or None,
        "joining": catalog.names_of(catalog.joining) or None, "catching_up": catalog.names_of(catalog.catching_up) or None,
    }  # fmt: skip
    if state is not None:
        found = SlotLocation.open(state, warn=warn).slot(slot)
        end = (
            written_upto(Path(found.source))
            if is_received(found.source)
            else Source.open(found.source, found.confirmed_flush_lsn, for_catalogs=False).segments.written_upto
        )
        facts |= {"confirmed_flush_lsn": str(found.confirmed_flush_lsn), "lag_bytes": max(0, (end or 0) - catalog.complete)}
    return facts


def _table(store: Store, format: str, table: LakeTable) -> dict[str, Any]:
    found = format_named(format).none(store.below(table.folder)).refreshed() if table.version >= 0 else None
    if found is not None and not found.is_there:
        raise no_table_any_more(table)
    files = found.open().files if found is not None else []
    counts = [row_count(file) for file in files]
    deleted = sum(file.deletion_vector.cardinality for file in files if file.deletion_vector is not None)
    rows = None if None in counts else sum(count for count in counts if count is not None) - deleted
    return {
        "table": write_table_name(table.schema, table.name), "folder": table.folder, "oid": table.oid, "rows": rows, "files": len(files),
        "deleted_rows": deleted, "bytes": sum(file.size for file in files), "version": table.version if found is not None else None,
        "changed": str(table.changed), "dropped": str(table.dropped) if table.dropped is not None else None,
    }  # fmt: skip
