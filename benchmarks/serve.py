"""Streams of PostgreSQL's walsender and of `tailrace serve`, of the same slots on the same WAL, into pg_recvlogical -f /dev/null, in one run.

    python benchmarks/serve.py --rows 1000000 --runs 3 --streams 1,4
    python benchmarks/serve.py --queries
    python benchmarks/serve.py --slow 3 --rows 2000000

The server runs all the while, and both read what it has written. Nothing of the log is indexed before the first run of a slot; the slots of a state
location share what they found out since, as walsenders share nothing. Medians, by turns; run 0 does not count. With --queries: how long a client
waits for an answer from the catalogs, of a log that does not grow, of one that has just grown, and of one that is received, where the source is asked
each time. With --slow: the memory of the server, while clients do not read.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "tests")]

import psutil
from psycopg import Connection
from rich.console import Console
from rich.table import Table

from postgres import MAJOR, PLUGINS, SETTINGS
from support.builds import find_build
from support.raw_stream import RawStream
from support.served import Served
from support.servers import Server
from tailrace.model import Lsn
from workloads import EVERYTHING, WORKLOADS

_TIMES = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", default="inserts", choices=list(WORKLOADS))
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--streams", default="1,4")
    parser.add_argument("--plugins", default=",".join(PLUGINS))
    parser.add_argument("--queries", action="store_true")
    parser.add_argument("--slow", type=int, default=0, help="so many clients that stop reading amid a transaction of --rows")
    options = parser.parse_args()
    if options.queries:
        _queries()
        return
    if options.slow:
        _slow(options.slow, options.rows)
        return
    work = WORKLOADS[options.workload]
    with (
        tempfile.TemporaryDirectory() as home,
        Server(MAJOR, {**SETTINGS, "max_replication_slots": 40}, dbname="app", wal_segment_mb=16) as server,
        Served(server.data_dir, Path(home) / "state", "--max-wal-senders", "20", dbname="app") as served,
        server.connect() as connection,
    ):
        for statement in work.setup:
            connection.execute(statement.encode())
        connection.execute(f"CREATE PUBLICATION {EVERYTHING} FOR ALL TABLES".encode())
        server.checkpoint()
        for side in (server, served):
            for plugin in PLUGINS:
                side.connect().execute(f"SELECT pg_create_logical_replication_slot('{plugin}', '{plugin}')".encode())
        begin = Lsn.parse(server.flush_lsn())
        work.fill(server, connection, options.rows)
        server.checkpoint()
        end = server.flush_lsn()
        counts = [int(each) for each in options.streams.split(",")]
        _print(server, served, end, (Lsn.parse(end) - begin) / 1e6, options.runs, counts, options.plugins.split(","))


def _queries() -> None:
    """Milliseconds until a query is answered, on a connection that is there; and until psql has described a table."""
    table = Table(
        "", "server ms", "tailrace ms", "tailrace, log has grown ms", "tailrace, of a connection ms", title=f"medians of {_TIMES}"
    )
    with (
        tempfile.TemporaryDirectory() as home,
        Server(MAJOR) as server,
        Served(server.data_dir, Path(home) / "state") as served,
        Served(server.dsn(), Path(home) / "received") as live,
        server.connect(autocommit=True) as writer,
        server.connect(autocommit=True) as there,
        served.connect() as here,
        live.connect() as receiving,
    ):
        writer.execute(b"CREATE TABLE orders (id serial PRIMARY KEY, customer text NOT NULL DEFAULT 'x', total numeric(10,2))")
        for side in (there, here, receiving):
            side.execute(b"SELECT pg_create_logical_replication_slot('s', 'pgoutput')")

        def grow() -> None:
            writer.execute(b"INSERT INTO orders (total) VALUES (1)")

        def ask(connection: Connection[Any], text: str) -> Callable[[], object]:
            return lambda: connection.execute(text.encode()).fetchall()

        for text in ("SELECT * FROM pg_replication_slots", "SELECT relname FROM pg_class WHERE relname = 'orders'"):
            times = [
                _median(ask(there, text)),
                _median(ask(here, text)),
                _median(ask(here, text), grow),
                _median(ask(receiving, text)),
            ]
            table.add_row(text, *(f"{each:.1f}" for each in times))
        psql = str(find_build(MAJOR, test_decoding=False).bin("psql"))

        def describe(side: Server | Served) -> Callable[[], object]:
            return lambda: subprocess.run(
                [psql, "-X", "-c", r"\d orders", side.dsn()], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True
            )

        times = [_median(describe(server)), _median(describe(served)), _median(describe(served), grow), _median(describe(live))]
        table.add_row(r"psql -c '\d orders'", *(f"{each:.1f}" for each in times))
    Console(width=120).print(table)


def _median(work: Callable[[], object], before: Callable[[], object] = lambda: None) -> float:
    taken = []
    for _ in range(_TIMES + 1):
        before()
        began = time.perf_counter()
        work()
        taken.append((time.perf_counter() - began) * 1000)
    return statistics.median(taken[1:])


def _slow(clients: int, rows: int) -> None:
    """What they cost the server: its memory once it has served something, with one of them, with all, a minute later, and when they have gone."""
    names = [f"s{number}" for number in range(clients)]
    with (
        tempfile.TemporaryDirectory() as home,
        Server(MAJOR, SETTINGS, wal_segment_mb=16) as server,
        Served(server.data_dir, Path(home) / "state") as served,
    ):
        server.say("CREATE TABLE t (id int PRIMARY KEY, data text)")
        _make_slots(served, ["warm"])
        server.say("INSERT INTO t SELECT -i, repeat('x', 100) FROM generate_series(1, 50000) i")
        with RawStream(served, "warm") as stream:
            stream.data(50_000)
        _make_slots(served, names)
        server.say(f"INSERT INTO t SELECT i, repeat('x', 100) FROM generate_series(1, {rows}) i")
        sizes = [_resident(served)]
        with ExitStack() as held:
            for name in names:
                held.enter_context(RawStream(served, name)).data(1000)
                sizes.append(_resident(served))
            time.sleep(60)
            later = _resident(served)
        gone = _resident(served)
    after = ", ".join(f"{each:.0f}" for each in sizes[1:])
    print(f"MB: {sizes[0]:.0f} before, {after} with one after another, {later:.0f} a minute later, {gone:.0f} behind them")


def _make_slots(served: Served, names: list[str]) -> None:
    with served.connect() as connection:
        for name in names:
            connection.execute(f"SELECT pg_create_logical_replication_slot('{name}', 'test_decoding')".encode())


def _resident(served: Served) -> float:
    """MB that the server holds, when it has come to rest."""
    time.sleep(8)
    process = psutil.Process(served.process.pid)  # type: ignore[union-attr]
    return float(process.memory_info().rss / 1e6)


def _print(server: Server, served: Served, end: str, megabytes: float, runs: int, counts: list[int], plugins: list[str]) -> None:
    columns = (
        "streams",
        "plugin",
        "walsender s",
        "tailrace s",
        "ratio",
        "walsender CPU s",
        "tailrace CPU s",
        "ratio",
        "CPU, of the fewest = 1",
        "clients CPU s",
        "at first s",
    )
    table = Table(*columns, title=f"{megabytes:,.0f} MB of WAL")
    number, of_fewest = 0, dict[str, float]()
    for count in sorted(counts):
        for plugin in plugins:
            taken: dict[str, list[tuple[float, float, float]]] = {"server": [], "served": []}
            for run in range(runs + 1):
                for name, side in (("server", server), ("served", served)):
                    number += 1
                    taken[name].append(_streamed(side, plugin, end, [f"{plugin}_{number}_{each}" for each in range(count)]))
                    print(f"{count} of {plugin}, run {run}, {name}: {taken[name][-1][0]:.2f} s", file=sys.stderr)
            first = taken["served"][0][0]
            cells = []
            for which in range(2):
                theirs, ours = (statistics.median(each[which] for each in times[1:]) for times in taken.values())
                cells += [f"{theirs:.2f}", f"{ours:.2f}", f"{theirs / ours:.1f}"]
            cells.append(f"{ours / of_fewest.setdefault(plugin, ours):.2f}")
            clients = statistics.median(each[2] for each in taken["served"][1:])
            table.add_row(str(count), plugin, *cells, f"{clients:.2f}", f"{first:.2f}")
    Console(width=120).print(table)


def _streamed(side: Server | Served, plugin: str, end: str, slots: list[str]) -> tuple[float, float, float]:
    """Seconds until so many at once have all, and CPU seconds of what served them, and of pg_recvlogical: on as many cores as there are it takes no
    less than the two together."""
    with side.connect() as connection:
        for slot in slots:
            connection.execute(f"SELECT pg_copy_logical_replication_slot('{plugin}', '{slot}')".encode())
    client = str(find_build(MAJOR, test_decoding=False).bin("pg_recvlogical"))
    more = [*PLUGINS[plugin], "--start", "--no-loop", "-f", "/dev/null", "--endpos", end, "-s", "0"]
    began, worked = time.monotonic(), _cpu(side)
    clients = [subprocess.Popen([client, "-d", side.dsn(), "-S", slot, *more], stderr=subprocess.DEVNULL) for slot in slots]
    received = 0.0
    for each in clients:
        _, status, used = os.wait4(each.pid, 0)
        each.returncode = os.waitstatus_to_exitcode(status)
        if each.returncode:
            raise RuntimeError(f"pg_recvlogical ended with {each.returncode}")
        received += used.ru_utime + used.ru_stime
    taken = time.monotonic() - began
    with side.connect() as connection:
        while connection.execute("SELECT pid FROM pg_stat_replication").fetchall():  # a process's times count once it has ended
            time.sleep(0.1)
    took = _cpu(side) - worked
    with side.connect() as connection:
        for slot in slots:
            connection.execute(f"SELECT pg_drop_replication_slot('{slot}')".encode())
    return taken, took, received


def _cpu(side: Server | Served) -> float:
    """Of its processes, those that have ended included."""
    pid = side.process.pid if isinstance(side, Served) and side.process is not None else 0
    if isinstance(side, Server):
        pid = int((side.data_dir / "postmaster.pid").read_text().split()[0])
    process = psutil.Process(pid)
    while True:
        try:
            times = [process.cpu_times(), *(child.cpu_times() for child in process.children(recursive=True))]
        except psutil.NoSuchProcess:  # a walsender that has just ended
            continue
        return float(sum(each.user + each.system for each in times) + times[0].children_user + times[0].children_system)


if __name__ == "__main__":
    main()
