"""Tables for a person or for a program: drawn where standard output is a terminal, columns parted by tabs where it is not, JSON if asked."""

from __future__ import annotations

import json
import sys
from typing import Any

from tailrace.dataclass import dataclass

_SHORT = 24
"""A text of so many characters stands on one line."""
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), 127)} | {
    ord(character): escape for character, escape in zip("\b\f\n\r\t\v", (r"\b", r"\f", r"\n", r"\r", r"\t", r"\v"), strict=True)
}


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

    console = Console()
    if listing.rows and not _fits(listing, console.width):
        _draw_expanded(listing)
        return
    table = Table(*listing.columns, caption=listing.note)
    for column, cells in zip(table.columns, zip(*listing.rows, strict=True), strict=False):
        column.no_wrap = max(map(len, map(_shown, cells))) <= _SHORT
        if all(isinstance(cell, int | float) for cell in cells):
            column.justify = "right"
    for row in listing.rows:
        table.add_row(*(Text(_shown(cell)) for cell in row))  # not markup
    console.print(table)


def _shown(cell: str | float) -> str:
    return f"{cell:,}" if isinstance(cell, int | float) else printable(cell)


def _fits(listing: Listing, width: int) -> bool:
    """Whether nothing short, such as an LSN, would be cut; longer texts go over several lines."""
    widths = [
        max(len(cell) for cell in cells)
        for cells in zip(listing.columns, *(map(_shown, row) for row in listing.rows), strict=True)
    ]
    return sum(each if each <= _SHORT else _SHORT for each in widths) + 3 * len(widths) + 1 <= width


def _draw_expanded(listing: Listing) -> None:
    """A line a value, as \\x of psql has them."""
    longest = max(map(len, listing.columns))
    for number, row in enumerate(listing.rows, 1):
        sys.stdout.write(f"-[ RECORD {number} ]".ljust(longest + 1, "-") + "+" + "-" * 20 + "\n")
        sys.stdout.writelines(
            f"{name.ljust(longest)} | {_shown(cell)}\n" for name, cell in zip(listing.columns, row, strict=True)
        )
    if listing.note:
        sys.stdout.write(f"{listing.note}\n")
