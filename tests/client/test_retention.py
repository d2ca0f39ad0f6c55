"""What is kept of a server's log that is received: what slots, marks and states need, and no more; and what the server keeps for us."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.acquired import acquired
from support.command import Run, ran
from support.decoding import check_equal
from support.forked import forked
from support.load import loaded
from support.servers import Server
from support.slots import TAILRACE
from support.waiting import until
from tailrace.client.kept_wal import KeptWal
from tailrace.client.receiver import Receiver, received_upto
from tailrace.client.reception import receiving
from tailrace.client.wal_archive import WalArchive
from tailrace.errors import UsageError
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner
from tailrace.replication.retention import Retention
from tailrace.replication.slot_location import SlotLocation
from tailrace.replication.waiting import finish
from tailrace.slots.wal_keep import WalKeep, parse_wal_keep
from tailrace.sources.received_log import SERVER_FILE, ReceivedLog, held

pytestmark = pytest.mark.postgres
KEEPS = {"wal_keep_size": "2GB"}
REMOVES = {"wal_keep_size": 0, "max_wal_size": "64MB", "min_wal_size": "2MB"}
FILL = "INSERT INTO t (v) SELECT repeat('x', 100) FROM generate_series(1, 15000) i"
TABLE = "CREATE TABLE t (id serial PRIMARY KEY, v text)"
MB = 1 << 20
SEGMENT = 16 * MB


def _create(tailrace: Run, name: str, server: Server, state: Path, *words: object) -> str:
    code, _, err = tailrace("slot", "create", name, server.dsn(), "--database", "app", "--state", state, *words)
    assert code == 0, err
    return str(err)


def _whole(directory: Path) -> list[int]:
    """The numbers of the whole segments, in order; none between them is missing."""
    numbers = sorted(int(path.name[16:], 16) for path in directory.glob("0*[0-9A-F]"))
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers))) if numbers else True
    return numbers


def _shown(tailrace: Run, name: str, state: Path) -> Any:
    code, out, err = tailrace("slot", "show", name, "--state", state, "--json")
    assert code == 0, err
    return json.loads(out)


def _theirs(server: Server, lsn: bool = False) -> str:
    rows = server.sql("SELECT * FROM pg_logical_slot_peek_changes('theirs', NULL, NULL)")
    return "".join(f"{at}\t{xid}\t{data}\n" if lsn else f"{data}\n" for at, xid, data in rows)


def _go_on(server: Server, cells: int = 1) -> None:
    """What slots need begins with a cell of 64 MB. To switch four times costs less than to write so much."""
    for _ in range(4 * cells):
        server.say("INSERT INTO t (v) VALUES ('x')")
        server.switch_wal()


def _whole_server(major: int = 18) -> Server:
    """Keeps all, in segments of 16 MB."""
    return Server(major, KEEPS, dbname="app", wal_segment_mb=16)


@pytest.mark.soak
def test_what_no_slot_needs_goes(tailrace: Run, tmp_path: Path) -> None:
    """With each verb, and the last whole segment stays; a slot that begins then has what it needs from the server, though it was removed here."""
    state, received = tmp_path / "state", tmp_path / "state/received"
    with _whole_server() as server:
        server.say(TABLE)
        _create(tailrace, "a", server, state)
        _create(tailrace, "b", server, state)
        for _ in range(4):
            _go_on(server)
            assert tailrace("slot", "get", "a", "--state", state)[0] == 0
        location = SlotLocation.open(state)
        a, b = location.slot("a").restart_lsn // SEGMENT, location.slot("b").restart_lsn // SEGMENT
        assert _whole(received)[0] <= b < a - 8
        assert tailrace("slot", "drop", "b", "--state", state)[0] == 0
        marks = [mark.lsn for mark in location.marks(location.slot("a").database_oid)]
        assert b + 4 < _whole(received)[0] <= min(marks) // SEGMENT
        resume = WalArchive(received, SEGMENT).resume_point()
        assert resume is not None
        assert _whole(received)[-1] == resume.lsn // SEGMENT
        redo = Lsn.parse(str(server.value("SELECT redo_lsn FROM pg_control_checkpoint()")))
        assert redo // SEGMENT < _whole(received)[0]
        _create(tailrace, "c", server, state)
        assert _whole(received)[0] == redo // SEGMENT
        server.say("INSERT INTO t (v) VALUES ('for c')")
        code, out, err = tailrace("slot", "get", "c", "--state", state)
        assert code == 0, err
        assert "'for c'" in out
        for path in received.glob("0*[0-9A-F]"):
            assert path.read_bytes() == (server.wal_dir / path.name).read_bytes()


@pytest.mark.soak
def test_what_is_to_be_kept_besides(tailrace: Run, tmp_path: Path) -> None:
    """Bytes, or hours since it was received."""
    state, received = tmp_path / "state", tmp_path / "state/received"
    with _whole_server() as server:
        server.say(TABLE)
        _create(tailrace, "a", server, state, "--keep", "12h")
        for _ in range(3):
            _go_on(server)
            assert tailrace("slot", "get", "a", "--state", state)[0] == 0
        now = _whole(received)
        assert len(now) >= 12
        for number in now[:3]:
            os.utime(next(received.glob(f"*{number:08X}")), (0, time.time() - 13 * 3600))
        assert tailrace("slot", "get", "a", "--state", state)[0] == 0
        assert _whole(received) == now[3:]
        assert "wal_keep\t160MB\n" in tailrace("slot", "set", "--state", state, "wal_keep=160MB")[1]
        assert tailrace("slot", "get", "a", "--state", state)[0] == 0
        assert len(_whole(received)) == 9
        assert tailrace("slot", "set", "--state", state, "wal_keep=0")[0] == 0
        _go_on(server)
        assert tailrace("slot", "get", "a", "--state", state)[0] == 0
        assert len(_whole(received)) < 9
        code, _, err = tailrace("slot", "set", "--state", state, "wal_keep=12")
        assert (code, 'invalid value for parameter "wal_keep": "12"' in err) == (1, True)


@pytest.mark.soak
def test_two_slots_while_segments_go(tailrace: Run, tmp_path: Path) -> None:
    """One streams, the other comes now and then; what they get is what the server's slot gives, however often old segments are removed meanwhile."""
    state, received, file = tmp_path / "state", tmp_path / "state/received", tmp_path / "out"
    with _whole_server() as server:
        server.say(TABLE, "SELECT pg_create_logical_replication_slot('theirs', 'test_decoding')")
        for name in ("a", "b"):
            _create(tailrace, name, server, state)
        said: list[str] = []
        receive = [TAILRACE, "slot", "receive", "a", "--state", state, "-f", file, "-F", "0.1"]

        def got() -> str:
            code, out, err = tailrace("slot", "get", "b", "--state", state)
            assert code == 0, err
            return str(out)

        with _cleaned_all_the_time(state, said) as removed, (tmp_path / "err").open("w") as err:
            with loaded(server), subprocess.Popen(receive, stderr=err) as consumer:
                taken = ""
                for _ in range(4):
                    _go_on(server)
                    taken += got()
                consumer.terminate()
                assert (consumer.wait(30), "error" in (tmp_path / "err").read_text()) == (128 + 15, False)
            end = server.flush_lsn()
            subprocess.run([*receive, "--endpos", end], check=True, timeout=120, stderr=subprocess.DEVNULL)
            taken += got()
        check_equal(file.read_text(), _theirs(server))
        check_equal(taken, _theirs(server, lsn=True))
        assert said == []
        assert sum(removed) > 4
        assert _whole(received)


@contextmanager
def _cleaned_all_the_time(state: Path, said: list[str]) -> Iterator[list[int]]:
    """How many segments went, each time."""
    retention, done = Retention(state / "received", [state], None, said.append), threading.Event()
    removed: list[int] = []

    def work() -> None:
        while not done.wait(0.02):
            if (cleanup := retention.clean_up()) is not None:
                removed.append(len(cleanup.unneeded))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield removed
    finally:
        done.set()
        thread.join()


@pytest.mark.soak
def test_while_it_is_received(tailrace: Run, tmp_path: Path) -> None:
    """By whoever receives, now and then, and what others have done by then."""
    state, received = tmp_path / "state", tmp_path / "state/received"
    with _whole_server() as server:
        server.say(TABLE)
        _create(tailrace, "a", server, state)
        _go_on(server, 3)
        receiver = Receiver(server.dsn(), received)
        retention = Retention(received, [state], None, print, every=0.1)
        with retention.cleaning(lambda: receiver.is_at_work), receiving(receiver) as reception:
            reception.wait(Lsn.parse(server.flush_lsn()))
            before = _whole(received)
            assert len(before) >= 12
            for _ in range(2):
                assert tailrace("slot", "get", "a", "--state", state)[0] == 0
                _go_on(server)
            assert tailrace("slot", "get", "a", "--state", state)[0] == 0
            server.switch_wal()
            until(lambda: _whole(received)[0] >= before[0] + 8)


def test_who_advances_a_slot_asks_for_nothing_that_went_meanwhile(tailrace: Run, tmp_path: Path) -> None:
    """Its slot is not lost by that."""
    state, received = tmp_path / "state", tmp_path / "state/received"
    with _whole_server() as server:
        server.say(TABLE)
        _create(tailrace, "a", server, state)
        location = SlotLocation.open(state)
        begin = location.slot("a").restart_lsn
        with acquired(location, "a", LocalRunner(1)) as consumer:
            for _ in range(4):
                _go_on(server)
                Receiver(server.dsn(), received, upto=Lsn.parse(server.flush_lsn()), retries=False).run()
                finish(consumer.advance(None))
                Retention(received, [state], None, print).clean_up()
            assert _whole(received)[0] > begin // SEGMENT + 4
        assert location.slot("a").invalidation_reason == ""


@pytest.mark.soak
def test_nothing_goes_while_a_slot_is_made(tailrace: Run, tmp_path: Path) -> None:
    state, received = tmp_path / "state", tmp_path / "state/received"
    with _whole_server() as server:
        server.say(TABLE)
        _create(tailrace, "a", server, state)
        with held(received):
            for _ in range(2):
                _go_on(server)
                assert tailrace("slot", "get", "a", "--state", state)[0] == 0
            before = len(_whole(received))
            assert before >= 8
            assert Retention(received, [state], None, print).clean_up() is None
        assert tailrace("slot", "get", "a", "--state", state)[0] == 0
        assert len(_whole(received)) < before


@pytest.mark.soak
def test_the_last_slot_takes_all_with_it(tailrace: Run, tmp_path: Path) -> None:
    """So the next one begins anew, though the server has removed what was not received since. Not what is to be kept, nor while it is received."""
    state, received = tmp_path / "state", tmp_path / "state/received"
    with Server(18, REMOVES, dbname="app") as server:
        server.say(TABLE)
        _create(tailrace, "a", server, state)
        server.say(FILL)
        with receiving(Receiver(server.dsn(), received)):
            until(lambda: (received_upto(received) or 0) >= Lsn.parse(server.flush_lsn()))
            assert tailrace("slot", "drop", "a", "--state", state)[0] == 0
            assert _whole(received)
        _create(tailrace, "a", server, state)
        assert tailrace("slot", "drop", "a", "--state", state)[0] == 0
        assert (_whole(received), list(received.glob("*.partial"))) == ([], [])
        _create(tailrace, "a", server, state)
        SlotLocation.open(state).drop("a")  # by who leaves the log as it is
        server.say(FILL)
        for _ in range(3):
            server.switch_wal()
            server.checkpoint()
        _create(tailrace, "a", server, state)
        assert tailrace("slot", "set", "--state", state, "wal_keep=1GB")[0] == 0
        server.say(FILL)
        assert tailrace("slot", "get", "a", "--state", state)[0] == 0
        assert tailrace("slot", "drop", "a", "--state", state)[0] == 0
        assert _whole(received)


@pytest.mark.soak
def test_an_archive_of_one_s_own(tailrace: Run, tmp_path: Path) -> None:
    """Nothing is removed of it, unless it is said what is enough."""
    archive, state, captured = tmp_path / "archive", tmp_path / "state", tmp_path / "app.state"
    with _whole_server() as server:
        server.say(TABLE)

        def receive(*words: object) -> list[int]:
            _go_on(server)
            server.say("INSERT INTO t (v) VALUES ('x')")
            done = ran("wal", "receive", server.dsn(), "--to", archive, "--endpos", server.flush_lsn(), *words)
            assert done.returncode == 0, done.stderr
            return _whole(archive)

        receive()
        server.checkpoint()
        first = receive()
        assert receive()[0] == first[0]
        code, _, err = tailrace("catalog", "capture", server.dsn(), "--database", "app", "-o", captured, "--wal", archive)
        assert code == 0, err
        code, _, err = tailrace("slot", "create", "s", archive, "--catalog", captured, "--database", "app", "--state", state)
        assert code == 0, err
        restart = SlotLocation.open(state).slot("s").restart_lsn
        now = receive("--state", state)
        assert first[0] < now[0] <= restart // SEGMENT
        assert receive("--state", state, "--keep", "1h")[0] == now[0]
        assert receive("--keep", "50MB")[0] > restart // SEGMENT
        assert len(_whole(archive)) <= 4
        code, _, err = tailrace("wal", "receive", server.dsn(), "--to", archive, "--keep", "many")
        assert (code, 'invalid value for parameter "wal_keep": "many"' in err) == (1, True)


def test_a_physical_slot(tailrace: Run, tmp_path: Path) -> None:
    """Made with the first slot, used from then on, dropped with the last."""
    state = tmp_path / "state"
    query = "SELECT slot_type, active FROM pg_replication_slots WHERE slot_name = 'p'"
    with Server(18, REMOVES, dbname="app") as server:
        server.say(TABLE)
        _create(tailrace, "a", server, state, "--physical-slot", "p")
        until(lambda: server.sql(query) == [("physical", False)])  # the server notices that its receiver has gone
        server.say(FILL)
        for _ in range(3):
            server.switch_wal()
            server.checkpoint()
        shown = _shown(tailrace, "a", state)
        before = Lsn.parse(shown["server_restart_lsn"])
        assert (shown["server_slot_name"], shown["receiving"]) == ("p", False)
        assert Lsn.parse(shown["received_lsn"]) >= before - 64
        assert Lsn.parse(shown["server_flushed_lsn"]) > before
        code, out, err = tailrace("slot", "get", "a", "--state", state)
        assert code == 0, err
        assert out.count("INSERT") == 15000
        shown = _shown(tailrace, "a", state)
        assert Lsn.parse(shown["server_restart_lsn"]) > before
        assert (shown["server_wal_status"], shown["server_safe_wal_size"]) == ("reserved", None)
        code, out, _ = tailrace("slot", "ls", "--state", state)
        assert f"{shown['received_lsn']}\tfalse\n" in out
        code, _, err = tailrace(
            "slot", "create", "b", server.dsn(), "--database", "app", "--state", state, "--physical-slot", "q"
        )
        assert (code, 'is received with the physical replication slot "p"' in err) == (1, True)
        _create(tailrace, "b", server, state)
        receive = ["slot", "receive", "a", "--state", state, "-f", tmp_path / "out"]
        with forked(receive) as consumer:
            until(lambda: server.sql(query) == [("physical", True)])
            assert tailrace("slot", "drop", "b", "--state", state)[0] == 0
            consumer.terminate()
        assert tailrace("slot", "drop", "a", "--state", state)[0::2] == (0, "")
        assert server.sql(query) == []


def test_a_physical_slot_that_stays(tailrace: Run, tmp_path: Path) -> None:
    """One that was there before, or that is in use; which is said. And another one, when that is asked for."""
    state, log = tmp_path / "state", tmp_path / "state/received"
    query = "SELECT slot_name FROM pg_replication_slots ORDER BY 1"
    with Server(18, KEEPS, dbname="app") as server:
        server.say(TABLE, "SELECT pg_create_physical_replication_slot('p')")
        _create(tailrace, "a", server, state, "--physical-slot", "p")
        code, _, err = tailrace("slot", "drop", "a", "--state", state)
        assert (code, 'physical replication slot "p" was there before, and stays' in err) == (0, True)
        _create(tailrace, "a", server, state, "--physical-slot", "q")
        assert server.sql(query) == [("p",), ("q",)]
        code, out, err = tailrace("slot", "set", "--state", state, "primary_slot_name=r")
        assert (code, "primary_slot_name\tr\n" in out) == (0, True)
        assert server.sql(query) == [("p",), ("r",)]
        with receiving(Receiver(server.dsn(), log, slot="r")):
            until(lambda: bool(received_upto(log)))
            code, _, err = tailrace("slot", "drop", "a", "--state", state)
            assert (code, 'could not drop physical replication slot "r": replication slot "r" is active' in err) == (0, True)
            assert "SELECT pg_drop_replication_slot('r')" in err
        code, out, err = tailrace("slot", "set", "--state", state, "primary_slot_name=")
        assert (code, err) == (0, "")
        assert server.sql(query) == [("p",)]
        code, _, err = tailrace(
            "slot", "create", "s", server.dsn(), "--database", "absent", "--state", tmp_path / "x", "--physical-slot", "z"
        )
        assert code == 1
        assert server.sql(query) == [("p",)]
        code, _, err = tailrace(
            "slot", "create", "s", server.data_dir, "--database", "app", "--state", tmp_path / "x", "--keep", "1h"
        )
        assert (code, "the log is in files" in err) == (1, True)
    with Server(18) as another:
        code, _, err = tailrace("slot", "set", "--state", state, f"primary_conninfo={another.dsn()}")
        assert (code, "are of system" in err) == (1, True)


def test_a_location_without_a_server(tailrace: Run, tmp_path: Path) -> None:
    SlotLocation.create(tmp_path / "state", 5)
    code, _, err = tailrace("slot", "set", "--state", tmp_path / "state", "primary_slot_name=p")
    assert (code, "no log of a server is received" in err) == (1, True)


@pytest.mark.soak
def test_it_is_said_before_wal_is_lost(tailrace: Run, tmp_path: Path) -> None:
    """Once half of what the server keeps is behind us; of a slot as pg_replication_slots has it, too."""
    state = tmp_path / "state"
    with Server(18, {"wal_keep_size": "6MB", "max_wal_size": "64MB"}, dbname="app") as server:
        server.say(TABLE)
        _create(tailrace, "a", server, state)
        assert "ahead of what was received" not in tailrace("slot", "get", "a", "--state", state)[2]
        server.say(*(FILL,) * 3)
        code, _, err = tailrace("slot", "get", "a", "--state", state)
        assert (code, err.count("ahead of what was received, and keeps 6 MB for it (wal_keep_size)")) == (0, 1)
        assert tailrace("slot", "set", "--state", state, "primary_slot_name=p")[0] == 0
        server.say("ALTER SYSTEM SET max_slot_wal_keep_size = '8MB'", "SELECT pg_reload_conf()")
        assert tailrace("slot", "get", "a", "--state", state)[0] == 0
        server.say(*(FILL,) * 5)
        code, out, err = tailrace("slot", "show", "a", "--state", state, "--json")
        assert (json.loads(out)["server_wal_status"], 'slot "p" of the server is unreserved' in err) == ("unreserved", True)
        code, _, err = tailrace("slot", "get", "a", "--state", state)
        assert (code, err.count('slot "p" is unreserved: it may be lost')) == (0, 1)
        assert _shown(tailrace, "a", state)["server_wal_status"] == "reserved"


def test_what_is_warned_of() -> None:
    def warned(behind: int, slot: str, *, keep: int = 0, limit: int = -1) -> str:
        return KeptWal(MB, keep * MB, limit * MB if limit >= 0 else -1, 64 * MB).warning(behind * MB, slot).partition("\n")[0]

    ahead = "the server is {} MB ahead of what was received, and {}"
    assert warned(2, "") == ""
    assert warned(3, "") == ahead.format(3, "keeps nothing for it (wal_keep_size)")
    assert warned(50, "", keep=100) == ""
    assert warned(51, "", keep=100) == ahead.format(51, "keeps 100 MB for it (wal_keep_size)")
    its = 'its physical replication slot "p" is {}'
    assert warned(64, "p") == ""
    assert warned(65, "p") == ahead.format(65, its.format("extended: the server's disk fills with what it keeps for it"))
    assert warned(10, "p", limit=20) == ""
    assert warned(12, "p", limit=20) == ahead.format(
        12, its.format("lost once it has written 8 MB more (max_slot_wal_keep_size)")
    )
    assert warned(21, "p", limit=20) == ahead.format(
        21, its.format("unreserved: it may be lost with the next checkpoint (max_slot_wal_keep_size is 20 MB)")
    )
    assert warned(21, "p", limit=20, keep=50) == ""


def test_how_much_to_keep_in_words() -> None:
    for text, keep, shown in (
        ("12h", WalKeep(seconds=12 * 3600), "12h"), ("2d", WalKeep(seconds=2 * 86400), "2d"), ("90 min", WalKeep(seconds=5400), "90min"),
        ("10GB", WalKeep(size=10 << 30), "10GB"), ("1536kB", WalKeep(size=1536 << 10), "1536kB"), ("0", WalKeep(), "0"), ("", WalKeep(), "0"),
    ):  # fmt: skip
        assert parse_wal_keep(text) == keep
        assert str(keep) == shown
        assert parse_wal_keep(shown) == keep
    for text in ("12", "12 hours", "-1h", "GB", "12H"):
        with pytest.raises(UsageError, match="invalid value for parameter"):
            parse_wal_keep(text)


def test_what_was_written_before_there_was_a_physical_slot_is_read(tmp_path: Path) -> None:
    (tmp_path / "received").mkdir()
    log = ReceivedLog(tmp_path / "received")
    (tmp_path / "received/.server").write_bytes(SERVER_FILE.write({"dsn": "host=there"}, {}))
    assert (log.server.dsn, log.server.slot, log.server.restore_command) == ("host=there", "", "")
