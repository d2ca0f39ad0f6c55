"""Has speed paid for something? `python benchmarks/compare.py REVISION`: that revision and this tree, by turns, on the same WAL.

Prints the medians of CPU and wall seconds of both, and their ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "tests")]

from rich.console import Console
from rich.table import Table

from postgres import write_wal
from workloads import WORKLOADS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revision")
    parser.add_argument("--workloads", default="inserts,mixed,wide,churn")
    parser.add_argument("--outlets", default="scan,decode,text")
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="tailrace-compare-"))
    other = home / "tree"
    subprocess.run(["git", "-C", ROOT, "worktree", "add", "--quiet", "--detach", other, options.revision], check=True)
    table = Table(
        "workload", "outlet", "CPU s, then", "now", "ratio", "wall s, then", "now", "ratio", title=f"against {options.revision}"
    )
    try:
        for name in options.workloads.split(","):
            work = WORKLOADS[name]
            path = write_wal(work, max(1, int(work.scale * options.scale)), home)
            turns = [[_measured(tree, path, name, options.outlets) for tree in (other, ROOT)] for _ in range(options.turns)]
            for outlet in options.outlets.split(","):
                cells = []
                for part in (0, 1):
                    then, now = (median(run[part] for turn in turns for run in turn[tree][outlet]) for tree in (0, 1))
                    cells += [f"{then:.2f}", f"{now:.2f}", f"{now / then:.2f}"]
                table.add_row(name, outlet, *cells)
            shutil.rmtree(path)
    finally:
        subprocess.run(["git", "-C", ROOT, "worktree", "remove", "--force", other], check=False)
        shutil.rmtree(home, ignore_errors=True)
    Console(width=120).print(table)


def _measured(tree: Path, path: Path, workload: str, outlets: str) -> dict[str, list[list[float]]]:
    """What `single.py` measures with the modules of a tree."""
    places = [tree / "src", tree / "benchmarks", tree / "tests"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, places))}
    command = [sys.executable, "-P", str(ROOT / "benchmarks/single.py"), str(path), workload, outlets, "1"]
    ran = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(ran.stdout.splitlines()[-1])


if __name__ == "__main__":
    main()
