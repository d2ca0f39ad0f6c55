"""What `tailrace archive cleanup` removes of an archive that real servers fill, across a promotion, and what it never does."""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from support.acquired import acquired
from support.archives import create_on_archive, ours_upto, place_of, switch_until_whole, written_by_servers
from support.cases import open_case
from support.command import Run
from support.decoding import check_equal
from support.servers import Server
from support.slots import THEIRS, theirs
from support.waiting import until
from tailrace.catalog.state.state_file import read_state
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner
from tailrace.replication.slot_location import SlotLocation

pytestmark = pytest.mark.postgres
COPIED = "cp %p {archive}/.%f && mv {archive}/.%f {archive}/%f"
COMPRESSED = (
    "case %f in *.history|*.backup) cp %p {archive}/%f;; *) gzip -c %p > {archive}/.%f && mv {archive}/.%f {archive}/%f.gz;; esac"
)


def archiving(archive: Path, command: str = COPIED, settings: Mapping[str, str] | None = None, **more: Any) -> Server:
    into = {"archive_mode": "on", "archive_command": command.format(archive=archive), "wal_keep_size": "64MB"}
    return Server(16, {**into, **(settings or {})}, **more)


@pytest.fixture
def archive() -> Iterator[Path]:
    """Where servers may write, whoever they run as."""
    with written_by_servers() as folder:
        yield folder


def cleaned(tailrace: Run, archive: Path, *words: object) -> Any:
    status, out, err = tailrace("archive", "cleanup", archive, *words, "--json")
    assert (status, err) == (0, "")
    return json.loads(out.splitlines()[-1])


def names(document: Any) -> list[str]:
    return [segment["name"] for segment in document["segments"]]


def why(document: Any) -> dict[str, str]:
    """Of each file that is kept."""
    return {name: kept["why"] for kept in document["kept"] for name in kept["files"]}


def below(archive: Path, lsn: int) -> list[str]:
    """By name: the part behind the timeline says where in the log it is."""
    segments = [path for path in archive.iterdir() if place_of(path) >= 0 and ".backup" not in path.name]
    return sorted((path.name for path in segments if place_of(path) < lsn >> 20), key=lambda name: (name[8:24], name))


def write(server: Server, archive: Path, segments: int) -> str:
    for _ in range(segments):
        server.say("INSERT INTO t SELECT g FROM generate_series(1, 100) g")
        end = switch_until_whole(server, archive)
    return end


@pytest.mark.parametrize("command", [COPIED, pytest.param(COMPRESSED, marks=pytest.mark.marathon)], ids=["plain", "gzip"])
def test_removes_what_no_slot_needs(command: str, archive: Path, tailrace: Run, tmp_path: Path) -> None:
    """Whatever timeline it is of; what stays is enough for the slot, which gives what the server's gives."""
    early, late = tmp_path / "early", tmp_path / "late"
    with archiving(archive, command) as primary:
        primary.say("CREATE TABLE t (id int)")
        write(primary, archive, 2)
        create_on_archive(primary, archive, early)
        write(primary, archive, 2)
        primary.stop()
        copied = primary.copy_to(tmp_path / "standby")
        (copied / "standby.signal").touch()
        primary.start()
        settings = {"primary_conninfo": primary.dsn(), "hot_standby": "on", "wal_retrieve_retry_interval": "100ms"}
        with archiving(archive, command, settings, data=copied) as standby:
            write(primary, archive, 2)
            primary.say("INSERT INTO t VALUES (0)")  # so that the segment of the switch is there in part
            end = primary.flush_lsn()
            until(lambda: bool(standby.value("SELECT pg_last_wal_replay_lsn() >= %s", [end])))
            primary.crash()
            standby.sql("SELECT pg_promote()")
            write(standby, archive, 2)
            standby.sql("SELECT pg_drop_replication_slot(%s)", [THEIRS])
            create_on_archive(standby, archive, late)
            write(standby, archive, 1)
            slot, later = SlotLocation.open(early).slot("mine"), SlotLocation.open(late).slot("mine")
            document = cleaned(tailrace, archive, "--state", early, "--state", late)
            assert names(document) == below(archive, slot.restart_lsn) != []
            reason = f'replication slot "mine" in "{early}" needs WAL from {slot.restart_lsn}'
            assert set(why(document).values()) == {reason, "history files of timelines"}
            assert why(document)["00000002.history"] == "history files of timelines"
            document = cleaned(tailrace, archive, "--state", late)
            gone = names(document)
            assert gone == below(archive, later.restart_lsn)
            assert {name[:8] for name in gone} == {"00000001", "00000002"}
            suffix = ".gz" if command == COMPRESSED else ""
            assert {name[24:] for name in gone} == {suffix, f".partial{suffix}"}
            before = {path.name for path in archive.iterdir()}
            assert before == {*gone, *why(document)}
            status, out, err = tailrace("archive", "cleanup", archive, "--state", late, "--delete")
            assert (status, err) == (0, "")
            assert f"\n{len(gone)} segments, " in out
            assert {path.name for path in archive.iterdir()} == before - set(gone)
            end = write(standby, archive, 1)
            with acquired(SlotLocation.open(late), "mine", LocalRunner(1)) as consumer:
                taken = ours_upto(consumer, end)
            check_equal(taken, theirs(standby))
            assert taken.count("INSERT") == 200


def test_keeps_what_may_be_somebody_s_way_back(archive: Path, tailrace: Run, tmp_path: Path) -> None:
    """All from where the oldest backup began on, and whatever is no segment of this system."""
    state = tmp_path / "state"
    with archiving(archive) as server:
        server.say("CREATE TABLE t (id int)")
        write(server, archive, 4)
        starts = []
        for _ in range(2):
            with server.connect() as connection:
                ((start,),) = connection.execute("SELECT pg_backup_start('b', true)").fetchall()
                connection.execute("SELECT pg_backup_stop(false)")
            starts.append(Lsn.parse(start))
            write(server, archive, 2)
        until(lambda: len(list(archive.glob("*.backup"))) == 2)
        create_on_archive(server, archive, state)
        wal = open_case("xact", 16, "with_slot", tmp_path / "case").wal_dir
        _, another, damaged, *_ = below(archive, starts[0])
        shutil.copy(next(path for path in wal.iterdir() if place_of(path) > 0), archive / another)
        (archive / damaged).write_bytes(b"x" * 8192)
        (archive / "notes.txt").write_text("")
        document = cleaned(tailrace, archive, "--state", state)
        expected = [name for name in below(archive, starts[0]) if name not in (another, damaged)]
        assert names(document) == expected != []
        kept = why(document)
        oldest = min(path.name for path in archive.glob("*.backup"))
        reason = f'the backup of "{oldest}" needs WAL from {Lsn(starts[0] >> 20 << 20)}'
        assert kept[oldest[:24]] == reason
        assert list(kept.values()).count(reason) >= 3
        assert kept[another].startswith("of system ")
        assert "invalid magic number" in kept[damaged]
        assert (kept[oldest], kept["notes.txt"]) == ("history files of backups", "not a segment")
        assert names(cleaned(tailrace, archive, "--state", state, "--delete")) == expected
        assert sorted(path.name for path in archive.iterdir()) == sorted(kept)
        (archive / another).unlink()
        for path in archive.glob("*.backup"):
            path.rename(path.with_name(f"{path.name}.gz"))
        assert names(cleaned(tailrace, archive, "--state", state)) == []
        assert tailrace("slot", "drop", "mine", "--state", state)[0] == 0
        assert why(cleaned(tailrace, archive, "--state", state))[oldest[:24]] == "there is no slot that says what is needed"


def test_keeps_what_backups_and_catalog_states_need_that_are_named_or_lie_there(
    archive: Path, tailrace: Run, tmp_path: Path
) -> None:
    """Of backups that left no history file in the archive, as beside pg_receivewal's, and of captured states; and a first segment of another system
    does not say whose archive it is."""
    state = tmp_path / "state"
    with archiving(archive) as server:
        server.say("CREATE TABLE t (id int)")
        write(server, archive, 3)
        captured = tmp_path / "app.state"
        assert tailrace("catalog", "capture", server.data_dir, "--database", server.dbname, "-o", captured)[0] == 0
        write(server, archive, 2)
        with server.connect() as connection:
            ((start,),) = connection.execute("SELECT pg_backup_start('b', true)").fetchall()
            ((label,),) = connection.execute("SELECT labelfile FROM pg_backup_stop(false)").fetchall()
        begun = Lsn.parse(start)
        write(server, archive, 3)
        until(lambda: bool(list(archive.glob("*.backup"))))
        for path in archive.glob("*.backup"):
            path.unlink()
        create_on_archive(server, archive, state)
        wal = open_case("xact", 16, "with_slot", tmp_path / "case").wal_dir
        first, *_ = below(archive, begun)
        shutil.copy(next(path for path in wal.iterdir() if place_of(path) > 0), archive / first)

        needed = read_state(captured.read_bytes(), "").needs_wal_from
        assert Lsn(0) < needed < begun
        backup = tmp_path / "backup"
        backup.mkdir()
        (backup / "backup_label").write_text(label)
        packed = tmp_path / "base.tar.gz"
        with tarfile.open(packed, "w:gz") as tar:
            tar.add(backup / "backup_label", "backup_label")

        def unneeded(*words: object) -> list[str]:
            return names(cleaned(tailrace, archive, "--state", state, *words))

        behind_backup = [name for name in below(archive, begun) if name != first]
        behind_state = [name for name in below(archive, needed) if name != first]
        assert set(behind_state) < set(behind_backup) < set(unneeded())
        for form in (backup, backup / "backup_label", packed):
            document = cleaned(tailrace, archive, "--state", state, "--backup", form)
            assert names(document) == behind_backup
            assert f'the backup of "{form}" needs WAL from {begun}' in why(document).values()
        assert unneeded("--catalog", captured) == unneeded("--catalog", captured, "--backup", backup) == behind_state
        assert why(cleaned(tailrace, archive, "--state", state))[first].startswith("of system ")

        shutil.copytree(backup, archive / "monday")
        assert unneeded() == behind_backup
        shutil.copy(captured, archive)
        assert unneeded() == behind_state
        damaged = archive / captured.name
        damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")
        status, out, err = tailrace("archive", "cleanup", archive, "--state", state, "--delete")
        assert (status, out) == (1, "")
        assert f'incorrect checksum in catalog state "{damaged}"' in err
        damaged.unlink()
        status, out, err = tailrace("archive", "cleanup", archive, "--state", state, "--backup", state)
        assert (status, out) == (1, "")
        assert "is no base backup" in err


def test_refuses(archive: Path, tailrace: Run, tmp_path: Path) -> None:
    """A server's own WAL, and slots of another system; before anything is removed."""
    with archiving(archive) as server, Server(16) as other:
        server.say("CREATE TABLE t (id int)")
        create_on_archive(server, archive, tmp_path / "state")
        write(server, archive, 2)
        assert tailrace("slot", "create", "x", other.data_dir, "--database", other.dbname, "--state", tmp_path / "other")[0] == 0
        both = ("--state", tmp_path / "state", "--state", tmp_path / "other", "--delete")
        before = sorted(archive.iterdir())
        status, out, err = tailrace("archive", "cleanup", archive, *both)
        assert (status, out) == (1, "")
        assert err.startswith(f'tailrace: error: the slots in "{tmp_path / "other"}" are of system ')
        (tmp_path / "linked").symlink_to(server.wal_dir)
        for place in (server.data_dir, server.wal_dir, tmp_path / "linked"):
            status, out, err = tailrace("archive", "cleanup", place, *both[:2], "--delete")
            assert (status, out) == (1, "")
            assert err.startswith(f'tailrace: error: "{place}" is a server\'s, and no archive\n')
        assert sorted(archive.iterdir()) == before


def test_a_slot_that_is_too_far_behind_is_lost(archive: Path, tailrace: Run, tmp_path: Path) -> None:
    """By max_slot_wal_keep_size, and only once its WAL is removed; not while somebody consumes it."""
    state = ("--state", tmp_path / "state")
    with archiving(archive) as server:
        server.say("CREATE TABLE t (id int)")
        create_on_archive(server, archive, tmp_path / "state")
        location = SlotLocation.open(tmp_path / "state")
        location.rename("mine", "behind")
        write(server, archive, 8)
        server.sql("SELECT pg_drop_replication_slot(%s)", [THEIRS])
        create_on_archive(server, archive, tmp_path / "state")
        location.rename("mine", "ahead")
        assert tailrace("slot", "set", *state, "max_slot_wal_keep_size=4MB")[0] == 0
        listed = names(cleaned(tailrace, archive, *state))
        assert below(archive, location.slot("behind").restart_lsn) < listed
        assert location.slot("behind").invalidation_reason == ""
        with location.owned("behind"):
            assert names(cleaned(tailrace, archive, *state, "--delete")) == below(archive, location.slot("behind").restart_lsn)
        assert location.slot("behind").invalidation_reason == ""
        gone = names(cleaned(tailrace, archive, *state, "--delete"))
        assert set(gone) <= set(listed)
        assert len(gone) >= 3
        assert not set(gone) & {path.name for path in archive.iterdir()}
        assert [location.slot(name).invalidation_reason for name in ("ahead", "behind")] == ["", "wal_removed"]
        assert (
            names(cleaned(tailrace, archive, *state)) == below(archive, location.slot("ahead").restart_lsn) != []
        )  # what is lost needs nothing
