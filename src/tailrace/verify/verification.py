"""A lake compared with the server that it is of, at one snapshot of the server.

In: a lake that was taken as it is, and then a snapshot of the server, once all is visible that has been committed in its log by then: so the lake
has nothing that the snapshot has not seen. Out: for each table how many rows were compared, and which differ.

Each table's rows are summed up by buckets on both sides, the server's as they are copied, the lake's as its files are read. Where all sums are
equal, all rows are, and the log is not asked. Else the lake lacks what was committed since, or is wrong, and that cannot be told by looking at it.
So what the snapshot has seen of the log is applied to the lake, aside, and it is compared again: what still differs is wrong. Nothing is waited for,
and it does not matter who changes what meanwhile, or how often.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path

from tailrace.catalog.names.qualified_names import read_table_name, tables_named
from tailrace.client.copy_options import CopyStrategy
from tailrace.client.replication_connection import server_identity
from tailrace.dataclass import dataclass
from tailrace.errors import MissingHistory, UsageError
from tailrace.model import Relation
from tailrace.pipeline.runner import LocalRunner, Runner
from tailrace.storage.scratch_folder import scratch_folder
from tailrace.storage.store import Store
from tailrace.verify.checksums import BucketSums, PackedSums, RowNumbers
from tailrace.verify.differences import Differences, RowDifference, find_differences, row_differences
from tailrace.verify.lake_at_rest import LakeAtRest
from tailrace.verify.server_source import ServerSource
from tailrace.verify.sides import TableSides, sides_of


@dataclass(frozen=True, slots=True)
class TableCompared:
    """`rows` are the server's. Of the rows that were `found` to differ `listed` are some. `sides` are what was compared, for who repairs it."""

    oid: int
    sides: TableSides
    rows: int
    found: Differences
    listed: Sequence[RowDifference] = ()
    is_compared: bool = True

    @property
    def differs(self) -> bool:
        return bool(self.found.rows or self.sides.unfit)


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    """`tables` are named as in SQL, all if there are none; of each so many rows that differ are `listed`. Publications of the lake may be defined in
    `state`. The server's rows are read by that `strategy`. Who has to wait for the server hears of it by `warn`."""

    tables: Sequence[str] = ()
    listed: int = 100
    state: Path | None = None
    strategy: CopyStrategy = CopyStrategy.AUTO
    warn: Callable[[str], None] = lambda _: None


_AS_BY_DEFAULT = VerifyOptions()


@dataclass(frozen=True, slots=True)
class Verification:
    """Rows are noted in `folder`."""

    source: ServerSource
    rest: LakeAtRest
    runner: Runner
    folder: Path
    options: VerifyOptions
    tell: Callable[[str], None]

    def run(self) -> Iterator[TableCompared]:
        """Table by table, in the order of their names; one that the lake keeps though it is published no more is not compared. Raises MissingHistory
        where rows differ, and the lake is so far behind that the server has no more of the log with which it could be told why."""
        noted = (self.folder / f"rows-{number}" for number in count())
        doubtful: dict[int, tuple[TableSides, PackedSums]] = {}
        settled: dict[int, TableCompared] = {}
        oids = self._oids()
        for oid in oids:
            sides = self._sides(oid, lambda: next(noted), is_own=True)
            if sides.is_unpublished:
                settled[oid] = TableCompared(oid, sides, 0, Differences(), is_compared=False)
                continue
            self.tell(f"table {sides.name}")
            try:
                server, lake = self._sums(sides)
            except UsageError as error:
                settled[oid] = _of_unfit_value(oid, sides, error)
                continue
            if sides.unfit or server.different(lake).any():
                doubtful[oid] = sides, server.packed()
            else:
                settled[oid] = TableCompared(oid, sides, server.rows, Differences())
                _forget(sides)
        is_behind = self.rest.catalog.complete < self.source.end
        if doubtful and is_behind:
            self._bring()
        for oid in oids:
            if oid in settled:
                yield settled[oid]
                continue
            before, packed = doubtful.pop(oid)
            try:
                yield self._compared(oid, before, packed, lambda: next(noted))
            except UsageError as error:
                yield _of_unfit_value(oid, before, error)

    def _bring(self) -> None:
        complete, log = self.rest.catalog.complete, self.source.log
        if log.span.start > complete:
            raise self._lags(
                f"What differs cannot be told from what it lacks: of the log the server has what lies behind {log.span.start}."
            )
        self.tell("what was committed since is applied aside")
        try:
            self.rest.bring(self.source.changes)
        except MissingHistory as error:
            raise self._lags(f"What differs cannot be told from what it lacks: {error.message}.") from error

    def _lags(self, detail: str) -> MissingHistory:
        return MissingHistory(
            f'lake "{self.rest.store.url}" is complete up to {self.rest.catalog.complete}, and the server is at {self.source.end}',
            detail=detail, hint="Bring the lake up with tailrace replicate or mirror, and compare it then; or, if it is followed, in a moment.",
            lsn=self.rest.catalog.complete,
        )  # fmt: skip

    # -- a table -----------------------------------------------------------------------------------------------------------------------

    def _oids(self) -> list[int]:
        """Of the tables that are compared, in the order of their names."""
        names = {each.oid: (each.schema, each.name) for each in self.rest.tables}
        names |= {oid: (each.relation.schema, each.relation.name) for oid, each in self.source.tables.items()}
        wanted = tables_named(self.options.tables, names.values())
        return sorted((oid for oid, name in names.items() if not wanted or name in wanted), key=lambda oid: (names[oid], oid))

    def _sides(self, oid: int, noted: Callable[[], Path], *, is_own: bool) -> TableSides:
        table = self.rest.catalog.tables.get(oid)
        table = None if table is None or table.dropped is not None else table
        return sides_of(self.source, self.rest, self.source.tables.get(oid), table, noted, is_own=is_own)

    def _sums(self, sides: TableSides) -> tuple[BucketSums, BucketSums]:
        """The server's while the lake's are taken."""
        if sides.server is None:
            return BucketSums.none(), sides.lake.sums(self.runner)
        with ThreadPoolExecutor(1) as aside:
            server = aside.submit(sides.server.sums)
            lake = sides.lake.sums(self.runner)
            return server.result(), lake

    def _compared(self, oid: int, before: TableSides, packed: PackedSums, noted: Callable[[], Path]) -> TableCompared:
        """Of a table whose sums were not the same, now that nothing is lacking."""
        gone = oid not in self.source.tables and (
            oid not in self.rest.catalog.tables or self.rest.catalog.tables[oid].dropped is not None
        )
        if gone:
            return TableCompared(oid, before, 0, Differences())
        runner = LocalRunner()
        sides = self._sides(oid, noted, is_own=False)
        if sides.are_asked_alike(before):
            sides = replace(sides, server=before.server)  # its rows are the same, and summed up
            server, lake = packed.unpacked(), sides.lake.sums(runner)
        else:
            _forget(before)
            server, lake = self._sums(sides)
        rows_of = sides.server
        rows = sides.lake
        found = find_differences(
            (server, lake), lambda each: rows_of.numbers(each) if rows_of is not None else RowNumbers.joined([]),
            lambda each: rows.numbers(runner, each), is_keyed=bool(sides.columns.key),
        )  # fmt: skip
        listed: list[RowDifference] = []
        if found.rows and self.options.listed:
            ask = rows_of.rows if rows_of is not None else sides.lake.rows
            few = found.first(self.options.listed)
            names = sides.columns.names
            listed = row_differences(few, sides.columns.key, names, ask, sides.lake.rows, self.options.listed)
        return TableCompared(oid, sides, server.rows, found, listed)


@contextmanager
def verification(
    store: Store, dsn: str, database: str, runner: Runner, options: VerifyOptions = _AS_BY_DEFAULT,
    tell: Callable[[str], None] = lambda _: None,
) -> Iterator[Verification]:  # fmt: skip
    """Of this lake, with its server as it is now: for as long as the block lasts, the lake and the server's snapshot are at hand. Raises UsageError
    where they are not of one another."""
    with LakeAtRest.taken(store) as rest, scratch_folder(Path(tempfile.gettempdir()), "tailrace-compared-rows-") as folder:
        catalog = rest.catalog
        if (system := server_identity(dsn).system) != catalog.system:  # whose log has other LSNs
            raise UsageError(
                f'lake "{store.url}" is of system {catalog.system}, and the server is {system}',
                hint="Give the server that the lake is of: one that was initialised anew is another.", sqlstate="55000",
            )  # fmt: skip
        names = {read_table_name(each) for each in options.tables}

        def wanted(relation: Relation) -> bool:
            return not names or (relation.schema, relation.name) in names

        since, publications = catalog.complete, catalog.publications
        with ServerSource.taken(
            dsn, database, since, publications, options.state, options.warn, options.strategy, wanted
        ) as source:
            catalog.check_is_of(replace(source.log.span, publications=catalog.publications), store.url)
            yield Verification(source, rest, runner, folder, options, tell)


def _of_unfit_value(oid: int, sides: TableSides, error: UsageError) -> TableCompared:
    """One of the server's values is none that the lake's types hold; so no row of the table is compared, and the others are."""
    _forget(sides)
    why = error.message if not error.context else f"{error.message} ({error.context})"
    return TableCompared(
        oid, replace(sides, unfit=f"a value of the source cannot be in the lake: {why}"), 0, Differences(), is_compared=False
    )


def _forget(sides: TableSides) -> None:
    if sides.server is not None:
        sides.server.forget()
