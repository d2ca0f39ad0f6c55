"""`tailrace catalog capture`: write down the catalogs of a database as they are, to decode from that point on."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from tailrace.catalog.statefile import write_state
from tailrace.river import LocalRunner, Source
from tailrace.river import capture as capture_state

app = typer.Typer(help="Catalog states.", no_args_is_help=True)


@app.callback()
def _verbs() -> None:
    """Catalog states."""


@app.command()
def capture(
    source: Annotated[Path, typer.Argument(help="Data directory (running or stopped) or base backup.")],
    database: Annotated[str, typer.Option(help="Database whose catalogs to capture.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="File to write.")],
) -> None:
    """Capture the catalog state of a database."""
    state = capture_state(Source.open(source), LocalRunner(), database)
    _write_whole(output, write_state(state))
    typer.echo(f"catalogs of {database} as of {state.lsn}; decoding needs WAL from {state.needs_wal_from}", err=True)


def _write_whole(path: Path, data: bytes) -> None:
    """All of it or nothing, and on disk: written beside, synced, renamed."""
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with new.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        new.rename(path)
    except OSError as error:
        with suppress(OSError):
            new.unlink()
        error.filename = str(path)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
