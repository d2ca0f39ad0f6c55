"""`tailrace archive cleanup`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tailrace.cli.loading import loading
from tailrace.cli.verbs.options import JsonOption
from tailrace.errors import UsageError
from tailrace.storage.store_urls import is_store_url

app = typer.Typer(help="Archives of write-ahead log.", no_args_is_help=True)


@app.callback()
def _verbs() -> None:
    """Archives of write-ahead log."""


@app.command()
def cleanup(
    source: Annotated[str, typer.Argument(help="Directory of archived segments.")],
    state: Annotated[list[Path], typer.Option("--state", help="State location whose slots read the archive.")],
    backup: Annotated[
        list[Path] | None,
        typer.Option("--backup", help="Base backup that is restored by this archive: directory, backup_label or base.tar."),
    ] = None,
    catalog: Annotated[list[Path] | None, typer.Option("--catalog", help="Captured catalog state that is used with it.")] = None,
    delete: Annotated[bool, typer.Option("--delete", help="Remove them. Without, they are only listed.")] = False,
    as_json: JsonOption = False,
) -> None:
    """List the segments that no slot needs any more, nor a backup or catalog state; and what is kept, and why."""
    if is_store_url(source):
        raise UsageError(
            f'"{source}" is in a store, and is not cleaned up',
            hint="Take a lifecycle rule of the store, and keep what tailrace slot show says that slots need.", sqlstate="0A000",
        )  # fmt: skip
    with loading():
        from tailrace.cli import archive

    archive.cleanup(Path(source), state, backup or [], catalog or [], delete=delete, as_json=as_json)
