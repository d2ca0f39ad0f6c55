"""`tailrace mirror` and `tailrace lake` on directories and on a server of S3's protocol: what a person asks, and `kill -9` at any moment."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from support.command import Run, ran
from support.own_database import own_database
from support.s3_servers import SeaweedFS
from support.servers import Server
from support.slots import TAILRACE
from support.storm import begin, different, storm
from support.waiting import until
from tailrace.errors import TailraceError
from tailrace.lake.catalog import StoredCatalog
from tailrace.lake.reading import read_table
from tailrace.model import Lsn
from tailrace.replication.slot_location import SlotLocation
from tailrace.storage.local_store import LocalStore
from tailrace.storage.open_store import open_store
from tailrace.storage.store import Store

pytestmark = pytest.mark.postgres
SETTINGS = {"wal_keep_size": "2GB"}
LONG = 60.0


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with Server(18, SETTINGS, test_decoding=False) as server:
        yield server


@pytest.fixture
def server(running: Server) -> Iterator[Server]:
    """In a database of its own."""
    with own_database(running) as server:
        begin(server)
        yield server


@dataclass
class Place:
    """Where a lake is, and what a process finds it with."""

    url: str
    environment: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, object] = field(default_factory=dict)
    format: str = "delta"

    @property
    def store(self) -> Store:
        return open_store(self.url, dict(self.options))

    @property
    def complete(self) -> Lsn:
        catalog = StoredCatalog.read(self.store).catalog
        return catalog.complete if catalog is not None else Lsn(0)


@pytest.fixture(
    params=[pytest.param("directory", marks=pytest.mark.soak), "s3", pytest.param("s3, iceberg", marks=pytest.mark.soak)]
)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "directory":
        return Place(str(tmp_path / "lake"))
    seaweedfs: SeaweedFS = request.getfixturevalue("seaweedfs")
    return Place(
        f"{seaweedfs.url}/{tmp_path.name}",
        {name.upper(): str(value) for name, value in seaweedfs.options.items()},
        seaweedfs.options,
        request.param.removeprefix("s3, ") if "," in request.param else "delta",
    )


@contextmanager
def _following(server: Server, place: Place, state: Path, *more: str, source: str = "") -> Iterator[subprocess.Popen[str]]:
    where = (
        source or server.data_dir,
        "--database",
        server.dbname,
        "--to",
        place.url,
        "--state",
        state,
        "--format",
        place.format,
    )
    words = (TAILRACE, "mirror", *where, "--follow", "--every", "0.2s", "--json", *more)
    process = subprocess.Popen(
        list(map(str, words)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **place.environment}
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _ended(process: subprocess.Popen[str]) -> str:
    """What it printed, once it is asked to end."""
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=LONG)
    assert process.returncode == 0, err
    return out


def _wait_for(server: Server, place: Place) -> Lsn:
    """The lake has all that the server has by now."""
    end = _end(server)
    until(lambda: place.complete >= end)
    return end


def _end(server: Server) -> Lsn:
    return Lsn.parse(server.value("SELECT pg_current_wal_lsn()"))


def test_once_and_again(server: Server, tmp_path: Path, tailrace: Run) -> None:
    """What is printed, of the lake and by those who ask it; a run that finds nothing changes nothing."""
    lake, state = tmp_path / "lake", tmp_path / "state"
    base = ("mirror", server.data_dir, "--database", server.dbname, "--to", lake, "--state", state)
    code, out, err = tailrace("lake", "status", lake)
    assert (code, out) == (1, "")
    assert "there is no lake at" in err
    begin = _end(server)
    code, out, err = tailrace(*base)
    assert (code, err) == (0, "")
    assert out.startswith(said := f"{lake} is complete up to ")
    assert begin <= Lsn.parse(out.removeprefix(said).strip()) <= _end(server)  # which writes by itself, too
    server.say("UPDATE plain SET v = 'later' WHERE id <= 10", "INSERT INTO bag VALUES (2, 'two')", "DROP TABLE long")
    end = _end(server)
    code, out, err = tailrace(*base, "--json", "--once")
    assert (code, err) == (0, "")
    (line,) = map(json.loads, out.splitlines())
    assert line["tables"]["public.plain"] == {"changes": 10, "upserts": 10, "deletes": 0}
    assert line["changes"] == 11
    assert line["bytes_written"] > 0
    assert line["lag_bytes"] == 0 <= line["lag_seconds"]
    assert Lsn.parse(line["lsn"]) >= end

    code, out, _ = tailrace("lake", "status", lake, "--json", "--state", state)
    status = json.loads(out)
    assert (code, status["complete"], status["confirmed_flush_lsn"]) == (0, line["lsn"], line["lsn"])
    assert status["commit_time"] == line["commit_time"]
    assert 0 <= status["lag_bytes"] <= 16384
    tables = {each["table"]: each for each in status["tables"]}
    assert {name: each["rows"] for name, each in tables.items()} == {
        "public.plain": 200,
        "public.bag": 2,
        "public.pair": 1,
        "public.long": 1,
    }
    assert [name for name, each in tables.items() if each["dropped"]] == ["public.long"]
    code, out, _ = tailrace("lake", "status", lake)
    assert out.splitlines()[0].split("\t")[:3] == ["table", "folder", "rows"]
    assert f"complete: {line['lsn']}" in out.splitlines()

    assert tailrace("lake", "wait", lake, end) == (0, f"{line['lsn']}\n", "")
    code, out, err = tailrace("lake", "wait", tmp_path / "lkae", end)
    assert (code, out) == (1, "")
    assert err.splitlines()[0].endswith(f'there is no lake at "{tmp_path}/lkae"')
    code, _, err = tailrace("lake", "wait", tmp_path / "lkae", end, "--timeout", "0.1s")
    assert code == 1
    assert "is not there after 0.1 seconds" in err
    code, out, err = tailrace("lake", "wait", lake, "7/0", "--timeout", "0.2s")
    assert (code, out) == (1, "")
    assert f"is complete up to {line['lsn']} only after 0.2 seconds, not up to 7/0" in err

    code, out, _ = tailrace(*base, "--json")
    assert (code, [line for line in map(json.loads, out.splitlines()) if line["tables"]]) == (0, [])


def test_what_is_refused(server: Server, tmp_path: Path, tailrace: Run) -> None:
    """Each with one error, and no slot is left that was made in vain."""
    state, lake = tmp_path / "state", tmp_path / "lake"
    base = ("mirror", server.data_dir, "--database", server.dbname, "--to", lake, "--state", state)
    for more, message in (
        (("--follow", "--once"), "contradict each other"),
        (("--every", "soon"), 'invalid length of time: "soon"'),
        (("--until", "soon"), "invalid input syntax"),
        (("--numeric", "roman"), "roman"),
        (("--option", "aws_region=x"), "is a directory, which has no options"),
        (("--slot", "No"), "invalid character"),
        (("--synchronous-standby-names", "2 (a"), "invalid value for parameter"),
    ):
        code, out, err = tailrace(*base, *more)
        assert (code, out) == (1, ""), more
        assert message in err, (more, err)
        assert not (state / "slots").exists() or not SlotLocation.open(state).slots(), more
    assert tailrace(*base)[0] == 0
    other = f"other_{server.dbname}"
    server.sql(f"CREATE DATABASE {other} STRATEGY file_copy")
    code, _, err = tailrace("mirror", server.data_dir, "--database", other, "--to", lake, "--state", state)
    assert (code, f'is of database "{server.dbname}", not "{other}"' in err) == (1, True)
    code, _, err = tailrace("mirror", server.data_dir, "--database", other, "--to", lake, "--state", tmp_path / "state2")
    assert (code, "is of database" in err) == (1, True)
    assert SlotLocation.open(tmp_path / "state2").slots() == []


def test_its_slot(server: Server, tmp_path: Path, tailrace: Run) -> None:
    """Nothing else takes what it gives; a copy serves another lake."""
    state = tmp_path / "state"
    base = ("mirror", server.data_dir, "--database", server.dbname, "--state", state)
    assert tailrace(*base, "--to", tmp_path / "lake")[0] == 0
    code, out, err = tailrace("slot", "get", "mirror", "--state", state)
    assert (code, out, 'replication slot "mirror" has no output plugin' in err) == (1, "", True)
    assert tailrace("slot", "copy", "mirror", "copied", "--state", state)[0] == 0
    server.say("INSERT INTO plain VALUES (9000, 'both', 1)")
    for slot, lake in (("copied", "other"), ("mirror", "lake")):
        assert tailrace(*base, "--to", tmp_path / lake, "--slot", slot)[0] == 0
        assert different(server, LocalStore(tmp_path / lake)) == []


def test_a_slot_keeps_one_lake(server: Server, tmp_path: Path, tailrace: Run) -> None:
    base = ("mirror", server.data_dir, "--database", server.dbname, "--state", tmp_path / "state")
    assert tailrace(*base, "--to", tmp_path / "lake")[0] == 0
    code, _, err = tailrace(*base, "--to", tmp_path / "other")
    assert (code, f'keeps lake "{tmp_path}/lake", not' in err, (tmp_path / "other").exists()) == (1, True, False)
    assert tailrace(*base, "--to", tmp_path / "lake")[0] == 0


def test_an_archive_with_a_state_of_its_first_page(server: Server, tmp_path: Path, tailrace: Run) -> None:
    """What tables were is known from the middle of a page on, and the log is read from its beginning."""
    server.say("SELECT pg_switch_wal()", "INSERT INTO bag VALUES (1, 'x')")
    receive = ("wal", "receive", server.dsn(), "--to", tmp_path / "wal", "--no-loop", "--endpos")
    assert tailrace(*receive, server.flush_lsn())[0] == 0
    assert tailrace("catalog", "capture", server.dsn(), "--database", server.dbname, "-o", tmp_path / "state")[0] == 0
    server.say("CREATE TABLE later (id int PRIMARY KEY)", "INSERT INTO later VALUES (1)", "CHECKPOINT")
    assert tailrace(*receive, server.flush_lsn())[0] == 0
    where = (
        "--database",
        server.dbname,
        "--to",
        tmp_path / "lake",
        "--state",
        tmp_path / "slots",
        "--catalog",
        tmp_path / "state",
    )
    code, _, err = tailrace("mirror", tmp_path / "wal", *where)
    assert (code, "rows that were written before" in err) == (0, True), err
    assert read_table(tmp_path / "lake/public.later").to_pylist() == [{"id": 1}]


def test_what_is_published(server: Server, tmp_path: Path, tailrace: Run) -> None:
    """The lake has that, and no more; names of none are told, and so is that another choice is another lake's."""
    server.say("CREATE PUBLICATION p FOR TABLE plain (id, v) WHERE (id > 100)")
    base = ("mirror", server.data_dir, "--database", server.dbname, "--to", tmp_path / "lake", "--state", tmp_path / "state")
    server.say(
        "INSERT INTO plain VALUES (1000, 'shown', 1), (50000, 'shown', 1)",
        "DELETE FROM plain WHERE id = 1000",
        "INSERT INTO bag VALUES (1, 'x')",
    )
    code, _, err = tailrace(*base, "--publication", "p,nowhere", "--json")
    assert (code, 'publication "nowhere" does not exist' in err) == (0, True)
    assert sorted(read_table(tmp_path / "lake/public.plain").to_pylist(), key=str) == [{"id": 50000, "v": "shown"}]
    assert not (tmp_path / "lake/public.bag").exists()
    code, _, err = tailrace(*base)
    assert (code, "has what nowhere, p publish, and is to get all changes" in err) == (1, True)


def test_it_ends_behind_a_commit(server: Server, place: Place, tmp_path: Path) -> None:
    """SIGTERM: what was told is in the lake and confirmed, all of it, and the status is 0."""
    with _following(server, place, tmp_path / "state") as process, storm(server, 1):
        assert process.stdout is not None
        out = process.stdout.readline()
        time.sleep(0.5)
        out += _ended(process)
    assert place.complete == SlotLocation.open(tmp_path / "state").slot("mirror").confirmed_flush_lsn
    told = [json.loads(line)["lsn"] for line in out.splitlines()]
    assert told[-1] == str(place.complete)
    with _following(server, place, tmp_path / "state"):
        _wait_for(server, place)
    assert different(server, place.store) == []


def test_a_commit_returns_when_the_lake_has_its_rows(server: Server, tmp_path: Path) -> None:
    """At remote_apply, whatever changes are gathered for otherwise. Rows of before the slot are named."""
    place, state = Place(str(tmp_path / "lake")), tmp_path / "state"
    words = ("--synchronous-standby-names", "mirror", "--every", "1h", "--no-copy")
    with _following(server, place, state, *words, source=server.dsn()) as process:
        until(lambda: place.complete or process.poll() is not None)
        server.say("ALTER SYSTEM SET synchronous_standby_names = 'tailrace'", "SELECT pg_reload_conf()")
        until(lambda: server.value("SELECT sync_state FROM pg_stat_replication") in ("sync", "quorum"))
        with server.connect(options="-c synchronous_commit=remote_apply") as connection:
            for number in range(5):
                connection.execute(f"INSERT INTO plain VALUES ({7000 + number}, 'applied')".encode())
                here = place.complete
                assert here >= Lsn.parse(server.value("SELECT pg_current_wal_lsn()")) - 64
        server.say("ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=LONG)
    assert process.returncode == 0, err
    assert "rows that were written before" in err
    assert "public.bag, public.long, public.pair, public.plain" in err


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_killed_in_a_storm(server: Server, place: Place, tmp_path: Path) -> None:
    """Four times at each place."""
    _kill(server, [(place, tmp_path / "state")], kills=4)


@pytest.mark.soak
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "place", ["s3", *(pytest.param(each, marks=pytest.mark.marathon) for each in ("directory", "s3, iceberg"))], indirect=True
)
def test_two_are_killed_who_keep_one_lake(server: Server, place: Place, tmp_path: Path) -> None:
    _kill(server, [(place, tmp_path / "one"), (place, tmp_path / "other")], kills=4)


@pytest.mark.soak
def test_a_second_one_over_a_connection(server: Server, tmp_path: Path) -> None:
    """Its slot begins where the server is, ahead of the lake: the first one comes there. Alone it is told that something is missing."""
    place = Place(str(tmp_path / "lake"))
    with _following(server, place, tmp_path / "one", source=server.dsn()) as first:
        until(lambda: place.complete or first.poll() is not None)
        server.say("TRUNCATE plain, pair, long, bag", "INSERT INTO plain VALUES (1, 'one', 1)", "INSERT INTO pair VALUES (1, 1, now())",
                   "INSERT INTO bag VALUES (1, 'x')", "INSERT INTO long VALUES (1, 1, 'x')")  # fmt: skip
        with storm(server, 3), _following(server, place, tmp_path / "two", source=server.dsn()) as second:
            until(lambda: place.complete >= _confirmed(tmp_path / "two") > 0 or second.poll() is not None)
            first.kill()
            time.sleep(1)
            end = _wait_for(server, place)
            until(lambda: _confirmed(tmp_path / "two") >= end)
            _ended(second)
    with _following(server, place, tmp_path / "one", source=server.dsn()) as first:
        end = _wait_for(server, place)
        until(lambda: _confirmed(tmp_path / "one") >= end)
        _ended(first)
    assert different(server, place.store) == []
    server.say("INSERT INTO bag VALUES (2, 'nobody has this')")
    done = ran("mirror", server.dsn(), "--database", server.dbname, "--to", place.url, "--state", tmp_path / "three")
    assert (done.returncode, "has confirmed" in done.stderr) == (1, True)


@pytest.mark.soak
def test_a_second_one_while_tables_are_copied(server: Server, tmp_path: Path) -> None:
    """It takes the copy over, and the first one waits for it; where that one is killed, the first goes on with it."""
    server.say("INSERT INTO plain SELECT n, repeat('x', 400), n FROM generate_series(10000, 30000) n")
    slowly = ("--copy-rate", "400kB")  # so slowly that the second one is there before the first is done, on any machine
    for number, is_killed in enumerate((False, True)):
        place = Place(str(tmp_path / f"lake{number}"))
        states = [tmp_path / f"{number}.{each}" for each in range(2)]
        with _following(server, place, states[0], *slowly, source=server.dsn()) as first:
            until(lambda place=place: bool(_awaited(place)))
            begun = place.complete
            server.say("INSERT INTO bag VALUES (1, 'between')")
            with _following(server, place, states[1], *slowly, source=server.dsn()) as second, storm(server, number):
                until(lambda place=place, begun=begun: place.complete > begun and bool(_awaited(place)))
                if is_killed:
                    second.kill()
                until(lambda place=place: _awaited(place) is None)
                _wait_for(server, place)
                if not is_killed:
                    _ended(second)
            _wait_for(server, place)
            first.send_signal(signal.SIGTERM)
            _, err = first.communicate(timeout=LONG)
        assert (first.returncode, "another run has written" in err) == (0, True), err
        assert different(server, place.store) == []


def _awaited(place: Place) -> int | None:
    """How many tables the lake has while they are copied; None once they are."""
    catalog = StoredCatalog.read(place.store).catalog
    return 0 if catalog is None else len(catalog.tables) if catalog.awaits_copy else None


@pytest.mark.marathon
@pytest.mark.timeout(3600)
def test_killed_a_hundred_times(server: Server, place: Place, tmp_path: Path) -> None:
    _kill(server, [(place, tmp_path / "one"), (place, tmp_path / "other")], kills=100)


def _kill(server: Server, mirrors: list[tuple[Place, Path]], *, kills: int) -> None:
    """Whoever it hits, at a moment that is drawn: while it starts, or while it works."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    dice, hit, at_work = random.Random(seed), 0, 0
    running: list[subprocess.Popen[str] | None] = [None] * len(mirrors)
    with ExitStack() as stack, storm(server, seed, pause=0.1):
        while hit < kills:
            for number, (place, state) in enumerate(mirrors):
                if running[number] is None:
                    running[number] = stack.enter_context(_following(server, place, state, "--window", "1MB"))
            number = dice.randrange(len(mirrors))
            process = running[number]
            assert process is not None
            if dice.random() < 0.7 or (hit + 1 == kills and not at_work):
                at_work += _first_line(process)
                time.sleep(dice.random() * 0.5)
            else:
                time.sleep(dice.random() * 2)
            process.kill()
            _, err = process.communicate()
            assert process.returncode == -signal.SIGKILL, err
            running[number], hit = None, hit + 1
    assert at_work
    for place, state in mirrors:
        with _following(server, place, state) as process:
            end = _wait_for(server, place)
            until(lambda state=state, end=end: _confirmed(state) >= end)
            _ended(process)
        assert different(server, place.store) == []


def _first_line(process: subprocess.Popen[str]) -> bool:
    """Whether it has made a commit. What it prints later is read by somebody, lest it wait."""
    assert process.stdout is not None
    line = process.stdout.readline()
    threading.Thread(target=process.stdout.read, daemon=True).start()
    return bool(line)


def _confirmed(state: Path) -> Lsn:
    try:
        return SlotLocation.open(state).slot("mirror").confirmed_flush_lsn
    except TailraceError:
        return Lsn(0)
