"""`tailrace history`: what became of a table, as the catalogs of the log's time tell it."""

from __future__ import annotations

from tailrace.catalog.names.qualified_names import read_table_name
from tailrace.cli.choice import On
from tailrace.cli.engine import OnOption, WindowOption
from tailrace.cli.past_log import (
    CatalogOption,
    DatabaseOption,
    IndexOption,
    SourceArgument,
    TableArgument,
    open_log,
    time_text,
)  # fmt: skip
from tailrace.cli.progress import counted
from tailrace.cli.tables import JsonOption, Listing, write_json, write_listing
from tailrace.past.schema_events import SchemaEvent
from tailrace.pipeline.table_events import table_events

_COLUMNS = ("time", "commit", "record", "xid", "oid", "table", "event", "column", "before", "after")


def history(
    source: SourceArgument,
    table: TableArgument,
    database: DatabaseOption,
    catalog: CatalogOption = None,
    index: IndexOption = None,
    window: WindowOption = "",
    on: OnOption = On.AUTO,
    as_json: JsonOption = False,
) -> None:
    """Tell what became of the tables that were ever called so: created, altered, renamed, rewritten, truncated, dropped."""
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
