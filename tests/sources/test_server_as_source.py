"""A connection string stands wherever a SOURCE does: what comes out is what the server itself says, of whose files nothing is opened."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tailrace as api
from support.command import Run
from support.served import Served
from support.servers import Server
from support.slots import TAILRACE, peeked
from support.waiting import until
from tailrace import spark as tailrace_spark
from tailrace.lake.mirror import mirror
from tailrace.lake.reading import read_table
from tailrace.sources.source import Source
from tailrace.storage.spool import spool_directory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.postgres
KEEPS = {"wal_keep_size": "200MB"}
SAYS = (
    "CREATE TABLE t (id int PRIMARY KEY, v text)",
    "INSERT INTO t SELECT i, repeat('x', 30) FROM generate_series(1, 100) i",
    "ALTER TABLE t ADD COLUMN w int DEFAULT 7",
    "UPDATE t SET v = 'y' WHERE id = 5",
    "DELETE FROM t WHERE id = 6",
)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Its slot stands behind a checkpoint, from which on all that it says is new."""
    with Server(18, KEEPS, dbname="app") as made:
        made.say("SELECT pg_create_logical_replication_slot('theirs', 'test_decoding')", "CHECKPOINT", *SAYS)
        yield made


@pytest.fixture
def unreadable() -> Iterator[Callable[[Path], None]]:
    """Gives what lets no file below a folder be opened in this process, as for another user of the operating system."""
    folders: list[str] = []

    def refuse(event: str, arguments: tuple[object, ...]) -> None:
        if folders and event in ("open", "os.listdir", "os.scandir") and str(arguments[0]).startswith(tuple(folders)):
            raise PermissionError(f"{arguments[0]} is opened")

    sys.addaudithook(refuse)
    yield lambda folder: folders.append(f"{folder}/")
    folders.clear()


def _theirs(server: Server, slot: str = "theirs") -> str:
    return "".join(f"{lsn}\t{xid}\t{data}\n" for lsn, xid, data in peeked(server, slot))


def test_decode(server: Server, tailrace: Run) -> None:
    code, out, err = tailrace("decode", server.dsn(), "--database", "app")
    assert code == 0, err
    assert out == _theirs(server)


@pytest.mark.parametrize("major", [18, *(pytest.param(each, marks=pytest.mark.matrix) for each in (14, 15, 16, 17))])
def test_nothing_of_the_servers_is_opened(
    major: int, tailrace: Run, tmp_path: Path, unreadable: Callable[[Path], None]
) -> None:  # fmt: skip
    """By a role that has REPLICATION and one GRANT."""
    state = ("--state", tmp_path / "state")
    with Server(major, KEEPS, dbname="app") as other:
        other.say(
            "CREATE ROLE reader LOGIN REPLICATION", "GRANT EXECUTE ON FUNCTION pg_read_binary_file(text,bigint,bigint,boolean) TO reader",
            "CREATE TABLE before (id int PRIMARY KEY)", "SELECT pg_create_logical_replication_slot('theirs', 'test_decoding')",
        )  # fmt: skip
        dsn = other.dsn().replace("user=postgres", "user=reader")
        unreadable(other.data_dir)
        code, _, err = tailrace("slot", "create", "ours", dsn, "--database", "app", "--plugin", "test_decoding", *state)
        assert code == 0, err
        other.say(*SAYS, "INSERT INTO before VALUES (1)")
        code, out, err = tailrace("slot", "get", "ours", *state)
        assert code == 0, err
        assert "ALTER" not in out
        assert out.splitlines()[-3:] == _theirs(other).splitlines()[-3:]
        assert out.count("INSERT") == 101
        code, out, err = tailrace("decode", dsn, "--database", "app")
        assert code == 0, err
        assert out.splitlines()[-3:] == _theirs(other).splitlines()[-3:]


def test_decode_with_a_state_that_was_captured(server: Server, tailrace: Run, tmp_path: Path) -> None:
    code, _, err = tailrace("catalog", "capture", server.dsn(), "--database", "app", "-o", tmp_path / "state")
    assert code == 0, err
    server.say("INSERT INTO t VALUES (1000, 'new')")
    code, out, err = tailrace("decode", server.dsn(), "--database", "app", "--catalog", tmp_path / "state")
    assert code == 0, err
    assert out == "".join(_theirs(server).splitlines(keepends=True)[-3:])


def test_the_past(server: Server, tailrace: Run) -> None:
    dsn = f"postgresql://postgres@127.0.0.1:{server.port}/app"
    code, out, err = tailrace("history", dsn, "public.t", "--database", "app")
    assert code == 0, err
    assert "w integer" in out
    code, out, err = tailrace("blame", dsn, "public.t", "5", "--database", "app")
    assert (code, out.lower().count("update"), err) == (0, 1, "")


def test_publications(server: Server, tailrace: Run, tmp_path: Path) -> None:
    words = (server.dsn(), "--database", "app", "--state", tmp_path / "state")
    code, _, err = tailrace("publication", "create", "p FOR TABLE t WHERE (id > 3)", *words)
    assert code == 0, err
    code, out, err = tailrace("publication", "show", *words)
    assert code == 0, err
    assert "(id > 3)" in out


def test_wal(server: Server, tailrace: Run) -> None:
    for verb in ("ls", "stat", "verify"):
        code, out, err = tailrace("wal", verb, server.dsn())
        assert code == 0, err
        assert out
    code, out, err = tailrace("wal", "dump", server.dsn(), "--rmgr", "Transaction", "-n", "3")
    assert (code, out.count("\n")) == (0, 3), err


def test_a_mirror(server: Server, tmp_path: Path) -> None:
    mirror(api.open_feed(server.dsn(), "app"), tmp_path / "lake")
    rows = read_table(tmp_path / "lake/public.t").sort_by("id")
    assert list(zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True)) == server.sql("SELECT id, v FROM t ORDER BY id")


def test_a_copy_goes_with_its_reader(server: Server) -> None:
    source = Source.open(server.dsn(), database="app")
    assert source.received is not None
    home = source.received.path.parent
    assert home.is_dir()
    del source
    assert not home.exists()
    assert home.parent == spool_directory() / "received"


def test_sql(server: Server, tailrace: Run, tmp_path: Path) -> None:
    """Slots that SQL makes, and catalogs that follow; the server's log comes in meanwhile."""
    made = "SELECT slot_name FROM pg_create_logical_replication_slot('mine', 'test_decoding')"
    words = ("sql", server.dsn(), "--database", "app", "--state", tmp_path / "state", "-A", "-t")
    code, out, err = tailrace(
        *words, "-c", made, "-c", "SELECT attname FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum > 0"
    )
    assert (code, out) == (0, "mine\nid\nv\nw\n"), err
    server.say("CREATE TABLE u (a int)", "INSERT INTO u VALUES (1)")
    code, out, err = tailrace(
        *words,
        "-c",
        "SELECT data FROM pg_logical_slot_get_changes('mine', NULL, NULL)",
        "-c",
        "SELECT relname FROM pg_class WHERE relname = 'u'",
    )
    assert code == 0, err
    assert "table public.u: INSERT: a[integer]:1\n" in out
    assert out.endswith("\nu\n")
    code, _, err = tailrace("sql", server.dsn(), "--database", "nodb", "--state", tmp_path / "state", "-c", "SELECT 1")
    assert (code, 'database "nodb" does not exist' in err) == (2, True)


def test_serve(server: Server, tmp_path: Path) -> None:
    """A client of ours gets what one of the server's gets, as it comes."""
    with Served(server.dsn(), tmp_path / "state", dbname="app") as served:
        with served.connect() as ours:
            ours.execute("SELECT pg_create_logical_replication_slot('mine', 'test_decoding')")
            server.say("SELECT pg_create_logical_replication_slot('beside', 'test_decoding')")
            server.say("CREATE TABLE s (a int)", "INSERT INTO s SELECT generate_series(1, 50)", "DROP TABLE s")
            last = _theirs(server, "beside").count("\n")
            query = "SELECT lsn::text, xid::text, data FROM pg_logical_slot_peek_changes('mine', NULL, NULL)"
            until(lambda: len(ours.execute(query).fetchall()) >= last)
            given = "".join(f"{lsn}\t{xid}\t{data}\n" for lsn, xid, data in ours.execute(query).fetchall())
        assert given == _theirs(server, "beside")
    server.say("SELECT pg_drop_replication_slot('beside')")


def test_serve_says_what_is_wrong(server: Server, tmp_path: Path) -> None:
    words = [TAILRACE, "serve", "host=127.0.0.1 port=1 user=nobody", "--state", str(tmp_path / "state")]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "Connection refused" in done.stderr
    assert not (tmp_path / "state").exists()


@pytest.mark.spark
def test_dataframe(server: Server, spark: SparkSession) -> None:
    frame = spark.read.format("tailrace").options(source=server.dsn(), database="app", table="public.t").load()
    kinds = [row.kind for row in frame.sort("commit_lsn", "lsn", "sequence").collect()]
    assert kinds[:100] == ["insert"] * 100
    assert {"update", "delete"} <= set(kinds)


@pytest.mark.spark
@pytest.mark.soak
def test_stream(server: Server, spark: SparkSession, tailrace: Run, tmp_path: Path) -> None:
    """The log comes in while the query runs."""
    state = tmp_path / "state"
    code, _, err = tailrace("slot", "create", "mine", server.dsn(), "--database", "app", "--state", state, "--json")
    assert code == 0, err
    assert json.loads(_)["slot_name"] == "mine"
    seen: list[str] = []
    stream = spark.readStream.format("tailrace").options(state=str(state), slot="mine").load()
    query = stream.writeStream.foreachBatch(lambda frame, _: seen.extend(row.kind for row in frame.collect())).option(
        "checkpointLocation", str(tmp_path / "checkpoint")
    ).start()  # fmt: skip
    try:
        for turn in range(3):
            server.say(f"INSERT INTO t VALUES ({2000 + turn}, 'streamed')")
            until(lambda turn=turn: len(seen) > turn)
    finally:
        query.stop()
    assert seen == ["insert"] * 3


@pytest.mark.spark
def test_spark_sql(server: Server, spark: SparkSession, tmp_path: Path) -> None:
    where = {"source": server.dsn(), "database": "app", "state": str(tmp_path / "state")}
    with tailrace_spark.sql_session(spark, **where) as session:
        session.sql("SELECT pg_create_logical_replication_slot('sparks', 'test_decoding')").collect()
        server.say("INSERT INTO t VALUES (3000, 'seen')")
        rows = session.sql("SELECT data FROM pg_logical_slot_get_changes('sparks', NULL, NULL)").collect()
        assert "table public.t: INSERT: id[integer]:3000 v[text]:'seen' w[integer]:7" in [row.data for row in rows]
    assert tailrace_spark.changes(spark, server.dsn(), database="app", table="public.t").count() >= 102
