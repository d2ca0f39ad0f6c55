"""`tailrace catalog capture`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tailrace.cli.choice import On
from tailrace.cli.loading import loading
from tailrace.cli.verbs.options import OnOption

app = typer.Typer(help="Catalog states.", no_args_is_help=True)


@app.callback()
def _verbs() -> None:
    """Catalog states."""


@app.command()
def capture(
    source: Annotated[Path, typer.Argument(help="Data directory (running or stopped) or base backup.")],
    database: Annotated[str, typer.Option(help="Database whose catalogs to capture.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="File to write.")],
    on: OnOption = On.AUTO,
) -> None:
    """Capture the catalog state of a database."""
    with loading():
        from tailrace.cli.catalog import capture_to

    capture_to(output, source, database, on)
