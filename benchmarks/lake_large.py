"""One transaction that changes a large part of a large table: what it costs a mirror.

    python benchmarks/lake_large.py --rows 50000000 --changes 10000000

A server's table (bigint, text, int, bigint, numeric(12,2), timestamptz, boolean, text) is filled and mirrored; then one UPDATE changes rows all
over it, and `tailrace mirror` takes that in. Of each: seconds, bytes of log and of what was written, and the most memory that a process of the
command's had, the children's included. It ends with status 1 if that is over a gigabyte.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / "tests")]

from rich.console import Console
from rich.table import Table

from measure import children_cpu, peaks_of
from support.servers import Server
from tailrace.model import Lsn

TAILRACE = str(Path(sys.executable).with_name("tailrace"))
SETTINGS = {
    "fsync": "off", "synchronous_commit": "off", "max_wal_size": "60GB", "wal_keep_size": "60GB", "autovacuum": "off", "checkpoint_timeout": "1d",
    "shared_buffers": "1GB", "maintenance_work_mem": "512MB",
}  # fmt: skip
_TABLE = """
CREATE TABLE t (id bigint PRIMARY KEY, name text, kind int, amount bigint, price numeric(12,2), at timestamptz, done boolean, note text)
    WITH (fillfactor = 80)"""
_ROWS = """
INSERT INTO t SELECT g, 'name ' || g, g % 1000, g * 7, (g % 10000000) / 100.0, '2026-01-01'::timestamptz + g * interval '1 ms', g % 2 = 0,
    'a note of some length about ' || g FROM generate_series(1, {}) g"""
_UPDATE = "UPDATE t SET name = 'another ' || id, amount = amount + 1, price = price + 1, done = NOT done WHERE id % {} = 0"
_GIGABYTE = 1 << 30


@dataclass
class Ran:
    """A run of the command. `peaks` has the most memory of each of its processes, in bytes; `written` is what it says it wrote."""

    seconds: float
    cpu: float
    written: int
    commits: int
    peaks: Mapping[int, int]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=50_000_000)
    parser.add_argument("--changes", type=int, default=10_000_000)
    options = parser.parse_args()
    table = Table(
        "what",
        "log MB",
        "s",
        "CPU s",
        "MB written",
        "commits",
        "peak MiB",
        title=f"{options.changes:,} of {options.rows:,} rows in one transaction",
    )
    most = 0
    with (
        tempfile.TemporaryDirectory(prefix="tailrace-large-") as folder,
        Server(18, SETTINGS, dbname="app", wal_segment_mb=64, test_decoding=False) as server,
    ):
        home = Path(folder)
        server.say(_TABLE)
        for what, statement, number in (
            ("the table", _ROWS, options.rows), ("the transaction", _UPDATE, options.rows // options.changes)
        ):  # fmt: skip
            before = int(Lsn.parse(server.flush_lsn()))
            began = time.monotonic()
            server.say(statement.format(number))
            log = int(Lsn.parse(server.flush_lsn())) - before
            print(f"{what}: {log / 1e6:,.0f} MB of log in {time.monotonic() - began:.0f} s", flush=True)
            ran = _mirrored(server, home)
            most = max(most, *ran.peaks.values())
            table.add_row(
                what, f"{log / 1e6:,.0f}", f"{ran.seconds:.0f}", f"{ran.cpu:.0f}", f"{ran.written / 1e6:,.0f}", str(ran.commits),
                ", ".join(f"{peak >> 20:,}" for peak in ran.peaks.values()),
            )  # fmt: skip
    Console(width=120).print(table)
    return int(most > _GIGABYTE)


def _mirrored(server: Server, home: Path) -> Ran:
    command = [
        TAILRACE, "mirror", str(server.data_dir), "--database", "app", "--to", str(home / "lake"), "--state", str(home / "slots"),
        "--json", "--on", "local",
    ]  # fmt: skip
    before = children_cpu()
    began = time.monotonic()
    with Path(home, "said").open("w+b") as said:
        process = subprocess.Popen(command, stdout=said)
        peaks = peaks_of(process)
        seconds = time.monotonic() - began
        said.seek(0)
        lines = [json.loads(line) for line in said if line.startswith(b"{")]
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with status {process.returncode}")
    return Ran(seconds, children_cpu() - before, sum(line["bytes_written"] for line in lines), len(lines), peaks)


if __name__ == "__main__":
    sys.exit(main())
