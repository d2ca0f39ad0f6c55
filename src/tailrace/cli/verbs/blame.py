"""`tailrace blame`."""

from __future__ import annotations

from typing import Annotated

import typer

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


def blame(
    source: SourceArgument,
    table: TableArgument,
    key: Annotated[str, typer.Argument(help="The row: the value of its key, or NAME=VALUE, with commas between several.")],
    database: TableDatabaseOption = "",
    catalog: CatalogOption = None,
    index: IndexOption = None,
    window: WindowOption = "",
    on: OnOption = On.AUTO,
    as_json: JsonOption = False,
    restore_command: LogRestoreOption = "",
    source_option: SourceOptions = None,
) -> None:
    """Show every version of the rows that once had this key: when, by which transaction, what was done, and which columns it changed."""
    database = database_of(source, database)
    size = parse_window(window)
    give_source_options(source_option, source, catalog)
    restore_with(source, restore_command)
    with loading():
        from tailrace.cli.blame import print_versions

    print_versions(source, table, key, database, catalog=catalog, index=index, window=size, on=on, as_json=as_json)
