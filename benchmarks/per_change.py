"""How many changes a second a plugin takes that is written per change, and one that takes batches, on one core: of *inserts*, decoding left out.

    python benchmarks/per_change.py --scale 0.2

In order: `change` is called where the stream is put in order. In workers: `change` is called where changes are decoded. Batches: `change_batch` is.
Printed is the median of several runs, on one thread, CPU seconds; what decoding the same changes into columns takes is measured apart and taken off.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "tests")]

import pyarrow as pa
import pyarrow.compute as pc

from postgres import write_wal
from tailrace.decode import decode
from tailrace.model import Lsn, Relation, Transaction
from tailrace.pipeline import LocalRunner, open_pipeline
from tailrace.plugins.callbacks import Change, Context, Plugin
from tailrace.plugins.registry import as_output_plugin
from workloads import WORKLOADS


class InOrder(Plugin):
    """A line for each change."""

    def begin(self, ctx: Context, txn: Transaction) -> None:
        ctx.emit(f"BEGIN {txn.xid}")

    def change(self, ctx: Context, txn: Transaction, relation: Relation, change: Change) -> None:
        row = change.new or change.old or {}
        ctx.emit(f"{txn.xid} {relation.name} {change.kind} {', '.join(f'{name}={value}' for name, value in row.items())}")

    def commit(self, ctx: Context, txn: Transaction, commit_lsn: Lsn) -> None:
        ctx.emit(f"COMMIT {txn.xid}")


class InWorkers(InOrder):
    parallel = True


class Batches(InOrder):
    """The same of many at a time."""

    def change_batch(self, ctx: Context, relation: Relation, changes: pa.RecordBatch) -> pa.Array:
        new = changes.column("new")
        row = pc.binary_join_element_wise(
            *(
                pc.binary_join_element_wise(name, pc.fill_null(new.field(i).cast(pa.string()), "None"), "=")
                for i, name in enumerate(new.type.names)
            ),
            ", ",
        )
        return pc.binary_join_element_wise(
            changes.column("xid").cast(pa.string()), relation.name, changes.column("kind"), row, " "
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=0.2)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    home = Path(tempfile.mkdtemp(dir="/tmp"))
    work = WORKLOADS["inserts"]
    path = write_wal(work, int(work.scale * options.scale), home)
    sys.stdout.write("| written | changes | CPU s | decoding, s | changes/s a core |\n|---|---|---|---|---|\n")
    for kind in (InOrder, InWorkers, Batches):
        _measure(kind, path, options.runs)
    shutil.rmtree(home)


def _measure(kind: type[Plugin], path: Path, runs: int) -> None:
    plugin = as_output_plugin(kind)
    plugin.startup({}, 16)
    pipeline = open_pipeline(path, "app", runner=LocalRunner(1), demand=plugin.demand)
    rows = 0
    alone, whole = [], []
    for _ in range(runs + 1):
        began = time.process_time()
        rows = sum(len(batch) for stretch in pipeline.plan.stretches for batch in decode(stretch, pipeline.source.segments.read))
        alone.append(time.process_time() - began)
        began = time.process_time()
        told = sum(len(lines) for lines in pipeline.lines(plugin))
        whole.append(time.process_time() - began)
        assert told > rows
    cpu, decoding = statistics.median(whole[1:]), statistics.median(alone[1:])
    sys.stdout.write(f"| {kind.__name__} | {rows:,} | {cpu:.2f} | {decoding:.2f} | {rows / (cpu - decoding):,.0f} |\n")


if __name__ == "__main__":
    main()
