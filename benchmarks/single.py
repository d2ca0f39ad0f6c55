"""One tree's CPU and wall seconds on WAL that is there already, as a line of JSON. `compare.py` runs it with the path of either tree.

The tree's own `outlets.py` says what an outlet does; of it only `Bench(spark, path, work)`, its `runner`, `LocalRunner` and `OUTLETS` are used, which
older trees have as well.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from outlets import OUTLETS, Bench, LocalRunner, Outlet
from workloads import WORKLOADS

if TYPE_CHECKING:
    from tailrace.pipeline import Runner  # in older trees it is elsewhere


class InProcess(Bench):
    """Stages on threads of this process, in trees whose outlets know Spark alone as well."""

    @property
    def runner(self) -> Runner:
        return LocalRunner()

    def seconds(self, outlet: Outlet) -> list[float]:
        """CPU, as the kernel counts it (looking at other processes would take CPU of its own), and wall."""
        started = time.process_time(), time.monotonic()
        outlet.run(self)
        return [time.process_time() - started[0], time.monotonic() - started[1]]


class OnSpark(Bench):
    """CPU of this process, the JVM and all workers."""

    def seconds(self, outlet: Outlet) -> list[float]:
        measure = self.measure(outlet)
        return [measure.cpu, measure.wall]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("place", type=Path)
    parser.add_argument("workload")
    parser.add_argument("outlets")
    parser.add_argument("--on", choices=["process", "spark"], default="process")
    parser.add_argument("--runs", type=int, default=1)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    work = WORKLOADS[options.workload]
    bench: InProcess | OnSpark
    if options.on == "spark":
        from tailrace.spark.session import session  # noqa: PLC0415

        bench = OnSpark(session("local[2]"), options.place, work)
    else:
        bench = InProcess(None, options.place, work)
    found = {}
    for name in options.outlets.split(","):
        bench.seconds(OUTLETS[name])  # loads kernels, and warms Spark up
        found[name] = [bench.seconds(OUTLETS[name]) for _ in range(options.runs)]
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
