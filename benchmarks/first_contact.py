"""What somebody meets who has never run tailrace: `python benchmarks/first_contact.py`.

Prints, for this tree as a fresh checkout with a home and caches of its own (page cache and packages as they are): how long its import takes; how
long it is from a command to the first decoded row; what a decode of a small log takes, and of 64 and 430 MB beside PostgreSQL's walsender with
test_decoding on the same WAL; how Spark starts; how long the demo takes. `--checkout REV` puts a revision beside it, `--python PATH` an environment
into which a wheel was installed. `--make` times README's two commands in a fresh clone instead.

Each figure is the median of `--turns`; whoever is compared takes turns. CPU seconds are those of all processes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "tests"), str(ROOT / "src")]

import psutil
from rich.console import Console
from rich.table import Table

from measure import measured
from postgres import prepare
from support.cases import open_case
from workloads import WORKLOADS

DATABASE = "app"
LOGS = {("inserts", 64): 330_000, ("inserts", 430): 2_470_000, ("mixed", 64): 3_000, ("mixed", 430): 660_000}
"""Workload and MB of WAL -> how many of its things make that much."""
ENDS = ("auto", "local", "spark")
PARTS = ("start", "logs", "spark", "demo")
SPARK_START = """
import logging, sys, time
logging.disable(logging.WARNING)
begun = time.monotonic()
from tailrace.spark.session import session
from tailrace.spark.jobs import SparkRunner
from tailrace.pipeline import Source, scan_log
runner = SparkRunner(session("local[2]"))
for what in ("session", "first stage", "second stage"):
    if what != "session":
        scan_log(Source.open(sys.argv[1]).segments, runner)
    print(what, time.monotonic() - begun)
    begun = time.monotonic()
"""
NOT_MEASURED = float("nan")
Figures = dict[str, list[tuple[float, float]]]
"""What was measured -> wall and CPU seconds of each turn."""


@dataclass
class Contestant:
    """A tailrace to be run: its Python, where its sources are if they are not installed, and a home that nobody has used."""

    name: str
    python: str
    sources: Path | None
    home: Path

    @cached_property
    def environment(self) -> dict[str, str]:
        dropped = ("PYTHON", "SPARK_", "PYSPARK_", "XDG_", "TAILRACE_", "NUMBA_", "MASTER")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
        sources = {"PYTHONPATH": str(self.sources)} if self.sources else {}
        self.home.mkdir(parents=True, exist_ok=True)
        return kept | {"HOME": str(self.home), "XDG_CACHE_HOME": str(self.home / ".cache")} | sources

    @cached_property
    def words(self) -> dict[str, list[str]]:
        """`--on` as this revision spells it."""
        said = subprocess.run(
            self.verb("decode", "--help"), env=self.environment, capture_output=True, text=True, check=True
        ).stdout
        return {end: [] if end == "auto" else ["--on", end] for end in ENDS} if "--on" in said else {
            "auto": [], "local": ["--local"], "spark": []
        }  # fmt: skip

    def verb(self, *words: str) -> list[str]:
        return [self.python, "-m", "tailrace", *words]

    def decode(self, path: Path, end: str) -> list[str]:
        return self.verb("decode", str(path), "--database", DATABASE, *self.words[end])

    def timed(self, command: Sequence[str]) -> tuple[float, float]:
        """Wall and CPU seconds of a command that must succeed."""

        def work() -> int:
            ran = subprocess.run(
                command, env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False
            )
            if ran.returncode:
                raise RuntimeError(f"{self.name}: {' '.join(command)}: {ran.stderr}")
            return 0

        taken = measured(work, [psutil.Process().pid], lambda _: "")
        return taken.wall, taken.cpu

    def until_first_row(self, path: Path) -> tuple[float, float]:
        """Wall seconds from the command to the first byte of a row in process."""
        begun = time.monotonic()
        with subprocess.Popen(self.decode(path, "local"), env=self.environment, stdout=subprocess.PIPE) as run:
            assert run.stdout is not None
            run.stdout.read(1)
            first = time.monotonic() - begun
            run.stdout.read()
        return first, NOT_MEASURED


def start(contestant: Contestant, case: Path, _: int) -> Iterator[tuple[str, tuple[float, float]]]:
    """Import, and a small log. Those that are called first happen once, on cold caches."""
    if not (contestant.home / "used").exists():
        yield "the very first row in process (kernels are made, or are in the wheel)", contestant.until_first_row(case)
        (contestant.home / "used").touch()
    yield "import tailrace", contestant.timed([contestant.python, "-c", "import tailrace"])
    yield "first row in process, later", contestant.until_first_row(case)
    for end in ENDS:
        words = " ".join(contestant.words[end]) or "as it comes"
        yield f"decode of a small log, {end}: {words}", contestant.timed(contestant.decode(case, end))


def spark(contestant: Contestant, case: Path, _: int) -> Iterator[tuple[str, tuple[float, float]]]:
    """How Spark starts for a program of one's own."""
    said = subprocess.run(
        [contestant.python, "-c", SPARK_START, str(case)], env=contestant.environment, capture_output=True, text=True, check=True
    ).stdout
    for line in said.splitlines():
        what, _, seconds = line.rpartition(" ")
        yield f"Spark, {what}", (float(seconds), NOT_MEASURED)


def demo(contestant: Contestant, _case: Path, _: int) -> Iterator[tuple[str, tuple[float, float]]]:
    yield "tailrace demo", contestant.timed(contestant.verb("demo"))


def logs(contestants: Sequence[Contestant], turns: int, home: Path, console: Console) -> None:
    """64 and 430 MB beside the walsender."""
    table = Table("workload", "WAL MB", "who", "wall s", "CPU s", "walsender / it", title="decode as it comes, start included")
    for (name, _), count in LOGS.items():
        path, megabytes, theirs = prepare(WORKLOADS[name], count, home, turns)
        walsender = theirs["test_decoding"]
        table.add_row(name, f"{megabytes:.0f}", "walsender, test_decoding", f"{walsender.wall:.2f}", f"{walsender.cpu:.2f}", "")
        found: Figures = {}
        for _turn in range(turns):
            for contestant in contestants:
                found.setdefault(contestant.name, []).append(contestant.timed(contestant.decode(path, "auto")))
        for who, figures in found.items():
            wall, cpu = _medians(figures)
            table.add_row(
                name, f"{megabytes:.0f}", f"tailrace, {who}", f"{wall:.2f}", f"{cpu:.2f}", f"{walsender.wall / wall:.2f}"
            )
        shutil.rmtree(path)
    console.print(table)


def by_turns(
    part: Callable[[Contestant, Path, int], Iterator[tuple[str, tuple[float, float]]]], contestants: Sequence[Contestant],
    case: Path, turns: int, console: Console,
) -> None:  # fmt: skip
    """Run a part for each in turn, and print it."""
    found: dict[str, Figures] = {}
    for turn in range(turns):
        for contestant in contestants:
            for what, figures in part(contestant, case, turn):
                found.setdefault(what.partition(":")[0], {}).setdefault(contestant.name, []).append(figures)
    table = Table("what", *(f"{each.name}: {what}" for each in contestants for what in ("wall s", "CPU s")))
    for what, figures_of in found.items():
        cells = [_medians(figures_of[each.name]) if each.name in figures_of else None for each in contestants]
        table.add_row(what, *(f"{value:.2f}" for pair in cells for value in (pair or (NOT_MEASURED, NOT_MEASURED))))
    console.print(table)


def _medians(figures: Sequence[tuple[float, float]]) -> tuple[float, float]:
    return median(wall for wall, _ in figures), median(cpu for _, cpu in figures)


def made(home: Path, console: Console) -> None:
    """README's two commands in a fresh clone, with an empty home."""
    clone = home / "clone"
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    one = Contestant("clone", sys.executable, None, home / "home")
    table = Table("command", "wall s", "CPU s", "ended with")
    for command in (["make", "demo"], ["make", "test"]):
        said: list[int] = []

        def work(command: list[str] = command, said: list[int] = said) -> int:
            said.append(subprocess.run(command, cwd=clone, env=one.environment, stdout=sys.stderr, check=False).returncode)
            return 0

        taken = measured(work, [psutil.Process().pid], lambda _: "")
        table.add_row(" ".join(command), f"{taken.wall:.0f}", f"{taken.cpu:.0f}", str(said[0]))
    console.print(table)


@contextmanager
def entered(options: argparse.Namespace, home: Path) -> Iterator[list[Contestant]]:
    """All that are compared, this tree last. Sources are copied, so that nothing compiled lies beside them."""
    found, trees = [], []
    for number, revision in enumerate(options.checkout):
        tree = home / f"tree-{number}"
        subprocess.run(["git", "-C", ROOT, "worktree", "add", "--quiet", "--detach", tree, revision], check=True)
        trees.append(tree)
        found.append(Contestant(revision, sys.executable, tree / "src", home / f"home-{number}"))
    for number, python in enumerate(options.python):
        found.append(Contestant(f"wheel {number + 1}" if number else "wheel", python, None, home / f"home-wheel-{number}"))
    copy = home / "this"
    shutil.copytree(ROOT / "src", copy, ignore=shutil.ignore_patterns("__pycache__"))
    found.append(Contestant("this tree", sys.executable, copy, home / "home-this"))
    try:
        yield found
    finally:
        for tree in trees:
            subprocess.run(["git", "-C", ROOT, "worktree", "remove", "--force", tree], check=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkout", action="append", default=[], metavar="REV", help="compare with this revision")
    parser.add_argument(
        "--python", action="append", default=[], metavar="PATH", help="compare with the tailrace that this Python has installed"
    )
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--make", action="store_true", help="README's two commands, in a fresh clone")
    options = parser.parse_args()
    console = Console(width=140)
    home = Path(tempfile.mkdtemp(prefix="tailrace-first-"))
    home.chmod(0o755)
    try:
        if options.make:
            made(home, console)
            return
        case = open_case("xact", 16, "with_slot", home / "case").data_dir
        with entered(options, home) as contestants:
            for name in options.parts.split(","):
                if name == "logs":
                    logs(contestants, options.turns, home / "logs", console)
                else:
                    by_turns({"start": start, "spark": spark, "demo": demo}[name], contestants, case, options.turns, console)
    finally:
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()
