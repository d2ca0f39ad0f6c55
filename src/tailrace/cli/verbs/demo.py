"""`tailrace demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tailrace.cli.choice import On
from tailrace.cli.loading import loading
from tailrace.cli.verbs.options import OnOption

DEMO_BYTES = 256 << 20
"""About how much WAL the shop writes."""


def demo(
    keep: Annotated[Path | None, typer.Option(help="Leave the data directory and the lake here.")] = None,
    on: OnOption = On.SPARK,
) -> None:
    """A small shop on an embedded PostgreSQL, decoded on Spark, mirrored into Delta, compared row by row."""
    with loading():
        from tailrace.cli.engine import runner_for
        from tailrace.demo.shop import run_demo

    raise typer.Exit(run_demo(keep, lambda: runner_for(on, DEMO_BYTES, lambda why: None)))
