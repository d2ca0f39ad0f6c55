"""tailrace on a standalone Spark cluster, with one executor and with two, and on `local[2]`, against PostgreSQL's walsender on the same WAL.

    python benchmarks/cluster.py --scale 0.25 --runs 3

Master, workers, executors and driver are processes of this machine (`tests/support/spark_cluster.py`), an executor with one core; what they take is
counted, all of them. Printed are medians of `--runs`, after two that warm up (in one, an executor may not have had its turn), as a table in Markdown.
Only ratios say something, and on a machine of two cores a second executor has what the driver leaves it.
"""

from __future__ import annotations

import argparse
import logging
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "tests")]

from measure import Measure, median
from outlets import OUTLETS, Bench
from postgres import prepare
from support.spark_cluster import Cluster, tasks_by_executor
from tailrace.spark.session import session
from workloads import WORKLOADS, Workload

_HEADINGS = ("workload", "outlet", "where", "WAL MB", "wall s", "CPU s", "MB/s", "ratio")
_DRIVER = "driver"
_WARMING = 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", default="inserts")
    parser.add_argument("--outlets", default="scan,decode,DataFrame,Delta,text")
    parser.add_argument("--scale", type=float, default=0.25)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    sys.stdout.write(f"| {' | '.join(_HEADINGS)} |\n|---|---|---|---:|---:|---:|---:|---:|\n")
    home = Path(tempfile.mkdtemp(prefix="tailrace-bench-"))
    try:
        for name in options.workloads.split(","):
            _workload(WORKLOADS[name], options.scale, options.outlets.split(","), options.runs, home)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _workload(work: Workload, scale: float, names: list[str], runs: int, home: Path) -> None:
    """A line for each of PostgreSQL's measures, and for each outlet in each place."""
    path, megabytes, theirs = prepare(work, max(1, int(work.scale * scale)), home, runs)
    for name, measure in theirs.items():
        _line(work, name if name == "pg_waldump" else f"walsender, {name}", "", megabytes, measure, None)
    for place, settings in _places():
        spark = session(**settings)
        bench = Bench(spark, path, work)
        for name in names:
            measure = median([bench.measure(OUTLETS[name]) for _ in range(_WARMING + runs)][_WARMING:])
            _line(work, name, place, megabytes, measure, theirs.get(OUTLETS[name].against))
        at_work = sorted(name for name, tasks in tasks_by_executor(spark).items() if tasks)
        spark.stop()
        if (at_work == [_DRIVER]) != (place == "local[2]"):
            raise RuntimeError(f"{place}, but the work was done by {', '.join(at_work)}")
    shutil.rmtree(path)


def _places() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """What a place is called, and settings of a session there; a cluster is there for as long as its places are."""
    yield "local[2]", {"master": "local[2]"}
    with Cluster() as cluster:
        for executors in (1, 2):
            yield f"{executors} executor{'s' * (executors > 1)}", {"master": cluster.url, **cluster.settings(executors)}


def _line(work: Workload, outlet: str, place: str, megabytes: float, measure: Measure, against: Measure | None) -> None:
    ratio = f"{against.wall / measure.wall:.1f} ×" if against else ""
    figures = (f"{megabytes:.0f}", f"{measure.wall:.2f}", f"{measure.cpu:.2f}", f"{megabytes / measure.wall:.0f}")
    sys.stdout.write(f"| {' | '.join((work.name, outlet, place, *figures, ratio))} |\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
