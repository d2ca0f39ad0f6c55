"""How far a verb is, on standard error, and only where a person looks at it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console


@contextmanager
def counted(noun: str) -> Iterator[Callable[[int], None]]:
    """Gives a function to be told how many more there are. Silent unless stderr is a terminal and the rows go elsewhere."""
    if not sys.stderr.isatty() or sys.stdout.isatty():
        yield lambda more: None
        return
    total = 0
    with Console(stderr=True).status("reading the log") as status:

        def add(more: int) -> None:
            nonlocal total
            total += more
            status.update(f"{total:,} {noun}")

        yield add
    sys.stderr.write(f"{total:,} {noun}\n")
