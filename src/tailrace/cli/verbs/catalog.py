"""`tailrace catalog capture`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tailrace.cli.arguments import database_of
from tailrace.cli.choice import On
from tailrace.cli.loading import loading
from tailrace.cli.verbs.options import OnOption
from tailrace.errors import UsageError

app = typer.Typer(help="Catalog states.", no_args_is_help=True)


@app.callback()
def _verbs() -> None:
    """Catalog states."""


@app.command()
def capture(
    source: Annotated[
        str, typer.Argument(help="Data directory (running or stopped), base backup, or connection string or URI of a server.")
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="File to write.")],
    database: Annotated[str, typer.Option(help="Database whose catalogs to capture, if the connection string names none.")] = "",
    wal: Annotated[
        Path | None, typer.Option(help="Of a server that is connected to: the directory into which its WAL is received.")
    ] = None,
    max_rate: Annotated[
        int | None,
        typer.Option(
            "-r", "--max-rate", help="Of a base backup, if one has to be taken: at most so many kB a second.", min=32, max=1 << 20
        ),
    ] = None,
    on: OnOption = On.AUTO,
) -> None:
    """Capture the catalog state of a database."""
    database = database_of(source, database)
    with loading():
        from tailrace.cli.catalog import capture_from_server, capture_to
        from tailrace.sources.dsn import is_dsn

    if is_dsn(source):
        capture_from_server(output, source, database, wal, max_rate, on)
    elif wal is not None or max_rate is not None:
        option = "--max-rate" if wal is None else "--wal"
        raise UsageError(f"{option} is for a server that is connected to", hint=f'"{source}" is read as a directory.')
    else:
        capture_to(output, source, database, on)
