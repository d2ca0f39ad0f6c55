"""Where a scan on one core spends its time: what each step takes of a log, the least of several runs.

    python benchmarks/scan_profile.py inserts,mixed,wide --scale 0.2

Steps are told apart by doing without those that follow: bytes are read; pages and records are framed; checksums are computed; records are parsed, and
facts noted of them; arrays are made of the facts. Printed are CPU milliseconds for each 64 MB of WAL, nanoseconds a record, and shares.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from postgres import write_wal
from tailrace.kernels import kernel
from tailrace.pipeline import Source
from tailrace.pipeline.scanning import stretches_of
from tailrace.storage.segments import Segments
from tailrace.wal import framing
from tailrace.wal.facts import catalog_files
from tailrace.wal.framing import new_frame, next_records
from tailrace.wal.index_buffers import new_buffers
from tailrace.wal.pages import WalBytes
from tailrace.wal.scan import ScanFormat, scan, scan_records
from workloads import WORKLOADS

_STRETCH = 16 << 20
_SHOWN = 64 << 20


@kernel
def count_records(buf, frame, batch):  # type: ignore[no-untyped-def]
    """Frame all records."""
    total = np.int64(0)
    while True:
        present = next_records(buf, frame, batch)
        if present < 0:
            return total
        total += present


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="?", default="inserts,mixed,wide")
    parser.add_argument("--scale", type=float, default=0.2)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--logs", help="directories with WAL that is there, with commas between them, instead")
    options = parser.parse_args()
    sys.stdout.write("| log | step | ms per 64 MB | ns a record | share |\n|---|---|---|---|---|\n")
    if options.logs:
        for log in options.logs.split(","):
            _profile(Path(log).name, Path(log), options.runs)
        return
    for name in options.workloads.split(","):
        home = Path(tempfile.mkdtemp(dir="/tmp"))
        write_wal(WORKLOADS[name], int(WORKLOADS[name].scale * options.scale), home)
        _profile(name, home / name, options.runs)
        shutil.rmtree(home)


def _profile(name: str, path: Path, runs: int) -> None:
    segments = Source.open(path).segments
    stretches = stretches_of(segments, segments.first_lsn, segments.stop_lsn, _STRETCH)[:-2]
    sums: dict[str, float] = {}
    records = size = 0
    for stretch in stretches:
        wal = segments.read(stretch.start, stretch.stop + (1 << 20))
        taken, count = _steps(segments, wal, stretch, runs)
        sums = {step: sums.get(step, 0.0) + seconds for step, seconds in taken.items()}
        records += count
        size += stretch.stop - stretch.start
    whole = sum(sums.values())
    for step, seconds in (*sums.items(), ("all", whole)):
        sys.stdout.write(
            f"| {name} | {step} | {seconds * 1e3 * _SHOWN / size:.1f} | {seconds * 1e9 / records:.0f} | {seconds / whole:.0%} |\n"
        )


def _steps(segments: Segments, wal: WalBytes, stretch, runs: int) -> tuple[dict[str, float], int]:  # type: ignore[no-untyped-def]
    """Seconds of each step, and how many records there are."""
    log, form = segments.identity, ScanFormat.of(segments.identity.form)
    batch = np.empty((framing.BATCH, framing.F_FIELDS), np.int64)
    catalogs = catalog_files(())

    def framed(*, check_crc: bool) -> int:
        return int(count_records(wal.buf, new_frame(wal, log, stretch.start, stretch.stop, check_crc=check_crc), batch))

    def noted() -> None:
        frame = new_frame(wal, log, stretch.start, stretch.stop)
        scan_records(wal.buf, frame, form, catalogs, new_buffers(wal.raw))

    read = _least(lambda: segments.read(stretch.start, stretch.stop), runs)
    bare = _least(lambda: framed(check_crc=False), runs)
    checked = _least(lambda: framed(check_crc=True), runs)
    facts = _least(noted, runs)
    buffers = _least(lambda: new_buffers(wal.raw), runs)
    index = _least(lambda: scan(wal, stretch, log, at_end_of_log=False), runs)
    steps = {
        "read": read, "frame": bare, "checksum": checked - bare, "buffers": buffers, "parse and note": facts - checked - buffers,
        "index": index - facts,
    }  # fmt: skip
    return steps, framed(check_crc=False)


def _least(work: Callable[[], object], runs: int) -> float:
    taken = []
    for _ in range(runs + 1):
        started = time.thread_time()
        work()
        taken.append(time.thread_time() - started)
    return min(taken)


if __name__ == "__main__":
    main()
