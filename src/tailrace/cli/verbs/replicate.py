"""`tailrace replicate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tailrace.cli.arguments import parse_moment, parse_pairs, parse_rate, parse_seconds, parse_window
from tailrace.cli.choice import On
from tailrace.cli.loading import loading
from tailrace.cli.verbs.options import CopyRateOption, OnOption, StoreOptions, WindowOption


def replicate(
    source: Annotated[str, typer.Argument(help="Connection string or URI of a server.", metavar="SOURCE")],
    to: Annotated[
        str, typer.Option("--to", help="The lake: a directory, or s3://, gs:// or abfss:// of a bucket.", metavar="URL")
    ],
    publication: Annotated[
        list[str] | None,
        typer.Option(
            "--publication",
            help="Replicate what these publications publish, all tables without; may be repeated.",
            metavar="NAME,…",
        ),
    ] = None,
    database: Annotated[str, typer.Option(help="Database, if the connection string names none.")] = "",
    state: Annotated[
        Path | None,
        typer.Option(
            "--state", help="Where slot and received log are kept; without, in ~/.local/state/tailrace, by the lake's URL."
        ),
    ] = None,
    status: Annotated[
        str, typer.Option("--status", help="Serve how far the lake is here, as JSON and for Prometheus.", metavar="HOST:PORT")
    ] = "",
    once: Annotated[bool, typer.Option("--once", help="End where the log ends, and do not follow it.")] = False,
    every: Annotated[str, typer.Option(help="Gather changes for so long before they are committed.", metavar="TIME")] = "10s",
    until: Annotated[
        str, typer.Option(help="End when all that commits before here, or before this time, is in the lake.", metavar="LSN|TIME")
    ] = "",
    layout: Annotated[str, typer.Option(help="What the tables hold: mirror, changes, or history.")] = "",
    format: Annotated[str, typer.Option("--format", help="Format of the tables: delta, or iceberg.")] = "",
    on_error: Annotated[
        str, typer.Option(help="What becomes of a change that cannot be applied: stop, or quarantine it, and go on.")
    ] = "stop",
    copy_rate: CopyRateOption = "",
    option: StoreOptions = None,
    window: WindowOption = "",
    on: OnOption = On.AUTO,
    as_json: Annotated[bool, typer.Option("--json", help="Print a line of JSON for each commit.")] = False,
) -> None:
    """Check a server, copy its tables to a lake, and follow: all of tailrace for one lake. Nothing is made on the server that stays."""
    moment, seconds, size, options = parse_moment(until), parse_seconds(every), parse_window(window), parse_pairs(option)
    rate = parse_rate(copy_rate)
    with loading():
        from tailrace.cli import mirror
        from tailrace.cli import replicate as work

    name = work.database_of(source, database)
    asked = mirror.AskedSlot(
        source, name, state or work.state_of(to, name), "mirror", None, None, on, copies=True, copy_rate=rate
    )
    lake = mirror.AskedLake(to, options, "decimal", "list", "native", True, publication or [], layout, format, on_error)
    pace = mirror.pace_of(size, seconds, follows=not once)
    work.replicate(asked, lake, pace, mirror.until_of(moment), status, as_json=as_json)
