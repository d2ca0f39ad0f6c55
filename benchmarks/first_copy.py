"""How fast the first copy of a server's table is in committed Delta, beside one `psql \\copy … (format binary)` of it, on one server.

    python benchmarks/first_copy.py --rows 10000000 --runs 5
    python benchmarks/first_copy.py --rows 6000000 --table lineitem

By turns: psql copies the table to a file, and `tailrace mirror` makes a lake of it, with a state location of its own. Of the latter two times are
told: how long it says that the copy took, from the snapshot to the last commit, and how long the program took in all, which has made a slot and read
the catalogs before. Memory is the resident set of the program, at its most. The server's CPU is that of its sessions that have ended meanwhile. With
`--copy-strategy rows` the server copies row by row, as it must where the role may not read its files.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "tests")]

import psutil
from rich.console import Console
from rich.table import Table

from postgres import MAJOR, SETTINGS
from support.servers import Server

TABLES = {
    "customers": (
        "CREATE TABLE t (id bigint PRIMARY KEY, name text, k int, big bigint, amount numeric(12,2), at timestamptz, flag bool, note text)",
        """
INSERT INTO t SELECT g, 'customer ' || g, g % 1000, g::bigint * 77777, (g % 1000000) / 100.0, timestamptz '2020-01-01' + g * interval '1 second',
  g % 3 = 0, md5(g::text) || md5((g + 1)::text) FROM generate_series({}, {}) g
""",
    ),
    "accounts": (
        "CREATE TABLE t (aid int PRIMARY KEY, bid int, abalance int, filler char(84))",
        "INSERT INTO t SELECT g, g / 100000 + 1, (random() * 10000)::int - 5000, '' FROM generate_series({}, {}) g",
    ),
    "lineitem": (
        """
CREATE TABLE t (orderkey bigint, partkey bigint, suppkey bigint, linenumber int, quantity numeric(15,2), extendedprice numeric(15,2),
  discount numeric(15,2), tax numeric(15,2), returnflag char(1), linestatus char(1), shipdate date, commitdate date, receiptdate date,
  shipinstruct char(25), shipmode char(10), comment varchar(44), PRIMARY KEY (orderkey, linenumber))
""",
        """
INSERT INTO t SELECT g / 4, 1 + (random() * 200000)::int, 1 + (random() * 10000)::int, g % 4 + 1, 1 + (random() * 49)::int,
  900 + random() * 100000, random() / 10, random() / 12, (ARRAY['A', 'N', 'R'])[1 + g % 3], (ARRAY['O', 'F'])[1 + g % 2],
  date '1992-01-02' + (random() * 2500)::int, date '1992-01-31' + (random() * 2500)::int, date '1992-01-04' + (random() * 2500)::int,
  (ARRAY['DELIVER IN PERSON', 'COLLECT COD', 'NONE', 'TAKE BACK RETURN'])[1 + (random() * 3)::int],
  (ARRAY['REG AIR', 'AIR', 'RAIL', 'SHIP', 'TRUCK', 'MAIL', 'FOB'])[1 + (random() * 6)::int],
  left(replace(md5(random()::text), '4', ' carefully '), 10 + (random() * 33)::int) FROM generate_series({}, {}) g
""",
    ),
}
"""How each is made, and filled: one with texts that are long and not alike, pgbench's accounts, and TPC-H's lineitem, made of random numbers."""
_AT_ONCE = 1_000_000
_LOOK = 0.1
_ENDS = 0.5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--table", choices=TABLES, default="customers", help="how the table is made")
    parser.add_argument("--copy-strategy", choices=("auto", "pages", "rows"), default="auto")
    options = parser.parse_args()
    settings = {**SETTINGS, "unix_socket_directories": ".", "wal_keep_size": "1GB", "max_wal_size": "4GB"}
    with (
        Server(MAJOR, settings, dbname="app", wal_segment_mb=16, checksums=True) as server,
        tempfile.TemporaryDirectory() as folder,
    ):
        home = Path(folder)
        made, filled = TABLES[options.table]
        server.say(made)
        for first in range(1, options.rows + 1, _AT_ONCE):
            server.say(filled.format(first, min(options.rows, first + _AT_ONCE - 1)))
        server.sql("VACUUM ANALYZE t")
        server.sql("CHECKPOINT")
        dsn = f"host={server.data_dir} port={server.port} user=postgres dbname=app"
        size = server.sql("SELECT pg_table_size('t')")[0][0]
        theirs, ours, whole, memory, cpu = [], [], [], 0, {"psql": list[float](), "tailrace": list[float]()}
        for number in range(options.runs):
            began = _server_cpu(server)
            theirs.append(_psql(dsn, home / "t.bin"))
            between = _server_cpu(server)
            copied, program, most = _mirror(dsn, home / str(number), options.copy_strategy)
            cpu["psql"].append(between - began)
            cpu["tailrace"].append(_server_cpu(server) - between)
            ours.append(copied)
            whole.append(program)
            memory = max(memory, most)
            print(f"psql {theirs[-1]:.2f} s, copy {copied:.2f} s, program {program:.2f} s, {most >> 20} MB", file=sys.stderr)
    table = Table(
        "",
        "s",
        "rows/s",
        "times the speed",
        title=f"{options.table}: {options.rows:,} rows, {size / 1e6:,.0f} MB, medians of {options.runs}",
    )
    for name, taken in (("psql \\copy", theirs), ("tailrace, the copy", ours), ("tailrace, the program", whole)):
        seconds = statistics.median(taken)
        ratio = statistics.median(mine / each for mine, each in zip(theirs, taken, strict=True))
        table.add_row(name, f"{seconds:.2f}", f"{options.rows / seconds:,.0f}", f"{ratio:.2f}")
    Console(width=120).print(table)
    took = {name: f"{statistics.median(each):.2f} s" for name, each in cpu.items()}
    print(
        f"tailrace took {memory >> 20} MB of memory at most; the server {took['psql']} of CPU for psql, {took['tailrace']} for tailrace"
    )


def _psql(dsn: str, path: Path) -> float:
    os.sync()  # nobody waits for what others have written
    began = time.monotonic()
    subprocess.run(["psql", dsn, "-qc", f"\\copy t TO '{path}' (format binary)"], check=True)
    taken = time.monotonic() - began
    path.unlink()
    return taken


def _server_cpu(server: Server) -> float:
    """Seconds, of all its processes that have ended."""
    time.sleep(_ENDS)
    assert server._process is not None
    spent = psutil.Process(server._process.pid).cpu_times()
    return float(spent.children_user + spent.children_system)


def _mirror(dsn: str, home: Path, strategy: str) -> tuple[float, float, int]:
    """Seconds of the copy and of the program, and its memory."""
    where = (
        "--database",
        "app",
        "--to",
        str(home / "lake"),
        "--state",
        str(home / "state"),
        "--json",
        "--copy-strategy",
        strategy,
    )
    os.sync()
    began, most = time.monotonic(), 0
    with subprocess.Popen(
        [sys.executable, "-m", "tailrace", "mirror", dsn, *where], stdout=subprocess.PIPE, text=True
    ) as process:
        watched = psutil.Process(process.pid)
        while process.poll() is None:
            most = max(most, sum(each.memory_info().rss for each in [watched, *watched.children(recursive=True)]))
            time.sleep(_LOOK)
        assert process.stdout is not None
        said = [json.loads(line) for line in process.stdout]
    taken = time.monotonic() - began
    assert process.returncode == 0
    return said[0]["seconds"], taken, most


if __name__ == "__main__":
    main()
