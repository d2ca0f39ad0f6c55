"""`tailrace decode`: what happened, as PostgreSQL's SQL functions would print it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Optional

import typer

from tailrace.catalog.statefile import read_state
from tailrace.errors import UsageError
from tailrace.model import Lsn
from tailrace.plugins.driver import print_rows
from tailrace.plugins.registry import plugin_named
from tailrace.river import LocalRunner, Runner, open_river
from tailrace.storage.index_store import IndexStore


def decode(
    source: Annotated[Path, typer.Argument(help="Data directory, base backup, pg_wal, or directory of archived segments.")],
    database: Annotated[str, typer.Option(help="Database whose changes to decode.")],
    catalog: Annotated[Optional[Path], typer.Option(help="Captured catalog state.")] = None,  # noqa: UP045 - typer reads it
    plugin: Annotated[str, typer.Option(help="Output plugin.")] = "test_decoding",
    option: Annotated[Optional[list[str]], typer.Option("-o", help="Plugin option, NAME=VALUE.")] = None,  # noqa: UP045
    start_lsn: Annotated[str, typer.Option(help="Show transactions that commit here or later.")] = "",
    upto_lsn: Annotated[str, typer.Option(help="… and before here.")] = "",
    index: Annotated[Optional[Path], typer.Option(help="Keep indexes here, and use those that are.")] = None,  # noqa: UP045
    local: Annotated[bool, typer.Option("--local", help="In this process, without Spark.")] = False,
) -> None:
    """Print committed changes in commit order: LSN, xid and text, separated by tabs."""
    river = open_river(
        source, database, runner=runner_for(local=local),
        catalog=read_state(catalog.read_bytes(), str(catalog)) if catalog else None,
        start_lsn=parse_lsn(start_lsn), upto_lsn=parse_lsn(upto_lsn), index_store=IndexStore(index) if index else None,
    )  # fmt: skip
    chosen = plugin_named(plugin)
    chosen.startup(dict(_pair(text) for text in option or ()), river.source.segments.major)
    done = 0
    for lines in river.lines(chosen):
        sys.stdout.buffer.write(print_rows(lines.lsn, lines.xid, lines.texts.offsets, lines.texts.data))
        done += len(lines)
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{done:,} rows")
    sys.stdout.buffer.flush()
    if sys.stderr.isatty():
        sys.stderr.write("\n")


def runner_for(*, local: bool) -> Runner:
    """This process, or Spark on this machine (or wherever the environment's Spark configuration points)."""
    if local:
        return LocalRunner()
    from tailrace.spark.jobs import SparkRunner  # noqa: PLC0415 - without Spark installed, --local still works
    from tailrace.spark.session import session  # noqa: PLC0415

    return SparkRunner(session())


def parse_lsn(text: str) -> Lsn | None:
    """An optional position of the command line."""
    try:
        return Lsn.parse(text) if text else None
    except ValueError as error:
        raise UsageError(str(error), sqlstate="22P02") from None


def _pair(text: str) -> tuple[str, str | None]:
    name, equals, value = text.partition("=")
    return name, value if equals else None
