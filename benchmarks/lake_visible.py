"""From COMMIT on a server until a reader of a Delta log sees the row, while transactions come at a rate.

    python benchmarks/lake_visible.py --layout changes --rate 1000 --seconds 60
    python benchmarks/lake_visible.py --layout mirror --rows 5000000

`tailrace mirror --follow --every 1s` is an ordinary process beside the server. Each transaction inserts a row, or, into a mirror, updates one of a
large table, drawn at random. A reader looks for the next version of the table's log every few milliseconds; a row is visible when the version that
has it is there, and its time begins at the time of its commit record. Printed are the median, the 99th percentile and the most of that, how many
versions came, and of the command the CPU seconds that it took meanwhile, and the most memory.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote

sys.path[:0] = [str(Path(__file__).parents[1] / "tests")]

import psutil
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from support.servers import Server

TAILRACE = str(Path(sys.executable).with_name("tailrace"))
SETTINGS = {
    "track_commit_timestamp": "on", "fsync": "off", "max_wal_size": "4GB", "wal_keep_size": "4GB", "autovacuum": "off", "timezone": "UTC",
    "shared_buffers": "512MB", "max_stack_depth": "2MB",
}  # fmt: skip
_WORKS = {
    "changes": "INSERT INTO t (id, name, amount, note) VALUES (r, 'a name ' || r, r, md5(r::text))",
    "mirror": "drawn := 1 + floor(random() * rows); UPDATE t SET seq = r, amount = amount + 1 WHERE id = drawn",
}
_LOAD = """
CREATE PROCEDURE work(count int, rate float8, rows bigint) LANGUAGE plpgsql AS $$
DECLARE began timestamptz := clock_timestamp(); drawn bigint;
BEGIN
    FOR r IN 1 .. count LOOP
        {};
        COMMIT;
        PERFORM pg_sleep(greatest(0, r / rate - extract(epoch FROM clock_timestamp() - began)));
    END LOOP;
END $$"""
_LOOK = 0.005
_PATIENCE = 900.0


class LogReader(threading.Thread):
    """Notes when each version of a table's log came, on the clock that the server has as well."""

    def __init__(self, table: Path) -> None:
        super().__init__(daemon=True)
        self.table, self.came = table, {}
        self.is_done = False
        self.next = len(list((table / "_delta_log").glob("*.json")))

    def run(self) -> None:
        while not self.is_done:
            if (self.table / "_delta_log" / f"{self.next:020}.json").exists():
                self.came[self.next] = time.time()
                self.next += 1
            else:
                time.sleep(_LOOK)

    def rows(self, column: str) -> Iterator[tuple[float, list[int]]]:
        """Of each version the time when it came, and what the files have in this column that it added, but for those that were written anew."""
        for version, at in self.came.items():
            lines = map(json.loads, (self.table / "_delta_log" / f"{version:020}.json").read_text().splitlines())
            added = [line["add"]["path"] for line in lines if "add" in line and line["add"]["dataChange"]]
            for path in added:
                values = pq.ParquetFile(self.table / unquote(path)).read(columns=[column]).flatten()[column]
                yield at, [value for value in values.to_pylist() if value is not None]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layout", choices=sorted(_WORKS), default="changes")
    parser.add_argument("--rows", type=int, default=5_000_000, help="that a mirrored table has before")
    parser.add_argument("--rate", type=float, default=1000.0)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--every", default="1s")
    options = parser.parse_args()
    first, last = (1, options.rows) if options.layout == "mirror" else (0, 0)  # without a row there is no table in the lake
    with (
        tempfile.TemporaryDirectory(prefix="tailrace-visible-") as home,
        Server(18, SETTINGS, dbname="app", wal_segment_mb=16, test_decoding=False) as server,
    ):
        server.say(
            "CREATE TABLE t (id bigint PRIMARY KEY, seq bigint, name text, amount numeric(12,2), at timestamptz DEFAULT now(), note text)",
            "ALTER TABLE t SET (fillfactor = 90)",
            _LOAD.format(_WORKS[options.layout]),
            f"INSERT INTO t (id, name, amount, note) SELECT g, 'a name ' || g, g, md5(g::text) FROM generate_series({first}, {last}) g",
        )
        server.checkpoint()
        with _following(server, Path(home), options.layout, options.every) as process:
            began = time.monotonic()
            _wait(Path(home, "lake"), server.flush_lsn())
            taken = time.monotonic() - began
            reader = LogReader(Path(home, "lake/public.t"))
            reader.start()
            before = psutil.Process(process.pid).cpu_times()
            began = time.monotonic()
            with server.connect() as connection:
                connection.execute("CALL work(%s, %s, %s)", [int(options.rate * options.seconds), options.rate, last])
            seconds = time.monotonic() - began
            _wait(Path(home, "lake"), server.flush_lsn())
            reader.is_done = True
            reader.join()
            after = psutil.Process(process.pid).cpu_times()
            peak = _peak(process.pid)
            with server.connect() as connection:
                query = "SELECT coalesce(seq, id), extract(epoch FROM pg_xact_commit_timestamp(xmin))::float8 FROM t WHERE id > %s OR seq > 0"
                committed: Mapping[int, float] = dict(connection.execute(query, [last]).fetchall())
        late = sorted(_late(reader, "new.id" if options.layout == "changes" else "seq", committed))
    assert len(late) == len(committed), f"{len(committed) - len(late)} rows did not come"
    columns = ("layout", "rows before", "tx/s", "median s", "p99 s", "most s", "versions", "CPU s", "peak MiB", "first s")
    table = Table(*columns, title=f"from COMMIT to the Delta log, --every {options.every}, {seconds:.0f} s")
    cpu = after.user + after.system - before.user - before.system
    table.add_row(
        options.layout, f"{last:,}", f"{options.rate * options.seconds / seconds:.0f}", f"{statistics.median(late):.2f}",
        f"{late[int(len(late) * 0.99)]:.2f}", f"{late[-1]:.2f}", str(len(reader.came)), f"{cpu:.1f}", f"{peak / 1024:,.0f}", f"{taken:.0f}",
    )  # fmt: skip
    Console(width=120).print(table)


def _late(reader: LogReader, column: str, committed: Mapping[int, float]) -> Iterator[float]:
    """Of each row whose last transaction we know, the seconds until the first version with it."""
    seen: set[int] = set()
    for at, values in reader.rows(column):
        for value in values:
            if value in committed and value not in seen:
                seen.add(value)
                yield at - committed[value]


@contextmanager
def _following(server: Server, home: Path, layout: str, every: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [
        TAILRACE, "mirror", str(server.data_dir), "--database", "app", "--to", str(home / "lake"), "--state", str(home / "slots"),
        "--layout", layout, "--follow", "--every", every, "--json", "--on", "local",
    ]  # fmt: skip
    with Path(home, "said").open("wb") as said:
        process = subprocess.Popen(command, stdout=said)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(60)


def _wait(lake: Path, lsn: str) -> None:
    subprocess.run(
        [TAILRACE, "lake", "wait", str(lake), lsn, "--timeout", f"{_PATIENCE:.0f}s"], check=True, stdout=subprocess.DEVNULL
    )


def _peak(pid: int) -> int:
    """In kB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


if __name__ == "__main__":
    main()
