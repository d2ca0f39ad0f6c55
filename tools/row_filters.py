"""Write docs/row_filters.md from what the evaluator has: `PYTHONPATH=src python tools/row_filters.py`. A test checks that it is up to date."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from tailrace.expressions.evaluate.executor.fmgrtab import IMPLEMENTATIONS
from tailrace.expressions.evaluate.fmgr.pg_proc import built_in_functions

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs/row_filters.md"
COUNTED = ROOT / "tests/cases/row_filters/functions.tsv"
TARGET = 0.99
HEAD = """# Row filters

A publication may say which rows of a table it publishes: `CREATE PUBLICATION … FOR TABLE t WHERE (condition)`,
since PostgreSQL 15. tailrace evaluates such a
condition over batches of rows as they are stored,
with PostgreSQL's own results, NULLs and errors, or refuses it by name when it reads the publication. There is
nothing between the two: a function that would be right almost always is refused.

This page is made by `tools/row_filters.py` from the evaluator's tables and from what PostgreSQL 15 says of its functions.

## What every condition may have

Columns, constants, operators, functions, AND, OR, NOT, IS [NOT] NULL, IS [NOT] TRUE, FALSE or UNKNOWN, IS [NOT] DISTINCT FROM, IN, BETWEEN,
ANY and ALL of an array,
comparisons of rows, CASE, COALESCE, NULLIF, GREATEST, LEAST, ARRAY[…], ROW(…), COLLATE,
and casts that PostgreSQL carries out with a function or without any.
AND, OR, CASE and COALESCE evaluate what they need and no more,
so a guard such as `a <> 0 AND 1 / a > 2` works. What is constant is evaluated once, before the first
row, as the planner does.

## What depends on the database

- `=` and `<>` of text compare bytes and always work; so do `<`, `>`, BETWEEN, GREATEST and LEAST under C, POSIX, ucs_basic, C.UTF-8 and the builtin
  provider. Under any other locale of libc this machine's C library is asked, as the server asks its own: `lower`, `upper`, `initcap`, ILIKE, the
  classes of regular expressions and `~*` as well.
- That is right where this machine has the locale, in the version that the catalogs recorded (datcollversion, collversion: glibc's). Otherwise it is
  an error in PostgreSQL's words, *collation version mismatch* or *could not create locale*. Letters of ASCII have their cases all the same, but in
  Turkish and Azeri. `--set tailrace.collation_mismatch=ignore` (a parameter of sessions, an option of Spark's format) goes on with the version that
  is here, and without the locale as C.UTF-8. `COLLATE "C"` in the filter needs nothing.
- The builtin provider of 17 and 18 (C.UTF-8, PG_UNICODE_FAST) needs nothing of the machine: its letters are in tables of the Unicode that each has.
- ICU is asked where the loader finds a libicu (54 or newer) that gives the locale the version that was recorded: several may lie side by side, and
  LD_LIBRARY_PATH says where else to look, such as in the server's `pg_config --libdir`. In encodings other than UTF8 it is not.
- Regular expressions are evaluated without back references,
lookbehind and options in the middle; functions that ask where a match ends take patterns that can match
  in one way only.
- Powers, roots, logarithms and trigonometry of double precision, and the size of what comparison functions such as `byteacmp` give, are this
  machine's C library's, as on the server: the last digit may differ where that is another.
- Text search is that of the configuration `simple` as initdb makes it (pg_catalog.simple), where the default locale is libc's. Another one needs
  dictionaries, and is refused by its OID; so are texts with combining characters.
- `pg_walfile_name` names files of the timeline on which the log ends. The server of a standby refuses it.
- A time zone is named by its place, such as Europe/Berlin, or is UTC; its rules are those of this machine's time zone database.

## What is refused by the row

Some functions are right but for a few values, for which they are refused when such a row comes: infinite intervals (since 17),
ages of infinite timestamps,
characters that Unicode did not have yet; of jsonpath dates, `.keyvalue()`, the methods that came with 17, and `like_regex` on texts with line breaks.

## Functions by family

Operators are counted with the functions behind them, as are casts.
"""


def render() -> str:
    families: dict[str, list[tuple[str, bool]]] = defaultdict(list)
    apart: dict[str, list[tuple[str, bool]]] = defaultdict(list)
    for label, family, reason, there in counted():
        (apart[reason] if reason else families[family]).append((label, there))
    lines = [HEAD, "| family | functions | evaluated | share |", "|---|---|---|---|"]
    for family in sorted(families):
        lines.append(_row(family, families[family]))
    every = [each for group in families.values() for each in group]
    lines += [
        _row("**all**", every),
        "",
        "Counted apart, as PostgreSQL has them for itself:",
        "",
        "| for | functions | evaluated | share |",
        "|---|---|---|---|",
    ]
    lines += [_row(reason, apart[reason]) for reason in sorted(apart)]
    lines += ["", "## What is refused", ""]
    for family in sorted(families):
        missing = sorted({label for label, there in families[family] if not there})
        if missing:
            lines.append(f"- **{family}**: " + ", ".join(f"`{label}`" for label in missing))
    return "\n".join(lines) + "\n"


def counted() -> list[tuple[str, str, str, bool]]:
    """(function, family, why it is counted apart, whether it is evaluated)."""
    known = built_in_functions()
    found = []
    for line in COUNTED.read_text().splitlines()[1:]:
        oid, label, _, _, family, reason = line.split("\t")
        found.append((label, family, reason, known[int(oid)].symbol in IMPLEMENTATIONS))
    return found


def share() -> float:
    """Of the functions that are not counted apart."""
    there = [evaluated for _, _, reason, evaluated in counted() if not reason]
    return sum(there) / len(there)


def _row(name: str, group: list[tuple[str, bool]]) -> str:
    there = sum(evaluated for _, evaluated in group)
    return f"| {name} | {len(group)} | {there} | {there / len(group):.0%} |"


if __name__ == "__main__":
    DOCUMENT.write_text(render())
    print(f"{share():.1%} of the functions that a row filter may use are evaluated")
