"""What `tailrace verify` prints: the rows that differ between a source and a lake, or a subscriber, and how many do."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from tailrace.cli.tables import Listing, write_listing
from tailrace.dataclass import dataclass
from tailrace.errors import count_of
from tailrace.model import Lsn
from tailrace.verify.differences import EXTRA, MISSING, OTHER, Differences, Row, RowDifference

LAKE, SUBSCRIBER = "lake", "subscriber"
_MOST_TEXT = 200
"""Characters of a row that a listing shows; --json has all of it."""
_WORDS = {
    LAKE: {MISSING: "missing in the lake", EXTRA: "too many in the lake", OTHER: "other values"},
    SUBSCRIBER: {MISSING: "missing at the subscriber", EXTRA: "too many at the subscriber", OTHER: "other values"},
}


@dataclass(frozen=True, slots=True)
class ToldTable:
    """`rows` are the source's; rows that were `undecided` are not among those `found`. `changed` is where the lake's table had its last changes. Of
    one that `is_compared` not, `note` says why."""

    name: str
    rows: int
    found: Differences
    listed: Sequence[RowDifference]
    unfit: str
    note: str
    changed: Lsn | None = None
    undecided: int = 0
    is_compared: bool = True

    def as_json(self, other: str) -> dict[str, Any]:
        own = {"changed": str(self.changed) if self.changed else None} if other == LAKE else {"undecided": self.undecided}
        return {
            "table": self.name, "compared": self.is_compared, "rows": self.rows, **self.found.counts, **own, "unfit": self.unfit or None,
            "note": self.note or None,
            "differences": [{"what": one.kind, "key": one.key, "source": one.first, other: one.second} for one in self.listed],
        }  # fmt: skip


def write_tables(tables: Sequence[ToldTable], other: str, lsn: Lsn) -> None:
    """`other` is what is compared with the source."""
    words = _WORDS[other]
    rows = [
        (each.name, words[one.kind], _text(one.key), *_values(one), *([str(each.changed or "")] if other == LAKE else []))
        for each in tables
        for one in each.listed
    ]
    if rows:
        columns = ("table", "what", "key", "source", other, *(["changed"] if other == LAKE else []))
        write_listing(Listing(columns, [tuple(map(_short, row)) for row in rows]))
    for each in tables:
        for note in filter(None, (each.unfit, each.note)):
            sys.stdout.write(f"table {each.name}: {note}\n")
        if each.found.rows > len(each.listed):
            counts = ", ".join(f"{count:,} {words[kind]}" for kind, count in each.found.counts.items() if count)
            sys.stdout.write(f"table {each.name}: {counts}; {len(each.listed):,} are shown (--limit)\n")
    different = sum(each.found.rows for each in tables)
    said = f"{count_of(different, 'row')} differ" if different != 1 else "1 row differs"
    if not different:
        said = "no row differs" if not any(each.unfit and each.is_compared for each in tables) else "columns differ"
    if left_out := sum(not each.is_compared for each in tables):
        said += f"; {count_of(left_out, 'table', 'were')} not compared"
    rows_of = count_of(sum(each.rows for each in tables), "row")
    sys.stdout.write(f"{count_of(sum(each.is_compared for each in tables), 'table')}, {rows_of} compared at {lsn}: {said}\n")


def _values(one: RowDifference) -> tuple[str, str]:
    """Of a row that both have, the columns that differ; else all but the key."""
    names = [name for name in (one.first or one.second or {}) if name not in one.key]
    if one.first is not None and one.second is not None:
        names = [name for name in one.first if one.first[name] != one.second[name]] or names
    first, second = (_text({name: row[name] for name in names}) if row is not None else "" for row in (one.first, one.second))
    return first, second


def counts_as_json(
    tables: Sequence[ToldTable], other: str, lsn: Lsn, named: str, repaired: Mapping[str, int] | None = None
) -> dict[str, Any]:
    """`named` is what was compared with the source."""
    own = {"repaired": sum(repaired.values())} if repaired is not None else {}
    return {
        "lsn": str(lsn), other: named, "rows": sum(each.rows for each in tables), "differ": sum(each.found.rows for each in tables), **own,
        "tables": [each.as_json(other) for each in tables],
    }  # fmt: skip


def _text(row: Row) -> str:
    return ", ".join(f"{name}={'NULL' if value is None else value}" for name, value in row.items())


def _short(text: str) -> str:
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}…"
