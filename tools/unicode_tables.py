"""Write what the builtin provider knows of characters, from live servers of 17 and 18: `PYTHONPATH=tests python tools/unicode_tables.py`.

Out: unicode.tsv in src/tailrace/expressions/evaluate/collations. PostgreSQL 17 has Unicode 15.1, 18 has 16.0 and the locale PG_UNICODE_FAST. A line
is a layer, what it says, and a run of characters: the first, the last, and their value. A layer says what is other than in the one before. Of `class`
the value is which of CLASSES they are in, a bit each; of `upper`, `lower` and `title` what is added to them, or the characters that stand
for one (of a full mapping); of `sigma` 1 for what is cased and 2 for what is ignored where a final sigma is looked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from support.servers import Server

TABLE = Path(__file__).parents[1] / "src/tailrace/expressions/evaluate/collations/unicode.tsv"
CLASSES = ("alpha", "digit", "alnum", "upper", "lower", "space", "punct", "print", "graph")
EVERY = [code for code in range(1, 0x110000) if not 0xD800 <= code < 0xE000]


def asked(connection: Any, expression: str) -> list[Any]:
    """An expression over the character c, for each of EVERY."""
    query = f"SELECT {expression} FROM (SELECT n, chr(n) c FROM unnest(%s::int[]) n) t ORDER BY n"
    return [row[0] for row in connection.execute(query, [EVERY]).fetchall()]


def runs(before: list[object], values: list[object]) -> Iterator[tuple[int, int, object]]:
    """Neighbours with one value, where it is not what it was before."""
    changed = [(code, value) for code, old, value in zip(EVERY, before, values, strict=True) if value != old]
    at = 0
    while at < len(changed):
        start, value = changed[at]
        last = start
        while at + 1 < len(changed) and changed[at + 1] == (last + 1, value):
            at, last = at + 1, last + 1
        yield start, last, value
        at += 1


def shift(code: int, text: str) -> object:
    if len(text) == 1:
        return ord(text) - code
    return " ".join(f"{ord(each):X}" for each in text)


def of_locale(connection: Any, is_full: bool) -> dict[str, list[object]]:
    masks = [0] * len(EVERY)
    for place, each in enumerate(CLASSES):
        for row, there in enumerate(asked(connection, f"c ~ '[[:{each}:]]'")):
            masks[row] |= there << place
    tables: dict[str, list[object]] = {"class": list(masks)}
    for what, expression in (("upper", "upper(c)"), ("lower", "lower(c)"), ("title", "initcap(c)")):
        if what != "title" or is_full:
            tables[what] = [shift(code, text) for code, text in zip(EVERY, asked(connection, expression), strict=True)]
    if is_full:
        skipped_or_cased = asked(connection, "right(lower('A' || c || 'Σ'), 1) = 'ς'")
        cased = asked(connection, "right(lower(' ' || c || 'Σ'), 1) = 'ς'")
        tables["sigma"] = [1 if two else 2 if one else 0 for one, two in zip(skipped_or_cased, cased, strict=True)]
    return tables


def main() -> None:
    lines = ["layer\twhat\tfirst\tlast\tvalue\n"]
    known: dict[str, list[object]] = {}
    for major, names in ((17, ("C.UTF-8",)), (18, ("C.UTF-8", "PG_UNICODE_FAST"))):
        with Server(major, test_decoding=False) as server:
            for name in names:
                is_full = name != "C.UTF-8"
                options = f"LOCALE_PROVIDER builtin BUILTIN_LOCALE '{name}' LOCALE 'C'"
                server.sql(f'CREATE DATABASE "{name}" TEMPLATE template0 ENCODING UTF8 {options}')
                with server.connect(dbname=name) as connection:
                    tables = of_locale(connection, is_full)
                for what, values in tables.items():
                    before = tables["upper"] if what == "title" else known.get(what, [0] * len(EVERY))
                    for first, last, value in runs(before, values):
                        lines.append(f"{major}{'full' * is_full}\t{what}\t{first:X}\t{last:X}\t{value}\n")
                known |= tables
    TABLE.write_text("".join(lines))


if __name__ == "__main__":
    main()
