"""What a snapshot sees on the pages of a table is what the server copies under it."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from support.decoding import opened
from support.every_type import comparable, fill
from support.live import Slot
from support.servers import Server
from tailrace.changes import row_schema
from tailrace.client.copy_options import CopyStrategy
from tailrace.client.server_snapshot import ServerSnapshot
from tailrace.client.table_pages import TablePages, exported_snapshot
from tailrace.client.table_part import TablePart
from tailrace.errors import PeerError
from tailrace.model import Relation
from tailrace.types.registry import ArrowStyle
from tailrace.wire.copied_rows import CopiedRows

pytestmark = pytest.mark.postgres
MAJORS = [16, *(pytest.param(major, marks=pytest.mark.matrix) for major in (14, 15, 17, 18))]
SETTINGS = {"max_prepared_transactions": "10", "autovacuum": "off", "full_page_writes": "on"}
TABLE = (
    "CREATE TABLE t (id int PRIMARY KEY, gone text, n numeric, v text) WITH (fillfactor = 70)",
    "INSERT INTO t SELECT g, 'gone', g / 7.0, 'value ' || g FROM generate_series(1, 400) g",
    "ALTER TABLE t DROP COLUMN gone",
    "ALTER TABLE t ADD COLUMN later int DEFAULT 42, ADD COLUMN big text",
)


@contextmanager
def _server(major: int = 16, *, checksums: bool = True) -> Iterator[tuple[Server, Slot]]:
    with Server(major, SETTINGS, dbname="app", checksums=checksums) as server:
        slot = Slot.on(server)
        server.say(*TABLE)
        yield server, slot


def _relation(server: Server, slot: Slot, name: str = "t") -> Relation:
    server.sql("SELECT pg_switch_wal()")
    pipeline = opened(server.data_dir, start_lsn=slot.start_lsn)
    relation = pipeline.history.relation_named("public", name, int(pipeline.span.stop))
    assert relation is not None
    return relation


@contextmanager
def _snapshot(server: Server) -> Iterator[ServerSnapshot]:
    taken = ServerSnapshot.taken(server.dsn(), "app", 2, print, lambda: False, awaits_older=False)
    with taken as snapshot:
        assert snapshot is not None
        yield snapshot


def _pages(snapshot: ServerSnapshot, relation: Relation, strategy: CopyStrategy) -> dict[int, TablePages]:
    return snapshot.in_pages(snapshot.readable_files(snapshot.tables, strategy), [relation], "", strategy)


def _both(snapshot: ServerSnapshot, relation: Relation) -> tuple[pa.Table, pa.Table, list[str]]:
    """The rows as the server copies them, and as we read them; and what we asked the server for meanwhile."""
    rows = CopiedRows(relation, ArrowStyle())
    pages = _pages(snapshot, relation, CopyStrategy.PAGES)
    assert pages.keys() == {relation.oid}
    asked: list[str] = []

    class Spied(TablePart):
        def _copied(self, session: Any, where: str) -> Iterator[Any]:
            asked.append(where)
            return super()._copied(session, where)

    (part,) = snapshot.parts(rows, None, pages=pages[relation.oid])
    spied = Spied(part.sessions, part.rows, part.where, part.blocks, pages=part.pages)
    (plain,) = snapshot.parts(rows, None)
    ours, theirs = (pa.Table.from_batches(each(), row_schema(relation)) for each in (spied, plain))
    return theirs, ours, asked


def _sorted(rows: pa.Table) -> list[Any]:
    return sorted(rows.to_pylist(), key=str)


@pytest.mark.parametrize("major", MAJORS)
def test_every_state_of_a_tuple(major: int) -> None:
    with _server(major) as (server, slot), ExitStack() as stack:
        open_, other, third = (stack.enter_context(server.connect(autocommit=False)) for _ in range(3))
        server.say(
            "VACUUM (FREEZE) t",
            "INSERT INTO t SELECT g, g, 'new', NULL, repeat('compressed ', 500) FROM generate_series(501, 600) g",
            "INSERT INTO t SELECT g, g, 'toasted', 1, (SELECT string_agg(md5(g::text || i), '') FROM generate_series(1, 300) i) "
            "FROM generate_series(601, 605) g",
            "UPDATE t SET v = 'hot' WHERE id % 10 = 0",
            "DELETE FROM t WHERE id % 10 = 1",
            "BEGIN; DELETE FROM t WHERE id % 10 = 2; INSERT INTO t (id) VALUES (1001); ROLLBACK",
            "BEGIN; INSERT INTO t (id) VALUES (1002); SAVEPOINT s; INSERT INTO t (id) VALUES (1003); ROLLBACK TO s; COMMIT",
            "BEGIN; DELETE FROM t WHERE id % 10 = 3; INSERT INTO t (id) VALUES (1004); PREPARE TRANSACTION 'p'",
        )
        # Of a row that others lock, an updater is among the members of a multixact.
        other.execute("SELECT FROM t WHERE id BETWEEN 44 AND 94 AND id % 10 = 4 FOR KEY SHARE")
        third.execute("UPDATE t SET v = 'beside a lock' WHERE id BETWEEN 44 AND 64 AND id % 10 = 4")
        third.commit()
        third.execute("UPDATE t SET v = 'open beside a lock' WHERE id BETWEEN 74 AND 94 AND id % 10 = 4")
        open_.execute("SELECT FROM t WHERE id % 10 = 5 FOR UPDATE")
        open_.execute("DELETE FROM t WHERE id % 10 = 6")
        open_.execute("SAVEPOINT s")
        open_.execute("INSERT INTO t (id) VALUES (1005)")
        open_.execute("UPDATE t SET id = id + 2000 WHERE id % 10 = 7")
        open_.execute("RELEASE s")
        relation = _relation(server, slot)
        with _snapshot(server) as snapshot:
            third.commit()  # what is in progress to the snapshot, pg_xact calls committed
            open_.commit()
            server.say(
                "COMMIT PREPARED 'p'", "DELETE FROM t WHERE id % 10 = 8", "INSERT INTO t (id) SELECT generate_series(5001, 9000)"
            )
            server.say("VACUUM t")
            theirs, ours, asked = _both(snapshot, relation)
        other.rollback()
    assert _sorted(ours) == _sorted(theirs)
    assert len(ours) > 400
    assert asked
    assert all(where.startswith(" WHERE ctid = ANY (") for where in asked)
    assert sum(where.count("(") - 1 for where in asked) < 20  # multixacts and TOAST alone


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(2, 20))])
def test_under_load(seed: int) -> None:
    """Pages are read while they are written."""
    with _server() as (server, slot):
        relation, done = _relation(server, slot), threading.Event()
        writers = [threading.Thread(target=_write, args=(server, seed * 10 + number, done)) for number in range(3)]
        for each in writers:
            each.start()
        try:
            for _ in range(3):
                with _snapshot(server) as snapshot:
                    theirs, ours, _ = _both(snapshot, relation)
                assert _sorted(ours) == _sorted(theirs)
        finally:
            done.set()
            for each in writers:
                each.join()


def _write(server: Server, seed: int, done: threading.Event) -> None:
    dice = random.Random(seed)
    with server.connect(autocommit=False) as connection:
        while not done.is_set():
            try:
                for _ in range(dice.randrange(1, 5)):
                    connection.execute("SAVEPOINT s")
                    _change(connection, dice)
                    connection.execute("ROLLBACK TO s" if dice.random() < 0.3 else "RELEASE s")
                connection.execute("COMMIT" if dice.random() < 0.7 else "ROLLBACK")
                if dice.random() < 0.1:
                    server.say(dice.choice(("VACUUM t", "VACUUM (FREEZE) t", "CHECKPOINT")))
            except psycopg.Error:  # a deadlock, a key that is there
                connection.rollback()


def _change(connection: Any, dice: random.Random) -> None:
    first, some = dice.randrange(1, 3000), dice.randrange(1, 300)
    which = f"id BETWEEN {first} AND {first + some}"
    match dice.randrange(5):
        case 0:
            connection.execute(
                f"INSERT INTO t (id, v) SELECT g, md5(g::text) FROM generate_series({first}, {first + some}) g ON CONFLICT DO NOTHING"
            )
        case 1:
            connection.execute(f"UPDATE t SET v = v || '{dice.randrange(100)}', n = -n WHERE {which}")
        case 2:
            connection.execute(f"DELETE FROM t WHERE {which}")
        case 3:
            connection.execute(
                f"SELECT FROM t WHERE {which} FOR {dice.choice(('UPDATE', 'SHARE', 'KEY SHARE', 'NO KEY UPDATE'))}"
            )
        case _:
            long = f"(SELECT string_agg(md5(id::text || i), '') FROM generate_series(1, {dice.randrange(300)}) i)"
            connection.execute(f"UPDATE t SET big = {long} WHERE {which} AND id % 50 = 0")


@pytest.mark.parametrize(
    "major", [each for each in MAJORS if each == 16 or each.values != (14,)]
)  # whose numerics have no negative scale
def test_every_type(major: int) -> None:
    with _server(major) as (server, slot):
        tables, read = fill(server), 0
        for name in tables:
            relation = _relation(server, slot, name)
            with _snapshot(server) as snapshot:
                if not _pages(snapshot, relation, CopyStrategy.PAGES):
                    continue  # what prints names, only the server copies
                theirs, ours, _ = _both(snapshot, relation)
            assert comparable(ours) == comparable(theirs)
            read += len(ours)
        assert read


def test_what_lacks_is_said() -> None:
    with _server(checksums=False) as (server, slot):
        relation = _relation(server, slot)
        with _snapshot(server) as snapshot, pytest.raises(PeerError, match="without data checksums") as raised:
            snapshot.readable_files(snapshot.tables, CopyStrategy.PAGES)
        assert raised.value.sqlstate == "55000"
        with _snapshot(server) as snapshot:
            assert _pages(snapshot, relation, CopyStrategy.AUTO) == {}


def test_tables_that_nobody_wants() -> None:
    """No checkpoint is made for them."""
    with _server() as (server, _):
        server.say("CREATE TABLE other (id int PRIMARY KEY)", "CREATE PUBLICATION p FOR TABLE other")
        oid, at = server.value("SELECT 'other'::regclass::oid::bigint"), "SELECT checkpoint_lsn FROM pg_control_checkpoint()"
        before = server.value(at)
        with _snapshot(server) as snapshot:
            assert set(snapshot.published(("p",))) == {oid}
            assert set(snapshot.published(())) == set(snapshot.published(("p", "in the state location"))) == set(snapshot.tables)
            assert snapshot.readable_files((), CopyStrategy.PAGES) is None
            assert server.value(at) == before
            assert snapshot.readable_files([oid], CopyStrategy.PAGES) is not None
        assert server.value(at) != before


def test_a_checkpoint_that_takes_long() -> None:
    """Who is to stop does not wait for it, and the session goes on."""
    with _server() as (server, slot):
        relation = _relation(server, slot)
        checkpointer = int(server.value("SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'"))
        with _snapshot(server) as snapshot:
            os.kill(checkpointer, signal.SIGSTOP)
            try:
                assert snapshot.readable_files(snapshot.tables, CopyStrategy.PAGES, lambda: True) is None
            finally:
                os.kill(checkpointer, signal.SIGCONT)
            theirs, ours, _ = _both(snapshot, relation)
    assert _sorted(ours) == _sorted(theirs)


def test_a_snapshot_that_does_not_name_all_subtransactions() -> None:
    """Which one of them belongs to a transaction that runs, only the server knows."""
    whole = b"vxid:2/52\npid:1\nxmin:737\nxmax:745\nxcnt:2\nxip:740\nxip:737\nsof:0\nsxcnt:1\nsxp:741\nrec:0\n"
    known = exported_snapshot(whole)
    assert known is not None
    assert (known.xmin, known.xmax, known.running.tolist()) == (737, 745, [737, 740, 741])
    assert exported_snapshot(whole.replace(b"sof:0\nsxcnt:1\nsxp:741", b"sof:1")) is None
    assert exported_snapshot(b"") is None
    assert exported_snapshot(whole.replace(b"sxp:741\n", b"")) is None
    assert exported_snapshot(whole.replace(b"rec:0\n", b"")) is None
