"""Slots created at a past moment of an archive (`tailrace slot create --at`): they give what the server's own slot gives that was created then."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from support.archives import receiving, switch_until_whole
from support.command import Run
from support.decoding import check_equal
from support.segments import NAME
from support.servers import Server
from support.slots import TAILRACE, theirs
from tailrace.catalog.state.state_file import write_state
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner, Source, capture

pytestmark = pytest.mark.postgres


def captured(server: Server, folder: Path) -> Path:
    file = folder / "captured"
    file.write_bytes(write_state(capture(Source.open(server.data_dir), LocalRunner(1), server.dbname)))
    return file


def created_by_server(server: Server, name: str) -> str:
    """Where it begins."""
    ((lsn,),) = server.sql("SELECT lsn::text FROM pg_create_logical_replication_slot(%s, 'test_decoding')", [name])
    return str(lsn)


def given_by_server(server: Server, name: str, upto: str) -> str:
    rows = server.sql("SELECT lsn::text, xid::text, data FROM pg_logical_slot_get_changes(%s, %s, NULL)", [name, upto])
    return "".join("\t".join(row) + "\n" for row in rows)


@pytest.mark.marathon
def test_gives_what_the_server_s_slot_of_then_gives(tailrace: Run, tmp_path: Path) -> None:
    """By LSN and by time; between transactions, behind a change of a table, within a long record."""
    archive, state = tmp_path / "archive", tmp_path / "state"
    moments: dict[str, str] = {}
    with Server(16) as server, receiving(server, archive):
        server.say("CREATE TABLE t (id int, v text)", "ALTER TABLE t REPLICA IDENTITY FULL")
        catalog = captured(server, tmp_path)
        for number in range(4):
            server.say(f"INSERT INTO t SELECT g, repeat('x', 500) FROM generate_series(1, {300 * number}) g")
            server.say(f"ALTER TABLE t ADD c{number} int DEFAULT {number}")
            moments[f"lsn{number}"] = created_by_server(server, f"lsn{number}")
            server.say("UPDATE t SET v = 'y' WHERE id < 3", f"INSERT INTO t VALUES ({number}, repeat('long', 9000))")
            server.switch_wal()
            time = str(server.value("SELECT clock_timestamp()::text"))
            created_by_server(server, f"time{number}")
            moments[f"time{number}"] = time
            with server.connect(autocommit=False) as begun:
                begun.execute("INSERT INTO t VALUES (100)")
                server.say(f"INSERT INTO t VALUES (200, 'before {number}')")
                begun.execute(f"ALTER TABLE t DROP c{number}".encode())
        end = switch_until_whole(server, archive)
        expected = {name: given_by_server(server, name, end) for name in moments}
    for path in archive.glob("*.partial"):
        path.unlink()
    for name, moment in moments.items():
        words = (
            "slot",
            "create",
            name,
            archive,
            "--database",
            "postgres",
            "--state",
            state,
            "--catalog",
            catalog,
            "--at",
            moment,
        )
        status, out, err = tailrace(*words)
        assert (status, err) == (0, "")
        if name.startswith("lsn"):
            assert out == f"{name}\t{moment}\n"
        check_equal(tailrace("slot", "get", name, "--state", state)[1], expected[name])
        assert expected[name].count("INSERT")
    assert len({len(text) for text in expected.values()}) == len(expected)
    # An LSN in the middle of a record is that of the next one.
    middle = Lsn(Lsn.parse(moments["lsn2"]) - 3)
    status, out, _ = tailrace(*words[:2], "middle", *words[3:-1], middle)
    assert (status, out) == (0, f"middle\t{moments['lsn2']}\n")
    check_refused(tailrace, archive, catalog, tmp_path)


def check_refused(tailrace: Run, archive: Path, catalog: Path, tmp_path: Path) -> None:
    def said(*words: Any) -> str:
        status, out, err = tailrace(
            "slot", "create", "x", archive, "--database", "postgres", "--state", tmp_path / "state", *words
        )
        assert (status, out) == (1, "")
        assert isinstance(err, str)
        return err.removeprefix("tailrace: error: ").splitlines()[0]

    with_catalog = ("--catalog", catalog, "--at")
    assert said(*with_catalog, "7F/0") == "start LSN 7F/0 is outside of the WAL at hand"
    assert said(*with_catalog, "0/28") == "what tables were at 0/28 is not known: the catalog state was captured later"
    assert said(*with_catalog, "2200-01-01 00:00+00") == "no transaction commits at 2200-01-01 00:00+00 or later"
    assert said(*with_catalog, "soon") == 'invalid input syntax for type timestamp with time zone: "soon"'
    assert said(*with_catalog, "z/z") == 'invalid input syntax for type pg_lsn: "z/z"'
    assert said("--at", "0/6000000") == "a slot that begins in the past needs a catalog state of before"


def test_begins_once_what_was_open_has_ended(tailrace: Run, tmp_path: Path) -> None:
    """If its beginning is not at hand; where it has not ended, there is no place."""
    archive, state = tmp_path / "archive", tmp_path / "state"
    create = ("slot", "create", "--database", "postgres", "--state", state, "--catalog", tmp_path / "captured", "--at")
    with Server(16, {"wal_keep_size": 0, "min_wal_size": "2MB"}) as server:
        server.say("CREATE TABLE t (id int)")
        with server.connect(autocommit=False) as begun:
            begun.execute("INSERT INTO t VALUES (0)")
            first = server.flush_lsn()
            while min(path.name for path in server.wal_dir.glob(NAME)) <= f"{1:08X}{0:08X}{Lsn.parse(first) >> 20:08X}":
                server.say("INSERT INTO t VALUES (1)")
                server.switch_wal()
                server.checkpoint()
            captured(server, tmp_path)
            with receiving(server, archive):
                moment = server.flush_lsn()
                for number in range(3):
                    server.say(f"INSERT INTO t VALUES ({10 + number})")
                switch_until_whole(server, archive)
                shutil.copytree(archive, tmp_path / "unfinished")
                begun.commit()
                lsn = created_by_server(server, "theirs")
                server.say("INSERT INTO t VALUES (20)")
                end = switch_until_whole(server, archive)
        expected = given_by_server(server, "theirs", end)
    for folder in (archive, tmp_path / "unfinished"):
        for path in folder.glob("*.partial"):
            path.unlink()
    status, out, err = tailrace(*create, moment, "mine", archive)
    assert (status, err) == (0, "")
    assert Lsn.parse(moment) < Lsn.parse(out.split()[1]) <= Lsn.parse(lsn)
    check_equal(tailrace("slot", "get", "mine", "--state", state)[1], expected)
    assert expected.count("INSERT") == 1
    status, out, err = tailrace(*create, moment, "unfinished", tmp_path / "unfinished")
    assert (status, out) == (1, "")
    assert err.startswith("tailrace: error: no consistent point: 1 transaction is open whose beginning this log does not hold\n")


@pytest.mark.parametrize("when", ["before", "while it waits"])
def test_where_a_server_was_killed_nothing_is_waited_for(when: str, tmp_path: Path) -> None:
    """Its postmaster.pid is still there. A server that runs is waited for."""
    with Server(16, {"wal_keep_size": 0, "min_wal_size": "2MB"}) as server:
        server.say("CREATE TABLE t (id int)")
        with suppress(psycopg.OperationalError), server.connect(autocommit=False) as begun:
            begun.execute("INSERT INTO t VALUES (0)")
            first = server.flush_lsn()
            while min(path.name for path in server.wal_dir.glob(NAME)) <= f"{1:08X}{0:08X}{Lsn.parse(first) >> 20:08X}":
                server.say("INSERT INTO t VALUES (1)")
                server.switch_wal()
                server.checkpoint()
            if when == "before":
                server.crash()
            words = [TAILRACE, "slot", "create", "mine", server.data_dir, "--database", "postgres", "--state", tmp_path / "state"]
            with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
                assert process.stderr is not None
                if when == "while it waits":
                    assert "waiting for transactions to end" in process.stderr.readline()
                    assert process.poll() is None
                    server.crash()
                try:
                    assert process.wait(60) == 1
                    assert "tailrace: error: no consistent point: 1 transaction is open" in process.stderr.read()
                finally:
                    process.kill()
        assert (server.data_dir / "postmaster.pid").exists()


def test_begins_where_a_segment_does(tailrace: Run, tmp_path: Path) -> None:
    """The log ends there behind a switch, and at the end of a base backup: of what follows there is no file yet."""
    with Server(18) as server:
        server.say("CREATE TABLE t (id int PRIMARY KEY)", "CHECKPOINT", "INSERT INTO t VALUES (1)")
        server.sql("SELECT pg_create_logical_replication_slot('theirs', 'test_decoding')")
        server.run(
            str(server.bin("pg_basebackup")), "-d", server.dsn(), "-D", str(server.home / "backup"), "-X", "stream", "-c", "fast"
        )
        backup = Path(shutil.copytree(server.home / "backup", tmp_path / "backup"))
        server.switch_wal()
        server.sql("SELECT pg_replication_slot_advance('theirs', pg_current_wal_insert_lsn())")
        for source, state in ((server.data_dir, tmp_path / "state"), (backup, tmp_path / "other")):
            words = ("slot", "create", "mine", str(source), "--database", server.dbname, "--state", state)
            status, out, err = tailrace(*words)
            assert (status, err) == (0, ""), err
            assert out.startswith("mine\t")
            assert tailrace("slot", "get", "mine", "--state", state) == (0, "", "")
        server.say("INSERT INTO t VALUES (2)")
        status, out, err = tailrace("slot", "get", "mine", "--state", tmp_path / "state")
        assert (status, out, err) == (0, theirs(server), "")  # by the record before the segment the log is known again
        assert "id[integer]:2" in out
