"""`tailrace history`."""

from __future__ import annotations

from tailrace.cli.arguments import database_of, give_source_options, parse_window
from tailrace.cli.choice import On
from tailrace.cli.loading import loading
from tailrace.cli.verbs.options import (
    CatalogOption,
    IndexOption,
    JsonOption,
    LogRestoreOption,
    OnOption,
    SourceArgument,
    SourceOptions,
    TableArgument,
    TableDatabaseOption,
    WindowOption,
)
from tailrace.sources.named import restore_with


def history(
    source: SourceArgument,
    table: TableArgument,
    database: TableDatabaseOption = "",
    catalog: CatalogOption = None,
    index: IndexOption = None,
    window: WindowOption = "",
    on: OnOption = On.AUTO,
    as_json: JsonOption = False,
    restore_command: LogRestoreOption = "",
    source_option: SourceOptions = None,
) -> None:
    """Tell what became of the tables that were ever called so: created, altered, renamed, rewritten, truncated, dropped."""
    database = database_of(source, database)
    size = parse_window(window)
    give_source_options(source_option, source, catalog)
    restore_with(source, restore_command)
    with loading():
        from tailrace.cli.history import print_events

    print_events(source, table, database, catalog=catalog, index=index, window=size, on=on, as_json=as_json)
