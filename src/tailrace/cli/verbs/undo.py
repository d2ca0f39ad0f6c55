"""`tailrace undo`."""

from __future__ import annotations

from typing import Annotated

import typer

from tailrace.cli.arguments import database_of, give_source_options, parse_window
from tailrace.cli.choice import On
from tailrace.cli.loading import loading
from tailrace.cli.verbs.options import (
    CatalogOption,
    IndexOption,
    LogRestoreOption,
    OnOption,
    SourceArgument,
    SourceOptions,
    TableDatabaseOption,
    WindowOption,
)
from tailrace.sources.named import restore_with


def undo(
    source: SourceArgument,
    xid: Annotated[int, typer.Option("--xid", help="The transaction: its xid, with or without the epoch.")],
    database: TableDatabaseOption = "",
    catalog: CatalogOption = None,
    index: IndexOption = None,
    window: WindowOption = "",
    on: OnOption = On.AUTO,
    restore_command: LogRestoreOption = "",
    source_option: SourceOptions = None,
) -> None:
    """Print the SQL that would take a committed transaction back, to be read and run by whoever wants it. Status 1 if some of it cannot be."""
    database = database_of(source, database)
    size = parse_window(window)
    give_source_options(source_option, source, catalog)
    restore_with(source, restore_command)
    with loading():
        from tailrace.cli.undo import print_statements

    if not print_statements(source, xid, database, catalog=catalog, index=index, window=size, on=on):
        raise typer.Exit(1)
