"""The wait before anything happens: help, usage errors, completion, and small commands beside the imports that they cannot do without.

    python benchmarks/start.py [--turns 9]

Each command is a process of its own, files and kernels cached. Commands take turns, so that whatever else the machine does slows all of them; medians
are compared. `make bench` ends with this.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

sys.path[:0] = [str(Path(__file__).parents[1] / "tests")]

from rich.console import Console
from rich.table import Table

from support.cases import Case, open_case
from tailrace.model import Lsn

LIGHT, HEAVY = "import typer, rich", "import numba, pyarrow"
WANTED = {LIGHT: 4, HEAVY: 2}


@dataclass(frozen=True)
class Command:
    """`words` are run with the environment and `variables`; its time is compared with that of `beside`, which is Python."""

    name: str
    words: list[str]
    beside: str
    variables: tuple[tuple[str, str], ...] = ()
    fails: bool = False

    def seconds(self) -> float:
        began = time.monotonic()
        ended = subprocess.run(self.words, env=os.environ | dict(self.variables), capture_output=True, check=False)
        if (ended.returncode != 0) != self.fails:
            raise RuntimeError(f"{self.name} ended with {ended.returncode}: {ended.stderr[-500:].decode()}")
        return time.monotonic() - began


def _tailrace(*words: object) -> list[str]:
    return [str(Path(sys.executable).with_name("tailrace")), *map(str, words)]


def light(home: Path) -> Iterator[Command]:
    """What says something about the command line, and touches no log."""
    yield Command("no argument", _tailrace(), LIGHT, fails=True)
    for words in ("--help", "--version", "decode --help", "sql --help"):
        yield Command(words, _tailrace(*words.split()), LIGHT)
    yield Command("a mistyped verb", _tailrace("decoed"), LIGHT, fails=True)
    yield Command("slot ls, no such location", _tailrace("slot", "ls", "--state", home / "none"), LIGHT, fails=True)
    asked = (("_TAILRACE_COMPLETE", "complete_bash"), ("COMP_WORDS", "tailrace slot re"), ("COMP_CWORD", "2"))
    yield Command("completion", _tailrace(), LIGHT, asked)


def heavy(home: Path) -> Iterator[Command]:
    """What reads a little."""
    cases = {story: open_case(story, 16, "with_slot", home / story) for story in ("xact", "concurrent_ddl_dml", "types")}
    data = cases["xact"].data_dir
    create = _tailrace("slot", "create", "bench", data, "--database", "app", "--state", home / "state")
    subprocess.run(create, capture_output=True, check=True)
    yield Command("wal ls", _tailrace("wal", "ls", data), HEAVY)
    yield Command("slot ls", _tailrace("slot", "ls", "--state", home / "state"), HEAVY)
    for story, case in cases.items():
        words = _tailrace("decode", case.data_dir, "--database", "app")
        yield Command(f"decode, {story}, {_kilobytes(case)} kB of WAL", words, HEAVY)


def _kilobytes(case: Case) -> int:
    said = subprocess.run(_tailrace("wal", "stat", "--json", case.data_dir), capture_output=True, check=True).stdout
    first, last = (int(Lsn.parse(json.loads(said)[name])) for name in ("from", "to"))
    return (last - first) // 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=9)
    turns = parser.parse_args().turns
    with tempfile.TemporaryDirectory(prefix="tailrace-bench-") as home:
        # As it is for who has run it before, whatever this environment says of bytecode.
        os.environ["PYTHONPYCACHEPREFIX"] = f"{home}/bytecode"
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        imports = [Command(code, [sys.executable, "-c", code], "") for code in WANTED]
        commands = [*imports, *light(Path(home)), *heavy(Path(home))]
        times: dict[str, list[float]] = {each.name: [] for each in commands}
        for turn in range(turns + 1):
            for each in commands:
                seconds = each.seconds()
                if turn:  # the first one fills caches
                    times[each.name].append(seconds)
    middle = {name: median(each) for name, each in times.items()}
    table = Table("command", "seconds", "ratio", "to", "wanted at most", title=f"The start, medians of {turns} turns")
    for each in commands:
        ratio = middle[each.name] / middle[each.beside] if each.beside else 1.0
        table.add_row(each.name, f"{middle[each.name]:.2f}", f"{ratio:.1f}", each.beside, str(WANTED.get(each.beside, "")))
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
