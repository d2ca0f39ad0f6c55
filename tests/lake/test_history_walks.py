"""Random walks of tables that have a history: as of any commit it holds what the server then had, in the versions that the server had; and so it is
whatever windows the log is cut into."""

from __future__ import annotations

import random
from datetime import UTC
from typing import Any

import psycopg
import pytest
from psycopg import sql

from lake.test_walks import _text
from support.sampling import some_of
from support.servers import Server
from support.walks import Table, Walk
from tailrace.apply.versions import PERIOD
from tailrace.feed import FeedSpan
from tailrace.lake.delta.rows import read_rows
from tailrace.lake.delta.snapshot import DeltaSnapshot
from tailrace.lake.delta.table import DeltaVersion, OpenDeltaTable
from tailrace.lake.lake import Lake
from tailrace.lake.position import position_of
from tailrace.model import Lsn
from tailrace.pipeline import open_pipeline
from tailrace.storage.local_store import LocalStore

pytestmark = pytest.mark.postgres
SEED = 20_261_126


@pytest.fixture(scope="module")
def server():
    with Server(18, test_decoding=False, settings={"track_commit_timestamp": "on"}) as running:
        yield running


@pytest.mark.parametrize("walk", some_of([pytest.param(walk) for walk in range(2)], 2))
def test_walks(server, tmp_path, walk):
    _walk(server, tmp_path, SEED + walk, works=50)


@pytest.mark.marathon
@pytest.mark.parametrize("walk", range(60))
def test_walks_nobody_has_taken(server, tmp_path, walk):
    _walk(server, tmp_path, random.randrange(1 << 32), works=200)


class FittingWalk(Walk):
    """Without what no lake holds."""

    def _misfit(self, table: Table) -> None:
        """A long text that is not sent again where another column changes."""
        wide = [name for name, kind in table.columns.items() if kind == "text"]
        if wide:
            value = sql.SQL("(SELECT string_agg(md5((id * n)::text), '') FROM generate_series(1, 90) n)")
            self._do("UPDATE {} SET {} = {} WHERE id % 3 = 0", table.id, sql.Identifier(wide[0]), value)

    def _retype(self, table: Table) -> None:
        """What a column had by default before it got another type is not known."""
        column = self.chance.choice(list(table.columns))
        if column != "id" and table.columns[column] == "int" and not table.log_troubles:
            name = sql.Identifier(column)
            self._do("ALTER TABLE {} ALTER {} TYPE bigint USING {} * 2::bigint", table.id, name, name)
            table.columns[column] = "bigint"


Row = tuple[tuple[int, str | None], ...]
"""By attribute number."""


class Moments:
    """What the tables of the source were, each time that something may have been committed."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self.seen: list[tuple[int, dict[int, tuple[bool, list[tuple[Row, Any]]]]]] = []

    def note(self, tables: list[Table]) -> None:
        at = int(Lsn.parse(self._connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()[0]))
        self.seen.append((at, {table.oid: (table.keyed, self._rows(table)) for table in tables}))

    def _rows(self, table: Table) -> list[tuple[Row, Any]]:
        numbers = self._connection.execute(
            "SELECT attnum, attname FROM pg_attribute WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped", [table.oid]
        ).fetchall()
        columns = sql.SQL(", ").join(sql.SQL("{}::text").format(sql.Identifier(name)) for _, name in numbers)
        query = sql.SQL("SELECT pg_xact_commit_timestamp(xmin), {} FROM {}").format(columns, table.id)
        return [
            (tuple(zip((number for number, _ in numbers), row[1:], strict=True)), row[0].astimezone(UTC) if table.keyed else None)
            for row in self._connection.execute(query)
        ]


def _walk(server, tmp_path, seed, *, works):
    print("seed", seed)
    chance, cuts = random.Random(seed), random.Random(f"cuts {seed}")
    database = f"history_{seed}"
    server.sql(f"CREATE DATABASE {database} STRATEGY file_copy")
    with server.connect(database) as connection:
        work, moments = FittingWalk(connection, chance), Moments(connection)
        for _ in range(works):
            work.go(1)
            moments.note(work.live)
    chosen = sorted(cuts.sample([at for at, _ in moments.seen[:-1]], 4))
    histories = []
    for name, ends in (("at once", []), ("cut", chosen)):
        lake = Lake.open(LocalStore(tmp_path / name), layout="history")
        for end in [*ends, None]:
            start = lake.catalog.complete if lake.catalog else None
            lake.apply(open_pipeline(server.data_dir, database, start_lsn=start, upto_lsn=end and Lsn(end)))
        histories.append(_histories(lake))
    at_once, cut = histories
    compared = 0
    for at, tables in moments.seen:
        for oid, (keyed, rows) in tables.items():
            expected = sorted(map(repr, rows))
            for history in histories:
                assert oid in history or not rows
                assert _as_of(history.get(oid, []), at, rows, keyed) == expected, (oid, Lsn(at))
            compared += len(rows)
    assert compared > 100
    keyed = {oid for _, tables in moments.seen for oid, (is_keyed, _) in tables.items() if is_keyed}
    assert at_once.keys() == cut.keys()
    for oid in keyed:
        assert _plain(at_once.get(oid, [])) == _plain(cut.get(oid, []))


def _histories(lake: Lake) -> dict[int, list[tuple[dict[int, str | None], dict[str, Any]]]]:
    """By oid, each version as texts by attribute number, and its period."""
    found = {}
    assert lake.catalog is not None
    for oid, each in lake.catalog.tables.items():
        if each.version < 0:
            continue  # nothing was committed to it
        store = lake.store.below(each.folder)
        snapshot = DeltaSnapshot.read(store)
        position = position_of(OpenDeltaTable(DeltaVersion(store, snapshot)), _span(lake))
        numbers = {name: number for number, name, _ in position.columns}
        assert [*numbers, *PERIOD.names] == snapshot.schema.names
        found[oid] = [
            (
                {numbers[name]: _text(value) for name, value in row.items() if name in numbers},
                {name: row[name] for name in PERIOD.names},
            )
            for batch in read_rows(store, snapshot)
            for row in batch.to_pylist()
        ]
    return found


def _span(lake: Lake) -> FeedSpan:
    catalog = lake.catalog
    assert catalog is not None
    return FeedSpan(catalog.system, catalog.timeline, Lsn(0), catalog.complete, catalog.database)


def _as_of(history, at, rows, keyed):
    """In the columns that the table had then; `at` lies behind the commit."""
    numbers = [number for number, _ in rows[0][0]] if rows else []
    return sorted(
        repr((tuple((number, values[number]) for number in numbers), period["valid_from"].astimezone(UTC) if keyed else None))
        for values, period in history
        if period["valid_from_lsn"] < at and (period["valid_to_lsn"] is None or period["valid_to_lsn"] >= at)
    )


def _plain(history):
    return sorted(repr((sorted(values.items()), period)) for values, period in history)
