"""What somebody meets who tries verbs for the first time: a mistake is told, and nothing is done in its place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import tailrace as package
from support.command import Run
from support.servers import Server
from tailrace.errors import TailraceError, UsageError
from tailrace.lake.mirror import mirror
from tailrace.model import Lsn

pytestmark = pytest.mark.postgres


class Shop(NamedTuple):
    """A server, a moment before its state was captured, and that state."""

    server: Server
    before: str
    time_before: str
    state: Path

    @property
    def source(self) -> tuple[object, ...]:
        return self.server.data_dir, "--database", self.server.dbname


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    from tailrace.catalog.state.state_file import write_state  # noqa: PLC0415
    from tailrace.pipeline import LocalRunner, Source, capture  # noqa: PLC0415

    with Server(16) as server:
        server.sql("CREATE TABLE t (id int PRIMARY KEY, v text)")
        server.sql("CREATE TABLE words (word text PRIMARY KEY)")
        server.sql("CREATE PUBLICATION p FOR TABLE t")
        server.sql('CREATE PUBLICATION "Q" FOR TABLE words')
        server.sql("INSERT INTO t VALUES (1, 'one')")
        before, ((time,),) = server.flush_lsn(), server.sql("SELECT now()::text")
        server.sql("INSERT INTO t VALUES (2, 'two')")
        file = tmp_path_factory.mktemp("state") / "captured"
        file.write_bytes(write_state(capture(Source.open(server.data_dir), LocalRunner(), server.dbname)))
        server.sql("INSERT INTO t VALUES (3, 'three')")
        server.sql("INSERT INTO words VALUES ('a=b')")
        yield Shop(server, before, time, file)


@pytest.mark.parametrize("moment", ["before", "time_before"])
def test_a_slot_cannot_begin_before_its_catalogs_are_known(moment: str, shop: Shop, tailrace: Run, tmp_path: Path) -> None:
    """It was made, and could never be read. What is named instead can be."""
    state = ("--state", tmp_path / "state")
    create = ("slot", "create", "s", *shop.source, *state, "--catalog", shop.state, "--at")
    at = getattr(shop, moment)
    status, out, err = tailrace(*create, at)
    oldest = package.open_feed(shop.server.data_dir, shop.server.dbname, catalog=shop.state).span.start
    known = Lsn(max(oldest, _captured(shop).needs_wal_from))
    assert (status, out) == (1, "")
    assert f"what tables were at {at} is not known: the catalog state was captured later" in err
    assert f"The oldest LSN that is possible with it is {known}." in err
    assert tailrace("slot", "get", "s", *state)[0] == 1
    assert tailrace(*create, known)[:2] == (0, f"s\t{known}\n")
    status, out, err = tailrace("slot", "get", "s", *state)
    assert (status, out.count("INSERT"), "'three'" in out) == (0, 2, True), err


def _captured(shop: Shop) -> Any:
    from tailrace.pipeline.arguments import state_of  # noqa: PLC0415

    return state_of(shop.state)


def test_several_publications_in_one_option(shop: Shop, tailrace: Run) -> None:
    """As publication_names has them, which is what the guide says."""

    def given(*options: str) -> list[str]:
        # The publications are not there where the log begins.
        status, out, err = tailrace("decode", *shop.source, "--start-lsn", shop.before, *options)
        assert status == 0, err
        return [line.split("\t")[2] for line in out.splitlines() if "INSERT" in line]

    both = given("--publication", 'p,"Q"')
    assert len(both) == 3
    assert both == given("--publication", "p", "--publication", '"Q"')
    assert len(given("--publication", "p")) == 2


@pytest.mark.parametrize(
    ("table", "key", "said"),
    [
        ("nothing", "1", 'relation "public.nothing" does not exist'),
        ("t", "99", "no row of table public.t with the key 99 is in the log"),
        ("t", "id=99", "no row of table public.t with the key id=99 is in the log"),
        ("t", "nothing=1", 'column "nothing" of relation "t" does not exist'),
        ("words", "a=c", "no row of table public.words with the key a=c is in the log"),
    ],
)
def test_blame_of_what_is_not_there(table: str, key: str, said: str, shop: Shop, tailrace: Run) -> None:
    status, out, err = tailrace("blame", shop.server.data_dir, table, key, "--database", shop.server.dbname)
    assert (status, out) == (1, "")
    assert f"error: {said}" in err
    assert tailrace("blame", shop.server.data_dir, "words", "a=b", "--database", shop.server.dbname)[0] == 0


def test_positions_and_states_in_python_are_text_and_paths_too(shop: Shop) -> None:
    source, database = shop.server.data_dir, shop.server.dbname
    lsn, captured = Lsn.parse(shop.before), _captured(shop)
    for text in (shop.before, lsn, int(lsn)):
        assert package.open_feed(source, database, upto_lsn=text).span.stop == lsn
        assert package.open_feed(source, database, start_lsn=text).span.start == lsn
        assert package.open(source, database, start_lsn=text).span.start == lsn
        assert package.open(source, database, upto_lsn=text).span.stop == lsn
        assert next(package.open_windows(source, database, start_lsn=text)).span.start == lsn
        assert [each.name for each in package.tables_to_copy(source, database, "p", at=text)] == ["t"]
    for state in (shop.state, str(shop.state), captured):
        spans = {
            package.open_feed(source, database, catalog=state).span.start,
            package.open(source, database, catalog=state).span.start,
            next(package.open_windows(source, database, catalog=state)).span.start,
        }
        assert len(spans) == 1
        assert [each.name for each in package.tables_to_copy(source, database, "p", catalog=state)] == ["t"]
    with pytest.raises(UsageError, match='invalid input syntax for type pg_lsn: "here"') as error:
        package.open_feed(source, database, upto_lsn="here")
    assert error.value.sqlstate == "22P02"
    with pytest.raises(TailraceError, match=r'catalog state "/nowhere" does not exist'):
        package.open_feed(source, database, catalog="/nowhere")


def test_what_a_state_cannot_know_whole_is_left_out(tailrace: Run, tmp_path: Path) -> None:
    """A transaction that ended before the state was captured, and began before all that was open then, came without its first rows."""
    state = tmp_path / "state"
    with Server(16) as server:
        source = (server.data_dir, "--database", server.dbname)
        server.sql("CREATE TABLE t (id int, v text)")
        with server.connect() as early, server.connect() as late:
            early.autocommit = late.autocommit = False
            early.execute("INSERT INTO t VALUES (1, 'first')")
            server.sql("INSERT INTO t SELECT number, repeat('-', 1900) FROM generate_series(100, 130) AS number")
            late.execute("INSERT INTO t VALUES (2, 'late')")
            server.sql("INSERT INTO t VALUES (3, 'between')")
            since = server.flush_lsn()
            early.execute("INSERT INTO t VALUES (4, 'last')")
            early.commit()
            end = server.flush_lsn()
            assert tailrace("catalog", "capture", *source, "-o", state)[0] == 0
            late.commit()
        given = tailrace("decode", *source, "--catalog", state)
        assert (given[0], "'first'" in given[1], "'last'" in given[1], "'late'" in given[1]) == (0, False, False, True)
        refused = tailrace("decode", *source, "--catalog", state, "--start-lsn", since)
        assert (refused[0], "began before the WAL at hand" in refused[2]) == (1, True)
        windows = tailrace("decode", *source, "--catalog", state, "--window", "1MB")
        assert windows[:2] == given[:2]
        assert tailrace("slot", "create", "s", *source, "--state", tmp_path / "slots", "--catalog", state, "--at", since)[0] == 0
        assert tailrace("slot", "get", "s", "--state", tmp_path / "slots")[1] == given[1]
        assert tailrace("decode", *source, "--catalog", state, "--start-lsn", end)[1] == given[1]


def test_sql_of_a_database_that_is_not_there(shop: Shop, tailrace: Run, tmp_path: Path) -> None:
    """psql ends with 2 where it cannot connect. A new database is only in the log at first."""
    status, out, err = tailrace("sql", shop.server.data_dir, "-d", "nodb", "--state", tmp_path / "state", "-c", "SELECT 1")
    assert (status, out, err) == (2, "", 'tailrace: error: database "nodb" does not exist\n')
    shop.server.sql("CREATE DATABASE another")
    for name in ("another", shop.server.dbname):
        assert tailrace("sql", shop.server.data_dir, "-d", name, "--state", tmp_path / "state", "-Atc", "SELECT 1") == (
            0,
            "1\n",
            "",
        )


def test_who_only_looks_makes_no_state_location(shop: Shop, tailrace: Run, tmp_path: Path) -> None:
    """Nor does a slot that could not be created."""
    state = tmp_path / "typo"
    for query in ("TABLE pg_replication_slots", "TABLE pg_stat_replication_slots", "TABLE pg_replication_origin_status"):
        assert tailrace("sql", *shop.source, "--state", state, "-Atc", query) == (0, "", "")
    assert tailrace("sql", *shop.source, "--state", state, "-Atc", "SELECT pubname FROM pg_publication")[1] == "Q\np\n"
    peek = "SELECT * FROM pg_logical_slot_peek_changes('s', NULL, NULL)"
    assert 'replication slot "s" does not exist' in tailrace("sql", *shop.source, "--state", state, "-c", peek)[2]
    assert tailrace("slot", "create", "s", shop.server.data_dir, "--database", "nodb", "--state", state)[0] == 1
    assert not state.exists()
    assert tailrace("slot", "create", "s", *shop.source, "--state", state)[0] == 0
    assert state.is_dir()


def test_warnings_of_a_server_that_is_not_set_up(tailrace: Run, tmp_path: Path) -> None:
    """What it removes or does not log is told while something can be done about it; not where the setting is right."""
    warned = "warning: wal_keep_size is 0 on the server"
    with Server(16, {"wal_keep_size": 0}) as server:
        source, state = (server.data_dir, "--database", server.dbname), ("--state", tmp_path / "state")
        status, _, err = tailrace("slot", "create", "a", *source, *state)
        assert (status, warned in err, "archive" in err) == (0, True, True)
        assert tailrace("catalog", "capture", *source, "-o", tmp_path / "logical")[2].count("warning") == 0
    with Server(16, {"wal_level": "replica"}) as server:
        source = (server.data_dir, "--database", server.dbname)
        status, _, err = tailrace("catalog", "capture", *source, "-o", tmp_path / "replica")
        assert (status, "warning: wal_level is below logical" in err) == (0, True)


def test_indexes_of_a_small_log(shop: Shop, tailrace: Run, tmp_path: Path) -> None:
    """Nothing is kept of it, and that is said."""
    index = ("--index", tmp_path / "index")
    said = f'tailrace: warning: no index is kept in "{tmp_path / "index"}": only those of whole stretches of 64 MB are'
    assert said in tailrace("decode", *shop.source, *index)[2]
    assert said in tailrace("history", shop.server.data_dir, "t", "--database", shop.server.dbname, *index)[2]
    assert "no index" not in tailrace("decode", *shop.source)[2]


def test_a_publication_that_is_made_later(shop: Shop, tailrace: Run, tmp_path: Path) -> None:
    """It is there when one looks, and not where reading begins: both LSNs are told, and beginning at the one does."""
    state = ("--state", tmp_path / "state")
    assert tailrace("publication", "create", "later FOR TABLE t", *shop.source, *state)[0] == 0
    shop.server.sql("CREATE PUBLICATION own FOR TABLE t")
    for name in ("later", "own"):
        status, _, err = tailrace("decode", *shop.source, "--publication", name, *state)
        assert (status, f'publication "{name}" does not exist' in err) == (1, True)
        told = re.search(r"DETAIL:  It exists from (\w+/\w+) on, and what it publishes at (\w+/\w+) is asked for.", err)
        assert told
        assert Lsn.parse(told[2]) < Lsn.parse(told[1])
        assert f"HINT:  Begin at {told[1]} or later;" in err
        kept = {} if name == "own" else {"state": tmp_path / "state"}
        whole = package.open_feed(shop.server.data_dir, shop.server.dbname)
        with pytest.raises(
            UsageError, match=f'publication "{name}" does not exist\nDETAIL:  It exists from {told[1]} on'
        ) as raised:
            mirror(whole.publishing(name, **kept), tmp_path / f"lake {name}")
        assert raised.value.hint.startswith(f"Begin at {told[1]} or later;")
        number = {"later": 10, "own": 11}[name]
        shop.server.sql("INSERT INTO t VALUES (%s, 'more')", [number])
        done = tailrace("decode", *shop.source, "--publication", name, *state, "--start-lsn", told[1])
        assert (done[0], f"id[integer]:{number}" in done[1]) == (0, True), done
        feed = package.open_feed(shop.server.data_dir, shop.server.dbname, start_lsn=told[1])
        assert feed.publishing(name, state=tmp_path / "state").relations


def test_sql_says_where_a_table_can_be_asked(shop: Shop, tailrace: Run, tmp_path: Path) -> None:
    status, out, err = tailrace("sql", *shop.source, "--state", tmp_path / "state", "-c", "SELECT * FROM t")
    assert (status, out) == (1, "")
    assert err.startswith('ERROR:  relation "t" does not exist\nLINE 1: SELECT * FROM t\n')
    assert "HINT:  Rows of a database's own tables are with its server. Give --connect DSN" in err
