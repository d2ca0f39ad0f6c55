"""Snapshots of slots on a live server's log: exported and used as the server's are, seeing exactly what the slot does not give; COPY under them."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.pq import DiagnosticField, ExecStatus

from support.served import Served
from support.servers import Server
from support.standbys import caught_up, standby_of
from support.waiting import until

pytestmark = pytest.mark.postgres
KEEPS: dict[str, str | int] = {"wal_keep_size": "500MB"}
MAJORS = [pytest.param(each, marks=[] if each == 18 else pytest.mark.matrix) for each in (18, 14, 15, 16, 17)]
CREATE = "CREATE_REPLICATION_SLOT {} LOGICAL pgoutput "
TABLES = (
    "CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t VALUES (1, 'a'), (2, E'b\\tc'), (3, NULL)", "CREATE VIEW seen AS SELECT 1 AS x",
    "CREATE SCHEMA s", 'CREATE TABLE s."T\'x" ("Id" int, "a b" text)', "INSERT INTO s.\"T'x\" VALUES (1, 'x')",
    "CREATE TABLE part (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)", "CREATE TABLE part1 PARTITION OF part FOR VALUES FROM (0) TO (10)",
    "INSERT INTO part VALUES (1, 'p')", "CREATE PUBLICATION narrow FOR TABLE t (id) WHERE (id < 3)",
)  # fmt: skip
Told = list[tuple[str, str, str]]


def _said(connection: psycopg.Connection[Any], statement: str) -> tuple[str, str, str]:
    """SQLSTATE or tag, message or data, and the transaction's status."""
    raw = connection.pgconn
    result = raw.exec_(statement.encode())
    rows: list[bytes] = []
    while result.status == ExecStatus.COPY_OUT:
        while (found := raw.get_copy_data(0))[0] > 0:
            rows.append(bytes(found[1]))
        result = raw.get_result()
        raw.get_result()
    status = str(raw.transaction_status)
    if result.error_message:
        fields = (DiagnosticField.SQLSTATE, DiagnosticField.MESSAGE_PRIMARY)
        sqlstate, message = ((result.error_field(each) or b"").decode() for each in fields)
        return sqlstate, message, status
    if statement.startswith("CREATE_REPLICATION_SLOT"):
        return ("CREATE_REPLICATION_SLOT", "a snapshot" if result.get_value(0, 2) else "none", status)
    return ((result.command_status or b"").decode(), b"".join(rows).decode("latin-1"), status)


BLOCKS: Sequence[Sequence[str]] = (
    [CREATE + "USE_SNAPSHOT"], ["BEGIN", CREATE + "USE_SNAPSHOT", "SELECT 1", "ROLLBACK"],
    ["BEGIN ISOLATION LEVEL REPEATABLE READ", CREATE + "USE_SNAPSHOT", "COMMIT"],
    ["BEGIN ISOLATION LEVEL SERIALIZABLE, READ ONLY", CREATE + "USE_SNAPSHOT", "ROLLBACK"],
    ["BEGIN READ ONLY ISOLATION LEVEL REPEATABLE READ", "SELECT 1", CREATE + "USE_SNAPSHOT", "ROLLBACK"],
    ["BEGIN READ ONLY ISOLATION LEVEL REPEATABLE READ", "SAVEPOINT x", CREATE + "USE_SNAPSHOT", "ROLLBACK"],
    ["BEGIN READ ONLY ISOLATION LEVEL REPEATABLE READ", "SAVEPOINT x", "RELEASE x", "RELEASE x", "COMMIT"],
    ["BEGIN", CREATE + "EXPORT_SNAPSHOT", "ROLLBACK"], ["BEGIN", CREATE, "ROLLBACK"], [CREATE],
    [
        "BEGIN READ ONLY ISOLATION LEVEL REPEATABLE READ", CREATE + "USE_SNAPSHOT", "SELECT 1", "COPY t TO STDOUT", "COPY t (v) TO STDOUT",
        "SHOW transaction_isolation", "COPY (SELECT id FROM ONLY t WHERE (id < 3) OR (v = 'x')) TO STDOUT", "COPY t TO STDOUT (FORMAT binary)",
        "COPY s.\"T'x\" (\"Id\", \"a b\") TO STDOUT", "COPY (SELECT id, v FROM part) TO STDOUT", "COMMIT",
    ],
    ["SET TRANSACTION SNAPSHOT '00000003-000000D8-1'"], ["BEGIN", "SET TRANSACTION SNAPSHOT '00000003-000000D8-1'", "ROLLBACK"],
    ["BEGIN ISOLATION LEVEL REPEATABLE READ", "SET TRANSACTION SNAPSHOT '0FFF0003-000000D8-1'", "SELECT 1", "COMMIT"],
    ["BEGIN ISOLATION LEVEL REPEATABLE READ", "SET TRANSACTION SNAPSHOT '../foo'", "ROLLBACK"],
    ["BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT 1", "SET TRANSACTION SNAPSHOT '00000003-000000D8-1'", "ROLLBACK"],
    ["BEGIN ISOLATION LEVEL REPEATABLE READ", "SAVEPOINT x", "SET TRANSACTION SNAPSHOT '00000003-000000D8-1'", "ROLLBACK"],
    ["BEGIN", "SELECT 1", "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "ROLLBACK"],
    ["BEGIN", "SAVEPOINT a", "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "ROLLBACK"],
    ["BEGIN", "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY", CREATE + "USE_SNAPSHOT", "COPY t TO STDOUT", "ROLLBACK"],
    ["SAVEPOINT a"], ["ROLLBACK TO a"], ["RELEASE a"], ["BEGIN", "ROLLBACK TO a", "ROLLBACK"],
    ["COPY nope TO STDOUT"], ["COPY t (nope) TO STDOUT"], ["COPY (SELECT nope FROM t) TO STDOUT"], ["COPY part TO STDOUT"],
    ["COPY (SELECT id FROM t WHERE nope) TO STDOUT"], ["COPY nos.t TO STDOUT"], ["COPY t TO STDOUT (FORMAT xml)"],
    ["COPY (SELECT id FROM nope) TO STDOUT"], ["COPY t TO STDOUT (FORMAT text)"], ["COPY seen TO STDOUT"],
)  # fmt: skip
"""Each is said on a connection of its own."""


def _told(side: Server | Served) -> Told:
    told: Told = []
    for number, block in enumerate(BLOCKS):
        with psycopg.connect(side.dsn(), autocommit=True, replication="database") as connection:
            for statement in block:
                told.append((statement, *_said(connection, statement.format(f"a{number}"))[:2]))
    return told


@pytest.mark.parametrize("major", MAJORS)
def test_what_is_said_of_snapshots_is_what_the_server_says(major: int, tmp_path: Path) -> None:
    with Server(major, KEEPS | {"max_replication_slots": 40}) as server:
        server.say(*(each for each in TABLES if "WHERE" not in each or major > 14))
        with Served(server.dsn(), tmp_path / "state") as served:
            with served.connect() as connection:
                connection.execute(b"SELECT 1")
            assert _told(served) == _told(server)


def test_an_exported_snapshot(tmp_path: Path) -> None:
    """It lasts until the next command of who has exported it; who uses it already goes on, and another database has nothing of it."""
    with Server(18, KEEPS) as server:
        server.say(*TABLES, "CREATE DATABASE other")
        with Served(server.dsn(), tmp_path / "state") as served:
            exporter = psycopg.connect(served.dsn(), autocommit=True, replication="database")
            name = exporter.pgconn.exec_(CREATE.format("s").encode()).get_value(0, 2)
            assert name is not None
            server.say("INSERT INTO t VALUES (4, 'later')")
            use = f"SET TRANSACTION SNAPSHOT '{name.decode()}'"
            user = psycopg.connect(served.dsn(), autocommit=True)
            for statement in ("BEGIN ISOLATION LEVEL REPEATABLE READ", use):
                assert _said(user, statement)[0] in ("BEGIN", "SET")
            assert _said(user, "COPY t (id) TO STDOUT")[:2] == ("COPY 3", "1\n2\n3\n")
            with served.connect(dbname="other") as connection:
                connection.execute(b"BEGIN ISOLATION LEVEL REPEATABLE READ")
                assert _said(connection, use)[:2] == ("0A000", "cannot import a snapshot from a different database")
            with served.connect() as connection:
                connection.execute(b"BEGIN ISOLATION LEVEL SERIALIZABLE")
                expected = "a serializable transaction cannot import a snapshot from a non-serializable transaction"
                assert _said(connection, use)[:2] == ("0A000", expected)
            exporter.execute(b"IDENTIFY_SYSTEM")
            with served.connect() as connection:
                connection.execute(b"BEGIN ISOLATION LEVEL REPEATABLE READ")
                assert _said(connection, use)[:2] == ("42704", f'snapshot "{name.decode()}" does not exist')
            assert _said(user, "COPY t (id) TO STDOUT")[:2] == ("COPY 3", "1\n2\n3\n")
            assert _said(user, "COMMIT")[0] == "COMMIT"
            assert _said(user, "COPY t (id) TO STDOUT")[0] == "COPY 4"
            for each in (exporter, user):
                each.close()
            held = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tailrace' AND backend_type = 'client backend'"
            until(lambda: server.value(held) == 0)


@contextmanager
def _inserts(server: Server, clients: int) -> Iterator[None]:
    """Ids that are inserted by several at once, some of them in savepoints that are rolled back, and some of the transactions prepared."""
    stops = threading.Event()

    def write(client: int) -> None:
        dice, number = random.Random(client), client * 10**6
        with server.connect() as connection:
            connection.execute(f"SET synchronous_commit = {('on', 'off')[client % 2]}".encode())
            while not stops.is_set():
                number += 2
                end = "COMMIT" if dice.random() < 0.9 else f"PREPARE TRANSACTION 'p{client}'; COMMIT PREPARED 'p{client}'"
                for statement in (
                    "BEGIN", "SAVEPOINT a", f"INSERT INTO ids VALUES ({number})", f"{dice.choice(('ROLLBACK TO', 'RELEASE'))} a",
                    f"INSERT INTO ids VALUES ({number + 1})", *end.split("; "),
                ):  # fmt: skip
                    connection.execute(statement.encode())
                stops.wait(0.005)  # or the table outgrows the trials

    threads = [threading.Thread(target=write, args=(client,)) for client in range(1, clients + 1)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stops.set()
        for thread in threads:
            thread.join()


@pytest.mark.parametrize(
    "trials", [pytest.param(3, id="a-few", marks=pytest.mark.soak), pytest.param(80, id="many", marks=pytest.mark.marathon)]
)
def test_copy_and_stream_meet(trials: int, tmp_path: Path) -> None:
    """What a slot gives is what its snapshot has not seen, whoever writes meanwhile."""
    with Server(18, KEEPS | {"max_prepared_transactions": 10}) as server:
        server.say("CREATE TABLE ids (id int)", "INSERT INTO ids SELECT generate_series(1, 100)")
        with Served(server.dsn(), tmp_path / "state") as served, _inserts(server, 6):
            for trial in range(trials):
                if trial % 10 == 9:
                    server.checkpoint()  # a slot reads the log from there on
                with psycopg.connect(served.dsn(), autocommit=True, replication="database") as connection:
                    connection.execute(b"BEGIN READ ONLY ISOLATION LEVEL REPEATABLE READ")
                    connection.execute(f"CREATE_REPLICATION_SLOT s{trial % 2} LOGICAL test_decoding USE_SNAPSHOT".encode())
                    copied = [int(each) for each in _said(connection, "COPY ids TO STDOUT")[1].split()]
                    connection.execute(b"COMMIT")
                there = {int(each) for (each,) in server.sql("SELECT id FROM ids")}
                with served.connect() as connection:
                    until(lambda: there <= {*copied, *_streamed(connection, trial)})  # noqa: B023
                    both = copied + _streamed(connection, trial)
                    connection.execute(f"SELECT pg_drop_replication_slot('s{trial % 2}')".encode())
                assert len(both) == len(set(both)), "something was copied, and streamed again"


def _streamed(connection: psycopg.Connection[Any], trial: int) -> list[int]:
    rows = connection.execute(f"SELECT data FROM pg_logical_slot_peek_changes('s{trial % 2}', NULL, NULL)".encode()).fetchall()
    return [int(row.rpartition(":")[2]) for (row,) in rows if row.startswith("table")]


def test_only_the_fixed_forms(tmp_path: Path) -> None:
    """And of these only what a role's publications have."""
    roles = tmp_path / "roles.toml"
    roles.write_text('[all]\nreplication = true\n[some]\nreplication = true\npublications = ["narrow", "none"]\n[none]\n')
    hba = tmp_path / "hba.conf"
    hba.write_text("host all all 127.0.0.1/32 trust\n")
    refused = (
        "COPY t FROM STDIN", "COPY t TO '/tmp/t'", "COPY t TO PROGRAM 'cat'", "COPY t TO STDOUT (FORMAT csv)", "COPY t TO STDOUT (DELIMITER ',')",
        "COPY (SELECT id FROM t, part) TO STDOUT", "COPY (SELECT id + 1 FROM t) TO STDOUT", "COPY (SELECT id AS x FROM t) TO STDOUT",
        "COPY (SELECT * FROM t) TO STDOUT", "COPY (SELECT id FROM t LIMIT 1) TO STDOUT", "COPY (SELECT id FROM t ORDER BY id) TO STDOUT",
        "COPY (SELECT id FROM t UNION SELECT id FROM part) TO STDOUT", "COPY (SELECT pg_read_file('/etc/passwd')) TO STDOUT",
        "COPY (SELECT id FROM t AS u) TO STDOUT", "COPY (WITH x AS (SELECT 1) SELECT id FROM t) TO STDOUT",
        "COPY (DELETE FROM t RETURNING id) TO STDOUT",
        "COPY (SELECT DISTINCT id FROM t) TO STDOUT", "COPY (SELECT id FROM t FOR UPDATE) TO STDOUT", "COPY (VALUES (1)) TO STDOUT",
    )  # fmt: skip
    with Server(18, KEEPS) as server:
        server.say(*TABLES, "CREATE FUNCTION f(int) RETURNS bool IMMUTABLE LANGUAGE sql AS 'SELECT true'")
        with (
            Served(server.dsn(), tmp_path / "state", "--roles", str(roles), "--hba", str(hba)) as served,
            served.connect(user="all") as everyone,
            served.connect(user="some") as some,
            served.connect(user="none") as nobody,
        ):
            for statement in refused:
                assert _said(everyone, statement)[0] == "0A000", statement
            for condition in ("f(id)", "now() > '2000-01-01'"):
                assert _said(everyone, f"COPY (SELECT id FROM t WHERE {condition}) TO STDOUT")[0] in ("0A000", "42P17", "42883")
            for catalog in ("pg_catalog.pg_authid", "pg_class", "information_schema.sql_features"):
                assert _said(everyone, f"COPY {catalog} TO STDOUT")[0] == "42501"
            assert _said(everyone, "COPY t TO STDOUT")[:2] == ("COPY 3", "1\ta\n2\tb\\tc\n3\t\\N\n")
            with everyone.cursor().copy("COPY (SELECT v FROM t WHERE id = 1) TO STDOUT (FORMAT binary)") as copy:
                copy.set_types(["text"])
                assert list(copy.rows()) == [("a",)]
            extended = everyone.pgconn.exec_params(b"COPY t (id) TO STDOUT", None)
            assert extended.status == ExecStatus.COPY_OUT
            while everyone.pgconn.get_copy_data(0)[0] > 0:
                pass
            assert [everyone.pgconn.get_result(), everyone.pgconn.get_result()][0].command_status == b"COPY 3"  # type: ignore[union-attr]
            assert _said(some, "COPY t (id) TO STDOUT")[:2] == ("COPY 2", "1\n2\n")
            assert _said(some, "COPY (SELECT id FROM t WHERE id > 1) TO STDOUT")[:2] == ("COPY 1", "2\n")
            for statement in (
                "COPY t TO STDOUT",
                "COPY t (v) TO STDOUT",
                "COPY part1 TO STDOUT",
                "COPY (SELECT id FROM part) TO STDOUT",
            ):
                assert _said(some, statement)[0] == "42501", statement
            assert _said(nobody, "COPY t TO STDOUT")[0] == "42501"
            locked = server.connect(autocommit=False)
            locked.execute(b"LOCK TABLE t")
            threading.Timer(0.5, everyone.cancel_safe).start()
            assert _said(everyone, "COPY t TO STDOUT")[0] == "57014"
            locked.rollback()
            locked.close()
            until(lambda: server.value("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LOCK TABLE public%'") == 0)
            assert _said(everyone, "COPY t TO STDOUT")[0] == "COPY 3"


def test_a_table_that_was_rewritten_meanwhile(tmp_path: Path) -> None:
    """The snapshot would find none of its rows: that is refused, and said, where the server gives an empty table."""
    with Server(18, KEEPS) as server:
        server.say(*TABLES)
        with Served(server.dsn(), tmp_path / "state") as served, served.connect() as connection:
            connection.execute(b"BEGIN ISOLATION LEVEL REPEATABLE READ")
            assert _said(connection, "COPY part1 TO STDOUT")[0] == "COPY 1"
            server.say("ALTER TABLE t ALTER v TYPE varchar(99)")
            said = _said(connection, "COPY t TO STDOUT")
            assert said[:2] == ("55000", 'could not copy "public.t": it was truncated or rewritten after the snapshot was taken')
            connection.execute(b"ROLLBACK")
            for statement in ("BEGIN ISOLATION LEVEL REPEATABLE READ", "SAVEPOINT a"):
                connection.execute(statement.encode())
            assert _said(connection, "COPY t TO STDOUT")[0] == "COPY 3"
            assert _said(connection, "COPY nonesuch TO STDOUT")[0] == "42P01"
            connection.execute(b"ROLLBACK TO a")
            assert _said(connection, "COPY t TO STDOUT")[0] == "25000"  # under another snapshot it would be another transaction
            connection.execute(b"ROLLBACK")
            assert _said(connection, "COPY t TO STDOUT")[0] == "COPY 3"


def test_a_standby_has_none(tmp_path: Path) -> None:
    with Server(18, KEEPS) as primary:
        primary.say(*TABLES)
        with standby_of(primary, tmp_path) as standby:
            caught_up(standby, primary)
            with Served(standby.dsn(), tmp_path / "state") as served:
                with psycopg.connect(served.dsn(), autocommit=True, replication="database") as connection:
                    assert _said(connection, CREATE.format("a") + "EXPORT_SNAPSHOT")[:2] == ("55000", "recovery is in progress")
                    assert _said(connection, CREATE.format("b"))[:2] == ("CREATE_REPLICATION_SLOT", "none")
                with served.connect() as connection:
                    found = connection.execute(b"SELECT slot_name FROM pg_replication_slots").fetchall()
                    assert found == [("b",)]


def test_transactions_that_run_are_waited_for(tmp_path: Path) -> None:
    """As on the server; who goes meanwhile leaves no slot."""
    with Server(18, KEEPS) as server:
        server.say("CREATE TABLE ids (id int)")
        with Served(server.dsn(), tmp_path / "state") as served:
            writer = server.connect(autocommit=False)
            writer.execute(b"INSERT INTO ids VALUES (1)")
            with psycopg.connect(served.dsn(), autocommit=True, replication="database") as connection:
                threading.Timer(1, connection.cancel_safe).start()
                assert _said(connection, CREATE.format("a"))[0] == "57014"
                assert connection.execute(b"SELECT slot_name FROM pg_replication_slots").fetchall() == []
                threading.Timer(1, writer.commit).start()
                assert _said(connection, CREATE.format("a"))[:2] == ("CREATE_REPLICATION_SLOT", "a snapshot")
            writer.close()
