"""`tailrace spool ls | clean`."""

from __future__ import annotations

import typer

from tailrace.cli.loading import loading
from tailrace.cli.verbs.options import JsonOption

app = typer.Typer(help="Copies of the WAL of running servers.", no_args_is_help=True)


@app.command()
def ls(as_json: JsonOption = False) -> None:
    """Where WAL of running servers is copied to, and how much lies there, by system, timeline and pg_wal."""
    with loading():
        from tailrace.cli import spool

    spool.ls(as_json=as_json)


@app.command()
def clean() -> None:
    """Remove the copies that nobody is reading."""
    with loading():
        from tailrace.cli import spool

    spool.clean_up()
