"""What the demo shows: a page of the stream, and the closing tables."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tailrace.dataclass import dataclass
from tailrace.demo.compare import Comparison
from tailrace.pipeline.pipeline import Pipeline
from tailrace.plugins.test_decoding import TestDecoding

_PAGE = 15
"""Rows of the change stream that are shown."""


@dataclass(slots=True)
class Times:
    """Wall seconds of each part, and what they worked on."""

    wal_bytes: int = 0
    changes: int = 0
    transactions: int = 0
    walsender: float = 0.0
    decode: float = 0.0
    mirror: float = 0.0


def show_page(console: Console, pipeline: Pipeline) -> None:
    """The first rows of the change stream, as `test_decoding` prints them, cut to the width of the terminal."""
    plugin = TestDecoding()
    plugin.startup({"skip-empty-xacts": "on"}, pipeline.source.segments.major)
    texts = (text for lines in pipeline.lines(plugin) for text in lines.texts.to_list())
    for text in islice(texts, _PAGE):
        line = Text(text.replace("\n", "\\n"), no_wrap=True, overflow="ellipsis")
        line.truncate(console.width - 2, overflow="ellipsis")
        line.stylize("dim" if text.startswith(("BEGIN", "COMMIT")) else _colour(text))
        console.print(" ", line, sep="")


def _colour(text: str) -> str:
    for word, colour in ((" INSERT:", "green"), (" UPDATE:", "yellow"), (" DELETE:", "red")):
        if word in text:
            return colour
    return "cyan"


def show_result(console: Console, comparisons: Sequence[Comparison], times: Times) -> None:
    """The closing tables: is all the same, and how long did it take."""
    tables = Table(title="Source and mirror, every row compared", title_justify="left", title_style="bold")
    tables.add_column("table")
    for name in ("rows in source", "rows in mirror"):
        tables.add_column(name, justify="right")
    tables.add_column("equal", justify="center")
    for each in comparisons:
        mark = Text("✓", "bold green") if each.equal else Text("✗ differs", "bold red")
        tables.add_row(each.table, f"{each.source_rows:,}", f"{each.mirror_rows:,}", mark)
    tables.add_section()
    every = all(each.equal for each in comparisons)
    tables.add_row(
        "all", f"{sum(each.source_rows for each in comparisons):,}", f"{sum(each.mirror_rows for each in comparisons):,}",
        Text("✓" if every else "✗", "bold green" if every else "bold red"), style="bold",
    )  # fmt: skip
    speed = Table(
        title=f"The same {times.wal_bytes / 1e6:,.0f} MB of WAL: {times.transactions:,} transactions, {times.changes:,} changes",
        title_justify="left", title_style="bold",
    )  # fmt: skip
    speed.add_column("")
    for name in ("seconds", "MB/s", "changes/s", "speed-up"):
        speed.add_column(name, justify="right")
    _add_time(speed, "PostgreSQL's walsender", times.walsender, times, "")
    _add_time(speed, "tailrace, to columns", times.decode, times, "bold green")
    _add_time(speed, "tailrace, to Delta tables", times.mirror, times, "green")
    console.print()
    console.print(tables)
    console.print()
    console.print(speed)


def _add_time(table: Table, name: str, seconds: float, times: Times, style: str) -> None:
    ratio = f"{times.walsender / seconds:.1f} ×" if style else "1"
    table.add_row(
        name, f"{seconds:.2f}", f"{times.wal_bytes / 1e6 / seconds:,.0f}", f"{times.changes / seconds:,.0f}", Text(ratio, style)
    )
