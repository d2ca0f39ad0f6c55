"""`tailrace verify`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from tailrace.cli.arguments import database_of, parse_store_options
from tailrace.cli.choice import On
from tailrace.cli.loading import loading
from tailrace.cli.verbs.options import JsonOption, LakeOption, OnOption, StoreOptions
from tailrace.errors import TailraceError, UsageError
from tailrace.sources.dsn import is_dsn

_NOT_COMPARED = 2
"""The status of who could not compare, as diff's."""


def verify(
    source: Annotated[
        str, typer.Argument(help="Connection string or URI of the server that the lake is of; or another lake.", metavar="SOURCE")
    ],
    to: LakeOption,
    database: Annotated[str, typer.Option(help="Database whose tables are compared, if the connection string names none.")] = "",
    tables: Annotated[
        list[str] | None,
        typer.Option("--table", "--tables", help="Only this table, schema.name as in SQL; may be repeated.", metavar="TABLE"),
    ] = None,
    limit: Annotated[int, typer.Option(min=0, help="Of each table so many rows that differ are shown.")] = 100,
    state: Annotated[
        Path | None,
        typer.Option(
            "--state", help="State location in which publications of the lake are defined, if any are.", file_okay=False
        ),
    ] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Make the rows of the lake that differ as the server has them.")
    ] = False,
    option: StoreOptions = None,
    on: OnOption = On.AUTO,
    as_json: JsonOption = False,
) -> None:
    """Compare a lake's rows with its server's at one LSN, or with another lake's. Exits with 1 where they differ, with 2 where it cannot tell."""
    options = parse_store_options(option)
    if is_dsn(source):
        database = database_of(source, database)
    if not is_dsn(source) and repair:
        raise UsageError("--repair is for a lake that is compared with its server", hint="Give the server's connection string.")
    with loading():
        from tailrace.cli import verify as work

    try:
        is_equal = work.verify(
            work.AskedComparison(source, database, to, options, tables or [], limit, state, on, repair, as_json)
        )
    except TailraceError as error:
        sys.stdout.flush()
        sys.stderr.write(f"tailrace: error: {error}\n")
        raise typer.Exit(_NOT_COMPARED) from None
    if not is_equal:
        raise typer.Exit(1)
