"""`tailrace catalog capture`: write down the catalogs of a database as they are, to decode from that point on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tailrace.catalog.statefile import write_state
from tailrace.cli.choice import On
from tailrace.cli.engine import OnOption, runner_for
from tailrace.cli.progress import counted, warn
from tailrace.pipeline import Source
from tailrace.pipeline import capture as capture_state
from tailrace.storage.whole_file import check_replaceable, write_whole
from tailrace.wal.xlog import LOGICAL

app = typer.Typer(help="Catalog states.", no_args_is_help=True, add_completion=False)


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
    check_replaceable(output)
    opened = Source.open(source)
    with counted("records") as progress:
        runner = runner_for(on, opened.segments.stop_lsn - opened.segments.first_lsn, progress.tell)
        state = capture_state(opened, runner, database)
    write_whole(output, write_state(state))
    if opened.control is not None and opened.control.wal_level < LOGICAL:
        warn(
            "wal_level is below logical: what is written from here on cannot be decoded until it is raised\n"
            "HINT:  Set wal_level to logical on the source and restart that. Then capture the state."
        )
    typer.echo(f"catalogs of {database} as of {state.lsn}; decoding needs WAL from {state.needs_wal_from}", err=True)
