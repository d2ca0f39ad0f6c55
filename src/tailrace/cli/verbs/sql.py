"""`tailrace sql`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tailrace.cli.arguments import check_source, database_of
from tailrace.cli.choice import On
from tailrace.cli.loading import loading
from tailrace.cli.verbs.options import LiveSourceArgument, OnOption, SourceOptions


def sql(
    source: LiveSourceArgument,
    state: Annotated[
        Path, typer.Option("--state", help="State location: the directory in which slots are kept. Made with the first.")
    ],
    database: Annotated[
        str, typer.Option("--database", "-d", help="Database of the session, if the connection string names none.")
    ] = "",
    command: Annotated[
        list[str] | None,
        typer.Option("--command", "-c", help="Run this instead of standard input; may be repeated.", metavar="QUERY"),
    ] = None,
    file: Annotated[
        list[Path] | None, typer.Option("--file", "-f", help="Run what this file holds; may be repeated.", metavar="FILE")
    ] = None,
    connect: Annotated[
        str, typer.Option("--connect", help="Send what is not the interface's to this server.", metavar="DSN")
    ] = "",
    unaligned: Annotated[bool, typer.Option("--no-align", "-A", help="Unaligned output.")] = False,
    tuples_only: Annotated[bool, typer.Option("--tuples-only", "-t", help="Rows alone.")] = False,
    expanded: Annotated[bool, typer.Option("--expanded", "-x", help="One line a value.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No command tags.")] = False,
    separator: Annotated[str, typer.Option("--field-separator", "-F", help="What separates fields of unaligned output.")] = "|",
    variable: Annotated[
        list[str] | None, typer.Option("--set", "-v", help="A variable of psql's: ON_ERROR_STOP=1.", metavar="NAME=VALUE")
    ] = None,
    on: OnOption = On.AUTO,
    source_option: SourceOptions = None,
) -> None:
    """Carry out SQL as psql does: the functions and views of logical decoding, on slots that are kept outside of the server."""
    database = database_of(source, database)
    check_source(source, source_option)
    with loading():
        from tailrace.cli.sql import Input, Output, run_session

    status = run_session(
        source, database, state, Input(command or [], file or [], variable or []), connect=connect, on=on,
        output=Output(unaligned=unaligned, tuples_only=tuples_only, expanded=expanded, quiet=quiet, separator=separator),
    )  # fmt: skip
    if status:
        raise typer.Exit(status)
