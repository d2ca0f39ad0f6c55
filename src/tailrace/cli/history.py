"""`tailrace history`: what became of a table, as the catalogs of the log's time tell it."""

from __future__ import annotations

from pathlib import Path

from tailrace.catalog.names.qualified_names import read_table_name
from tailrace.cli.choice import On
from tailrace.cli.past_log import open_log, time_text
from tailrace.cli.progress import counted
from tailrace.cli.tables import Listing, write_json, write_listing
from tailrace.past.schema_events import SchemaEvent
from tailrace.past.table_events import table_events
from tailrace.window import WindowSize

_COLUMNS = ("time", "commit", "record", "xid", "oid", "table", "event", "column", "before", "after")


def print_events(
    source: str, table: str, database: str, *, catalog: str | None, index: Path | None, window: WindowSize | None, on: On, as_json: bool
) -> None:  # fmt: skip
    """A line an event, in the order of the log."""
    named = read_table_name(table)
    with counted("events") as progress:
        feed = open_log(source, database, catalog=catalog, index=index, window=window, on=on, progress=progress)
        events = table_events(feed, named)
        progress.add(len(events))
    if as_json:
        for event in events:
            write_json(dict(zip(_COLUMNS, _cells(event, None), strict=True)))
        return
    write_listing(Listing(_COLUMNS, [_cells(event, "") for event in events]))


def _cells(event: SchemaEvent, nothing: str | None) -> tuple[str | int, ...]:
    """By column; `nothing` stands for what there is none of. Xids and oids are no amounts, so in the listing they are text."""
    time, record = time_text(event.time) if event.xid else nothing, str(event.lsn) if event.lsn else nothing
    xid, oid = (event.xid or None, event.oid) if nothing is None else (str(event.xid or ""), str(event.oid))
    told = (event.column or nothing, event.before or nothing, event.after or nothing)
    cells = (time, str(event.commit_lsn), record, xid, oid, event.table, event.kind, *told)
    return cells  # type: ignore[return-value]
