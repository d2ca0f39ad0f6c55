"""PostgreSQL's walsender and tailrace on the same WAL, in one run: `make bench`, `make bench-small`.

Per workload: a server writes the WAL, its walsender decodes it into `pg_recvlogical -f /dev/null` (pgoutput and
test_decoding), the server stops, and tailrace
decodes the same files on Spark, from nothing indexed. Wall and CPU seconds, medians of `--runs`; ratios are what counts.
"""

from __future__ import annotations

import argparse
import logging
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "tests")]

from rich.console import Console
from rich.table import Table

from support.builds import find_build
from support.servers import Server
from tailrace.plugins.driver import print_rows
from tailrace.plugins.test_decoding import TestDecoding
from tailrace.river import River, Source, know_catalogs, open_river, scan_log
from tailrace.spark.jobs import SparkRunner
from tailrace.spark.session import session
from tailrace.storage.segments import Segments
from workloads import WORKLOADS, Workload

MAJOR = 16
SETTINGS = {
    "max_wal_size": "50GB", "checkpoint_timeout": "1h", "wal_keep_size": "50GB", "synchronous_commit": "off", "shared_buffers": "512MB",
    "max_locks_per_transaction": "4096",
}  # fmt: skip


@dataclass(slots=True)
class Measure:
    """Seconds of wall clock, CPU seconds of all processes involved, peak memory of the largest, and what was counted."""

    wall: float
    cpu: float
    peak: int
    count: int


class _Watch:
    """Samples the CPU time and memory of a process tree while work runs; processes that end keep their last reading."""

    def __init__(self, pids: Callable[[], list[int]]) -> None:
        self._pids = pids
        self._cpu: dict[int, float] = {}
        self._begin: dict[int, float] = {}
        self.peak = 0
        self._stop = threading.Event()

    def __enter__(self) -> _Watch:
        self._sample(first=True)
        self._thread = threading.Thread(target=self._loop, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._sample()

    @property
    def cpu(self) -> float:
        return sum(last - self._begin.get(pid, 0.0) for pid, last in self._cpu.items())

    def _loop(self) -> None:
        while not self._stop.wait(0.05):
            self._sample()

    def _sample(self, *, first: bool = False) -> None:
        for pid in self._pids():
            try:
                process = psutil.Process(pid)
                times = process.cpu_times()
                self.peak = max(self.peak, process.memory_info().rss)
            except psutil.Error:
                continue
            self._cpu[pid] = times.user + times.system
            if first:
                self._begin[pid] = self._cpu[pid]


def _tree(root: int) -> list[int]:
    try:
        return [root, *(child.pid for child in psutil.Process(root).children(recursive=True))]
    except psutil.Error:
        return []


def walsender(server: Server, slot: str, end: str, options: list[str]) -> Measure:
    """Drain a slot up to `end` without confirming, as a subscriber would receive it."""
    client = find_build(MAJOR, test_decoding=False).bin("pg_recvlogical")
    command = [
        str(client), "-d", server.dsn_for("app"), "-S", slot, "--start", "--no-loop", "-f", "/dev/null", "--endpos", end, "-s", "0", *options,
    ]  # fmt: skip
    root = int((server.data_dir / "postmaster.pid").read_text().split()[0])
    started = time.monotonic()
    client_before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with _Watch(lambda: _tree(root)) as watch:
        subprocess.run(command, check=True, capture_output=True, timeout=3600)
    wall = time.monotonic() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = watch.cpu + after.ru_utime + after.ru_stime - client_before.ru_utime - client_before.ru_stime
    return Measure(wall, cpu, watch.peak, 0)


def prepare(work: Workload, rows: int, home: Path, runs: int) -> tuple[Path, dict[str, Measure]]:
    """WAL of the workload in a stopped copy of the cluster, and how long PostgreSQL took to decode it."""
    with Server(MAJOR, SETTINGS, wal_segment_mb=16) as server:
        server.sql("CREATE DATABASE app")
        connection = server.connect("app")
        for statement in work.setup:
            connection.execute(statement)
        connection.execute("CREATE PUBLICATION everything FOR ALL TABLES")
        server.checkpoint()
        for slot, plugin in (("po", "pgoutput"), ("td", "test_decoding")):
            connection.execute("SELECT pg_create_logical_replication_slot(%s, %s)", [slot, plugin])
        work.fill(connection, rows)
        connection.close()
        server.checkpoint()
        end = server.flush_lsn()
        theirs = {}
        for slot, options in (("po", ["-o", "proto_version=1", "-o", "publication_names=everything"]), ("td", [])):
            measures = []
            for _ in range(runs):
                copy = f"{slot}_{len(measures)}"
                server.sql("SELECT pg_copy_logical_replication_slot(%s, %s)", [slot, copy], dbname="app")
                measures.append(walsender(server, copy, end, options))
                server.sql("SELECT pg_drop_replication_slot(%s)", [copy], dbname="app")
            theirs[slot] = _median(measures)
        server.stop()
        copy_of = home / work.name
        server.copy_to(copy_of)
    return copy_of, theirs


def checksummed(segments: Segments, plan) -> tuple[int, int]:  # type: ignore[no-untyped-def]
    """Decode a stretch to Arrow columns and run over every byte of them. Runs in a worker."""
    import numpy as np  # noqa: PLC0415

    from tailrace.decode import decode  # noqa: PLC0415
    from tailrace.types import registry  # noqa: PLC0415
    from tailrace.wal.crc import extend  # noqa: PLC0415

    rows, total = 0, np.uint32(0)
    for batch in decode(plan, segments.read):
        rows += len(batch)
        for column, values in zip(batch.relation.live_columns, batch.new, strict=True):
            for buffer in registry.to_arrow(values, column.type, column.typmod).buffers():
                if buffer is not None:
                    data = np.frombuffer(buffer, np.uint8)
                    total = extend(total, data, 0, len(data))
    return rows, int(total)


def ours(path: Path, runner: SparkRunner, outlet: str) -> int:
    """Everything from unindexed files to the outlet; how many rows came out."""
    if outlet == "scan":
        return sum(found.records for found in scan_log(Source.open(path).segments, runner))
    if outlet == "plan":
        source = Source.open(path)
        know_catalogs(source, scan_log(source.segments, runner), runner, "app", None)
        return 0
    river = open_river(path, "app", runner=runner)
    if outlet == "decode":
        return sum(rows for rows, _ in runner.run(partial(checksummed, river.source.segments), river.plan.stretches))
    return _text(river)


def _text(river: River) -> int:
    plugin = TestDecoding()
    plugin.startup({}, river.source.segments.major)
    rows = 0
    with open("/dev/null", "wb") as sink:
        for lines in river.lines(plugin):
            sink.write(print_rows(lines.lsn, lines.xid, lines.texts.offsets, lines.texts.data))
            rows += len(lines)
    return rows


def measured(work: Callable[[], int]) -> Measure:
    root = psutil.Process().pid
    with _Watch(lambda: _tree(root)) as watch:
        started = time.monotonic()
        count = work()
        wall = time.monotonic() - started
    return Measure(wall, watch.cpu, watch.peak, count)


def _median(measures: list[Measure]) -> Measure:
    return Measure(
        statistics.median(m.wall for m in measures),
        statistics.median(m.cpu for m in measures),
        max(m.peak for m in measures),
        measures[0].count,
    )


def rows_of_table(work: Workload, path: Path, theirs: dict[str, Measure], runner: SparkRunner, runs: int) -> Iterator[list[str]]:
    megabytes = sum(file.stat().st_size for file in (path / "pg_wal").iterdir() if file.is_file()) / 1e6
    for name, label in (("po", "walsender, pgoutput"), ("td", "walsender, test_decoding")):
        yield [work.name, label, f"{megabytes:.0f}", "", *_figures(theirs[name], megabytes), ""]
    for outlet, against in (("scan", None), ("decode", "po"), ("text", "td")):
        ours(path, runner, outlet)  # warm
        mine = _median([measured(lambda outlet=outlet: ours(path, runner, outlet)) for _ in range(runs)])
        ratio = f"{theirs[against].wall / mine.wall:.1f} x" if against else ""
        yield [work.name, f"tailrace, {outlet}", f"{megabytes:.0f}", f"{mine.count:,}", *_figures(mine, megabytes), ratio]


def _figures(measure: Measure, megabytes: float) -> list[str]:
    return [f"{measure.wall:.2f}", f"{measure.cpu:.2f}", f"{megabytes / measure.wall:.0f}", f"{measure.peak / 2**20:.0f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--scale", type=float, default=1.0, help="fraction of the full size")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--master", default="local[2]")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    runner = SparkRunner(session(options.master, driver_memory="4g"))
    table = Table(
        "workload",
        "what",
        "WAL MB",
        "rows",
        "wall s",
        "CPU s",
        "MB/s",
        "peak MB",
        "ratio",
        title="same WAL, same machine, same run",
    )
    home = Path(tempfile.mkdtemp(prefix="tailrace-bench-"))
    try:
        for name in options.workloads.split(","):
            work = WORKLOADS[name]
            path, theirs = prepare(work, int(work.scale * options.scale), home, options.runs)
            for row in rows_of_table(work, path, theirs, runner, options.runs):
                table.add_row(*row)
            shutil.rmtree(path)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
