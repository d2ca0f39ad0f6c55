"""`tailrace doctor`."""

from __future__ import annotations

from typing import Annotated

import typer

from tailrace.cli.choice import On
from tailrace.cli.loading import loading
from tailrace.cli.verbs.options import JsonOption, OnOption
from tailrace.errors import UsageError
from tailrace.sources.dsn import is_dsn


def doctor(
    source: Annotated[
        str,
        typer.Argument(
            help="Connection string or URI of a server; or data directory, its pg_wal, or directory of archived segments."
        ),
    ],
    database: Annotated[
        list[str] | None,
        typer.Option(
            "--database",
            help="Look at this database; else at the one that the connection string names, else at all.",
            metavar="NAME",
        ),
    ] = None,
    publication: Annotated[
        list[str] | None,
        typer.Option(
            "--publication", help="Whether what these publications publish can be copied, too; may be repeated.", metavar="NAME,…"
        ),
    ] = None,
    as_json: JsonOption = False,
    on: OnOption = On.AUTO,
) -> None:
    """Say whether all is there that tailrace needs of a source, and if not, what to do. Exits with 1 for what would stop it."""
    if database and not is_dsn(source):
        raise UsageError("--database is for a server that is connected to", hint=f'"{source}" is read as a directory.')
    if publication and not is_dsn(source):
        raise UsageError("--publication is for a server that is connected to", hint=f'"{source}" is read as a directory.')
    with loading():
        from tailrace.cli.doctor import of_files, of_server
        from tailrace.publications.subscription import publications_in

    if is_dsn(source):
        copied = publications_in(publication) if publication else None
        is_fine = of_server(source, database or [], copied, as_json=as_json)
    else:
        is_fine = of_files(source, on, as_json=as_json)
    if not is_fine:
        raise typer.Exit(1)
