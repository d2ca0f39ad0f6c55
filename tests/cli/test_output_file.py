"""The file that `tailrace slot receive` writes, under what people and programs do to files: every line is in it once, or there is an error that says
what is wrong and touches nothing; and --resume-at-end goes on."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from support.command import Run
from support.decoding import check_equal
from support.servers import Server
from support.slots import TAILRACE, create_both, theirs
from support.waiting import until
from tailrace.cli.verbs.slot import create
from tailrace.replication.output_position import WRITING, Position
from tailrace.storage.birth_time import born
from tailrace.storage.file_lock import FileLock

pytestmark = pytest.mark.postgres
TRIALS = [pytest.param(seed, marks=[] if seed < 1 else pytest.mark.marathon) for seed in range(100)]
AT_END = "--resume-at-end"


class Written:
    """A server with a slot, and a file that receives it. `name` is what the file is called by whoever receives."""

    def __init__(self, server: Server, home: Path, tailrace: Run) -> None:
        self.server, self.home, self.tailrace = server, home, tailrace
        self.state, self.file = home / "state", home / "out"
        self.name = self.file
        server.sql("CREATE TABLE t (id serial PRIMARY KEY, v text)")
        create_both(server, "mine", self.state)
        self.rival = home / "rival"
        create("mine", server.data_dir, self.rival, server.dbname)

    def insert(self, rows: int = 3) -> None:
        self.server.sql(f"INSERT INTO t (v) SELECT 'row' FROM generate_series(1, {rows})")

    def receive(self, *words: str, slot: str = "mine") -> tuple[int, str]:
        """Up to where the log ends. The status, and what was said."""
        end = ("--endpos", self.server.flush_lsn())
        status, _, said = self.tailrace("slot", "receive", slot, "--state", self.state, "-f", self.name, *end, *words)
        return status, said

    def started(self, state: Path) -> subprocess.Popen[str]:
        """A receiver of the slot in that state location, up to where the log ends, in a process of its own."""
        command = [TAILRACE, "slot", "receive", "mine", "--state", state, "-f", self.name, "--endpos", self.server.flush_lsn()]
        return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

    @contextmanager
    def receiving(self) -> Iterator[subprocess.Popen[str]]:
        """In a process of its own, until it ends or the block does."""
        command = [TAILRACE, "slot", "receive", "mine", "--state", self.state, "-f", self.name, "-F", "0.2"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            try:
                yield process
            finally:
                if process.returncode is None and sys.exc_info()[0] is not None:
                    process.kill()
                process.wait(60)

    def killed(self, after: Callable[[], bool]) -> None:
        with self.receiving() as process:
            until(lambda: after() or process.poll() is not None)
            process.kill()

    def expected(self) -> str:
        return "".join(row.split("\t", 2)[2] + "\n" for row in theirs(self.server).splitlines())

    def check_refused(self, why: str, *words: str) -> None:
        """And nothing was touched."""
        before = _files(self.home)
        status, said = self.receive(*words)
        assert (status, why in said) == (1, True), said
        assert AT_END in said or "Name another file" in said
        assert _files(self.home) == before


@pytest.fixture
def written(tmp_path: Path, tailrace: Run) -> object:
    with Server(16) as server:
        yield Written(server, tmp_path, tailrace)


def _files(home: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in home.iterdir() if path.is_file()}


def test_one_writer(written: Written) -> None:
    """Two on one new file left zero bytes in it, and lost lines. By a link it is the same file."""
    written.tailrace("slot", "copy", "mine", "other", "--state", written.state)
    written.insert()
    link = written.home / "folder" / "link"
    link.parent.mkdir()
    link.symlink_to(written.file)
    with written.receiving() as process:
        until(lambda: written.file.exists() and "row" in written.file.read_text())
        for name in (written.file, link):
            written.name = name
            status, said = written.receive(AT_END, slot="other")
            assert (status, "is being written by another process" in said) == (1, True), said
        process.terminate()
    check_equal(written.file.read_text(), written.expected())


def test_a_receiver_that_ends_before_another_has_the_lock(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the position says is read under the lock: both went on from nothing, and reported success."""
    written.insert()
    take = FileLock.take
    first: list[subprocess.Popen[str]] = []

    def late(path: Path) -> FileLock | None:
        if path == written.file and not first:
            first.append(written.started(written.rival))
            assert first[0].wait(60) == 0
        return take(path)

    monkeypatch.setattr(FileLock, "take", late)
    status, said = written.receive()
    assert first
    assert (status, "is written from another replication slot" in said) == (1, True), said
    check_equal(written.file.read_text(), written.expected())


def test_a_link_to_another_folder(written: Written) -> None:
    """What a killed receiver left behind the position was found by those alone who named the file as it did."""
    folder = written.home / "folder"
    folder.mkdir()
    written.name = folder / "link"
    written.name.symlink_to(written.file)
    written.insert(5000)
    written.killed(lambda: written.file.exists() and written.file.stat().st_size > 0)
    written.name = written.file
    assert written.receive()[0] == 0
    written.insert()
    written.name = folder / "link"
    assert written.receive()[0] == 0
    check_equal(written.file.read_text(), written.expected())


def test_another_name_of_the_file(written: Written) -> None:
    written.insert()
    assert written.receive()[0] == 0
    written.name = written.home / "name"
    os.link(written.file, written.name)
    written.insert()
    written.check_refused("has other names")


def test_what_others_do_to_the_file(written: Written) -> None:
    file, position = written.file, written.file.with_name("out.position")
    written.insert()
    assert written.receive()[0] == 0
    written.insert()
    sound = file.read_bytes()

    file.write_bytes(b"-" * len(sound))  # the inode was given to another program's file
    written.check_refused("is not what was written up to")
    file.write_bytes(sound[:-5])
    written.check_refused("somebody cut it")
    file.write_bytes(sound + b"a note\n")
    written.check_refused("somebody appended to it")
    file.write_bytes(sound)
    shutil.copy2(file, file.with_name("copy"))
    file.with_name("copy").replace(file)  # as cp -a and sed -i do
    written.check_refused("is another file")
    said = position.read_bytes()
    file.unlink()
    written.check_refused("is not in its folder any more")
    assert position.read_bytes() == said
    file.write_bytes(sound)
    assert written.receive(AT_END)[0] == 0
    check_equal(file.read_text(), written.expected())


def test_another_file_has_its_inode(written: Written) -> None:
    """Of nothing there is no checksum: that a file of which nothing counts is another one, its birth tells."""
    assert written.receive()[0] == 0
    written.insert(5000)
    written.killed(lambda: written.file.stat().st_size > 0)
    position = written.file.with_name("out.position")
    said = Position.read(position.read_bytes(), str(position))
    assert said.birth == born(written.file) > 0
    position.write_bytes(replace(said, birth=said.birth - 10**9).write())
    written.check_refused("is another file")


def test_a_gap(written: Written) -> None:
    """The slot gave something to somebody else."""
    written.insert()
    assert written.receive()[0] == 0
    before = written.file.read_text()
    written.insert()
    assert written.tailrace("slot", "get", "mine", "--state", written.state)[0] == 0
    written.insert(1)
    written.check_refused("what lies between was given to somebody else")
    assert written.receive(AT_END)[0] == 0
    whole = written.expected()
    assert whole.startswith(before)
    check_equal(written.file.read_text(), before + "".join(whole.splitlines(keepends=True)[-3:]))


def test_somebody_appends_while_it_is_written(written: Written) -> None:
    written.insert()
    with written.receiving() as process:
        until(lambda: written.file.exists() and "row" in written.file.read_text())
        with written.file.open("a") as file:
            file.write("a note\n")
        written.insert()
        _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "somebody else writes to it" in said
    assert written.file.read_text().endswith("a note\n")
    written.check_refused("somebody appended to it")


def test_the_machine_went_down(written: Written, recwarn: pytest.WarningsRecorder) -> None:
    """Nobody can tell then who wrote what lies behind the position; it was on its way, as a rule."""
    written.insert()
    assert written.receive()[0] == 0
    with written.file.open("a") as file:
        file.write("BEGIN 1\ntable public.t: INS")
    written.file.with_name("out" + WRITING).write_bytes(b"")
    written.insert()
    status, said = written.receive()
    assert (status, "27 bytes of" in said + "".join(str(each.message) for each in recwarn)) == (0, True)
    check_equal(written.file.read_text(), written.expected())


@pytest.mark.parametrize("seed", TRIALS)
def test_every_line_once_or_an_error(seed: int, written: Written) -> None:
    """Receivers that end and are killed at any moment, and in between what may happen to a file."""
    dice = random.Random(seed)
    file = written.file
    moved: list[Path] = []
    old: list[dict[Path, bytes]] = []

    def rotated() -> None:
        moved.append(file.with_name(f"out.{len(moved)}"))
        file.rename(moved[-1])
        if dice.random() < 0.3:
            file.touch()

    def replaced() -> None:
        shutil.copy2(file, file.with_name("copy"))
        file.with_name("copy").replace(file)

    def put_back() -> None:
        for path, content in dice.choice(old).items():
            path.write_bytes(content)

    done_to: dict[str, Callable[[], object]] = {
        "nothing": lambda: None,
        "rotated": rotated,
        "appended": lambda: file.write_bytes(file.read_bytes() + b"a note\n"),
        "cut": lambda: os.truncate(file, dice.randrange(file.stat().st_size + 1)),
        "replaced": replaced,
        "overwritten": lambda: file.write_bytes(bytes(file.stat().st_size)),
        "taken by another": lambda: written.tailrace("slot", "get", "mine", "--state", written.state, "--upto-nchanges", "1"),
        "removed": file.unlink,
        "put back": put_back,
    }
    if dice.random() < 0.5:
        _two_at_once(written, dice)
    for _ in range(3):
        for _ in range(dice.randrange(1, 5)):
            written.insert(dice.choice([1, 30, 3000]))
        with written.receiving() as process:
            if dice.random() < 0.5:
                until(lambda: file.exists() or process.poll() is not None)
            time.sleep(dice.uniform(0, 2.0))
            written.insert(dice.choice([1, 30]))
            process.send_signal(dice.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM]))
        assert process.returncode in (-signal.SIGKILL, 128 + signal.SIGTERM, -signal.SIGTERM)
        if not (
            file.exists() and file.with_name("out.position").exists()
        ):  # it has not begun: what another takes now was never this file's
            continue
        what = dice.choice(list(done_to))
        old.append({path: path.read_bytes() for path in (file, file.with_name("out.position")) if path.exists()})
        done_to[what]()
        before = _files(written.home)
        status, said = written.receive()
        whole = "".join(path.read_text() for path in [*moved, file] if path.exists())
        if status == 0:
            check_equal(whole, _so_far(written))
            continue
        assert what not in ("nothing", "rotated"), said
        assert AT_END in said, said
        assert _files(written.home) == before
        return


def _two_at_once(written: Written, dice: random.Random) -> None:
    """Two slots that give the same, on a file that is not there yet: one has it, whichever comes first, and is the one that goes on."""
    written.insert(dice.choice([1, 30, 3000]))
    states = [written.state, written.rival]
    dice.shuffle(states)
    first = written.started(states[0])
    time.sleep(dice.uniform(0, 0.1))
    both = [first, written.started(states[1])]
    said = [process.communicate(timeout=60)[1] for process in both]
    assert sorted(process.returncode for process in both) == [0, 1], said
    loser = said[both[0].returncode == 0]
    assert "is written from another replication slot" in loser or "is being written by another process" in loser, loser
    check_equal(written.file.read_text(), _so_far(written))
    written.state = states[both[0].returncode]


def _so_far(written: Written) -> str:
    """All that the server's slot gives; it is left where it is."""
    rows = written.server.sql("SELECT data FROM pg_logical_slot_peek_changes('theirs', NULL, NULL)")
    return "".join(f"{data}\n" for (data,) in rows)
