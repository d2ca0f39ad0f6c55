"""Random walks: after every step each table of the source is the same in the lake, or is told of by its name and has a reason; every change is in the
logs once, also of tables that are gone. So it is whatever windows the log is cut into."""

from __future__ import annotations

import random
import warnings
from decimal import Decimal
from functools import partial

import pytest
from deltalake import DeltaTable
from psycopg import sql

from support.sampling import some_of
from support.servers import Server
from support.walks import Walk
from tailrace.catalog.names.qualified_names import write_table_name
from tailrace.decode import decode
from tailrace.lake.changelog import append_changes
from tailrace.lake.delta.table import find, tables_in
from tailrace.lake.folders import folder_name
from tailrace.lake.mirror import mirror
from tailrace.lake.position import position_of
from tailrace.lake.reading import read_table
from tailrace.lake.target_tables import TroubleWarning
from tailrace.model import FIRST_NORMAL_OID
from tailrace.pipeline import Scanning, open_feed, open_pipeline
from tailrace.window import WindowSize

pytestmark = pytest.mark.postgres

SEED = 20_261_122
TEXTS = {"numeric": "text", "arrays": "text"}
CURED = {"nan", "deep"}


@pytest.fixture(scope="module")
def server():
    with Server(18, test_decoding=False) as running:
        yield running


@pytest.mark.parametrize("walk", some_of([pytest.param(walk) for walk in range(3)], 3))
def test_walks(server, tmp_path, walk):
    _walk(server, tmp_path, SEED + walk, steps=4, works=14)


@pytest.mark.matrix
@pytest.mark.marathon
@pytest.mark.parametrize("walk", range(12))
def test_long_walks(server, tmp_path, walk):
    _walk(server, tmp_path, SEED + 100 + walk, steps=9, works=25)


@pytest.mark.marathon
@pytest.mark.parametrize("walk", range(60))
def test_walks_nobody_has_taken(server, tmp_path, walk):
    _walk(server, tmp_path, random.randrange(1 << 32), steps=9, works=25)


def _walk(server, tmp_path, seed, *, steps, works):
    print("seed", seed)
    chance, cuts = random.Random(seed), random.Random(f"windows {seed}")
    database = f"walk_{seed}"
    server.sql(f"CREATE DATABASE {database} STRATEGY file_copy")
    lake, log = Lake(tmp_path / "lake", _texts), Lake(tmp_path / "log", _places)
    start, styles, told = None, {}, {}
    compared = [0, 0]
    with server.connect(database) as connection:
        work = Walk(connection, chance)
        for _ in range(steps):
            work.go(works)
            if chance.random() < 0.2:
                styles = TEXTS
            stuck = any(table.troubles or table.log_troubles for table in [*work.live, *work.gone])
            since = start if not stuck and chance.random() < 0.5 else None
            pipeline = open_pipeline(server.data_dir, database, start_lsn=since)
            feed = _cut(server.data_dir, database, since, cuts) or pipeline
            for _ in range(chance.choice((1, 1, 2))):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", TroubleWarning)
                    mirrored, appended = mirror(feed, lake.folder, **styles), append_changes(feed, log.folder, **styles)
                _check_troubles(work, mirrored, styles, of_log=False)
                _check_troubles(work, appended, styles, of_log=True)
            _note_changes(told, pipeline, start or 0)
            start = feed.span.stop
            compared[0] += _check_mirror(work, lake, connection, styles)
            compared[1] += _check_log(work, log, feed.span, told, styles)
    assert all(compared), "no table was compared"


def _cut(data_dir, database, since, cuts):
    """The log in windows of a size that is drawn, or, sometimes, None: as one."""
    if cuts.random() < 0.2:
        return None
    window = WindowSize(wal_bytes=cuts.choice((1 << 15, 1 << 17, 1 << 19, 1 << 21)))
    return open_feed(data_dir, database, start_lsn=since, scanning=Scanning(window=window))


class Lake:
    """Its folder, and what its tables held when they were read last, as `how` says: one that has no new version holds the same."""

    def __init__(self, folder, how):
        self.folder, self._how = folder, how
        self._read = {}

    def rows(self, folder):
        table = DeltaTable(folder)
        name, version = table.metadata().id, table.version()
        if self._read.get(name, (None,))[0] != version:
            self._read[name] = version, self._how(read_table(folder))
        return self._read[name][1]


def _may_fail(table, styles, *, of_log):
    causes = table.troubles - (CURED if styles else set())
    return bool(causes | (table.log_troubles if of_log else set()))


def _check_troubles(work, found, styles, *, of_log):
    """Nobody is in trouble without a reason. A table that its own transaction renamed and dropped goes by the name that others knew."""
    failing = partial(_may_fail, styles=styles, of_log=of_log)
    reasons = {write_table_name(each.schema, each.name) for each in work.live if failing(each)}
    reasons |= {write_table_name(*name) for each in work.gone if failing(each) for name in each.names}
    unreasonable = {each.table: each.trouble for each in found if each.trouble is not None and each.table not in reasons}
    assert not unreasonable


def _check_mirror(work, lake, connection, styles):
    """Of all tables that have no excuse; how many those are."""
    sound = [table for table in work.live if not _may_fail(table, styles, of_log=False)]
    for table in sound:
        folder = lake.folder / folder_name(table.schema, table.name, table.oid)
        assert lake.rows(folder) == _source(connection, table), (table, folder)
    return len(sound)


def _source(connection, table):
    columns = sql.SQL(", ").join(sql.SQL("{}::text").format(sql.Identifier(name)) for name in table.columns)
    return sorted(map(repr, connection.execute(sql.SQL("SELECT {} FROM {}").format(columns, table.id)).fetchall()))


def _texts(table):
    return sorted(repr(tuple(_text(value) for value in row.values())) for row in table.to_pylist())


def _text(value):
    if isinstance(value, list):
        return "{" + ",".join(map(_element, value)) + "}"
    if isinstance(value, bool):
        return str(value).lower()
    return format(value, "f") if isinstance(value, Decimal) else None if value is None else str(value)


def _element(value):
    if value is None:
        return "NULL"
    text = _text(value)
    return (
        '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
        if not text or any(letter in ' "\\' for letter in text)
        else text
    )


def _note_changes(told, pipeline, since):
    """The places of all changes, by oid, as decoding tells them: those of the range that begins at `since`."""
    for stretch in pipeline.plan.stretches:
        for batch in decode(stretch, pipeline.source.segments.read):
            if batch.relation.oid >= FIRST_NORMAL_OID:
                commits = pipeline.plan.transactions.commit_lsn[batch.ordinal]
                places = zip(commits.tolist(), batch.lsn.tolist(), batch.sequence.tolist(), strict=True)
                told.setdefault(batch.relation.oid, []).extend(place for place in places if place[0] >= since)


def _check_log(work, log, span, told, styles):
    """The places of all changes, as they were told and as they lie in the logs; of how many tables."""
    lies = {position_of(find(path), span).oid: path for path in tables_in(log.folder)}
    sound = [table for table in [*work.live, *work.gone] if told.get(table.oid) and not _may_fail(table, styles, of_log=True)]
    for table in sound:
        assert log.rows(lies[table.oid]) == sorted(told[table.oid]), table
    for table in work.live:
        if table.oid in lies:
            assert lies[table.oid].name == folder_name(table.schema, table.name, table.oid)
    return len(sound)


def _places(table):
    return sorted(tuple(row.values()) for row in table.select(["commit_lsn", "lsn", "sequence"]).to_pylist())
