"""One tree's CPU and wall seconds on WAL that is there already, as a line of JSON. `compare.py` runs it with the path of either tree."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path

from outlets import OUTLETS, Bench
from tailrace.spark.session import session
from workloads import WORKLOADS

if __name__ == "__main__":
    logging.disable(logging.WARNING)
    place, workload, outlets, runs = sys.argv[1:]
    bench = Bench(session("local[2]"), Path(place), WORKLOADS[workload])
    found = {}
    for name in outlets.split(","):
        bench.measure(OUTLETS[name])
        measures = [bench.measure(OUTLETS[name]) for _ in range(int(runs))]
        found[name] = [[measure.cpu, measure.wall] for measure in measures]
    sys.stdout.write(json.dumps(found) + "\n")
