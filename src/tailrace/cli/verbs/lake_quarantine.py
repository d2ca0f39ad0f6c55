"""`tailrace lake quarantine | replay`."""

from __future__ import annotations

from typing import Annotated

import typer

from tailrace.cli.arguments import parse_store_options
from tailrace.cli.loading import loading
from tailrace.cli.verbs.options import JsonOption, StoreOptions

UrlArgument = Annotated[
    str, typer.Argument(help="The lake: a directory, or s3://, gs:// or abfss:// of a bucket.", metavar="URL")
]
TableOption = Annotated[
    list[str] | None,
    typer.Option("--table", help="Only this table, schema.name as in SQL; may be repeated.", metavar="TABLE"),
]


def quarantine(url: UrlArgument, table: TableOption = None, option: StoreOptions = None, as_json: JsonOption = False) -> None:
    """Show the changes that could not be applied to a lake's tables, and why."""
    options = parse_store_options(option)
    with loading():
        from tailrace.cli import lake_quarantine

    lake_quarantine.show(url, options, table or [], as_json=as_json)


def replay(
    url: UrlArgument,
    table: TableOption = None,
    numeric: Annotated[
        str, typer.Option(help="Numerics as decimal, or as text, to which their columns are converted.")
    ] = "decimal",
    arrays: Annotated[str, typer.Option(help="Arrays as list, or as text, to which their columns are converted.")] = "list",
    times: Annotated[str, typer.Option(help="Times as native, or as text, to which their columns are converted.")] = "native",
    discard: Annotated[bool, typer.Option("--discard", help="Give up the changes that still cannot be applied.")] = False,
    option: StoreOptions = None,
    as_json: JsonOption = False,
) -> None:
    """Apply what can be applied by now of the changes in quarantine, in their order, each once."""
    options = parse_store_options(option)
    with loading():
        from tailrace.cli import lake_quarantine
        from tailrace.types.registry import ArrowStyle

    lake_quarantine.replay(url, options, table or [], ArrowStyle(numeric, arrays, times), discard=discard, as_json=as_json)
