"""`tailrace catalog capture`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
    database: Annotated[str, typer.Option(help="Database whose catalogs to capture.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="File to write.")],
    wal: Annotated[
        Path | None, typer.Option(help="Of a server that is connected to: the directory into which its WAL is received.")
    ] = None,
    on: OnOption = On.AUTO,
) -> None:
    """Capture the catalog state of a database."""
    with loading():
        from tailrace.cli.catalog import capture_from_server, capture_to
        from tailrace.sources.dsn import is_dsn

    if is_dsn(source):
        capture_from_server(output, source, database, wal, on)
    elif wal is not None:
        raise UsageError("--wal is for a server that is connected to", hint=f'"{source}" is read as a directory.')
    else:
        capture_to(output, Path(source), database, on)
