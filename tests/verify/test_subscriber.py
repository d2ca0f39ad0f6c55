"""`tailrace verify` of a subscriber: what it lacks, has too many or has otherwise is told, and what is only late is not."""

from __future__ import annotations

import json
import random
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from server.test_initial_copies import (
    OF_SOURCE,
    OF_SUBSCRIBER,
    OURS,
    STREAMED,
    SUBSCRIBE,
    TABLES,
    THEIRS,
    Both,
    both_subscribed,
)
from support.command import ran
from support.own_database import own_database
from support.served import Served
from support.servers import Server
from support.waiting import until
from tailrace.errors import PeerError
from tailrace.verify import two_looks
from tailrace.verify.differences import EXTRA, MISSING, OTHER
from tailrace.verify.subscriber import SubscriberTable, subscriber_verification
from verify.test_verify import WIDE

pytestmark = pytest.mark.postgres


def _compared(source: Server, subscriber: Server, *tables: str, listed: int = 10_000) -> dict[str, SubscriberTable]:
    with subscriber_verification(source.dsn(), source.dbname, subscriber.dsn(), (), tables, listed=listed) as found:
        _, compared = found.run()
        return {each.table.name: each for each in compared}


def _differing(found: dict[str, SubscriberTable]) -> dict[str, Any]:
    assert not [name for name, each in found.items() if each.undecided is not None and len(each.undecided)]
    return {name: each.found.counts if not each.table.unfit else each.table.unfit for name, each in found.items() if each.differs}


def _verify(source: Server, to: str, *more: str) -> subprocess.CompletedProcess[str]:
    return ran("verify", source.dsn(), "--to", to, *more)


# -- publications of all kinds ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("of_subscriber", "of_source"),
    [
        pytest.param(18, 18, marks=pytest.mark.soak),
        *(pytest.param(*pair, marks=pytest.mark.matrix) for pair in ((16, 16), (16, 18), (18, 16), (14, 14), (18, 14), (17, 15))),
    ],
)
def test_all_that_is_published(of_subscriber: int, of_source: int, tmp_path: Path) -> None:
    """Of subscribers of tailrace serve and of the server itself: filters, columns, partitions, schemas, every type."""
    with both_subscribed(of_subscriber, of_source, tmp_path) as both:
        both.say(SUBSCRIBE)
        both.source.say(*STREAMED)
        for name in (OURS, THEIRS):
            done = _verify(both.source, f"{both.subscriber.dsn()} dbname={name}", "--json")
            assert (done.returncode, done.stderr) == (0, "")
            told = {each["table"]: each for each in json.loads(done.stdout)["tables"]}
            assert (
                len(told) == len(TABLES) - 1
            )  # two partitions are published beside their root; late and later are not published
            with both.connect(name) as connection:
                for table, each in told.items():
                    rows = connection.execute(f"SELECT count(*) FROM {table}".encode()).fetchone()
                    assert (rows, each["note"]) == ((each["rows"],), None), table
            _each_kind_of_damage(both, name, 2 if min(of_subscriber, of_source) > 14 else 3)
        both.say("DROP SUBSCRIPTION {name}")


def _each_kind_of_damage(both: Both, name: str, listed: int) -> None:
    """A row of each table is made another, goes, or comes. `listed` is how many columns are published of that table."""
    with both.connect(name) as connection:
        for statement in (
            "UPDATE t SET v = 'other' WHERE id = 5", 'DELETE FROM "S q"."T\'x" WHERE "Id" = 2', "INSERT INTO bag VALUES (1, 'x')",
            "UPDATE listed SET v = 'own', w = w + 1 WHERE id = 2", "UPDATE part SET v = NULL WHERE id = 11",
            "INSERT INTO leaf VALUES (2, 'own')",
            "INSERT INTO filtered VALUES (99, 'f')", "UPDATE kinds SET (ia, tt) = ('{NULL}', tt + '1 microsecond') WHERE id = 3",
        ):  # fmt: skip
            connection.execute(statement.encode())
    done = _verify(both.source, f"{both.subscriber.dsn()} dbname={name}", "--json")
    assert done.returncode == 1, done.stdout + done.stderr
    found = {
        each["table"]: [(one["what"], one["key"], one["source"] and len(one["source"])) for one in each["differences"]]
        for each in json.loads(done.stdout)["tables"]
        if each["differences"]
    }
    assert found == {
        "public.t": [("differs", {"id": "5"}, 3)], '"S q"."T\'x"': [("missing", {"Id": "2"}, 2)], "public.bag": [("extra", {}, None)],
        "public.listed": [("differs", {"id": "2"}, listed)], "public.part": [("differs", {"id": "11"}, 2)],
        "public.leaf1": [("extra", {"id": "2"}, None)], "public.filtered": [("extra", {"id": "99"}, None)],
        "public.kinds": [("differs", {"id": "3"}, 34)],
    }  # fmt: skip


# -- damage --------------------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[Server, Server]]:
    with Server(18, OF_SOURCE, test_decoding=False) as source, Server(18, OF_SUBSCRIBER, test_decoding=False) as subscriber:
        yield source, subscriber


@pytest.fixture
def pair(running: tuple[Server, Server]) -> Iterator[tuple[Server, Server]]:
    """Each in a database of its own."""
    with own_database(running[0]) as source, own_database(running[1]) as subscriber:
        yield source, subscriber
        with subscriber.connect() as connection:
            for (name,) in connection.execute(
                "SELECT subname FROM pg_subscription s JOIN pg_database d ON d.oid = s.subdbid WHERE datname = current_database()"
            ).fetchall():
                connection.execute(f"DROP SUBSCRIPTION {name}".encode())


def _subscribed(
    pair: tuple[Server, Server], *tables: str, what: str = "FOR ALL TABLES", more: str = "", publisher: str = ""
) -> tuple[Server, Server]:
    """With a publication of all tables, which are made on both sides."""
    source, subscriber = pair
    for each in pair:
        each.say(*tables)
    source.say(f"CREATE PUBLICATION p {what}")
    name = f"s_{subscriber.dbname}"
    subscriber.say(
        f"CREATE SUBSCRIPTION {name} CONNECTION '{publisher or source.dsn()} dbname={source.dbname}' PUBLICATION p {more}"
    )
    return pair


_MORE = ", q numeric DEFAULT 1.0, j jsonb DEFAULT '[1]', l int[] DEFAULT '{1,2}', c char(5) DEFAULT 'c')"
_WIDE = WIDE.partition(";")[0].strip().removesuffix(")") + _MORE
_DAMAGES = (
    "a = a # (1 << {bit})", "t = overlay(t PLACING chr(ascii(substr(t, {at}, 1)) # 1) FROM {at})", "n = n + 0.01", "n = -n", "q = 1.00",
    "at = at + '1 microsecond'", "d = d + 1", "f = f + 4.5e-16 * greatest(1, abs(f))", "g = (g::float8 * (1 + 1.3e-7))::real", "s = s # 1::smallint",
    "w = w # (1::bigint << {bit} << {bit})", "w = -w", "tf = NOT tf", "y = set_bit(y, {bit}, 1 - get_bit(y, {bit}))", "a = b, b = a", "t = u, u = t",
    "k = encode(set_bit(uuid_send(k), {bit}, 1 - get_bit(uuid_send(k), {bit})), 'hex')::uuid", "j = '[2]'", "l = '{{2,1}}'", "l = '{{1,NULL}}'",
    "c = 'd'", "t = NULL", "t = ''", "n = NULL", "a = NULL", "a = 0", "at = until, until = at",
)  # fmt: skip


def _damage(connection: psycopg.Connection[Any], dice: random.Random, key: int) -> str:
    """A row of wide is made another by a bit or more, goes, or comes; what is wrong then."""
    chance = dice.random()
    if chance < 0.1:
        connection.execute("DELETE FROM wide WHERE id = %s", [key])
        return MISSING
    if chance < 0.2:
        connection.execute("INSERT INTO wide (id) VALUES (%s)", [-key])
        return EXTRA
    what = dice.choice(_DAMAGES).format(bit=dice.randrange(31), at=dice.randrange(1, 6))
    connection.execute(f"UPDATE wide SET {what} WHERE id = {key}".encode())
    return OTHER


@pytest.mark.parametrize("seed", [0, *(pytest.param(each, marks=pytest.mark.marathon) for each in range(1, 11))])
def test_each_damage_is_found(pair: tuple[Server, Server], seed: int) -> None:
    """A thousand rows of two thousand, beside a stream of changes of other rows."""
    source, subscriber = _subscribed(pair, _WIDE)
    source.say(WIDE.format(2000).partition(";\n")[2])
    assert _differing(_compared(*pair)) == {}
    dice, expected = random.Random(seed), {}
    with subscriber.connect() as connection, connection.transaction():
        for key in dice.sample(range(1, 2001), 1000):
            kind = _damage(connection, dice, key)
            expected[-key if kind == EXTRA else key] = kind
    source.say("INSERT INTO wide (id, t) SELECT g, 'later' FROM generate_series(10001, 10100) g")
    [found] = _compared(*pair).values()
    assert {int(str(each.key["id"])): each.kind for each in found.listed} == expected
    assert found.found.rows == 1000
    for each in found.listed:
        assert (each.first is None, each.second is None) == (each.kind == EXTRA, each.kind == MISSING)
        assert each.first != each.second


def test_rows_without_a_key(pair: tuple[Server, Server]) -> None:
    source, subscriber = _subscribed(pair, "CREATE TABLE bag (v int, t text)", "ALTER TABLE bag REPLICA IDENTITY FULL")
    source.say("INSERT INTO bag SELECT g % 5, nullif('x', left('xy', g % 2)) FROM generate_series(1, 50) g")
    assert _differing(_compared(*pair)) == {}
    subscriber.say("INSERT INTO bag VALUES (1, 'x')", "DELETE FROM bag WHERE ctid = (SELECT min(ctid) FROM bag WHERE v = 2)")
    subscriber.say("UPDATE bag SET t = '' WHERE ctid = (SELECT min(ctid) FROM bag WHERE t IS NULL)")
    assert _differing(_compared(*pair)) == {"public.bag": {MISSING: 2, OTHER: 0, EXTRA: 2}}


# -- beside changes ------------------------------------------------------------------------------------------------------------------------

_LOADED = (
    "CREATE TABLE hot (id int PRIMARY KEY, n bigint)", "CREATE TABLE flips (id int PRIMARY KEY, v text)", "CREATE TABLE cut (id int PRIMARY KEY)",
    "CREATE TABLE moves (id int PRIMARY KEY, v int)", "CREATE TABLE bag (v int)", "ALTER TABLE bag REPLICA IDENTITY FULL",
    "CREATE TABLE still (id int PRIMARY KEY, v text)",
)  # fmt: skip
_LOADS = (
    ("UPDATE hot SET n = n + 1",),
    ("UPDATE flips SET v = 'a' WHERE id <= 50", "UPDATE flips SET v = 'b' WHERE id <= 50"),
    ("DELETE FROM flips WHERE id > 50", "INSERT INTO flips SELECT g, 'c' FROM generate_series(51, 100) g"),
    ("TRUNCATE cut", "INSERT INTO cut SELECT generate_series(1, 20)"),
    ("UPDATE moves SET id = -id WHERE id % 3 = 0", "INSERT INTO bag VALUES (1), (1)", "DELETE FROM bag WHERE v = 1"),
    (
        "INSERT INTO still SELECT g, repeat('x', 500) FROM generate_series(100001, 102000) g",
        "DELETE FROM still WHERE id > 100000",
    ),
)


@contextmanager
def _load(source: Server) -> Iterator[None]:
    """Clients that do this again and again."""
    ends, failures = threading.Event(), []

    def work(statements: tuple[str, ...]) -> None:
        try:
            with source.connect() as connection:
                while not ends.is_set():
                    for each in statements:
                        connection.execute(each.encode())
                    ends.wait(0.03)  # one worker applies what all of these do
        except psycopg.Error as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(each,), daemon=True) for each in _LOADS]
    for each in threads:
        each.start()
    try:
        yield
    finally:
        ends.set()
        for each in threads:
            each.join()
    assert not failures, failures


@pytest.mark.soak
@pytest.mark.parametrize("publisher", ["server", pytest.param("tailrace serve", marks=pytest.mark.marathon)])
def test_under_load(pair: tuple[Server, Server], publisher: str, tmp_path: Path) -> None:
    """What changes all the time may stay undecided, but is never told; and what is wrong is found beside it."""
    if publisher == "server":
        _subscribed(pair, *_LOADED, more="WITH (streaming = parallel)")
        _found_under_load(*pair)
        return
    with Served(pair[0].dsn(), tmp_path / "state", dbname=pair[0].dbname) as served:
        _subscribed(pair, *_LOADED, more="WITH (streaming = parallel)", publisher=served.dsn())
        _found_under_load(*pair)
        pair[1].say(f"DROP SUBSCRIPTION s_{pair[1].dbname}")


def _found_under_load(source: Server, subscriber: Server) -> None:
    pair = source, subscriber
    source.say(
        "INSERT INTO hot VALUES (1, 0)", "INSERT INTO flips SELECT g, 'c' FROM generate_series(1, 100) g",
        "INSERT INTO moves SELECT g, g FROM generate_series(1, 300) g", "INSERT INTO still SELECT g, 'v' || g FROM generate_series(1, 5000) g",
    )  # fmt: skip
    copying = "SELECT count(*) FROM pg_subscription_rel WHERE srsubstate <> 'r'"
    until(lambda: subscriber.value(copying) == 0)  # a table that is truncated while it is copied is copied anew
    with _load(source):
        for _ in range(2):
            found = _compared(*pair)
            assert {name: each.listed for name, each in found.items() if each.differs} == {}
        subscriber.say(
            "UPDATE still SET v = 'x' WHERE id IN (7, 4000)",
            "DELETE FROM still WHERE id = 8",
            "INSERT INTO moves VALUES (7000, 1)",
        )
        found = _compared(*pair)
        told = {(name, one.kind, str(one.key["id"])) for name, each in found.items() for one in each.listed}
        assert told == {
            ("public.still", OTHER, "7"), ("public.still", OTHER, "4000"), ("public.still", MISSING, "8"), ("public.moves", EXTRA, "7000"),
        }  # fmt: skip
    subscriber.say(
        "UPDATE still SET v = 'v' || id WHERE id IN (7, 4000)",
        "INSERT INTO still VALUES (8, 'v8')",
        "DELETE FROM moves WHERE id = 7000",
    )
    assert _differing(_compared(*pair)) == {}


def test_all_sessions_are_on_one_of_several_servers(pair: tuple[Server, Server]) -> None:
    """Whichever of those that the publisher's connection string names was asked first."""
    source, there = pair
    dsn = f"host=127.0.0.1,127.0.0.1 port={source.port},{there.port} user=postgres load_balance_hosts=random"
    for _ in range(5):
        with two_looks.TwoServers.connected(dsn, source.dbname, there.dsn()) as servers:
            assert len({each.info.port for each in (servers.source, *servers._sources)}) == 1


# -- what cannot be compared ---------------------------------------------------------------------------------------------------------------


def test_what_is_not_compared_is_told(pair: tuple[Server, Server]) -> None:
    source, subscriber = _subscribed(
        pair, *(f"CREATE TABLE {name} (id int PRIMARY KEY, v text)" for name in ("a", "b", "c")), what="FOR TABLE a, b, c",
    )  # fmt: skip
    source.say("CREATE PUBLICATION no_deletes FOR TABLE b WITH (publish = 'insert, update')", "ALTER PUBLICATION p DROP TABLE b")
    subscription = f"ALTER SUBSCRIPTION s_{subscriber.dbname}"
    subscriber.say(f"{subscription} ADD PUBLICATION no_deletes")
    source.say("CREATE TABLE late (id int PRIMARY KEY)", "ALTER PUBLICATION p ADD TABLE late", "ALTER PUBLICATION p DROP TABLE c")
    found = _compared(*pair)
    assert _differing(found) == {}
    assert {name: each.table.why_not for name, each in found.items()} == {
        "public.a": "", "public.b": "no publication of it publishes deletes, truncates", "public.c": "it is not published any more",
        "public.late": "the subscriber does not follow it: ALTER SUBSCRIPTION … REFRESH PUBLICATION",
    }  # fmt: skip
    assert _compared(*pair, "a").keys() == {"public.a"}
    subscriber.say("ALTER TABLE a DROP COLUMN v")
    done = _verify(source, f"{subscriber.dsn()} dbname={subscriber.dbname}", "--table", "a")
    assert (done.returncode, done.stdout.splitlines()[0]) == (1, "table public.a: the subscriber has no column v"), done.stderr


def test_other_types_and_columns_of_its_own(pair: tuple[Server, Server]) -> None:
    source, subscriber = pair
    source.say(
        "CREATE TABLE t (id int PRIMARY KEY, n int, v varchar, f real, at timestamp, o bool)",
        "INSERT INTO t VALUES (1, 2, 'v', 0.1, '2026-01-01', true)",
    )
    subscriber.say("CREATE TABLE t (own text DEFAULT 'own', f float8, at text, v text, n numeric, o text, id bigint PRIMARY KEY)")
    _subscribed(pair)
    assert _differing(_compared(*pair)) == {}
    subscriber.say("UPDATE t SET n = 2.0")
    assert _differing(_compared(*pair)) == {"public.t": {MISSING: 0, OTHER: 1, EXTRA: 0}}


def test_one_that_does_not_go_on(pair: tuple[Server, Server], monkeypatch: pytest.MonkeyPatch) -> None:
    source, subscriber = _subscribed(pair, "CREATE TABLE t (id int PRIMARY KEY)")
    assert _differing(_compared(*pair)) == {}
    subscriber.say(f"ALTER SUBSCRIPTION s_{subscriber.dbname} DISABLE")
    source.say("INSERT INTO t VALUES (1)")
    with pytest.raises(PeerError, match="is not known to have applied anything") as raised:  # which nobody waits for
        _compared(*pair)
    assert raised.value.detail == "It is disabled."
    subscriber.say(f"ALTER SUBSCRIPTION s_{subscriber.dbname} ENABLE")
    assert _differing(_compared(*pair)) == {}
    subscriber.say(f"ALTER SUBSCRIPTION s_{subscriber.dbname} DISABLE")
    slot = f"s_{subscriber.dbname}"
    until(lambda: not source.value(f"SELECT active FROM pg_replication_slots WHERE slot_name = '{slot}'"))
    source.say(f"SELECT pg_drop_replication_slot('{slot}')", "INSERT INTO t VALUES (2)")
    subscriber.say(f"ALTER SUBSCRIPTION s_{subscriber.dbname} ENABLE")
    monkeypatch.setattr(two_looks, "PATIENCE", 8.0)  # in which a worker begins more than once, and ends
    with pytest.raises(PeerError, match="and the source is at"):
        _compared(*pair)
    source.say(f"SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')")  # for who drops the subscription


def test_as_who_may_little(pair: tuple[Server, Server]) -> None:
    """SELECT on the tables is all that it takes; of a column that may not be read, the server's words are told."""
    source, subscriber = _subscribed(pair, "CREATE TABLE t (id int PRIMARY KEY, v text)")
    source.say("INSERT INTO t VALUES (1, 'one'), (2, 'two')")
    role = f"r_{source.dbname}"
    for each in pair:
        each.say(f"CREATE ROLE {role} LOGIN", f"GRANT SELECT ON t TO {role}")

    def verified() -> subprocess.CompletedProcess[str]:
        words = [f"{each.dsn()} user={role} dbname={each.dbname}" for each in pair]
        return ran("verify", words[0], "--to", words[1])

    done = verified()
    assert (done.returncode, done.stderr) == (0, "")
    subscriber.say("DELETE FROM t WHERE id = 2")
    assert verified().returncode == 1
    subscriber.say(f"REVOKE SELECT ON t FROM {role}")
    done = verified()
    assert (done.returncode, "permission denied for table t\nCONTEXT:  asked of the subscriber" in done.stderr) == (2, True), (
        done.stderr
    )


def test_what_is_refused(pair: tuple[Server, Server], tmp_path: Path) -> None:
    source, subscriber = pair
    to = f"{subscriber.dsn()} dbname={subscriber.dbname}"

    def refused(*more: str) -> str:
        done = _verify(source, to, *more)
        assert (done.returncode, done.stdout) == (2, "")
        return done.stderr

    assert "has no subscription" in refused()
    assert "--repair is for a lake" in refused("--repair")
    assert "are for a lake" in refused("--state", str(tmp_path))
    _subscribed(pair, "CREATE TABLE t (id int PRIMARY KEY)")
    assert 'subscription "x" does not exist\nHINT:  There are in this database: s' in refused("--subscription", "x")
    assert 'relation "x" does not exist' in refused("--table", "x")
    until(lambda: subscriber.sql("SELECT DISTINCT srsubstate::text FROM pg_subscription_rel") == [("r",)])
    source.say("DROP PUBLICATION p")
    assert 'publication "p" does not exist at the source' in refused()
    with Served(source.data_dir, tmp_path / "served", dbname=source.dbname) as served:
        done = ran("verify", served.dsn(), "--to", to)
        assert (done.returncode, "is compared with the PostgreSQL server, and SOURCE is tailrace's own" in done.stderr) == (
            2,
            True,
        ), done.stderr
