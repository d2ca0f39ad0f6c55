"""What it takes to compare a large table of a lake with the server's, beside one copy of that table, by turns on one server.

    python benchmarks/verify.py --rows 10000000 --runs 5

A table is filled and mirrored into a lake. Then, by turns, psql copies it in binary form (`\\copy … (format binary)`) to /dev/null, `tailrace verify`
compares all of its rows, which are equal, and compares them once more when some were changed that the lake lacks. Seconds are those of the programs
as they are typed, Python's start included; MB the most memory that verify had, with files that it maps.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "tests")]

import psutil
from rich.console import Console
from rich.table import Table

from postgres import MAJOR, SETTINGS
from support.builds import find_build
from support.servers import Server

TAILRACE = str(Path(sys.executable).with_name("tailrace"))
_CHANGED = 10_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--format", default="delta")
    options = parser.parse_args()
    settings = {**SETTINGS, "max_wal_size": "20GB"}
    with (
        tempfile.TemporaryDirectory(prefix="tailrace-bench-verify-") as home,
        Server(MAJOR, settings, dbname="app", wal_segment_mb=16, test_decoding=False) as server,
    ):
        lake = ["--database", "app", "--to", f"{home}/lake"]
        server.say(
            "CREATE TABLE t (id int PRIMARY KEY, v text, n numeric(12,2), at timestamptz)",
            f"INSERT INTO t SELECT g, 'value ' || g, g * 0.25, now() FROM generate_series(1, {options.rows}) g",
            "VACUUM (FREEZE, ANALYZE) t",
        )
        mirror = [TAILRACE, "mirror", server.dsn(), *lake, "--state", f"{home}/state", "--format", options.format]
        subprocess.run(mirror, check=True)
        server.say("CHECKPOINT")
        psql = [
            str(find_build(MAJOR, test_decoding=False).bin("psql")),
            "-qX",
            server.dsn(),
            "-c",
            r"\copy t TO /dev/null (FORMAT binary)",
        ]
        verify = [TAILRACE, "verify", server.dsn(), *lake]
        taken: dict[str, list[tuple[float, int]]] = {}
        for number in range(options.runs + 1):  # the first warms up
            for name, words in (("psql \\copy (format binary)", psql), ("tailrace verify", verify)):
                taken.setdefault(name, []).append(_measured(words))
            server.say(f"UPDATE t SET n = n + 1 WHERE id % {max(1, options.rows // _CHANGED)} = {number}")
            taken.setdefault("tailrace verify, changed rows", []).append(_measured(verify))
            subprocess.run(mirror, check=True, stdout=subprocess.DEVNULL)
            server.say("CHECKPOINT")
    table = Table("", "s", "times the copy", "MB", title=f"{options.rows:,} rows, {options.format}, medians of {options.runs}")
    medians = {name: statistics.median(seconds for seconds, _ in each[1:]) for name, each in taken.items()}
    for name, seconds in medians.items():
        most = max(size for _, size in taken[name]) >> 20
        table.add_row(name, f"{seconds:.2f}", f"{seconds / next(iter(medians.values())):.2f}", f"{most:,}")
    Console(width=100).print(table)


def _measured(words: list[str]) -> tuple[float, int]:
    began, most = time.monotonic(), 0
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as process:
        watched = psutil.Process(process.pid)
        while process.poll() is None:
            try:
                most = max(most, watched.memory_info().rss)
            except psutil.Error:
                break
            time.sleep(0.02)
    if process.returncode:
        sys.exit(f"{words[0]} ended with status {process.returncode}")
    return time.monotonic() - began, most


if __name__ == "__main__":
    main()
