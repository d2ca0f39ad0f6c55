"""Lake tables of what publications publish: a mirror is what a server's own copy by the same publications would be, and the log of changes has what
pgoutput sends."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from support.pgoutput import Sent, read_sent
from support.servers import Server
from tailrace import tables_to_copy
from tailrace.errors import PublicationWarning
from tailrace.lake.changelog import append_changes
from tailrace.lake.mirror import Mirrored, mirror
from tailrace.lake.reading import read_table
from tailrace.lake.target_tables import TroubleWarning
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner, Scanning, open_feed
from tailrace.pipeline.log_feed import LogFeed
from tailrace.pipeline.open_snapshot import define, open_snapshot
from tailrace.publications.commands.statements import parse_statement
from tailrace.publications.table_to_copy import TableToCopy
from tailrace.replication.slot_location import SlotLocation
from tailrace.window import WindowSize

pytestmark = pytest.mark.postgres

TABLES = (
    "CREATE TABLE t (id int PRIMARY KEY, v int, secret text)",
    "CREATE TABLE whole (id int, v text, w int)",
    "ALTER TABLE whole REPLICA IDENTITY FULL",
    "CREATE TABLE log (id int PRIMARY KEY, v text)",
    "CREATE TABLE p (id int PRIMARY KEY, v int, secret text) PARTITION BY RANGE (id)",
    "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (50)",
    "CREATE TABLE p2 (secret text, v int, id int NOT NULL)",
    "ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (50) TO (200)",
    "CREATE TABLE other (id int PRIMARY KEY)",
    "CREATE PUBLICATION w1 FOR TABLE t (id, v) WHERE (id > 20), whole WHERE (w % 2 = 0)",
    "CREATE PUBLICATION w2 FOR TABLE t (id, v) WHERE (id < 5), p (id, v) WHERE (id % 3 = 0) WITH (publish_via_partition_root = true)",
    "CREATE PUBLICATION w3 FOR TABLE log WITH (publish = 'insert')",
)
NAMES = "w1, w2, w3"
FIRST = (
    *(f"INSERT INTO {table} (id, v) SELECT n, n * 2 FROM generate_series(1, 100) n" for table in ("t", "p", "log")),
    "INSERT INTO whole SELECT n % 7, n::text, n FROM generate_series(1, 60) n",
    "INSERT INTO other VALUES (1)",
    "UPDATE t SET id = id + 100 WHERE id % 4 = 0",
    "DELETE FROM log WHERE id > 3",
    "UPDATE p SET id = 102 WHERE id = 99",
)
SECOND = (
    "ALTER TABLE whole ADD late float DEFAULT random()",
    "UPDATE whole SET w = w + 1 WHERE id = 3",
    "ALTER TABLE t RENAME v TO value",
    "UPDATE t SET id = id - 100 WHERE id > 100; UPDATE t SET value = NULL, secret = 'told' WHERE id % 5 = 0",
    "BEGIN; DELETE FROM t WHERE id % 6 = 0; INSERT INTO p VALUES (150, 1, 'x'), (151, 2, 'y'); DELETE FROM p WHERE id < 30; COMMIT",
    "UPDATE p SET id = 3 WHERE id = 150",
    "UPDATE p SET v = -v WHERE id % 2 = 0",
    "TRUNCATE p1, log",
)
WINDOWS = Scanning(window=WindowSize(wal_bytes=1 << 15))


@pytest.mark.matrix
@pytest.mark.parametrize("major", [15, 16, 17, 18])
def test_what_is_kept_is_what_is_published(major: int, tmp_path: Path) -> None:
    with Server(major, test_decoding=False) as server:
        server.say(*TABLES)
        start = Lsn.parse(str(server.value("SELECT lsn FROM pg_create_logical_replication_slot('s', 'pgoutput')")))
        server.say(*FIRST)
        server.checkpoint()
        middle = Lsn.parse(str(server.value("SELECT pg_current_wal_insert_lsn()")))
        server.say(*SECOND)
        server.checkpoint()
        query = (
            "SELECT data FROM pg_logical_slot_peek_binary_changes('s', NULL, NULL, 'proto_version', '1', 'publication_names', %s)"
        )
        sent = read_sent(bytes(row[0]) for row in server.sql(query, [NAMES]))
        oids = dict(server.sql("SELECT oid::int, 'public.' || relname FROM pg_class WHERE relkind IN ('r', 'p')"))
        copied = tables_to_copy(server.data_dir, server.dbname, NAMES)
        their_rows = {table.name: Counter(server.sql(table.query)) for table in copied}
        text = server.value("SELECT pg_get_expr(prqual, prrelid) FROM pg_publication_rel WHERE prrelid = 'p'::regclass")
        server.stop()
        for upto in (middle, None):
            feed = open_feed(server.data_dir, server.dbname, start_lsn=start, upto_lsn=upto, scanning=WINDOWS).publishing(NAMES)
            done = mirror(feed, tmp_path / "mirror")
            append_changes(feed, tmp_path / "log")
        _check_mirror(done, copied, their_rows, tmp_path / "mirror")
        _check_log(sent, oids, tmp_path / "log")
        assert {table.name: table.copied for table in copied}["p"] == text
        _check_refused(feed, server, tmp_path)


def _check_mirror(done: list[Mirrored], copied: list[TableToCopy], their_rows: dict[str, Counter[tuple]], folder: Path) -> None:
    assert [(each.table, each.trouble) for each in done] == [(f"public.{table.name}", None) for table in copied]
    assert [(table.name, table.columns) for table in copied] == [
        ("log", ("id", "v")), ("p", ("id", "v")), ("t", ("id", "value")), ("whole", ("id", "v", "w", "late")),
    ]  # fmt: skip
    for table in copied:
        rows = read_table(folder / f"public.{table.name}")
        assert tuple(rows.column_names) == table.columns
        ours = Counter(tuple(row.values()) for row in rows.to_pylist())
        if table.name == "p":  # TRUNCATE of a partition is not published
            ours = Counter({row: count for row, count in ours.items() if row[0] >= 50})
        if table.name == "log":  # nor what was deleted
            assert len(ours) == 100
            continue
        assert ours == their_rows[table.name], table.name


def _check_log(sent: list[Sent], oids: dict[int, str], folder: Path) -> None:
    theirs = Counter((oids[each.relations[0]], each.kind) for transaction in sent for each in transaction.changes)
    ours: Counter[tuple[str, str]] = Counter()
    for path in sorted(folder.iterdir()):
        ours.update((path.name, kind) for kind in read_table(path)["kind"].to_pylist())
    assert ours == Counter({what: count for what, count in theirs.items() if what[1] != "truncate"})


def _check_refused(feed: LogFeed, server: Server, folder: Path) -> None:
    """What is not published is not there; nor is a mirror of others that of these."""
    with pytest.warns(TroubleWarning):
        (done,) = mirror(feed, folder / "named", ["other"])
    assert done.trouble is not None
    assert (done.trouble.message, done.trouble.sqlstate) == ('relation "public.other" is not part of the publication', "42704")
    with pytest.warns(TroubleWarning):
        others = mirror(feed.publishing("w1"), folder / "mirror")
    assert all(each.trouble is not None and "holds something else" in each.trouble.message for each in others)
    missing = open_feed(server.data_dir, server.dbname).publishing(["w3", "nope"])
    if server.major < 18:
        with pytest.raises(Exception, match='publication "nope" does not exist'):
            mirror(missing, folder / "missing")
    else:
        with pytest.warns(PublicationWarning, match='skipped loading publication "nope"'):
            mirror(missing, folder / "missing")


def test_publications_of_a_state_location(tmp_path: Path) -> None:
    """Of a server that knows none, and as they were when each transaction committed."""
    with Server(16, test_decoding=False) as server:
        server.say("CREATE TABLE t (id int PRIMARY KEY, v text)", "CHECKPOINT")
        location = None
        for number, statement in enumerate(
            ("CREATE PUBLICATION mine FOR TABLE t (id) WHERE (id > 5)", "ALTER PUBLICATION mine SET TABLE t")
        ):
            here = open_snapshot(server.data_dir, server.dbname, LocalRunner())
            location = location or SlotLocation.open_or_create(tmp_path / "state", here.system)
            define(location.publications, here, parse_statement(statement), statement)
            server.say(f"INSERT INTO t SELECT n, 'v' FROM generate_series({number}, 19, 2) n", "CHECKPOINT")
        server.stop()
        (table,) = tables_to_copy(server.data_dir, server.dbname, "mine", state=tmp_path / "state")
        assert table.query == "SELECT id, v FROM ONLY public.t"
        feed = open_feed(server.data_dir, server.dbname).publishing("mine", tmp_path / "state")
        (done,) = append_changes(feed, tmp_path / "log")
        rows = sorted(read_table(tmp_path / "log" / "public.t")["new"].to_pylist(), key=lambda row: row["id"])
        assert done.rows == len(rows) == 17
        assert rows == [{"id": n, "v": "v" if n % 2 else None} for n in range(1, 20) if n % 2 or n > 5]


def test_tables_with_the_same_columns(tmp_path: Path) -> None:
    """They are decoded together, and told apart whatever order their rows come in: of one, what was rolled back had been written first."""
    with Server(18, test_decoding=False) as server:
        server.say(
            "CREATE TABLE b (id int PRIMARY KEY, v text)", "CREATE TABLE a (id int PRIMARY KEY, v text)",
            "CREATE PUBLICATION p FOR ALL TABLES", "BEGIN; INSERT INTO b VALUES (1, 'b'); ROLLBACK",
            "INSERT INTO a VALUES (1, 'a')", "INSERT INTO b VALUES (2, 'b')", "UPDATE a SET v = 'a'",
        )  # fmt: skip
        server.stop()
        assert {each.trouble for each in mirror(open_feed(server.data_dir, server.dbname).publishing("p"), tmp_path)} == {None}
    for name, number in (("a", 1), ("b", 2)):
        assert read_table(tmp_path / f"public.{name}").to_pylist() == [{"id": number, "v": name}]
