"""With a restore_command any archiver is a SOURCE: what a directory lacks of its log is brought by it, as a server that recovers has it brought."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from support.archives import written_by_servers
from support.cases import Case, open_case
from support.command import Run
from support.decoding import state_before
from support.servers import Server
from support.waiting import until
from tailrace.catalog.state.state_file import write_state
from tailrace.client.restore_command import RestoreCommand
from tailrace.model import Lsn
from tailrace.sources import restored_files
from tailrace.sources.restored_files import RestoredFiles
from tailrace.storage.wal_files import WalDirectory


@pytest.fixture(autouse=True)
def _spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAILRACE_SPOOL", str(tmp_path / "spool"))
    monkeypatch.setattr(restored_files, "_RETRY", 0.0)


@pytest.fixture
def case(tmp_path: Path) -> Case:
    """Of two segments."""
    case = open_case("spill", 16, "with_slot", tmp_path)
    (tmp_path / "state").write_bytes(write_state(state_before(case)))
    return case


@pytest.fixture
def lacking(case: Case, tmp_path: Path) -> Path:
    """A directory that has the first segment."""
    directory = tmp_path / "lacking"
    directory.mkdir()
    first, _ = _segments(case)
    (directory / first.name).write_bytes(first.read_bytes())
    return directory


def _segments(case: Case) -> list[Path]:
    return sorted(path for path in case.wal_dir.iterdir() if len(path.name) == 24)


def _command(archive: Path) -> str:
    return f"cp {archive}/%f %p 2> /dev/null"


def test_what_a_directory_lacks_is_brought(case: Case, lacking: Path, tailrace: Run, tmp_path: Path) -> None:
    words = ("--database", case.meta["dbname"], "--catalog", tmp_path / "state")
    there = tailrace("decode", case.wal_dir, *words)
    assert there[1].count("\n") > 100
    alone = tailrace("decode", lacking, *words)
    assert alone[1] != there[1]
    here = tailrace("decode", lacking, *words, "--restore-command", _command(case.wal_dir))
    assert here[:2] == there[:2], here[2]
    assert len(list(lacking.iterdir())) == 1  # nothing is put there
    code, out, _ = tailrace("wal", "ls", lacking, "--restore-command", _command(case.wal_dir))
    assert (code, out.count("\t1\t0/")) == (0, 2)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("exit 126", "could not restore file .* from archive: command not executable"),
        ("no-such-program %f %p", "could not restore file .* from archive: command not found"),
        ("kill -9 $$", "child process was terminated by signal 9"),
        ("true", '"restore_command" returned a zero exit status, but stat'),
        ("cp %x %p", 'String contains unexpected placeholder "%x"'),
        ("head -c 1000 /dev/zero > %p", "invalid data in history file"),
    ],
)
def test_a_command_that_does_not_work(lacking: Path, tailrace: Run, command: str, words: str) -> None:
    """Whether the archive has more is not known then. Statuses up to 125 say that it has not."""
    code, _, err = tailrace("wal", "verify", lacking, "--restore-command", command)
    assert code == 1
    assert re.search(words, err), err
    code, out, _ = tailrace("wal", "verify", lacking, "--restore-command", "exit 125")
    assert (code, "all sound" in out) == (0, True)


def test_a_damaged_file_is_not_taken(case: Case, lacking: Path, tailrace: Run, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    archive.mkdir()
    _, second = _segments(case)
    (archive / second.name).write_bytes(second.read_bytes()[:-8192])
    code, _, err = tailrace("wal", "verify", lacking, "--restore-command", _command(archive))
    assert code == 1
    assert "has wrong size" in err
    (archive / second.name).write_bytes(_segments(case)[0].read_bytes())
    code, _, err = tailrace("wal", "verify", lacking, "--restore-command", _command(archive))
    assert code == 1
    assert "unexpected pageaddr" in err
    assert list((tmp_path / "spool").rglob(second.name)) == []


def test_a_slot_goes_on_with_what_the_archive_gets(case: Case, lacking: Path, tailrace: Run, tmp_path: Path) -> None:
    """The state location keeps the command; `slot set` changes it."""
    archive, state = tmp_path / "archive", tmp_path / "slots"
    archive.mkdir()
    words = ("--database", case.meta["dbname"], "--catalog", tmp_path / "state")
    created = tailrace("slot", "create", "s", lacking, "--state", state, *words, "--restore-command", _command(archive))
    assert created[0] == 0, created
    _, second = _segments(case)
    begin = Lsn.parse(created[1].split()[1])
    assert begin < (int(second.name[-8:], 16)) << 20
    assert tailrace("slot", "get", "s", "--state", state)[:2] == (0, "")
    restored_files._ASKED.clear()
    (archive / second.name).write_bytes(second.read_bytes())
    code, out, err = tailrace("slot", "get", "s", "--state", state)
    whole = tailrace("decode", case.wal_dir, *words, "--start-lsn", begin)
    assert (code, out) == (0, whole[1]), err
    assert out.count("\n") > 10
    code, out, _ = tailrace("slot", "set", "restore_command=exit 1", "--state", state)
    assert (code, "restore_command\texit 1" in out) == (0, True), out


@pytest.mark.postgres
@pytest.mark.parametrize("promoted", [False, True])
def test_a_base_backup_without_wal(promoted: bool, tailrace: Run, tmp_path: Path) -> None:
    """As a server recovers from it: from the checkpoint in the backup on, as far as the archive reaches, on the newest timeline."""
    with written_by_servers() as archive:
        settings = {
            "archive_mode": "on",
            "archive_command": f"cp %p {archive}/%f && chmod 666 {archive}/%f",
            "wal_keep_size": "1GB",
        }
        with Server(18, settings, test_decoding=False) as server:
            server.say("CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t VALUES (1, 'before')")
            backup = tmp_path / "backup"
            subprocess.run(
                [server.bin("pg_basebackup"), "-d", server.dsn(), "-D", backup, "--wal-method=none", "--checkpoint=fast"],
                check=True, capture_output=True,
            )  # fmt: skip
            start = server.flush_lsn()
            server.say(
                "INSERT INTO t SELECT i, repeat('x', 1000) FROM generate_series(2, 3000) i", "ALTER TABLE t ADD w int DEFAULT 7"
            )
            if promoted:
                server.stop()
                (server.data_dir / "standby.signal").touch()
                server.start()
                assert server.value("SELECT pg_promote()")
                server.say("INSERT INTO t VALUES (5000, 'on the second timeline')")
            server.say("UPDATE t SET v = 'after' WHERE id = 1")
            _until_archived(server)
            words = ("--database", server.dbname, "--start-lsn", start)
            there = tailrace("decode", server.data_dir, *words)
            assert there[1].count("\n") > 3000
            here = tailrace("decode", backup, *words, "--restore-command", _command(archive))
            assert here[:2] == there[:2], here[2]
            assert ("on the second timeline" in here[1]) == promoted


def _until_archived(server: Server) -> None:
    last = server.value("SELECT pg_walfile_name(pg_current_wal_insert_lsn())")
    server.switch_wal()
    until(lambda: (server.value("SELECT last_archived_wal FROM pg_stat_archiver") or "") >= last)


def test_an_empty_directory_begins_where_the_catalog_state_does(case: Case, tailrace: Run, tmp_path: Path) -> None:
    """Of the log nothing is at hand but by the command."""
    empty = tmp_path / "empty"
    empty.mkdir()
    words = ("--database", case.meta["dbname"], "--catalog", tmp_path / "state", "--restore-command")
    there = tailrace("decode", case.wal_dir, *words[:-1])
    here = tailrace("decode", empty, *words, _command(case.wal_dir))
    assert here[:2] == there[:2], here[2]
    code, _, err = tailrace("decode", empty, *words, "exit 1")
    assert (code, "none that is wanted comes by the restore_command\nHINT:  WAL is wanted from " in err) == (1, True), err


def test_a_lake_of_an_empty_directory(case: Case, tailrace: Run, tmp_path: Path) -> None:
    """As the guide has it; a later run has the command from the state location."""
    empty = tmp_path / "empty"
    empty.mkdir()
    where = ("mirror", empty, "--database", case.meta["dbname"], "--to", tmp_path / "lake", "--state", tmp_path / "slots")
    words = (*where, "--catalog", tmp_path / "state")
    code, out, err = tailrace(*words)
    assert (code, out, "no WAL segments in" in err) == (1, "", True), err
    code, out, err = tailrace(*where, "--restore-command", _command(case.wal_dir))
    assert (code, out, "where a catalog state (--catalog) needs WAL" in err) == (1, "", True), err
    code, out, err = tailrace(*words, "--restore-command", _command(case.wal_dir))
    assert (code, "is complete up to" in out) == (0, True), err
    assert tailrace(*where)[:2] == (0, out)
    assert not any(empty.iterdir())


def test_what_nobody_wants_any_more_goes(
    case: Case, lacking: Path, tailrace: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = RestoreCommand.parse(_command(case.wal_dir))
    files = RestoredFiles.of(WalDirectory(str(lacking)), command)
    first, second = _segments(case)
    number = int(second.name[-8:], 16)
    (lacking / first.name).rename(tmp_path / first.name)
    (lacking / second.name).write_bytes(second.read_bytes())
    assert [each.name for each in files.segments((number - 1) << 20)] == [first.name, second.name]
    kept = Path(files.kept.directory)
    assert (kept / first.name).exists()
    monkeypatch.setattr(restored_files, "_UNUSED", 0.0)
    assert [each.name for each in files.segments(number << 20)] == [second.name]
    assert not (kept / first.name).exists()
