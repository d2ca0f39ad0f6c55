"""`tailrace verify`: whether a lake is as its source is, and which rows are not."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tailrace.cli.choice import On
from tailrace.cli.engine import runner_for
from tailrace.cli.progress import Progress, counted
from tailrace.cli.tables import Listing, write_json, write_listing
from tailrace.dataclass import dataclass
from tailrace.errors import Overtaken, count_of
from tailrace.model import Lsn
from tailrace.pipeline.runner import Runner
from tailrace.sources.dsn import is_dsn
from tailrace.storage.open_store import open_store
from tailrace.storage.store import Store
from tailrace.verify.differences import EXTRA, MISSING, OTHER, Row, RowDifference
from tailrace.verify.lake_at_rest import LakeAtRest
from tailrace.verify.repair import repair
from tailrace.verify.two_lakes import compare_lakes
from tailrace.verify.verification import TableCompared, verification

_COLUMNS = ("table", "what", "key", "source", "lake", "changed")
_TRIES = 5
_MOST_TEXT = 200
"""Characters of a row that a listing shows; --json has all of it."""
_WORDS = {MISSING: "missing in the lake", EXTRA: "not at the source", OTHER: "other values"}


@dataclass(frozen=True, slots=True)
class AskedComparison:
    source: str
    database: str
    url: str
    options: dict[str, str]
    tables: Sequence[str]
    limit: int
    state: Path | None
    on: On
    repairs: bool
    as_json: bool

    def opened(self, url: str) -> Store:
        return open_store(url, self.options)


def verify(asked: AskedComparison) -> bool:
    """Print what differs, and repair it where that is asked for; whether nothing differs any more."""
    runner = runner_for(asked.on, 0, Progress("", shown=False).tell)
    with counted("tables", is_alone=not asked.as_json) as progress:
        done = _done(asked, runner, progress, asked.tables)
        for _ in range(_TRIES):
            if not done.overtaken:
                break
            done = done.with_again(_done(asked, runner, progress, done.overtaken))
    if asked.as_json:
        write_json(_json(asked, done))
    else:
        _write(done)
    if done.overtaken:
        raise Overtaken(
            f"others write to table {done.overtaken[0]} again and again",
            hint="Run this again, or while nobody brings the lake along.",
        )
    return not any(each.differs and each.sides.name not in done.repaired for each in done.tables)


def _lakes_compared(asked: AskedComparison, runner: Runner, progress: Progress) -> _Done:
    """SOURCE is a lake, too."""
    with LakeAtRest.taken(asked.opened(asked.source)) as first, LakeAtRest.taken(asked.opened(asked.url)) as second:
        compared = []
        for each in compare_lakes(first, second, runner, asked.tables, asked.limit):
            progress.add(1)
            compared.append(each)
        return _Done(second.catalog.complete, compared, {}, ())


def _done(asked: AskedComparison, runner: Runner, progress: Progress, tables: Sequence[str]) -> _Done:
    """What differs of these tables; and, where that is asked for, is put right."""
    if not is_dsn(asked.source):
        return _lakes_compared(asked, runner, progress)
    repaired: dict[str, int] = {}
    overtaken: list[str] = []
    with verification(
        asked.opened(asked.url),
        asked.source,
        asked.database,
        runner,
        tables,
        listed=asked.limit,
        state=asked.state,
        tell=progress.show,
    ) as found:
        compared = []
        for each in found.run():
            progress.add(1)
            compared.append(each)
            if asked.repairs and each.differs:
                try:
                    repaired[each.sides.name] = repair(found.rest, each)
                except Overtaken:
                    overtaken.append(each.sides.name)
        return _Done(found.source.end, compared, repaired, overtaken)


@dataclass(frozen=True, slots=True)
class _Done:
    """Compared at `lsn`. Rows were `repaired`, so many of each table; tables that others wrote to meanwhile were `overtaken`."""

    lsn: Lsn
    tables: Sequence[TableCompared]
    repaired: Mapping[str, int]
    overtaken: Sequence[str]

    def with_again(self, later: _Done) -> _Done:
        """With what was found of some of the tables later."""
        again = {each.oid for each in later.tables}
        tables = [*(each for each in self.tables if each.oid not in again), *later.tables]
        return _Done(
            later.lsn, sorted(tables, key=lambda each: each.sides.name), {**self.repaired, **later.repaired}, later.overtaken
        )


def _write(done: _Done) -> None:
    found = done.tables
    rows = [
        (each.sides.name, _WORDS[one.kind], _text(one.key), *_values(one), str(each.sides.changed or ""))
        for each in found
        for one in each.listed
    ]
    if rows:
        write_listing(Listing(_COLUMNS, [tuple(map(_short, row)) for row in rows]))
    for each in found:
        for note in filter(None, (each.sides.unfit, each.sides.note)):
            sys.stdout.write(f"table {each.sides.name}: {note}\n")
        if each.found.rows > len(each.listed):
            sys.stdout.write(f"table {each.sides.name}: {_counts(each)}; {len(each.listed):,} are shown (--limit)\n")
    different = sum(each.found.rows for each in found)
    said = f"{count_of(different, 'row')} differ" if different != 1 else "1 row differs"
    if not different:
        said = "no row differs" if not any(each.sides.unfit for each in found) else "columns differ"
    rows_of = count_of(sum(each.rows for each in found), "row")
    sys.stdout.write(f"{count_of(len(found), 'table')}, {rows_of} compared at {done.lsn}: {said}\n")
    if done.repaired:
        sys.stdout.write(f"{count_of(sum(done.repaired.values()), 'row', 'were')} repaired\n")


def _counts(each: TableCompared) -> str:
    return ", ".join(f"{count:,} {_WORDS[kind]}" for kind, count in each.found.counts.items() if count)


def _values(one: RowDifference) -> tuple[str, str]:
    """Of a row that both have, the columns that differ; else all but the key."""
    names = [name for name in (one.first or one.second or {}) if name not in one.key]
    if one.first is not None and one.second is not None:
        names = [name for name in one.first if one.first[name] != one.second[name]] or names
    first, second = (_text({name: row[name] for name in names}) if row is not None else "" for row in (one.first, one.second))
    return first, second


def _text(row: Row) -> str:
    return ", ".join(f"{name}={'NULL' if value is None else value}" for name, value in row.items())


def _short(text: str) -> str:
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}…"


def _json(asked: AskedComparison, done: _Done) -> dict[str, Any]:
    return {
        "lsn": str(done.lsn), "lake": asked.opened(asked.url).url, "rows": sum(each.rows for each in done.tables),
        "differ": sum(each.found.rows for each in done.tables), "repaired": sum(done.repaired.values()),
        "tables": list(map(_table, done.tables)),
    }  # fmt: skip


def _table(each: TableCompared) -> dict[str, Any]:
    sides = each.sides
    return {
        "table": sides.name, "rows": each.rows, **each.found.counts, "changed": str(sides.changed) if sides.changed else None,
        "unfit": sides.unfit or None, "note": sides.note or None,
        "differences": [{"what": one.kind, "key": one.key, "source": one.first, "lake": one.second} for one in each.listed],
    }  # fmt: skip
