"""Memory and time of `tailrace decode`, of Delta tables and of DataFrames, window by window and with the whole log as one window, as logs grow.

    python benchmarks/memory.py --workloads singles,huge,long --scale 1
    python benchmarks/memory.py --workloads singles --outlets append,mirror --on local --window 64MB
    python benchmarks/memory.py --workloads singles --outlets dataframe --on spark --window 64MB

Each workload's log is made at a third of the scale and in full. Printed are MB of WAL, seconds, MB of WAL a second, and the peak resident
memory of the largest process of each kind; a DataFrame is planned in a process of Spark's own. What the JVM has taken is not what it needs: on
Spark, *heap* is what was left of it by the most thorough collection, and by the least thorough one, in the later half of the run.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from itertools import product
from pathlib import Path

import psutil

from measure import Measure, measured
from postgres import write_wal
from workloads import WORKLOADS, Workload

_WHOLE = "1TB"
_OUTLETS = {
    "append": """
append_changes(tailrace.open_pipeline({data!r}, "app") if whole else tailrace.open_feed({data!r}, "app", scanning=scanning), {lake!r})
""",
    "mirror": """
mirror(tailrace.open_pipeline({data!r}, "app") if whole else tailrace.open_feed({data!r}, "app", scanning=scanning), {lake!r})
""",
    "dataframe": """
options = {{"source": {data!r}, "database": "app", "table": "public.{table}", "window": {window!r}}}
session(quiet=True).read.format("tailrace").options(**options).load().write.format("noop").mode("overwrite").save()
""",
}
_BEFORE = """
import tailrace
from tailrace.lake.changelog import append_changes
from tailrace.lake.mirror import mirror
from tailrace.pipeline import Scanning
from tailrace.spark.session import session
from tailrace.window import WindowSize, parse_size
scanning, whole = Scanning(window=WindowSize(parse_size({window!r}))), {window!r} == {whole!r}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", default="singles,huge,long")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--on", default="local,spark")
    parser.add_argument("--ways", default="windows,whole")
    parser.add_argument("--outlets", default="decode", help="of decode, append, mirror and dataframe")
    parser.add_argument("--window", default="256MB", help="of the first way")
    parser.add_argument("--kept", type=Path, help="where logs are kept, and found the next time")
    options = parser.parse_args()
    sys.stdout.write("| log | MB | what | on | as | s | MB/s | peak MB |\n|---|---|---|---|---|---|---|---|\n")
    for name in options.workloads.split(","):
        for scale in (options.scale / 3, options.scale):
            home = options.kept or Path(tempfile.mkdtemp(dir="/tmp"))
            work = WORKLOADS[name]
            place = home / f"{name}-{scale:.2f}"
            if not place.exists():
                place.mkdir(parents=True)
                write_wal(work, int(work.scale * scale), place)
            data = place / name
            for on in options.on.split(","):
                for way, outlet in product(options.ways.split(","), options.outlets.split(",")):
                    window = options.window if way == "windows" else _WHOLE
                    _line(work, data, on, outlet, window)
            if not options.kept:
                shutil.rmtree(home)


def _line(work: Workload, data: Path, on: str, outlet: str, window: str) -> None:
    size = sum(file.stat().st_size for file in (data / "pg_wal").iterdir() if file.is_file()) / 1e6
    lake = tempfile.mkdtemp(dir="/tmp", prefix="tailrace-memory-lake-")
    if outlet == "decode":
        words = ["decode", str(data), "--database", "app", "--on", on, "--window", window]
        command = [str(Path(sys.executable).parent / "tailrace"), *words]
    else:
        given = {"data": str(data), "lake": lake, "table": work.main_table, "window": window, "whole": _WHOLE}
        command = [sys.executable, "-c", (_BEFORE + _OUTLETS[outlet]).format(**given)]

    def run() -> int:
        tools = {"JAVA_TOOL_OPTIONS": f"-Xlog:gc:file={lake}/gc-%p.log"} if on == "spark" else {}
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ | tools)
        return 0

    taken: Measure = measured(run, [psutil.Process().pid], _kind)
    heap = _heap(Path(lake))
    shutil.rmtree(lake)
    peaks = ", ".join(f"{kind} {peak / 1e6:.0f}" for kind, peak in sorted(taken.peak.items()) if kind != "bench")
    sys.stdout.write(
        f"| {work.name} | {size:.0f} | {outlet} | {on} | {window} | {taken.wall:.1f} | {size / taken.wall:.0f} | {peaks}{heap} |\n"
    )
    sys.stdout.flush()


def _heap(folder: Path) -> str:
    """What collections left of the heap of the JVM that had the most of them, MB."""
    logs = [[int(left) for left in re.findall(r"Pause.* \d+M->(\d+)M\(", log.read_text())] for log in folder.glob("gc-*.log")]
    left = max(logs, key=len, default=[])
    later = left[len(left) // 2 :]
    return f", heap {min(later)} to {max(later)}" if later else ""


def _kind(process: psutil.Process) -> str:
    if process.pid == psutil.Process().pid:
        return "bench"
    words = process.cmdline()
    if process.name().startswith("java"):
        return "jvm"
    if any("data_source" in word for word in words):
        return "planner"
    return "command" if "decode" in words or "-c" in words[:2] else "worker"


if __name__ == "__main__":
    main()
