"""A server's log, received over a connection: the same bytes as the server's own files, whatever happens on the way."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.servers import Server
from support.standbys import caught_up, standby_of
from support.waiting import until
from tailrace.client.receiver import Receiver, received_upto
from tailrace.client.reception import receiving
from tailrace.errors import CorruptWal, FailedWrite, MissingHistory, PeerError, TailraceError, UsageError
from tailrace.model import Lsn

pytestmark = pytest.mark.postgres
ALL = [18, *(pytest.param(major, marks=pytest.mark.matrix) for major in (14, 15, 16, 17))]
KEEPS = {"wal_keep_size": "200MB"}
REMOVES = {"wal_keep_size": 0, "max_wal_size": "2MB", "min_wal_size": "2MB"}
FILL = "INSERT INTO t SELECT i, repeat('x', 100) FROM generate_series(1, 30000) i"


@contextmanager
def _receiving(server: Server, archive: Path, **more: object) -> Iterator[Receiver]:
    receiver = Receiver(server.dsn(), archive, **more)  # type: ignore[arg-type]
    with receiving(receiver) as reception:
        until(lambda: receiver.archive is not None or reception.check() is not None)  # it knows by now where it begins
        yield receiver
    reception.check()


def _has(receiver: Receiver, server: Server) -> Lsn:
    """Wait until it has all that the server has."""
    end = Lsn.parse(server.flush_lsn())
    until(lambda: receiver.archive is not None and receiver.archive.flushed >= end)
    return end


def _check_equal(archive: Path, server: Server, end: Lsn) -> int:
    """The number of whole segments."""
    whole = 0
    for path in sorted(archive.glob("0*[0-9A-F]")):
        assert path.read_bytes() == (server.wal_dir / path.name).read_bytes(), path.name
        whole += 1
    for path in sorted(archive.glob("*.partial"))[-1:]:  # before it lie those in which older timelines ended
        theirs = server.wal_dir / path.name.removesuffix(".partial")
        written, size = path.read_bytes(), end % path.stat().st_size
        assert written[:size] == theirs.read_bytes()[:size], path.name
        # Behind the end is what the server has written by itself meanwhile.
        assert theirs.read_bytes()[size:].startswith(written[size:].rstrip(b"\0")), path.name
    return whole


@pytest.mark.parametrize("major", ALL)
def test_the_same_bytes_whatever_happens(major: int, tmp_path: Path) -> None:
    """Through restarts, a crash, and a walsender that is ended."""
    said: list[str] = []
    with Server(major, KEEPS) as server:
        server.say("CREATE TABLE t (id int, v text)")
        with _receiving(server, tmp_path / "a", tell=said.append) as receiver:
            _has(receiver, server)
            server.say(FILL)
            server.restart()
            server.say(FILL)
            _has(receiver, server)
            server.crash()
            server.start()
            server.say(FILL)
            _has(receiver, server)
            server.say("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'walsender'", FILL)
            end = _has(receiver, server)
        assert _check_equal(tmp_path / "a", server, end) > 10
        assert sum("starting log streaming" in line for line in said) >= 3
        server.say(FILL)
        end = Lsn.parse(server.flush_lsn())
        assert Receiver(server.dsn(), tmp_path / "a", upto=end, retries=False).run() >= end
        assert _check_equal(tmp_path / "a", server, end) > 14


def test_how_far_it_is_others_can_read(tmp_path: Path) -> None:
    with Server(18) as server:
        server.say("CREATE TABLE t (id int, v text)")
        assert received_upto(tmp_path) is None
        with _receiving(server, tmp_path) as receiver:
            end = _has(receiver, server)
            until(lambda: (received_upto(tmp_path) or 0) >= end)
            with pytest.raises(UsageError, match="is being received into by another process"):
                Receiver(server.dsn(), tmp_path).run()
        assert received_upto(tmp_path) is None


def test_wal_that_the_server_has_removed(tmp_path: Path) -> None:
    with Server(18, REMOVES) as server:
        server.say("CREATE TABLE t (id int, v text)")
        with _receiving(server, tmp_path) as receiver:
            _has(receiver, server)
        before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
        server.say(FILL)
        for _ in range(3):
            server.switch_wal()
            server.checkpoint()
        with pytest.raises(MissingHistory, match="has already been removed") as caught:
            Receiver(server.dsn(), tmp_path, retries=False, upto=Lsn.parse(server.flush_lsn())).run()
        assert caught.value.sqlstate == "58P01"
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_server_that_has_removed_the_last_whole_segment(tmp_path: Path) -> None:
    """It has what was not received yet: that is compared with the partial one, and received."""
    said: list[str] = []
    with Server(18, KEEPS) as server:
        server.say("CREATE TABLE t (id int, v text)")
        with _receiving(server, tmp_path) as receiver:
            server.say(FILL)
            _has(receiver, server)
        last = max(tmp_path.glob("0*[0-9A-F]"))
        (server.wal_dir / last.name).unlink()
        server.say(FILL)
        end = Lsn.parse(server.flush_lsn())
        assert Receiver(server.dsn(), tmp_path, upto=end, retries=False, tell=said.append).run() >= end
        last.rename(tmp_path.parent / last.name)
        _check_equal(tmp_path, server, end)
        assert any("does not have the last segment" in line for line in said)


def test_a_slot_keeps_what_is_needed(tmp_path: Path) -> None:
    with Server(18, REMOVES) as server:
        server.say("SELECT pg_create_physical_replication_slot('p', true)", "CREATE TABLE t (id int, v text)")
        with _receiving(server, tmp_path, slot="p") as receiver:
            _has(receiver, server)
        server.say(FILL)
        for _ in range(3):
            server.switch_wal()
            server.checkpoint()
        with _receiving(server, tmp_path, slot="p") as receiver:
            _check_equal(tmp_path, server, _has(receiver, server))


def test_a_server_that_was_put_back(tmp_path: Path) -> None:
    """It writes another history under the same names: not a byte of it is put beside the first."""
    with Server(18, KEEPS) as server:
        server.say("CREATE TABLE t (id int, v text)")
        server.stop()
        copy = server.copy_to(tmp_path / "copy")
        server.start()
        with _receiving(server, tmp_path / "a") as receiver:
            server.say(FILL)
            _has(receiver, server)
        server.stop()
        with Server(18, KEEPS, data=copy) as again:
            before = {path.name: path.read_bytes() for path in (tmp_path / "a").iterdir()}
            with pytest.raises(TailraceError, match="ends at"):
                Receiver(again.dsn(), tmp_path / "a").run()
            again.say(*(FILL.replace("'x'", "'y'"),) * 2)
            with pytest.raises(CorruptWal, match="has other bytes at"):
                Receiver(again.dsn(), tmp_path / "a").run()
            assert {path.name: path.read_bytes() for path in (tmp_path / "a").iterdir()} == before


def test_a_promotion_is_followed(tmp_path: Path) -> None:
    """Of a standby that is received from: what it wrote before and after, each on its timeline."""
    said: list[str] = []
    with Server(18, KEEPS) as primary:
        primary.say("CREATE TABLE t (id int, v text)")
        with standby_of(primary, tmp_path) as standby:
            caught_up(standby, primary)
            with _receiving(standby, tmp_path / "a", tell=said.append) as receiver:
                primary.say(FILL)
                caught_up(standby, primary)
                until(lambda: receiver.archive is not None and receiver.archive.flushed >= Lsn.parse(primary.flush_lsn()))
                primary.crash()
                standby.sql("SELECT pg_promote()")
                standby.say(FILL)
                end = _has(receiver, standby)
                assert receiver.archive is not None
                assert receiver.archive.timeline == 2
            assert any("switched to timeline 2" in line for line in said)
            assert (tmp_path / "a/00000002.history").read_bytes() == (standby.wal_dir / "00000002.history").read_bytes()
            _check_equal(tmp_path / "a", standby, end)
            standby.say(FILL)
            end = Lsn.parse(standby.flush_lsn())
            assert Receiver(standby.dsn(), tmp_path / "a", upto=end, retries=False).run() >= end
        primary.start()
        with pytest.raises(UsageError, match=r"00000002\.history") as left_behind:
            Receiver(primary.dsn(), tmp_path / "a").run()
        assert "Receive from the server that is on that timeline" in left_behind.value.hint


def test_a_full_disk_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What could not be written is received again, and not a byte is damaged."""
    said: list[str] = []
    write, fails = os.pwrite, [True]

    def pwrite(file: int, data: bytes, offset: int) -> int:
        if fails[0] and offset > 300_000:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(file, data, offset)

    with Server(18, KEEPS) as server:
        server.say("CREATE TABLE t (id int, v text)")
        monkeypatch.setattr(os, "pwrite", pwrite)
        with _receiving(server, tmp_path / "a", tell=said.append) as receiver:
            until(lambda: receiver.archive is not None)  # or it may begin behind all that is filled in
            server.say(FILL)
            until(lambda: any("No space left on device" in line for line in said))
            fails[0] = False
            end = _has(receiver, server)
        _check_equal(tmp_path / "a", server, end)


def test_a_segment_that_cannot_be_synced_is_received_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is finished while the next is written; nothing behind it counts as durable before it is."""
    said: list[str] = []
    flushed: list[Lsn] = []
    sync, failures = os.fsync, iter([True, True])

    def fsync(file: int) -> None:
        if Path(f"/proc/self/fd/{file}").readlink().suffix == ".partial" and next(failures, False):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(file)

    with Server(18, KEEPS) as server:
        server.say("CREATE TABLE t (id int, v text)")
        monkeypatch.setattr(os, "fsync", fsync)
        with _receiving(server, tmp_path / "a", tell=said.append) as receiver:
            until(lambda: receiver.archive is not None)  # or it may begin behind all that is filled in
            server.say(FILL)
            until(lambda: any("could not fsync file" in line for line in said))
            flushed.append(Lsn.parse(server.value("SELECT coalesce(max(flush_lsn), '0/0')::text FROM pg_stat_replication")))
            end = _has(receiver, server)
        whole = max(path.name for path in (tmp_path / "a").glob("0*[0-9A-F]"))
        assert flushed[0] <= (int(whole[16:], 16) + 1) << 20
        _check_equal(tmp_path / "a", server, end)


def test_another_cluster(tmp_path: Path) -> None:
    with Server(18) as one, Server(18) as other:
        one.say("CREATE TABLE t (id int)")
        with _receiving(one, tmp_path) as receiver:
            _has(receiver, one)
        with pytest.raises(UsageError, match="has the log of system"):
            Receiver(other.dsn(), tmp_path).run()


def test_the_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    with Server(18, KEEPS) as server:
        server.say("CREATE TABLE t (id int, v text)")
        with _receiving(server, tmp_path / "a") as receiver:
            server.say(FILL)
            end = _has(receiver, server)
        [begun] = (tmp_path / "a").glob("*.partial")
        begun.unlink()
        begun.mkdir()
        with pytest.raises(FailedWrite, match=f'could not write to file ".*{begun.name}": Is a directory'):
            Receiver(server.dsn(), tmp_path / "a", upto=end, retries=False).run()


def test_what_a_kill_leaves_is_taken_up(tmp_path: Path) -> None:
    """A partial segment of any length, and one that was full and not yet renamed."""
    with Server(18, KEEPS) as server:
        server.say("CREATE TABLE t (id int, v text)")
        with _receiving(server, tmp_path / "a") as receiver:
            _has(receiver, server)  # it begins where the server is once it asks
            server.say(FILL)
            end = _has(receiver, server)
        last = max((tmp_path / "a").glob("0*[0-9A-F]"))
        shutil.move(last, f"{last}.partial")
        [begun] = [path for path in (tmp_path / "a").glob("*.partial") if path.name[:24] != last.name]
        with begun.open("r+b") as file:
            file.truncate(5000)
        assert Receiver(server.dsn(), tmp_path / "a", upto=end, retries=False).run() >= end
        _check_equal(tmp_path / "a", server, end)


WRONG = {
    "service=nix": 'definition of service "nix" not found',
    "hostaddr=999.1.1.1": 'could not parse network address "999.1.1.1"',
    "host=127.0.0.1 port=abc": 'invalid integer value "abc" for connection option "port"',
}


@pytest.mark.parametrize(("dsn", "said"), list(WRONG.items()))
def test_a_connection_string_that_leads_nowhere(tmp_path: Path, dsn: str, said: str) -> None:
    """It ends at once, though a server that is away is tried again and again."""
    with pytest.raises(PeerError) as caught:
        Receiver(dsn, tmp_path).run()
    assert caught.value.message.startswith(said)


def test_a_host_that_has_lost_its_name_is_waited_for(tmp_path: Path) -> None:
    """By who has received from it before; and one of two hosts may come."""
    (tmp_path / f"{1:024X}.partial").touch()
    for directory, dsn in ((tmp_path, "hostaddr=999.1.1.1"), (tmp_path / "new", "hostaddr=999.1.1.1,127.0.0.1 port=1")):
        said: list[str] = []
        receiver = Receiver(dsn, directory, tell=said.append)
        thread = threading.Thread(target=receiver.run)
        thread.start()
        until(lambda said=said: any("trying again" in line for line in said))
        receiver.stop()
        thread.join()
