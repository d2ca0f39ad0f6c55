"""Files of changes are parted into runs where every transaction lies on one side, and no further than need be."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from tailrace.lake.staging import FileWritten, runs_of, staging
from tailrace.model import Lsn

END = Lsn(10_000)


def _file(first: int, last: int, memory: int) -> FileWritten:
    return FileWritten(1, "", 0, memory, 1, first, last, 0)


@pytest.mark.parametrize("seed", range(20))
def test_runs(seed: int) -> None:
    dice = random.Random(seed)
    files = []
    for _ in range(dice.randrange(40)):
        first = dice.randrange(1, 300)
        files.append(_file(first, first + dice.choice((0, 0, 1, 5, 40)), dice.randrange(1, 100)))
    runs = runs_of(files, END, 150)
    assert sorted((file for run in runs for file in run.files), key=id) == sorted(files, key=id)
    assert runs[-1].stop == END
    begin = 0
    for run, following in zip(runs, [*runs[1:], None], strict=True):
        assert all(begin <= file.first_commit and file.last_commit < run.stop for file in run.files)
        begin = run.stop
        assert run.files or not files
        held = sum(file.memory for file in run.files)
        if following is not None:  # what would not have fitted begins there
            assert held + following.files[0].memory > 150
        if held > 150:  # there was no place to cut since it was too much
            assert not [cut for cut in _cuts(run.files) if sum(file.memory for file in run.files if file.last_commit < cut) > 150]


def _cuts(files: list[FileWritten]) -> list[int]:
    return [
        each.first_commit
        for each in files
        if all(other.last_commit < each.first_commit or other.first_commit >= each.first_commit for other in files)
    ][1:]


_LIVES = """
import sys
from pathlib import Path
from tailrace.lake.staging import staging
with staging(Path(sys.argv[1])) as folder:
    (folder / "part").write_text("rows")
    print(folder, flush=True)
    sys.stdin.read()
"""


def test_what_a_killed_run_left_is_removed_by_the_next(tmp_path: Path) -> None:
    """And what is another run's, which lives, is not."""
    runs, folders = [], []
    for _ in range(2):
        run = subprocess.Popen([sys.executable, "-c", _LIVES, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert run.stdout is not None
        runs.append(run)
        folders.append(Path(run.stdout.readline().strip()))
    killed, lives = runs
    killed.kill()
    killed.wait()
    with staging(tmp_path) as mine:
        assert sorted(tmp_path.iterdir()) == sorted([mine, folders[1]])
        assert (folders[1] / "part").read_text() == "rows"
    lives.communicate()
    assert lives.returncode == 0
    assert list(tmp_path.iterdir()) == []
