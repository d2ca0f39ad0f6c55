"""Has speed paid for something? `python benchmarks/compare.py REVISION …`: those revisions and this tree, by turns, on the same WAL.

In this process (`--on process`, LocalRunner), on Spark, or both. A turn starts each tree once, in an order that rotates; every start warms up, then
measures `--runs` times. With `--self` this tree runs twice a turn: how far two runs of the same code lie apart.
Prints medians of CPU seconds over all turns, and ratios: of the medians, and the quartiles of those within a turn. A ratio above `--limit` is marked.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "tests")]

from rich.console import Console
from rich.table import Table

from postgres import write_wal
from workloads import WORKLOADS

CPU, WALL = 0, 1


@dataclass(slots=True)
class Series:
    """What one tree took for one outlet: by turn, the median of (CPU, wall) of its runs."""

    turns: list[tuple[float, float]] = field(default_factory=list)

    def add(self, runs: list[list[float]]) -> None:
        self.turns.append((median(run[CPU] for run in runs), median(run[WALL] for run in runs)))

    def median(self, part: int = CPU) -> float:
        return median(turn[part] for turn in self.turns)

    def against(self, other: Series, part: int = CPU) -> float:
        return self.median(part) / other.median(part)

    def quartiles(self, other: Series) -> str:
        """Of the ratios within a turn."""
        ratios = [mine[CPU] / theirs[CPU] for mine, theirs in zip(self.turns, other.turns, strict=True)]
        if len(ratios) < 2:
            return f"{ratios[0]:.2f}"
        low, _, high = quantiles(ratios, n=4, method="inclusive")
        return f"{low:.2f}–{high:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revisions", nargs="+")
    parser.add_argument("--workloads", default="inserts,mixed,wide,churn")
    parser.add_argument("--outlets", default="scan,decode,text")
    parser.add_argument("--on", default="process", help="process, spark, or process,spark")
    parser.add_argument("--scale", type=float, default=0.4)
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--runs", type=int, default=1, help="measures a start")
    parser.add_argument("--self", dest="twice", action="store_true", help="this tree against itself as well")
    parser.add_argument("--limit", type=float, default=1.03)
    parser.add_argument("--wal", type=Path, help="keep the WAL here, and use what is there")
    options = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="tailrace-compare-"))
    then = {revision: home / revision for revision in options.revisions}
    for revision, tree in then.items():
        subprocess.run(["git", "-C", ROOT, "worktree", "add", "--quiet", "--detach", tree, revision], check=True)
    trees = then | {"now": ROOT} | ({"again": ROOT} if options.twice else {})
    tables = {on: _table(on, options) for on in options.on.split(",")}
    console = Console(stderr=True, soft_wrap=True)
    try:
        for name in options.workloads.split(","):
            path = _wal(name, options.scale, options.wal or home)
            for on, table in tables.items():
                found = _take_turns(trees, path, name, on, options)
                for outlet, series in found.items():
                    for revision in then:
                        table.add_row(name, outlet, revision, *_cells(series, revision, options.limit))
                        console.print(f"{on}, {name}, {outlet}, {revision}: {series['now'].against(series[revision]):.3f}")
            if not options.wal:
                shutil.rmtree(path)
    finally:
        for tree in then.values():
            subprocess.run(["git", "-C", ROOT, "worktree", "remove", "--force", tree], check=False)
        shutil.rmtree(home, ignore_errors=True)
    for table in tables.values():
        Console(width=140).print(table)


def _wal(name: str, scale: float, home: Path) -> Path:
    """A stopped data directory with the workload's WAL, made unless it is there."""
    work, place = WORKLOADS[name], home / f"{name}-{scale:g}"
    if not place.exists():
        place.mkdir(parents=True)
        write_wal(work, max(1, int(work.scale * scale)), place)
    return place / name


def _take_turns(
    trees: dict[str, Path], path: Path, workload: str, on: str, options: argparse.Namespace
) -> dict[str, dict[str, Series]]:
    """By outlet and tree. Whoever comes first in a turn may be better or worse off, so each does as often."""
    found = {outlet: {tree: Series() for tree in trees} for outlet in options.outlets.split(",")}
    for turn in range(options.turns):
        names = list(trees)
        places = names[turn % len(names) :] + names[: turn % len(names)]
        for tree in places:
            for outlet, runs in _measured(trees[tree], path, workload, on, options).items():
                found[outlet][tree].add(runs)
    return found


def _measured(tree: Path, path: Path, workload: str, on: str, options: argparse.Namespace) -> dict[str, list[list[float]]]:
    """What `single.py` measures with the modules of a tree."""
    places = [tree / "src", tree / "benchmarks", tree / "tests"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, places))}
    command = [
        sys.executable, "-P", str(ROOT / "benchmarks/single.py"), str(path), workload, options.outlets, "--on", on, "--runs", str(options.runs),
    ]  # fmt: skip
    ran = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(ran.stdout.splitlines()[-1])


def _table(on: str, options: argparse.Namespace) -> Table:
    place = "in process" if on == "process" else "on Spark"
    columns = ["workload", "outlet", "against", "CPU s, then", "now", "ratio", "turns", "wall, ratio"]
    if options.twice:
        columns += ["itself, ratio", "turns"]
    return Table(*columns, title=f"{place}, scale {options.scale:g}, medians of {options.turns} turns")


def _cells(series: dict[str, Series], revision: str, limit: float) -> list[str]:
    then, now = series[revision], series["now"]
    ratio = now.against(then)
    mark = f" > {limit:g}" if ratio > limit else ""
    cells = [
        f"{then.median():.2f}",
        f"{now.median():.2f}",
        f"{ratio:.3f}{mark}",
        now.quartiles(then),
        f"{now.against(then, WALL):.2f}",
    ]
    if "again" in series:
        again = series["again"]
        cells += [f"{again.against(now):.3f}", again.quartiles(now)]
    return cells


if __name__ == "__main__":
    main()
