"""`tailrace decode`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tailrace.cli.arguments import database_of, give_source_options, parse_lsn, parse_pairs, parse_parameters, parse_window
from tailrace.cli.choice import On
from tailrace.cli.loading import loading
from tailrace.cli.verbs.options import (
    CatalogOption,
    IndexOption,
    LogRestoreOption,
    OnOption,
    PluginOption,
    PluginOptions,
    SetOption,
    SourceArgument,
    SourceOptions,
    WindowOption,
)
from tailrace.sources.named import restore_with
from tailrace.types.style import TextStyle

PublicationOption = Annotated[
    list[str] | None, typer.Option("--publication", help="Give what these publications publish, and no more; may be repeated.", metavar="NAME,…")
]  # fmt: skip


def decode(
    source: SourceArgument,
    database: Annotated[str, typer.Option(help="Database whose changes to decode, if the connection string names none.")] = "",
    catalog: CatalogOption = None,
    plugin: PluginOption = "test_decoding",
    option: PluginOptions = None,
    parameter: SetOption = None,
    unknown_types: Annotated[
        str, typer.Option(help="Values whose type is not known: error, or hex, their stored bytes.")
    ] = "error",
    start_lsn: Annotated[str, typer.Option(help="Show transactions that commit here or later.")] = "",
    upto_lsn: Annotated[str, typer.Option(help="… and before here.")] = "",
    index: IndexOption = None,
    two_phase: Annotated[bool, typer.Option("--two-phase", help="Show prepared transactions at PREPARE TRANSACTION.")] = False,
    window: WindowOption = "",
    on: OnOption = On.AUTO,
    publication: PublicationOption = None,
    state: Annotated[
        Path | None, typer.Option(help="State location whose publications count beside the source's own.", file_okay=False)
    ] = None,
    restore_command: LogRestoreOption = "",
    source_option: SourceOptions = None,
) -> None:
    """Print committed changes in commit order: LSN, xid and text, separated by tabs."""
    database = database_of(source, database)
    start, upto, size = parse_lsn(start_lsn), parse_lsn(upto_lsn), parse_window(window)
    options, parameters, style = parse_pairs(option), parse_parameters(parameter), TextStyle(unknown_types=unknown_types)
    give_source_options(source_option, source, catalog)
    restore_with(source, restore_command)
    with loading():
        from tailrace.cli.decode import print_changes

    print_changes(
        source, database, plugin, options, parameters=parameters, style=style, two_phase=two_phase, publication=publication, state=state,
        catalog=catalog, start=start, upto=upto, index=index, window=size, on=on,
    )  # fmt: skip
