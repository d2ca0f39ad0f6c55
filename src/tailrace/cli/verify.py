"""`tailrace verify`: whether a lake is as its source is, and which rows are not."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tailrace.cli.choice import On
from tailrace.cli.engine import runner_for
from tailrace.cli.loading import spare_pandas
from tailrace.cli.progress import Progress, counted, warn
from tailrace.cli.tables import write_json
from tailrace.cli.verify_output import LAKE, ToldTable, counts_as_json, write_tables
from tailrace.client.copy_options import CopyStrategy
from tailrace.dataclass import dataclass
from tailrace.errors import Overtaken, count_of
from tailrace.model import Lsn
from tailrace.pipeline.runner import LocalRunner, Runner
from tailrace.sources.dsn import is_dsn
from tailrace.storage.open_store import open_store
from tailrace.storage.store import Store
from tailrace.verify.lake_at_rest import LakeAtRest
from tailrace.verify.repair import repair
from tailrace.verify.two_lakes import compare_lakes
from tailrace.verify.verification import TableCompared, VerifyOptions, verification

_TRIES = 5


@dataclass(frozen=True, slots=True)
class AskedComparison:
    source: str
    database: str
    url: str
    options: dict[str, str]
    tables: Sequence[str]
    limit: int
    state: Path | None
    strategy: CopyStrategy
    on: On
    repairs: bool
    as_json: bool

    def opened(self, url: str) -> Store:
        return open_store(url, self.options)


def verify(asked: AskedComparison) -> bool:
    """Print what differs, and repair it where that is asked for; whether nothing differs any more. To have compared no table is not that."""
    runner = runner_for(asked.on, 0, Progress("", shown=False).tell)
    if isinstance(runner, LocalRunner):
        spare_pandas()
    with counted("tables", is_alone=not asked.as_json) as progress:
        done = _done(asked, runner, progress, asked.tables)
        for _ in range(_TRIES):
            if not done.overtaken:
                break
            done = done.with_again(_done(asked, runner, progress, done.overtaken))
    told = list(map(_told, done.tables))
    if asked.as_json:
        write_json(counts_as_json(told, LAKE, done.lsn, asked.opened(asked.url).url, done.repaired))
    else:
        write_tables(told, LAKE, done.lsn)
        if done.repaired:
            sys.stdout.write(f"{count_of(sum(done.repaired.values()), 'row', 'were')} repaired\n")
    if done.overtaken:
        left = ", ".join(done.overtaken)
        raise Overtaken(
            f"others write to table {done.overtaken[0]} again and again",
            detail=f"Not repaired were {left}; repaired were {', '.join(done.repaired) or 'none'}.",
            hint="Run this again for these alone (--table); or while nobody brings the lake along, or not as often (--every).",
        )
    is_idle = bool(done.tables) and not any(each.is_compared for each in done.tables)
    return not is_idle and not any(each.differs and each.sides.name not in done.repaired for each in done.tables)


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
        VerifyOptions(tables, asked.limit, asked.state, asked.strategy, warn),
        progress.show,
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


def _told(each: TableCompared) -> ToldTable:
    sides = each.sides
    return ToldTable(
        sides.name, each.rows, each.found, each.listed, sides.unfit, sides.note, sides.changed, is_compared=each.is_compared
    )
