"""Tables for a person or for a program: drawn where standard output is a terminal, columns parted by tabs where it is not, JSON if asked."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import Annotated, Any

import typer

_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), 127)} | {
    ord(character): escape for character, escape in zip("\b\f\n\r\t\v", (r"\b", r"\f", r"\n", r"\r", r"\t", r"\v"), strict=True)
}
JsonOption = Annotated[bool, typer.Option("--json", help="As JSON.")]


@dataclass(frozen=True, slots=True)
class Listing:
    """Rows under headings. Numbers stand right, and with commas where a person reads them; `note` says what is left out."""

    columns: tuple[str, ...]
    rows: list[tuple[str | int | float, ...]]
    note: str = ""


def write_listing(listing: Listing) -> None:
    if sys.stdout.isatty():
        _draw(listing)
        return
    for row in (listing.columns, *listing.rows):
        sys.stdout.write("\t".join(printable(str(cell)) for cell in row) + "\n")
    if listing.note:
        sys.stdout.write(f"{listing.note}\n")


def printable(text: str) -> str:
    """On one line and in one cell whatever it holds: control characters as COPY writes them, and those that it leaves as \\xNN."""
    return text.translate(_CONTROLS)


def write_json(value: Any) -> None:
    """One value on one line."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")


def _draw(listing: Listing) -> None:
    from rich.console import Console  # noqa: PLC0415 - it takes a tenth of a second, and only a terminal shows it
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(*listing.columns, caption=listing.note)
    for column, cells in zip(table.columns, zip(*listing.rows, strict=True), strict=False):
        if all(isinstance(cell, int | float) for cell in cells):
            column.justify = "right"
    for row in listing.rows:
        table.add_row(*(f"{cell:,}" if isinstance(cell, int | float) else Text(printable(cell)) for cell in row))  # not markup
    Console().print(table)
