"""What it takes to compare a large table of a lake with the server's, beside one copy of that table, by turns on one server.

    python benchmarks/verify.py --rows 10000000 --runs 5
    python benchmarks/verify.py --rows 3000000 --subscriber
    python benchmarks/verify.py --rows 3000000 --queries

A table is filled and mirrored into a lake. Then, by turns, psql copies it in binary form (`\\copy … (format binary)`) to /dev/null and to a file,
`tailrace verify` compares all of its rows, which are equal, as it does by itself and as the server copies them, and compares them once more when some
were changed that the lake lacks. Seconds are those of the programs as they are typed, Python's start included, CPU seconds theirs and the
server's; MB the most memory that they had, with files that they map.

With --subscriber it is a server that subscribes, with all rows equal, and CPU seconds are those of both servers.

With --queries it says instead what the server itself takes to give all rows, or checksums of them that it makes in SQL, in one process.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "tests")]

import psutil
from rich.console import Console
from rich.table import Table

from postgres import MAJOR, SETTINGS
from support.builds import find_build
from support.servers import Server

TAILRACE = str(Path(sys.executable).with_name("tailrace"))
_CHANGED = 10_000
_BY_ROWS = "tailrace verify, row by row"
_COPY, _TO_FILE = "psql \\copy (format binary)", "the same, to a file"
_SETTINGS = {**SETTINGS, "max_wal_size": "20GB"}
_TABLE = "CREATE TABLE t (id int PRIMARY KEY, v text, n numeric(12,2), at timestamptz)"
_CHAIN = "hashint4extended(id, hashtextextended(v, {}))"
_LOSSY = _CHAIN.format("hash_numeric_extended(n, timestamp_hash_extended(at::timestamp, 0))")
_WHOLE = _CHAIN.format("hashtextextended(n::text, hashtextextended(timestamptz_send(at)::text, 0))")
_QUERIES = {
    "COPY, all rows": "COPY t TO STDOUT (FORMAT binary)",
    "COPY, each row with its ctid": "COPY (SELECT ctid, id, v, n, at FROM t) TO STDOUT (FORMAT binary)",
    "count(*)": "SELECT count(*) FROM t",
    "sum of the types' own hashes, which lose bits of n and at": f"SELECT sum({_LOSSY}) FROM t",
    "… the same by 256 groups of keys": f"SELECT hashint4extended(id, 0) >> 56, sum({_LOSSY}) FROM t GROUP BY 1",
    "… of all rows, as hash_record_extended": "SELECT sum(hash_record_extended(t, 0)) FROM t",
    "sum of hashes that lose nothing": f"SELECT sum({_WHOLE}) FROM t",
    "… by 256 groups of keys": f"SELECT hashint4extended(id, 0) >> 56, sum({_WHOLE}) FROM t GROUP BY 1",
    "… by 65,536 groups of keys": f"SELECT hashint4extended(id, 0) >> 48, sum({_WHOLE}) FROM t GROUP BY 1",
    "sum of hashes of the rows' text": "SELECT sum(hashtextextended(t::text, 0)) FROM t",
    "sum of md5 of the rows' text": "SELECT sum(('x' || left(md5(t::text), 16))::bit(64)::bigint) FROM t",
}


class _Taken(NamedTuple):
    """Seconds, CPU seconds of the program and of the server's processes, and the most bytes that the program had."""

    wall: float
    own: float
    server: float
    most: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--format", default="delta")
    parser.add_argument("--queries", action="store_true")
    parser.add_argument("--subscriber", action="store_true")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="tailrace-bench-verify-") as home,
        Server(MAJOR, _SETTINGS, dbname="app", wal_segment_mb=16, test_decoding=False, checksums=True) as server,
    ):
        server.say(
            _TABLE,
            f"INSERT INTO t SELECT g, 'value ' || g, g * 0.25, now() FROM generate_series(1, {options.rows}) g",
            "VACUUM (FREEZE, ANALYZE) t",
        )
        if options.queries:
            _write_queries(server, options.rows, options.runs)
        elif options.subscriber:
            _write_taken(_beside_a_subscriber(server, options.runs), f"{options.rows:,} rows, a subscriber", options.runs)
        else:
            found = _beside_a_lake(server, Path(home), options)
            _write_taken(found, f"{options.rows:,} rows, {options.format}", options.runs)


def _beside_a_lake(server: Server, home: Path, options: argparse.Namespace) -> Mapping[str, list[_Taken]]:
    lake = ["--database", "app", "--to", f"{home}/lake"]
    mirror = [TAILRACE, "mirror", server.dsn(), *lake, "--state", f"{home}/state", "--format", options.format]
    subprocess.run(mirror, check=True)
    server.say("CHECKPOINT")
    verify = [TAILRACE, "verify", server.dsn(), *lake]
    taken: dict[str, list[_Taken]] = {}
    for number in range(options.runs + 1):  # the first warms up
        for name, words in (
            (_COPY, _psql(server)),
            (_TO_FILE, _psql(server, home / "t.binary")),
            ("tailrace verify", verify),
            (_BY_ROWS, [*verify, "--copy-strategy", "rows"]),
        ):
            taken.setdefault(name, []).append(_measured(words, server))
        server.say(f"UPDATE t SET n = n + 1 WHERE id % {max(1, options.rows // _CHANGED)} = {number}")
        taken.setdefault("tailrace verify, changed rows", []).append(_measured(verify, server))
        subprocess.run(mirror, check=True, stdout=subprocess.DEVNULL)
        server.say("CHECKPOINT")
    return taken


def _beside_a_subscriber(server: Server, runs: int) -> Mapping[str, list[_Taken]]:
    taken: dict[str, list[_Taken]] = {}
    with Server(MAJOR, _SETTINGS, dbname="copy", wal_segment_mb=16, test_decoding=False) as subscriber:
        subscriber.say(_TABLE)
        server.say("CREATE PUBLICATION p FOR TABLE t")
        subscriber.say(f"CREATE SUBSCRIPTION s CONNECTION '{server.dsn()}' PUBLICATION p")
        while subscriber.sql("SELECT FROM pg_subscription_rel WHERE srsubstate <> 'r'"):
            time.sleep(1)
        subscriber.say("VACUUM (FREEZE, ANALYZE) t")
        verify = [TAILRACE, "verify", server.dsn(), "--to", subscriber.dsn()]
        for _ in range(runs + 1):  # the first warms up
            for name, words in ((_COPY, _psql(server)), ("tailrace verify", verify)):
                taken.setdefault(name, []).append(_measured(words, server, subscriber))
        subscriber.say("DROP SUBSCRIPTION s")
    return taken


def _psql(server: Server, path: Path = Path("/dev/null")) -> list[str]:
    program = find_build(MAJOR, test_decoding=False).bin("psql")
    return [str(program), "-qX", server.dsn(), "-c", rf"\copy t TO '{path}' (FORMAT binary)"]


def _write_taken(taken: Mapping[str, list[_Taken]], title: str, runs: int) -> None:
    columns = ("", "s", "times the copy", "CPU s, program", "CPU s, server", "times the copy's CPU", "MB")
    table = Table(*columns, title=f"{title}, medians of {runs}")
    first: _Taken | None = None
    for name, each in taken.items():
        wall, own, theirs = (statistics.median(getattr(one, what) for one in each[1:]) for what in ("wall", "own", "server"))
        now = _Taken(wall, own, theirs, max(one.most for one in each))
        first = first or now
        cpu = (own + theirs) / (first.own + first.server)
        numbers = (wall, wall / first.wall, own, theirs, cpu)
        table.add_row(name, *(f"{number:.2f}" for number in numbers), f"{now.most >> 20:,}")
    Console(width=140).print(table)


def _write_queries(server: Server, rows: int, runs: int) -> None:
    """By turns; of the server's process alone, since others may take the CPU meanwhile."""
    taken: dict[str, list[tuple[float, float]]] = {}
    with server.connect() as connection:
        connection.execute("SET max_parallel_workers_per_gather = 0")
        process = psutil.Process(connection.info.backend_pid)
        for _ in range(runs + 1):
            for name, query in _QUERIES.items():
                before, began = _cpu(process), time.monotonic()
                if query.startswith("COPY"):
                    with connection.cursor().copy(query.encode()) as copy:
                        while copy.read():
                            pass
                else:
                    connection.execute(query.encode()).fetchall()
                taken.setdefault(name, []).append((_cpu(process) - before, time.monotonic() - began))
    table = Table("", "CPU s", "ns a row", "times COPY", "s", title=f"{rows:,} rows, the server's process, medians of {runs}")
    first = statistics.median(cpu for cpu, _ in taken["COPY, all rows"][1:])
    for name, each in taken.items():
        cpu, wall = (statistics.median(one[place] for one in each[1:]) for place in (0, 1))
        table.add_row(name, f"{cpu:.2f}", f"{cpu / rows * 1e9:.0f}", f"{cpu / first:.2f}", f"{wall:.2f}")
    Console(width=140).print(table)


def _measured(words: list[str], *servers: Server) -> _Taken:
    postmasters = [psutil.Process(int((each.data_dir / "postmaster.pid").read_text().split()[0])) for each in servers]
    before: dict[int, float] = {}
    for each in _children(postmasters):
        with suppress(psutil.Error):
            before[each.pid] = _cpu(each)
    latest, most, own = dict(before), 0, 0.0
    began = time.monotonic()
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as process:
        watched = psutil.Process(process.pid)
        while process.poll() is None:
            with suppress(psutil.Error):
                most, own = max(most, watched.memory_info().rss), _cpu(watched)
            for each in _children(postmasters):
                with suppress(psutil.Error):
                    latest[each.pid] = _cpu(each)
            time.sleep(0.02)
    if process.returncode:
        sys.exit(f"{words[0]} ended with status {process.returncode}")
    return _Taken(time.monotonic() - began, own, sum(latest.values()) - sum(before.values()), most)


def _children(postmasters: Sequence[psutil.Process]) -> list[psutil.Process]:
    return [each for postmaster in postmasters for each in postmaster.children(recursive=True)]


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


if __name__ == "__main__":
    main()
