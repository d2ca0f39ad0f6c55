"""`tailrace lake maintain`."""

from __future__ import annotations

from typing import Annotated

import typer

from tailrace.cli.arguments import parse_seconds, parse_store_options
from tailrace.cli.loading import loading
from tailrace.cli.verbs.options import JsonOption, StoreOptions


def maintain(
    url: Annotated[str, typer.Argument(help="The lake: a directory, or s3://, gs:// or abfss:// of a bucket.", metavar="URL")],
    table: Annotated[
        list[str] | None,
        typer.Option("--table", help="Only this table, schema.name as in SQL; may be repeated.", metavar="TABLE"),
    ] = None,
    orphans_older_than: Annotated[
        str,
        typer.Option(
            help="A file that no commit named is a dead run's once it is older than this: longer than any run takes.",
            metavar="TIME",
        ),
    ] = "1d",
    option: StoreOptions = None,
    as_json: JsonOption = False,
) -> None:
    """Gather small files of a lake's tables, and remove files and log that nobody needs any more."""
    seconds, options = parse_seconds(orphans_older_than), parse_store_options(option)
    with loading():
        from tailrace.cli import lake_maintenance

    lake_maintenance.maintain(url, options, table or [], seconds, as_json=as_json)
