"""The spool: one copy of a segment, which grows as the server writes, and is gone when nobody reads it."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cases import DBNAME
from support.decoding import opened, rows_of, text_of
from support.live import Slot
from support.servers import Server
from support.waiting import until
from tailrace.cli import main
from tailrace.errors import CorruptWal, FailedWrite, MissingHistory
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner, Pipeline, Source, capture
from tailrace.storage import spool as spool_module
from tailrace.storage.segment import Segment
from tailrace.storage.segments import Segments
from tailrace.storage.spool import clean, look, spool_directory

SEGMENT = 1 << 20
FILL = "INSERT INTO t SELECT g, repeat('x', 500) FROM generate_series(1, {}) g"


@pytest.fixture(autouse=True)
def spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TAILRACE_SPOOL", str(tmp_path / "spool"))
    return tmp_path / "spool"


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(16, {"wal_keep_size": 0, "max_wal_size": "2MB", "min_wal_size": "2MB"}, dbname=DBNAME) as started:
        started.say("CREATE TABLE t (id int, v text)", "CHECKPOINT")
        yield started


def _copies(spool: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in sorted(spool.glob("*/*/*/*")) if len(path.name) == 24}


def _pipeline(server: Server, slot: Slot | None = None) -> Pipeline:
    return opened(server.data_dir, start_lsn=slot.start_lsn if slot else None)


def test_one_copy_of_a_segment_however_often_it_is_read(server: Server, spool: Path) -> None:
    """Each run left one more copy of the segment that the server writes. What is read is always what the server says, and nothing else is kept."""
    slot = Slot.on(server)
    sizes = []
    for turn in range(12):
        server.sql(f"INSERT INTO t VALUES ({turn}, repeat('x', {turn * 700}))")
        if turn == 8:
            server.switch_wal()
        assert text_of(_pipeline(server, slot), {}) == slot.peek()
        sizes.append(sum(_copies(spool).values()))
        present = {path.name for path in server.wal_dir.iterdir()}
        kept = {path.name for path in spool.rglob("*") if path.is_file()}
        assert {name for name in kept - present if not name.endswith(".lease")} == {"lock", "source", "swept"}
    assert sizes == sorted(sizes)
    *finished, last = _copies(spool).values()
    assert set(finished) == {SEGMENT}
    assert last < SEGMENT


def test_what_is_whole_is_not_looked_into_again(server: Server, spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who comes once more looks at what the server may have written since; a file that has changed since is looked into, whatever is in it."""
    slot = Slot.on(server)
    server.sql(FILL.format(8000))
    assert text_of(_pipeline(server, slot), {}) == slot.peek()
    looked, original = list[int](), spool_module._copy_of

    def copied(segments: Segments, home: Path, place: int) -> Segment | None:
        looked.append(place)
        return original(segments, home, place)

    monkeypatch.setattr(spool_module, "_copy_of", copied)
    whole = sum(size == SEGMENT for size in _copies(spool).values())
    assert whole > 3
    assert text_of(_pipeline(server, slot), {}) == slot.peek()
    others, looked[:] = len(set(looked)), []
    os.utime(min(path for path in server.wal_dir.iterdir() if path.name in _copies(spool)))
    assert text_of(_pipeline(server, slot), {}) == slot.peek()
    assert len(set(looked)) == others + 1


def test_a_segment_is_begun_while_the_one_before_is_copied(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was copied of the one before ends amid it, so the log that is read ends there."""
    for _ in range(3):  # so that the server has segments ahead, under names of later ones
        server.sql(FILL.format(1500))
        server.switch_wal()
        server.sql("CHECKPOINT")
    slot = Slot.on(server)
    server.sql(FILL.format(20))
    expected, original, goes_on = slot.peek(), spool_module._copy_of, [True]

    def copied(segments: Segments, home: Path, place: int) -> Segment | None:
        copy = original(segments, home, place)
        if copy is not None and copy.partial and goes_on:
            goes_on.clear()
            server.switch_wal()
            server.sql(FILL.format(30))
        return copy

    monkeypatch.setattr(spool_module, "_THREADS", 99)  # one after another
    monkeypatch.setattr(spool_module, "_copy_of", copied)
    assert text_of(_pipeline(server, slot), {}) == expected
    assert not goes_on
    assert text_of(_pipeline(server, slot), {}) == slot.peek()


def test_two_readers_at_once(server: Server, spool: Path) -> None:
    """What one has planned is still there, and unchanged, after the server has gone on and another has come."""
    slot = Slot.on(server)
    server.sql(FILL.format(20))
    first, expected = _pipeline(server, slot), slot.peek()
    server.sql(FILL.format(3000))
    second = _pipeline(server, slot)
    assert text_of(first, {}) == expected
    assert text_of(second, {}) == slot.peek()
    server.sql("SELECT pg_drop_replication_slot('s')")
    for _ in range(3):
        server.sql(FILL.format(6000))
        server.checkpoint()
    before = set(_copies(spool))
    third = _pipeline(server)
    assert before & {path.name for path in server.wal_dir.iterdir()} < before, "the server has recycled something"
    assert before <= set(_copies(spool))
    assert text_of(first, {}) == expected
    del first, second
    fourth = Source.open(server.data_dir)
    assert not before <= set(_copies(spool))
    assert fourth.segments.first_lsn >= third.source.segments.first_lsn


def test_a_reader_that_was_killed_holds_nothing(server: Server, spool: Path) -> None:
    code = f"import time; from tailrace.pipeline import Source; s = Source.open({str(server.data_dir)!r}); print('open', flush=True); time.sleep(300)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == b"open\n"
        assert [each.is_read for each in look(spool)] == [True]
        assert clean(spool) == 0
        reader.kill()
        reader.wait()
    assert [each.is_read for each in look(spool)] == [False]
    assert clean(spool) > 0
    assert not _copies(spool)


def test_a_lease_may_outlast_its_process(server: Server, spool: Path) -> None:
    """As it must where Spark plans in a process that ends."""
    source = Source.open(server.data_dir, lasting=3600)
    del source
    assert clean(spool) == 0
    (lease,) = spool.glob("*/*/*/*.lease")
    os.utime(lease, (time.time() - 1, time.time() - 1))
    assert clean(spool) > 0


def test_only_what_the_scan_needs_is_copied(server: Server, spool: Path) -> None:
    server.sql(FILL.format(1000))
    server.checkpoint()
    state = capture(Source.open(server.data_dir), LocalRunner(1), DBNAME)
    clean(spool)
    server.sql("SELECT pg_create_physical_replication_slot('keeps', true)")
    slot = Slot.on(server)
    for _ in range(3):
        server.sql(FILL.format(4000))
    newest = capture(Source.open(server.data_dir), LocalRunner(1), DBNAME)
    clean(spool)
    pipeline = opened(server.data_dir, catalog=newest)
    assert pipeline.source.segments.first_lsn == newest.needs_wal_from // SEGMENT * SEGMENT
    few = sum(_copies(spool).values())
    assert rows_of(server.data_dir, catalog=state, start_lsn=slot.start_lsn) == slot.peek()
    assert 0 < few < sum(_copies(spool).values())


def test_a_copy_that_a_crash_cut_short_is_made_again(server: Server, spool: Path) -> None:
    """Pages of ours that never reached the disk, and pages that the server lost and wrote anew."""
    slot = Slot.on(server)
    server.sql(FILL.format(1000))
    expected = text_of(_pipeline(server, slot), {})
    for spoil in (
        lambda data: data[:-8192] + bytes(8192),
        lambda data: data[: len(data) // 2 + 7],
        lambda data: data + b"x" * 100,
    ):
        for copy in spool.glob("*/*/*/0*[0-9A-F]"):
            if len(copy.name) == 24:
                copy.write_bytes(spoil(copy.read_bytes()))
        assert text_of(_pipeline(server, slot), {}) == expected


def test_noise_in_a_copy_is_an_error(server: Server, spool: Path) -> None:
    slot = Slot.on(server)
    server.sql(FILL.format(300))
    text_of(_pipeline(server, slot), {})
    copy = sorted(path for path in spool.glob("*/*/*/*") if len(path.name) == 24)[-1]
    data = bytearray(copy.read_bytes())
    data[len(data) // 2] ^= 1
    copy.write_bytes(data)
    with pytest.raises(CorruptWal) as caught:
        _pipeline(server, slot)
    assert caught.value.file == str(copy)
    assert str(copy) in caught.value.context


@pytest.mark.parametrize("seed", [pytest.param(seed, marks=[] if seed < 1 else pytest.mark.marathon) for seed in range(100)])
def test_clusters_with_one_system_identifier(seed: int, tmp_path: Path) -> None:
    """A cluster, its copy and its standby, all of them running: they shared one folder, and cut each other's segments. Whoever reads has the log of
    the one that was named, whatever was read of the others, and what they have written is read amid."""
    dice = random.Random(seed)
    with Server(16, dbname=DBNAME) as first:
        first.say("CREATE TABLE t (id int, v text)")
        slot = Slot.on(first)
        first.stop()
        copy = first.copy_to(tmp_path / "copy")
        backup = first.copy_to(tmp_path / "backup")
        first.start()
        (backup / "standby.signal").touch()
        with (
            Server(16, dbname=DBNAME, data=copy) as second,
            Server(16, {"primary_conninfo": first.dsn()}, data=backup) as standby,
        ):
            shared: list[Pipeline] = []
            for turn in range(dice.randrange(4, 10)):
                server = dice.choice([first, second])
                server.sql(f"INSERT INTO t SELECT g, '{turn}' FROM generate_series(1, {dice.choice([1, 50, 4000])}) g")
                if dice.random() < 0.3:
                    server.switch_wal()
                if dice.random() < 0.2:
                    server.restart()
                    if server is first:  # it listens on another port now
                        standby.settings["primary_conninfo"] = first.dsn()
                        standby.restart()
                for read in dice.sample([first, second], 2):
                    expected = Slot(read, slot.start_lsn, slot.name).peek()
                    assert text_of(opened(read.data_dir, start_lsn=slot.start_lsn), {}) == expected
                ahead = first.flush_lsn()
                until(lambda ahead=ahead: Lsn.parse(standby.value("SELECT pg_last_wal_replay_lsn()::text")) >= Lsn.parse(ahead))
                pipeline = opened(standby.data_dir, start_lsn=slot.start_lsn)
                assert text_of(pipeline, {}) == slot.peek()
                shared.append(pipeline)
            assert len({each.source.segments.directory for each in shared}) == 1
            assert len({each.source for each in look(spool_directory())}) == 3


def test_a_server_that_was_put_back_in_place(server: Server, spool: Path) -> None:
    """As rsync does it: the folder and its files are the same, and have the older content. One has a switch where the other goes on."""
    slot = Slot.on(server)
    server.sql("INSERT INTO t VALUES (1, 'shared')")
    server.stop()
    copies = {path: path.read_bytes() for path in server.data_dir.rglob("*") if path.is_file()}
    server.start()
    server.sql("INSERT INTO t VALUES (2, 'gone')")
    server.switch_wal()
    server.sql("INSERT INTO t VALUES (3, 'gone')")
    ahead = _pipeline(server, slot)
    assert text_of(ahead, {}) == slot.peek()
    server.stop()
    for path in list(server.data_dir.rglob("*")):
        if path.is_file() and path not in copies:
            path.unlink()
    for path, content in copies.items():
        path.write_bytes(content)
    server.start()
    assert text_of(_pipeline(server, slot), {}) == slot.peek()
    server.sql(FILL.format(100))
    server.switch_wal()
    assert text_of(_pipeline(server, slot), {}) == slot.peek()
    server.sql(FILL.format(3000))
    assert text_of(_pipeline(server, slot), {}) == slot.peek()


def test_a_copy_that_was_taken_away(server: Server, spool: Path) -> None:
    pipeline = _pipeline(server)
    for copy in spool.glob("*/*/*/*"):
        copy.unlink()
    with pytest.raises(MissingHistory, match="has already been removed"):
        pipeline.source.segments.read(pipeline.source.segments.first_lsn, pipeline.source.segments.stop_lsn)


def test_a_place_that_cannot_be_written(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TAILRACE_SPOOL", str(tmp_path / "file" / "spool"))
    with pytest.raises(FailedWrite, match=r'could not write to file ".*/file/spool') as caught:
        Source.open(server.data_dir)
    assert "TAILRACE_SPOOL" in caught.value.hint


def test_a_full_disk_is_the_spools(server: Server, tmp_path: Path) -> None:
    """A limit on the size of files gives the same error at the same place as a full disk, in any environment."""
    code = (
        "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (300000, 300000)); from tailrace.cli import main; main()"
    )
    server.sql(FILL.format(3000))
    spool = tmp_path / "small"
    done = subprocess.run(
        [sys.executable, "-c", code, "wal", "verify", str(server.data_dir)], capture_output=True, text=True, check=False, timeout=120,
        env={**os.environ, "TAILRACE_SPOOL": str(spool)},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (1, "")
    message, hint = done.stderr.splitlines()
    assert message.startswith(f'tailrace: error: could not write to file "{spool}')
    assert hint.startswith("HINT:  ")
    assert "TAILRACE_SPOOL" in hint
    assert not _copies(spool)


def test_the_verbs(server: Server, spool: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    def run(*words: str) -> str:
        monkeypatch.setattr(sys, "argv", ["tailrace", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code
        return capfd.readouterr().out

    assert spool_directory() == spool
    assert run("spool", "ls") == f"{spool}: 0 bytes\n"
    source = Source.open(server.data_dir)
    total = sum(_copies(spool).values())
    assert run("spool", "ls").splitlines()[0] == f"{spool}: {total:,} bytes"
    found = json.loads(run("spool", "ls", "--json"))
    assert (found["bytes"], found["spools"][0]["system"]) == (total, str(source.segments.system))
    assert run("spool", "clean") == f"{spool}: 0 bytes removed\n"
    del source
    assert run("spool", "clean") == f"{spool}: {total:,} bytes removed\n"
