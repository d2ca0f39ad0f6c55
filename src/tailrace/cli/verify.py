"""`tailrace verify`: whether a lake is as its source is, and which rows are not."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from tailrace.cli.choice import On
from tailrace.cli.engine import runner_for
from tailrace.cli.progress import Progress, counted
from tailrace.cli.tables import Listing, write_json, write_listing
from tailrace.dataclass import dataclass
from tailrace.errors import TailraceError, count_of
from tailrace.model import Lsn
from tailrace.storage.open_store import open_store
from tailrace.storage.scratch_folder import scratch_folder
from tailrace.storage.store import Store
from tailrace.verify.differences import EXTRA, MISSING, OTHER, Row, RowDifference
from tailrace.verify.lake_at_rest import LakeAtRest
from tailrace.verify.server_source import ServerSource
from tailrace.verify.verification import TableCompared, Verification

_COLUMNS = ("table", "what", "key", "source", "lake", "changed")
_MOST_TEXT = 200
"""Characters of a row that a listing shows; --json has all of it."""
_WORDS = {MISSING: "missing in the lake", EXTRA: "not at the source", OTHER: "other values"}


class NotCompared(Exception):
    """Why nothing can be said, which is no difference."""


@dataclass(frozen=True, slots=True)
class Asked:
    source: str
    database: str
    url: str
    options: dict[str, str | None]
    tables: Sequence[str]
    limit: int
    state: Path | None
    on: On
    as_json: bool

    @property
    def store(self) -> Store:
        return open_store(self.url, {name: value or "" for name, value in self.options.items()})


def verify(asked: Asked) -> bool:
    """Print what differs; whether nothing does."""
    with counted("tables", is_alone=not asked.as_json) as progress, _compared(asked, progress) as (run, at):
        found = list(run)
    if asked.as_json:
        write_json(_json(asked, at, found))
    else:
        _write(asked, at, found)
    return not any(each.differs for each in found)


@contextmanager
def _compared(asked: Asked, progress: Progress) -> Iterator[tuple[Iterable[TableCompared], Lsn]]:
    store = asked.store
    runner = runner_for(asked.on, 0, Progress("", shown=False).tell)
    with LakeAtRest.taken(store) as rest, scratch_folder(Path(tempfile.gettempdir()), "tailrace-verify-rows-") as folder:
        catalog = rest.catalog
        with ServerSource.taken(
            asked.source, asked.database, catalog.complete, catalog.publications, asked.state, progress.tell
        ) as source:
            catalog.check_is_of(replace(source.log.span, publications=catalog.publications), store.url)
            yield (
                Verification(source, rest, runner, folder, asked.tables, asked.limit, progress.show).run(),
                source.end,
            )


def _write(asked: Asked, at: Lsn, found: Sequence[TableCompared]) -> None:
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
    sys.stdout.write(f"{count_of(len(found), 'table')}, {rows_of} compared at {at}: {said}\n")


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


def _json(asked: Asked, at: Lsn, found: Sequence[TableCompared]) -> dict[str, Any]:
    return {
        "lsn": str(at), "lake": asked.store.url, "rows": sum(each.rows for each in found),
        "differ": sum(each.found.rows for each in found), "tables": list(map(_table, found)),
    }  # fmt: skip


def _table(each: TableCompared) -> dict[str, Any]:
    sides = each.sides
    return {
        "table": sides.name, "rows": each.rows, **each.found.counts, "changed": str(sides.changed) if sides.changed else None,
        "unfit": sides.unfit or None, "note": sides.note or None,
        "differences": [{"what": one.kind, "key": one.key, "source": one.first, "lake": one.second} for one in each.listed],
    }  # fmt: skip
