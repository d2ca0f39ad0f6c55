"""Memory and time of `tailrace decode`, window by window and with the whole log as one window, as logs grow.

    python benchmarks/memory.py --workloads singles,huge,long --scale 1

Each workload's log is made at a third of the scale and in full. Printed are MB of WAL, seconds, MB of WAL a second, and the peak resident
memory of the largest process of each kind.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil

from measure import Measure, measured
from postgres import write_wal
from workloads import WORKLOADS

_WAYS = {"windows": (), "whole": ("--window", "1TB")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", default="singles,huge,long")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--on", default="local,spark")
    parser.add_argument("--ways", default="windows,whole")
    parser.add_argument("--kept", type=Path, help="where logs are kept, and found the next time")
    options = parser.parse_args()
    sys.stdout.write("| log | MB | on | as | s | MB/s | peak MB |\n|---|---|---|---|---|---|---|\n")
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
                for way in options.ways.split(","):
                    _line(name, data, on, way)
            if not options.kept:
                shutil.rmtree(home)


def _line(name: str, data: Path, on: str, way: str) -> None:
    size = sum(file.stat().st_size for file in (data / "pg_wal").iterdir() if file.is_file()) / 1e6
    command = [str(Path(sys.executable).parent / "tailrace"), "decode", str(data), "--database", "app", "--on", on, *_WAYS[way]]

    def decode() -> int:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return 0

    taken: Measure = measured(decode, [psutil.Process().pid], _kind)
    peaks = ", ".join(f"{kind} {peak / 1e6:.0f}" for kind, peak in sorted(taken.peak.items()) if kind != "bench")
    sys.stdout.write(f"| {name} | {size:.0f} | {on} | {way} | {taken.wall:.1f} | {size / taken.wall:.0f} | {peaks} |\n")
    sys.stdout.flush()


def _kind(process: psutil.Process) -> str:
    if process.pid == psutil.Process().pid:
        return "bench"
    words = process.cmdline()
    if process.name().startswith("java"):
        return "jvm"
    return "command" if "decode" in words else "worker"


if __name__ == "__main__":
    main()
