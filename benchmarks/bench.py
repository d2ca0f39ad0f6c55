"""PostgreSQL's walsender and tailrace on the same WAL, in one run: `make bench`, `make bench-small`.

Per workload and size: a server writes the WAL, its walsender decodes it into `pg_recvlogical -f /dev/null` (pgoutput and test_decoding), the server
stops, pg_waldump counts, and tailrace goes over the same files, from nothing indexed, once for each outlet: in this process, on a warm Spark session,
and as the command comes, its start included. Medians of `--runs`, after one run that warms up; ratios are what counts. At the end, messages of
logical replication are read, in bulk and by a loop (`messages.py`).
"""

from __future__ import annotations

import argparse
import logging
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "tests")]

from pyspark.sql import SparkSession
from rich.console import Console

import messages
import report
from measure import Measure, Row, median
from outlets import COMMAND, OUTLETS, PROCESS, SPARK, Bench, Outlet
from postgres import MAJOR, prepare
from tailrace.spark.session import session
from workloads import WORKLOADS, Workload


def bench_one(
    work: Workload, scale: float, spark: SparkSession | None, names: list[str], places: list[str], home: Path, runs: int
) -> Iterator[Row]:
    """All lines of one workload at one size."""
    count = max(1, int(work.scale * scale))
    path, megabytes, theirs = prepare(work, count, home, runs)
    try:
        size = f"{count:,}"
        for name, measure in theirs.items():
            what = name if name == "pg_waldump" else f"walsender, {name}"
            yield Row(work.name, size, what, "", megabytes, measure, ours=False)
        for place in places:
            bench = Bench(spark if place == SPARK else None, path, work)
            ours: dict[str, Measure | None] = {}
            for outlet in (OUTLETS[name] for name in names if OUTLETS[name].suits(work, place)):
                measure, error = _measure(bench, outlet, runs)
                ours[outlet.name] = measure
                against = theirs.get(outlet.against) or ours.get(outlet.against)
                yield Row(work.name, size, f"tailrace, {outlet.name}", place, megabytes, measure, outlet.noun, against, error)
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _measure(bench: Bench, outlet: Outlet, runs: int) -> tuple[Measure | None, str]:
    """Warm up, then measure. A failure is a line of the table, and the rest goes on."""
    try:
        bench.measure(outlet)
        return median([bench.measure(outlet) for _ in range(runs)]), ""
    except Exception as error:
        return None, f"{type(error).__name__}: {str(error).splitlines()[0][:120]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--outlets", default=",".join(OUTLETS))
    parser.add_argument("--on", default=f"{PROCESS},{SPARK},{COMMAND}", help="where tailrace runs")
    parser.add_argument("--scale", type=float, default=1.0, help="fraction of the full size")
    parser.add_argument("--slope", action="store_true", help="measure a quarter of that size as well, and print the slope")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--messages", type=int, default=200_000, help="changes in the messages that are read; 0 reads none")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--output", type=Path, help="write docs/performance.md here")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    places = options.on.split(",")
    spark = session(options.master) if SPARK in places else None
    names = [name for name in OUTLETS if name in options.outlets.split(",")]
    console = Console(stderr=True, soft_wrap=True)
    home = Path(tempfile.mkdtemp(prefix="tailrace-bench-"))
    rows: list[Row] = []
    try:
        for name in options.workloads.split(","):
            for scale in [options.scale / 4, options.scale] if options.slope else [options.scale]:
                console.print(f"{name}, {scale:g} of full size …")
                for row in bench_one(WORKLOADS[name], scale, spark, names, places, home, options.runs):
                    console.print(f"  {report.told(row)}")
                    rows.append(row)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    readings = list(messages.readings(options.messages)) if options.messages else []
    report.show(rows, readings)
    if options.output:
        command = " ".join(["python benchmarks/bench.py", *(word for word in sys.argv[1:] if not word.startswith("--output"))])
        report.write(
            rows, readings, options.output, command=command.replace(f" {options.output}", ""), runs=options.runs, major=MAJOR
        )


if __name__ == "__main__":
    main()
