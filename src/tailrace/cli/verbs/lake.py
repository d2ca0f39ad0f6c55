"""`tailrace lake status | wait | maintain | quarantine | replay`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tailrace.cli.arguments import parse_lsn, parse_seconds, parse_store_options
from tailrace.cli.loading import loading
from tailrace.cli.verbs.lake_maintenance import maintain
from tailrace.cli.verbs.lake_quarantine import UrlArgument, quarantine, replay
from tailrace.cli.verbs.options import JsonOption, StoreOptions
from tailrace.errors import UsageError

app = typer.Typer(help="Lakes that tailrace replicate and mirror keep.", no_args_is_help=True)


@app.command()
def status(
    url: UrlArgument,
    state: Annotated[
        Path | None, typer.Option("--state", help="State location of its slot: say how far the log is, too.", file_okay=False)
    ] = None,
    slot: Annotated[str, typer.Option(help="The slot there.", metavar="NAME")] = "mirror",
    option: StoreOptions = None,
    as_json: JsonOption = False,
) -> None:
    """Show up to where the tables of a lake are complete, and what is in each."""
    options = parse_store_options(option)
    with loading():
        from tailrace.cli import lake

    lake.status(url, options, state, slot, as_json=as_json)


@app.command()
def wait(
    url: UrlArgument,
    lsn: Annotated[str, typer.Argument(help="As pg_current_wal_lsn() gives it after a COMMIT.", metavar="LSN")],
    timeout: Annotated[str, typer.Option(help="Give up after so long.", metavar="TIME")] = "",
    option: StoreOptions = None,
) -> None:
    """Return once all tables of a lake have what was committed before an LSN."""
    upto, seconds, options = parse_lsn(lsn), parse_seconds(timeout) if timeout else None, parse_store_options(option)
    if upto is None:
        raise UsageError("no LSN specified", sqlstate="22P02")
    with loading():
        from tailrace.cli import lake

    lake.wait(url, options, upto, seconds)


app.command()(maintain)
app.command()(quarantine)
app.command()(replay)
