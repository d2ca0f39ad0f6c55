"""Changes as wal2json and debezium print them, next to test_decoding: `python benchmarks/json_rows.py [--rows 200000]`.

A server writes orders, most of them inserted, some updated; its log is read and planned once for each plugin, and then decoded, formatted and put in
order by one thread of this process: rows and MB a second of CPU, the best of some rounds. Bytes are those of the rows. Needs npm, as the tests do.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / "tests")]

from support.cases import DBNAME
from support.servers import Server
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner, open_pipeline
from tailrace.plugins.registry import plugin_named

PLUGINS: tuple[tuple[str, dict[str, str | None]], ...] = (
    ("test_decoding", {}),
    ("wal2json", {"format-version": "2"}),
    ("wal2json", {"format-version": "2", "include-types": "0"}),
    ("wal2json", {"format-version": "2", "include-xids": "1", "include-timestamp": "1", "include-lsn": "1", "include-pk": "1"}),
    ("debezium", {}),
    ("debezium", {"decimal.handling.mode": "string"}),
    ("debezium", {"schemas.enable": "1"}),
)
ROUNDS = 3
MAJOR = 18
TABLE = """CREATE TABLE orders (id bigint PRIMARY KEY, customer int, name text, price numeric(12,2), paid boolean, at timestamptz, note jsonb)"""
INSERTS = """INSERT INTO orders SELECT i, i %% 1000, 'customer number ' || i, i / 7.0, i %% 3 = 0, '2026-01-01'::timestamptz + i * interval '1 s',
  jsonb_build_object('number', i) FROM generate_series(%s::int, %s::int) i"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    rows = parser.parse_args().rows
    with Server(MAJOR, dbname=DBNAME, wal_segment_mb=16) as server:
        start = Lsn.parse(str(server.value("SELECT lsn FROM pg_create_logical_replication_slot('s', 'test_decoding')")))
        server.sql(TABLE)
        for first in range(1, rows, 1000):
            server.sql(INSERTS, [first, first + 999])
        server.sql("UPDATE orders SET paid = true WHERE id %% 10 = 0", [])
        server.stop()
        for name, options in PLUGINS:
            measure(server.data_dir, start, name, options)


def measure(directory: Path, start: Lsn, name: str, options: dict[str, str | None]) -> None:
    plugin = plugin_named(name)
    plugin.startup(options, MAJOR)
    pipeline = open_pipeline(directory, DBNAME, runner=LocalRunner(1), start_lsn=start, demand=plugin.demand)
    seconds = []
    for _ in range(ROUNDS + 1):  # the first may compile
        began = time.process_time()
        count = size = 0
        for lines in pipeline.lines(plugin):
            count += len(lines)
            size += len(lines.texts.data)
        seconds.append(time.process_time() - began)
    best = min(seconds[1:])
    given = " ".join(f"{option}={value}" for option, value in options.items())
    print(f"{count / best / 1e6:5.2f} M rows/s {size / best / 1e6:5.0f} MB/s {size / count:5.0f} bytes a row  {name} {given}")


if __name__ == "__main__":
    main()
