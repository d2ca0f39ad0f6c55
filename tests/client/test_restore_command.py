"""What a server has removed of its log comes from its archive, by restore_command; what is damaged there is not taken."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from support.archives import written_by_servers
from support.command import Run, ran
from support.decoding import check_equal
from support.servers import Server
from support.standbys import caught_up
from support.waiting import until
from tailrace.client.receiver import Receiver
from tailrace.client.reception import receiving
from tailrace.client.restore_command import RESTORED, RestoreCommand
from tailrace.errors import CorruptWal, MissingHistory, PeerError, TailraceError, UsageError
from tailrace.model import Lsn
from tailrace.storage.segment import segment_name

pytestmark = pytest.mark.postgres
ALL = [18, *(pytest.param(major, marks=pytest.mark.matrix) for major in (14, 15, 16, 17))]
REMOVES = {"wal_keep_size": 0, "max_wal_size": "64MB", "min_wal_size": "2MB"}
"""With each checkpoint, which comes when it is asked for."""
FILL = "INSERT INTO t SELECT i, repeat('x', 100) FROM generate_series(1, 30000) i"
MB = 1 << 20


@pytest.fixture
def theirs() -> Iterator[Path]:
    """A server's archive, where servers may write, whoever they run as."""
    with written_by_servers() as folder:
        yield folder


def _archiving(major: int, theirs: Path, settings: Mapping[str, str] | None = None, **more: Any) -> Server:
    command = f"cp %p {theirs}/.%f && chmod 666 {theirs}/.%f && mv {theirs}/.%f {theirs}/%f"
    return Server(major, {**REMOVES, "archive_mode": "on", "archive_command": command, **(settings or {})}, **more)


def _restoring(theirs: Path) -> RestoreCommand:
    return RestoreCommand.parse(f"cp {theirs}/%f %p 2> /dev/null")


def _received(server: Server, ours: Path, **more: Any) -> Receiver:
    """All that the server has by now."""
    receiver = Receiver(server.dsn(), ours, upto=Lsn.parse(server.flush_lsn()), retries=False, **more)
    receiver.run()
    return receiver


def _leave_behind(server: Server, ours: Path) -> Lsn:
    """Received so far, some segments of it; then the server removes what comes, once it is archived."""
    server.say("CREATE TABLE IF NOT EXISTS t (id int, v text)")
    _received(server, ours)
    server.say(FILL)
    _received(server, ours)
    end = Lsn.parse(server.flush_lsn())
    server.say(FILL)
    _remove(server, end)
    return end


def _remove(server: Server, upto: Lsn) -> None:
    """What lies before there, on the server."""

    def is_gone() -> bool:
        server.switch_wal()
        server.checkpoint()
        return min(int(path.name[16:], 16) for path in server.wal_dir.glob("0*[0-9A-F]")) > upto // MB + 2

    until(is_gone)


def _check_equal(ours: Path, theirs: Path, server: Server) -> int:
    """Every whole segment of ours is the server's or its archive's, and none is missing; how many there are."""
    whole = sorted(ours.glob("0*[0-9A-F]"), key=lambda path: path.name[8:])
    for path in whole:
        there = theirs / path.name if (theirs / path.name).exists() else server.wal_dir / path.name
        assert path.read_bytes() == there.read_bytes(), path.name
    numbers = [int(path.name[16:], 16) for path in whole]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    return len(whole)


@pytest.mark.parametrize("major", ALL)
def test_what_the_server_has_removed(major: int, theirs: Path, tmp_path: Path) -> None:
    """Comes from its archive, and streaming goes on behind; again, too."""
    said: list[str] = []
    with _archiving(major, theirs) as server:
        _leave_behind(server, tmp_path / "a")
        before = {path.name for path in (tmp_path / "a").iterdir()}
        with pytest.raises(MissingHistory, match="has already been removed"):
            _received(server, tmp_path / "a")
        assert {path.name for path in (tmp_path / "a").iterdir()} == before
        _received(server, tmp_path / "a", restore=_restoring(theirs), tell=said.append)
        restored = [line for line in said if line.startswith("restored log file")]
        assert len(restored) > 3
        assert sum("starting log streaming" in line for line in said) >= 1
        whole = _check_equal(tmp_path / "a", theirs, server)
        assert not (tmp_path / "a" / RESTORED).exists()
        assert len(list((tmp_path / "a").glob("*.partial"))) <= 1
        _leave_behind(server, tmp_path / "a")
        with receiving(Receiver(server.dsn(), tmp_path / "a", restore=_restoring(theirs), tell=said.append)) as reception:
            reception.wait(Lsn.parse(server.flush_lsn()))
        assert _check_equal(tmp_path / "a", theirs, server) > whole + 3


def test_behind_a_promotion(theirs: Path, tmp_path: Path) -> None:
    """The new primary has removed the switch: its segments come from the archive, and its history file."""
    with _archiving(18, theirs) as primary:
        primary.say("CREATE TABLE t (id int, v text)")
        primary.stop()
        copied = primary.copy_to(tmp_path / "standby")
        (copied / "standby.signal").touch()
        primary.start()
        settings = {"primary_conninfo": primary.dsn(), "hot_standby": "on", "wal_retrieve_retry_interval": "100ms"}
        with _archiving(18, theirs, settings, data=copied) as standby:
            primary.say(FILL)
            caught_up(standby, primary)
            end = Lsn.parse(primary.flush_lsn())
            Receiver(primary.dsn(), tmp_path / "a", begin=Lsn(end - 4 * MB), upto=end, retries=False).run()
            primary.crash()
            standby.sql("SELECT pg_promote()")
            standby.say(FILL)
            _remove(standby, end)
            with pytest.raises(MissingHistory, match="has already been removed"):
                _received(standby, tmp_path / "a")
            said: list[str] = []
            _received(standby, tmp_path / "a", restore=_restoring(theirs), tell=said.append)
            assert (tmp_path / "a/00000002.history").read_bytes() == (theirs / "00000002.history").read_bytes()
            names = sorted(path.name for path in (tmp_path / "a").glob("0*[0-9A-F]"))
            assert {name[:8] for name in names} == {"00000001", "00000002"}
            assert segment_name(2, end // MB, MB) in names
            for name in names:
                there = theirs / name if (theirs / name).exists() else standby.wal_dir / name
                assert (tmp_path / "a" / name).read_bytes() == there.read_bytes(), name


def _cut(path: Path, _: Path) -> None:
    path.write_bytes(path.read_bytes()[:-8192])


def _of_another_place(path: Path, theirs: Path) -> None:
    shutil.copy(min(each for each in theirs.iterdir() if each.name < path.name), path)


def _of_another_system(path: Path, _: Path) -> None:
    data = bytearray(path.read_bytes())
    data[24] ^= 1
    path.write_bytes(data)


def _of_another_timeline(path: Path, _: Path) -> None:
    data = bytearray(path.read_bytes())
    data[4] = 3
    path.write_bytes(data)


def _empty(path: Path, _: Path) -> None:
    path.write_bytes(bytes(MB))


def _garbage(path: Path, _: Path) -> None:
    path.write_bytes(b"x" * MB)


def test_what_is_damaged_there_is_not_taken(theirs: Path, tmp_path: Path) -> None:
    """Nor what differs from what was received before; and nothing of it stays."""
    kinds: dict[str, Callable[[Path, Path], None]] = {
        "has wrong size: 1040384 instead of 1048576": _cut, "unexpected pageaddr": _of_another_place,
        "is from different database system": _of_another_system, "unexpected timeline ID 3": _of_another_timeline,
        "has no WAL": _empty, "invalid magic number": _garbage,
    }  # fmt: skip
    with _archiving(18, theirs) as server:
        end = _leave_behind(server, tmp_path / "a")
        first = theirs / segment_name(1, end // MB, MB)
        second = theirs / segment_name(1, end // MB + 1, MB)
        before = {path.name: path.read_bytes() for path in (tmp_path / "a").iterdir() if path.name != ".receiver"}
        sound = first.read_bytes()
        for match, damage in kinds.items():
            first.write_bytes(sound)
            damage(first, theirs)
            with pytest.raises(TailraceError, match=match) as caught:
                _received(server, tmp_path / "a", restore=_restoring(theirs))
            assert f'file "{first.name}" of the server\'s archive' in str(caught.value)
            now = {path.name: path.read_bytes() for path in (tmp_path / "a").iterdir() if path.name != ".receiver"}
            assert now == before
        at = len(before[f"{first.name}.partial"].rstrip(b"\0")) - 1
        first.write_bytes(sound[:at] + bytes([sound[at] ^ 255]) + sound[at + 1 :])
        with pytest.raises(CorruptWal, match="the server's archive has other bytes at"):
            _received(server, tmp_path / "a", restore=_restoring(theirs))
        first.write_bytes(sound)
        whole = theirs / max(name for name in before if len(name) == 24)
        kept = whole.read_bytes()
        whole.write_bytes(kept[:-100] + b"z" * 100)
        with pytest.raises(CorruptWal, match="the server's archive has other bytes at"):
            _received(server, tmp_path / "a", restore=_restoring(theirs))
        whole.write_bytes(kept)
        second.rename(theirs / "away")
        with pytest.raises(MissingHistory, match="has already been removed"):
            _received(server, tmp_path / "a", restore=_restoring(theirs))
        assert (tmp_path / "a" / first.name).exists()
        (theirs / "away").rename(second)
        _received(server, tmp_path / "a", restore=_restoring(theirs))
        _check_equal(tmp_path / "a", theirs, server)


def test_exit_statuses(theirs: Path, tmp_path: Path) -> None:
    """As a standby takes them."""
    with _archiving(18, theirs) as server:
        _leave_behind(server, tmp_path / "a")
        for command, kind, match in (
            ("exit 1", MissingHistory, "has already been removed"), ("exit 125", MissingHistory, "has already been removed"),
            ("exit 126", PeerError, "from archive: command not executable"), ("no_such_command", PeerError, "from archive: command not found"),
            ("exit 130", PeerError, "child process exited with exit code 130"), ("kill -9 $$", PeerError, "was terminated by signal 9: Killed"),
            ("true", PeerError, "could not stat file"),
        ):  # fmt: skip
            with pytest.raises(kind, match=match):
                Receiver(server.dsn(), tmp_path / "a", restore=RestoreCommand.parse(command)).run()
        receiver = Receiver(server.dsn(), tmp_path / "a", restore=RestoreCommand.parse("touch begun; sleep 60"))
        thread = threading.Thread(target=receiver.run)
        thread.start()
        until((tmp_path / "a/begun").exists)
        began = time.monotonic()
        receiver.stop()
        thread.join()
        assert time.monotonic() - began < 30


def test_placeholders(tmp_path: Path) -> None:
    for text, detail in (("cp %x", 'unexpected placeholder "%x"'), ("cp %", "ends unexpectedly after escape character")):
        with pytest.raises(UsageError, match='invalid value for parameter "restore_command"') as caught:
            RestoreCommand.parse(text)
        assert detail in caught.value.detail
    command = RestoreCommand.parse("echo '%f %r 100%%' > %p")
    path = command.bring("000000010000000000000005", tmp_path, "000000010000000000000002", lambda: False)
    assert path is not None
    assert path.read_text() == "000000010000000000000005 000000010000000000000002 100%\n"


def test_of_a_slot(theirs: Path, tailrace: Run, tmp_path: Path) -> None:
    """It is kept with the server's address, and not run where somebody else could have written it."""
    state, command = tmp_path / "state", f"cp {theirs}/%f %p 2> /dev/null"
    with _archiving(18, theirs, dbname="app") as server:
        server.say("CREATE TABLE t (id int, v text)", "SELECT pg_create_logical_replication_slot('theirs', 'test_decoding')")
        words = ("--database", "app", "--state", state)
        code, _, err = tailrace("slot", "create", "ours", server.dsn(), *words, "--restore-command", "cp %x")
        assert (code, 'String contains unexpected placeholder "%x"' in err) == (1, True)
        code, _, err = tailrace("slot", "create", "ours", server.dsn(), *words, "--restore-command", command)
        assert code == 0, err
        server.say("SELECT pg_replication_slot_advance('theirs', pg_current_wal_flush_lsn())", FILL)
        expected = "".join(f"{lsn}\t{xid}\t{data}\n" for lsn, xid, data in server.sql(
            "SELECT * FROM pg_logical_slot_peek_changes('theirs', NULL, NULL)"
        ))  # fmt: skip
        server.sql("SELECT pg_drop_replication_slot('theirs')")
        _remove(server, Lsn.parse(server.flush_lsn()))
        file = state / "received/.server"
        assert file.stat().st_mode & 0o777 == 0o600
        file.chmod(0o620)
        code, _, err = tailrace("slot", "get", "ours", "--state", state)
        assert (
            code,
            "has already been removed" in err,
            "restore_command is not run: another user could have written" in err,
        ) == (1, True, True)
        code, out, err = tailrace("slot", "set", "--state", state, f"restore_command={command}")
        assert f"restore_command\t{command}\n" in out
        assert file.stat().st_mode & 0o777 == 0o600
        code, out, err = tailrace("slot", "get", "ours", "--state", state)
        assert code == 0, err
        check_equal(out, expected)


def test_of_a_mirror(theirs: Path, tailrace: Run, tmp_path: Path) -> None:
    """A run that was stopped for too long goes on with the command that it is given then, and keeps it."""
    state, command = tmp_path / "state", f"cp {theirs}/%f %p 2> /dev/null"
    with _archiving(18, theirs, dbname="app") as server:
        server.say("CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t VALUES (0, 'first')")
        words = ("mirror", server.dsn(), "--database", "app", "--to", tmp_path / "lake", "--state", state)
        code, _, err = tailrace(*words)
        assert code == 0, err
        server.say("INSERT INTO t SELECT i, repeat('x', 300) FROM generate_series(1, 10000) i")
        _remove(server, Lsn.parse(server.flush_lsn()))
        for more, message in (((), "has already been removed"), (("--restore-command", "cp %x"), 'unexpected placeholder "%x"')):
            code, _, err = tailrace(*words, *more)
            assert (code, message in err) == (1, True), err
        code, _, err = tailrace(*words, "--restore-command", command)
        assert code == 0, err
        code, out, err = tailrace("verify", server.dsn(), "--database", "app", "--to", tmp_path / "lake")
        assert code == 0, out + err
    _, out, _ = tailrace("slot", "set", "--state", state)
    assert f"restore_command\t{command}\n" in out


def test_of_wal_receive(theirs: Path, tmp_path: Path) -> None:
    with _archiving(18, theirs) as server:
        _leave_behind(server, tmp_path / "a")
        words = ["wal", "receive", server.dsn(), "--to", tmp_path / "a", "--endpos", server.flush_lsn()]
        done = ran(*words, "--restore-command", f"cp {theirs}/%f %p")
        assert done.returncode == 0, done.stderr
        assert "restored log file" in done.stderr
        assert done.stdout == ""
        _check_equal(tmp_path / "a", theirs, server)
