"""Our side: what can be done with the WAL of a stopped data directory, each from files that are not indexed to the outlet's end.

Three places to do it: this process (threads), a warm Spark session, and the command as it comes, its start included.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from measure import Counted, Measure, measured
from tailrace.lake.changelog import append_changes
from tailrace.pipeline import LocalRunner, Runner, Source, open_pipeline, scan_log
from tailrace.pipeline.catalogs import know_catalogs, with_full_xids
from tailrace.plan import make_plan
from tailrace.plan.stretch_plan import StretchPlan
from tailrace.plugins.pgoutput import PgOutput
from tailrace.plugins.printing import print_rows, with_newlines
from tailrace.plugins.test_decoding import TestDecoding
from tailrace.publications.publishing.publisher import Publisher, publisher_of
from tailrace.spark.jobs import SparkRunner
from tailrace.storage.segments import Segments
from tailrace.types.style import TextStyle
from tailrace.wal import index
from tailrace.wal.index import Index
from workloads import EVERYTHING, ON_NUMBER, ON_TEXT, Workload

DATABASE = "app"
PROCESS, SPARK, COMMAND = "process", "Spark", "command"


@dataclass(frozen=True, slots=True)
class Outlet:
    """`against` names the PostgreSQL measure, or the outlet, that it is compared with; `noun` what it counts; `places` where it can run; `filter` the
    publication that a workload must have for it."""

    name: str
    against: str
    noun: str
    run: Callable[[Bench], int | Counted]
    places: tuple[str, ...] = (PROCESS, SPARK)
    filter: str = ""

    def suits(self, work: Workload, place: str) -> bool:
        return place in self.places and (not self.filter or self.filter in dict(work.filters))


@dataclass(slots=True)
class Bench:
    """A workload's data directory, and the session to run on; None is this process."""

    spark: SparkSession | None
    path: Path
    work: Workload
    indexes: list[Index] | None = None

    @property
    def runner(self) -> Runner:
        return SparkRunner(self.spark) if self.spark else LocalRunner()

    def measure(self, outlet: Outlet) -> Measure:
        """In this process alone: nothing that it does starts another, and an idle JVM is not counted."""
        alone = self.spark is None and COMMAND not in outlet.places
        return measured(lambda: outlet.run(self), [psutil.Process().pid], _kind, children=not alone)


def _kind(process: psutil.Process) -> str:
    if process.pid == psutil.Process().pid:
        return "driver"
    return "jvm" if process.name() == "java" else "worker"


def _scan(bench: Bench) -> int:
    bench.indexes = scan_log(Source.open(bench.path).segments, bench.runner)
    return sum(found.records for found in bench.indexes)


def _scan_on_one_core(bench: Bench) -> int:
    return sum(found.records for found in scan_log(Source.open(bench.path).segments, LocalRunner(1)))


def _plan(bench: Bench) -> int:
    """From indexes at hand to a plan; counts the catalog records in them."""
    source = Source.open(bench.path)
    assert bench.indexes is not None, "scan comes first"
    log = with_full_xids(source, bench.indexes)
    make_plan(log, know_catalogs(source, bench.runner, log, DATABASE, None).history(), start_lsn=None, upto_lsn=None)
    return sum(len(part.kept.rows_of(index.KEPT_CATALOG_CHANGE)) for part in log.indexes)


def _decode(bench: Bench) -> int:
    pipeline = open_pipeline(bench.path, DATABASE, runner=bench.runner)
    return sum(rows for rows, _ in bench.runner.run(partial(checksummed, pipeline.source.segments), pipeline.plan.stretches))


def checksummed(segments: Segments, plan: StretchPlan) -> tuple[int, int]:
    """Decode a stretch to Arrow columns and run over every byte of them. Runs in a worker."""
    import numpy as np  # noqa: PLC0415

    from tailrace.decode import decode_by_descriptor  # noqa: PLC0415
    from tailrace.types import registry  # noqa: PLC0415
    from tailrace.wal.crc import extend  # noqa: PLC0415

    rows, total = 0, np.uint32(0)
    for batch in decode_by_descriptor(plan, segments.read):
        rows += len(batch)
        for side in (batch.new, batch.old or ()):
            for column, values in zip(batch.columns, side, strict=False):
                for buffer in registry.to_arrow(values, column.type, column.typmod).buffers():
                    if buffer is not None:
                        data = np.frombuffer(buffer, np.uint8)
                        total = extend(total, data, 0, len(data))
    return rows, int(total)


def _filter(bench: Bench, publication: str) -> Counted:
    """Decode to columns as they are stored, ask a row filter of every row, and pick out the rows that pass."""
    pipeline = open_pipeline(bench.path, DATABASE, runner=bench.runner)
    publisher = publisher_of(pipeline.plan, pipeline.history, (publication,), TextStyle())
    work = partial(passing, pipeline.source.segments, publisher)
    results = list(bench.runner.run(work, pipeline.plan.stretches))
    return Counted(sum(passed for passed, _ in results), sum(seconds for _, seconds in results))


def passing(segments: Segments, publisher: Publisher, plan: StretchPlan) -> tuple[int, float]:
    """How many rows of a stretch a publication's filter lets through, and the CPU seconds that it took to find and to pick them. Runs in a worker."""
    from time import thread_time  # noqa: PLC0415

    from tailrace.decode import decode_by_descriptor  # noqa: PLC0415

    passed, seconds = 0, 0.0
    for batch in decode_by_descriptor(plan, segments.read):
        began = thread_time()
        passed += sum(len(part) for part in publisher.publish(batch))
        seconds += thread_time() - began
    return passed, seconds


def _dataframe(bench: Bench) -> int:
    assert bench.spark is not None
    options = {"source": str(bench.path), "database": DATABASE, "table": f"public.{bench.work.main_table}"}
    changes = bench.spark.read.format("tailrace").options(**options).load()
    changes.write.format("noop").mode("overwrite").save()
    return 0


def _delta(bench: Bench) -> int:
    lake = Path(tempfile.mkdtemp(prefix="tailrace-bench-lake-"))
    try:
        pipeline = open_pipeline(bench.path, DATABASE, runner=bench.runner)
        return sum(file.rows for file in append_changes(pipeline, lake, [f"public.{bench.work.main_table}"]))
    finally:
        shutil.rmtree(lake, ignore_errors=True)


def _text(bench: Bench) -> int:
    pipeline = open_pipeline(bench.path, DATABASE, runner=bench.runner)
    plugin = TestDecoding()
    plugin.startup({}, pipeline.source.segments.major)
    rows = 0
    with open("/dev/null", "wb") as sink:
        for lines in pipeline.lines(plugin):
            sink.write(print_rows(lines.lsn, lines.xid, lines.texts.offsets, lines.texts.data))
            rows += len(lines)
    return rows


def _messages(bench: Bench) -> int:
    """As pg_recvlogical writes them."""
    source = Source.open(bench.path)
    plugin = PgOutput()
    plugin.startup({"proto_version": "1", "publication_names": EVERYTHING}, source.segments.major)
    pipeline = open_pipeline(source, DATABASE, runner=bench.runner, demand=plugin.demand)
    rows = 0
    with open("/dev/null", "wb") as sink:
        for lines in pipeline.lines(plugin):
            sink.write(with_newlines(lines.texts.offsets, lines.texts.data))
            rows += len(lines)
    return rows


def _command(bench: Bench) -> int:
    """A process of its own, from its start to its end; its output goes nowhere."""
    words = [sys.executable, "-m", "tailrace", "decode", str(bench.path), "--database", DATABASE]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=3600)
    return 0


# Workers do not have this folder on their path, so what they are to run travels by value.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

OUTLETS = {
    outlet.name: outlet
    for outlet in (
        Outlet("scan", "pg_waldump", "records", _scan),
        Outlet("scan on one core", "pg_waldump", "records", _scan_on_one_core, (PROCESS,)),
        Outlet("plan", "", "catalog records", _plan),
        Outlet("decode", "pgoutput", "rows", _decode),
        *(
            Outlet(f"filter {name.replace('_', ' ')}", "decode", "rows", partial(_filter, publication=name), (PROCESS,), name)
            for name in (ON_NUMBER, ON_TEXT)
        ),
        Outlet("DataFrame", "pgoutput", "", _dataframe, (SPARK,)),
        Outlet("Delta", "pgoutput", "rows", _delta),
        Outlet("text", "test_decoding", "rows", _text),
        Outlet("pgoutput", "pgoutput", "messages", _messages),
        Outlet("decode verb", "test_decoding", "", _command, (COMMAND,)),
    )
}
