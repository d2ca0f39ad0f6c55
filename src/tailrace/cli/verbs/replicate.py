"""`tailrace replicate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tailrace.cli.arguments import database_of, parse_moment, parse_rate, parse_seconds, parse_store_options, parse_window
from tailrace.cli.choice import On
from tailrace.cli.loading import loading
from tailrace.cli.verbs.options import (
    ArraysOption,
    CopyRateOption,
    CopyStrategyOption,
    LakeFormatOption,
    LakeLayoutOption,
    LakeOption,
    LakeUntilOption,
    NumericOption,
    OnErrorOption,
    OnOption,
    ResyncOption,
    StoreOptions,
    TimesOption,
    WindowOption,
)
from tailrace.client.copy_options import CopyOptions, CopyStrategy
from tailrace.errors import UsageError
from tailrace.sources.dsn import is_dsn


def replicate(
    source: Annotated[str, typer.Argument(help="Connection string or URI of a server.", metavar="SOURCE")],
    to: LakeOption,
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
    until: LakeUntilOption = "",
    layout: LakeLayoutOption = "",
    format: LakeFormatOption = "",
    numeric: NumericOption = "decimal",
    arrays: ArraysOption = "list",
    times: TimesOption = "native",
    on_error: OnErrorOption = "stop",
    copy_rate: CopyRateOption = "",
    copy_strategy: CopyStrategyOption = CopyStrategy.AUTO,
    resync: ResyncOption = False,
    option: StoreOptions = None,
    window: WindowOption = "",
    on: OnOption = On.AUTO,
    as_json: Annotated[bool, typer.Option("--json", help="Print a line of JSON for each commit.")] = False,
) -> None:
    """Check a server, copy its tables to a lake, and follow: all of tailrace for one lake. Nothing is made on the server that stays."""
    moment, seconds, size, options = parse_moment(until), parse_seconds(every), parse_window(window), parse_store_options(option)
    copy_options = CopyOptions(parse_rate(copy_rate), copy_strategy)
    if not is_dsn(source):
        raise UsageError(
            f'"{source}" is no connection string', hint="Of files a lake is made by tailrace mirror.", sqlstate="22023"
        )
    name = database_of(source, database)
    with loading():
        from tailrace.cli import mirror
        from tailrace.cli import replicate as work

    asked = mirror.AskedSlot(
        source=source, database=name, state=state or work.state_of(to, name), name="mirror", captured=None, standbys=None, on=on,
        copies=True, copy_options=copy_options, resync=resync,
    )  # fmt: skip
    lake = mirror.AskedLake(
        url=to, options=options, numeric=numeric, arrays=arrays, times=times, deletion_vectors=True,
        publications=publication or [], layout=layout, format=format, on_error=on_error,
    )  # fmt: skip
    pace = mirror.pace_of(size, seconds, follows=not once)
    raise typer.Exit(work.replicate(asked, lake, pace, mirror.until_of(moment), status, as_json=as_json))
