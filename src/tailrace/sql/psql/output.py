"""Results as psql prints them: aligned, unaligned, expanded; with a title or without (`fe_utils/print.c`).

In: columns of texts. Out: text. Widths are those of characters on a terminal; control characters are shown as psql shows them.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from itertools import zip_longest

from tailrace.dataclass import dataclass
from tailrace.sql.result import TextColumn
from tailrace.types import oids

_NUMBERS = frozenset(
    {oids.INT8, oids.INT2, oids.INT4, oids.OID, oids.XID, oids.CID, oids.FLOAT4, oids.FLOAT8, oids.MONEY, oids.NUMERIC, oids.XID8}
)
"""Types that psql puts to the right (`column_type_alignment`)."""


@dataclass(slots=True)
class Format:
    """What \\pset and the options of psql say. `expanded`: one line a value."""

    aligned: bool = True
    tuples_only: bool = False
    expanded: bool = False
    null: str = ""
    separator: str = "|"


def printed(
    columns: Sequence[TextColumn], form: Format, title: str = "", footers: Sequence[str] | None = None, count: int | None = None
) -> str:
    """A result. `footers` replace the count of rows, which is given where there are no columns."""
    rows = list(zip(*([form.null if cell is None else cell for cell in column.cells] for column in columns), strict=True))
    number = len(rows) if count is None else count
    counted = f"({number} row{'' if number == 1 else 's'})"
    last = [counted] if footers is None else list(footers)
    if form.expanded and not rows:
        return f"{'' if form.tuples_only else counted + chr(10)}\n" if form.aligned else ""
    if form.expanded:
        return _expanded(columns, rows, form, title, last if footers is not None else [])
    return _aligned(columns, rows, form, title, last) if form.aligned else _unaligned(columns, rows, form, title, last)


def width(text: str) -> int:
    """Of a text without line feeds, on a terminal (`pg_wcswidth`)."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(each) else 2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text)


def shown_lines(text: str) -> list[str]:
    """A cell's lines, with control characters made visible (`pg_wcsformat`)."""
    if text.isprintable():
        return [text]
    lines = []
    for line in text.split("\n"):
        out = ""
        for each in line:
            if each == "\r":
                out += "\\r"
            elif each == "\t":
                out += " " * (8 - width(out) % 8)
            elif ord(each) < 32 or ord(each) == 127:
                out += f"\\x{ord(each):02X}"
            elif 0x80 <= ord(each) < 0xA0:
                out += f"\\u{ord(each):04X}"
            else:
                out += each
        lines.append(out)
    return lines


def _aligned(columns: Sequence[TextColumn], rows: Sequence[tuple], form: Format, title: str, footers: list[str]) -> str:
    heads = [shown_lines(column.name) for column in columns]
    cells = [[shown_lines(cell) for cell in row] for row in rows]
    widths = [
        max(map(width, [*heads[at], *(line for row in cells for line in row[at])])) for at in range(len(columns))
    ]  # fmt: skip
    lines: list[str] = []
    if not form.tuples_only:
        total = sum(widths) + 3 * len(widths) - 1
        if title:
            lines.append(" " * max(0, (total - width(title)) // 2) + title)
        lines += _head(heads, widths) if columns else []
        lines.append("+".join("-" * (each + 2) for each in widths) if columns else "--")
    for row in cells:
        lines += _row(row, widths, [column.type in _NUMBERS for column in columns])
    if not form.tuples_only:
        lines += footers
    return "".join(f"{line}\n" for line in [*lines, ""])


def _head(heads: Sequence[list[str]], widths: Sequence[int]) -> list[str]:
    lines = []
    high = max(map(len, heads), default=1)
    for number in range(high):
        parts = []
        for head, wide in zip(heads, widths, strict=True):
            text = head[number] if number < len(head) else ""
            left = (wide - width(text)) // 2
            mark = "+" if number < len(head) - 1 else " "
            parts.append(f" {' ' * left}{text}{' ' * (wide - width(text) - left)}{mark}")
        lines.append("|".join(parts))
    return lines


def _row(cells: Sequence[list[str]], widths: Sequence[int], numbers: Sequence[bool]) -> list[str]:
    lines = []
    for number in range(max(map(len, cells), default=0)):
        parts = []
        for at, (cell, wide) in enumerate(zip(cells, widths, strict=True)):
            text, more, last = (cell[number] if number < len(cell) else ""), number < len(cell) - 1, at == len(cells) - 1
            gap = " " * (wide - width(text))
            padded = gap + text if numbers[at] else text if last and not more else text + gap
            parts.append(f" {padded}{'+' if more else '' if last else ' '}")
        lines.append("|".join(parts))
    return lines


def _unaligned(columns: Sequence[TextColumn], rows: Sequence[tuple], form: Format, title: str, footers: list[str]) -> str:
    lines = []
    if not form.tuples_only:
        lines += [title] if title else []
        lines.append(form.separator.join(column.name for column in columns))
    lines += [form.separator.join(row) for row in rows]
    if not form.tuples_only:
        lines += footers
    return "".join(f"{line}\n" for line in lines)


def _expanded(columns: Sequence[TextColumn], rows: Sequence[tuple], form: Format, title: str, footers: list[str]) -> str:
    lines = [title] if title and not form.tuples_only else []
    if not form.aligned:
        records = [[f"{column.name}{form.separator}{cell}" for column, cell in zip(columns, row, strict=True)] for row in rows]
        for number, record in enumerate(records):
            lines += ([""] if number else []) + record
        return "".join(f"{line}\n" for line in [*lines, *footers])
    names = [shown_lines(column.name) for column in columns]
    cells = [[shown_lines(cell) for cell in row] for row in rows]
    name_width = max(width(line) for name in names for line in name)
    cell_width = max(width(line) for row in cells for cell in row for line in cell)
    for number, row in enumerate(cells, 1):
        if not form.tuples_only:
            lines.append(_record_head(number, name_width, cell_width))
        elif number > 1:
            lines.append("-" * name_width + "-+-" + "-" * cell_width)
        for name, cell in zip(names, row, strict=True):
            lines += _expanded_lines(name, cell, name_width, cell_width)
    return "".join(f"{line}\n" for line in [*lines, *footers, ""])


def _record_head(number: int, name_width: int, cell_width: int) -> str:
    head = f"-[ RECORD {number} ]"
    left = name_width + 1
    if len(head) > left + 1 + cell_width + 1:
        return head
    if len(head) <= left:
        return head + "-" * (left - len(head)) + "+" + "-" * (cell_width + 1)
    return head + "-" * (left + 1 + cell_width + 1 - len(head)) if len(head) > left + 1 else head + "-" * cell_width


def _expanded_lines(name: list[str], cell: list[str], name_width: int, cell_width: int) -> list[str]:
    lines = []
    for number, (left, right) in enumerate(zip_longest(name, cell)):
        head = left or ""
        plus = "+" if number < len(name) - 1 else " "
        more = number < len(cell) - 1
        text = right or ""
        tail = "" if right is None else f" {text}{' ' * (cell_width - width(text))}+" if more else f" {text}"
        lines.append(f"{head}{' ' * (name_width - width(head))}{plus}|{tail}")
    return lines
