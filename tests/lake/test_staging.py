"""What runs stage is taken away with them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tailrace.lake.staging import staging

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
