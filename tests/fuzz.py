"""Workloads that nobody has seen, for as long as there is time: `python tests/fuzz.py [--minutes 60] [--majors 14,18] [--seed 7]`.

Each round draws a seed and tells a schedule (:mod:`support.schedule`) to two clones of a cluster, lets threads race each other on one with a
slot (:mod:`support.threads`), or nests savepoints there (:mod:`support.savepoints`); tailrace decodes the WAL with catalogs rebuilt and captured, and
not a byte may differ from what PostgreSQL's slot gave. The last lines are the tally. A difference ends the run: its case is kept,
and the command that makes it again is printed.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from itertools import cycle
from pathlib import Path

import _pytest.outcomes
import psycopg

from support.cases import Case
from support.decoding import check_both_ways
from support.live import live_case
from support.savepoints import run_savepoints
from support.schedule import make_schedule, run_schedule
from support.threads import run_threads
from tailrace.majors import MAJORS

TRANSACTIONS = (150, 600, 2000)
KINDS = ("schedule", "schedule", "threads", "savepoints")


def main() -> int:
    options = _options()
    ends = time.monotonic() + options.minutes * 60
    seeds = random.Random(options.seed)
    print(
        f"python tests/fuzz.py --minutes {options.minutes:g} --majors {','.join(map(str, options.majors))} --seed {options.seed}"
    )
    tally: Counter[str] = Counter()
    for major in cycle(options.majors):
        if time.monotonic() > ends:
            break
        seed, count, kind = seeds.randrange(10**6), seeds.choice(TRANSACTIONS), seeds.choice(KINDS)
        directory = Path(tempfile.mkdtemp(prefix="tailrace-fuzz-"))
        began = time.monotonic()
        try:
            lines = _round(kind, major, seed, count, directory)
        except psycopg.Error as error:
            # The server's own failure, in a race of its threads or in its decoder: there is nothing to compare with.
            print(f"PostgreSQL {major}, {kind}, seed {seed}, {count} transactions: the server failed: {error}", flush=True)
            tally.update({"rounds in which the server itself failed": 1})
            shutil.rmtree(directory)
            continue
        except (Exception, _pytest.outcomes.Failed) as error:
            print(f"PostgreSQL {major}, {kind}, seed {seed}, {count} transactions: {error}\nkept in {directory}")
            return 1
        print(
            f"PostgreSQL {major}, {kind}, seed {seed}, {count} transactions: {lines} lines equal ({time.monotonic() - began:.0f} s)",
            flush=True,
        )
        tally.update({"rounds": 1, "transactions": count, "lines": lines, f"on {major}": 1})
        shutil.rmtree(directory)
    print(", ".join(f"{number} {what}" for what, number in tally.items()) + "; 0 differing lines")
    return 0


def _round(kind: str, major: int, seed: int, count: int, directory: Path) -> int:
    """Lines compared, all of them equal."""
    case = {"schedule": _schedule, "threads": _threads, "savepoints": _savepoints}[kind](major, seed, count, directory)
    check_both_ways(case)
    return case.expected.count("\n")


def _schedule(major: int, seed: int, count: int, directory: Path) -> Case:
    schedule = make_schedule(seed, count)
    return live_case(major, lambda server: run_schedule(server, schedule), directory, slot=False)


def _threads(major: int, seed: int, count: int, directory: Path) -> Case:
    return live_case(major, lambda server: run_threads(server, seed, count), directory)


def _savepoints(major: int, seed: int, count: int, directory: Path) -> Case:
    return live_case(major, lambda server: run_savepoints(server, seed, count), directory)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--majors", type=lambda text: [int(major) for major in text.split(",")], default=list(MAJORS))
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
