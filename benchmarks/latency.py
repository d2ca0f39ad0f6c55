"""From COMMIT on the server to text in the consumer's hands, and what consumers cost the source: tailrace beside walsenders, in one run.

    python benchmarks/latency.py --rate 1000 --seconds 20 --consumers 1,4,8

Clients insert a row a transaction, at a rate; one transaction stays open all the while. Of each row it is noted when its COMMIT returned, and when
its line came out of the consumer's standard output: `tailrace slot receive -f -`, or `pg_recvlogical --start -f -` of `tailrace serve` or of the
server. Printed are median and 99th
percentile, and the CPU seconds that the server's processes, and the consumers', took while rows came.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psutil

from support.served import Served
from support.servers import Server
from tailrace.cli.verbs.slot import create

MAJOR = 16
CLIENTS = 4
SERVED = "tailrace serve"
_ROW = re.compile(rb"INSERT: id\[integer\]:(\d+)")
_STARTS = 6.0
"""Seconds until every consumer is at work."""


class Reader(threading.Thread):
    """Notes when the line of each row came."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        super().__init__(daemon=True)
        self.process, self.came = process, {}
        self.start()

    def run(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if row := _ROW.search(line):
                self.came[int(row[1])] = time.monotonic()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--consumers", default="1")
    options = parser.parse_args()
    sys.stdout.write(
        "| consumers | of | rows/s | median ms | p99 ms | CPU s, server | CPU s, consumers |\n|---|---|---|---|---|---|---|\n"
    )
    for count in map(int, options.consumers.split(",")):
        for kind in ("tailrace", SERVED, "walsender"):
            _line(kind, count, options.rate, options.seconds)


def _line(kind: str, count: int, rate: int, seconds: float) -> None:
    with Server(MAJOR, wal_segment_mb=16) as server, tempfile.TemporaryDirectory() as state, ExitStack() as stack:
        server.sql("CREATE TABLE t (id int PRIMARY KEY, v text)")
        side: Server | Served = server
        if kind == SERVED:
            side = stack.enter_context(Served(server.data_dir, Path(state) / "slots", dbname=server.dbname))
        commands = [_slot(server, side, kind, f"s{number}", Path(state) / "slots") for number in range(count)]
        slow = stack.enter_context(server.connect(autocommit=False))
        slow.execute("INSERT INTO t VALUES (-1, 'open all the while')")
        readers = [Reader(stack.enter_context(running(command))) for command in commands]
        time.sleep(_STARTS)
        postmaster = psutil.Process(int((server.data_dir / "postmaster.pid").read_text().split()[0]))
        ours = [side.process.pid] if isinstance(side, Served) and side.process is not None else []
        consumers = [psutil.Process(pid) for pid in (*ours, *(reader.process.pid for reader in readers))]
        before = cpu_of(postmaster), sum(map(cpu_of, consumers))
        done = load(server, rate, seconds)
        caught_up(readers, len(done))
        after = cpu_of(postmaster), sum(map(cpu_of, consumers))
        late = sorted(1000 * (reader.came[row] - at) for reader in readers for row, at in done.items() if row in reader.came)
        if len(late) != count * len(done):
            raise RuntimeError(f"{count * len(done) - len(late)} rows did not come")
        sys.stdout.write(
            f"| {count} | {kind} | {len(done) / seconds:.0f} | {statistics.median(late):.0f} | {late[int(len(late) * 0.99)]:.0f} "
            f"| {after[0] - before[0]:.1f} | {after[1] - before[1]:.1f} |\n"
        )
        sys.stdout.flush()


def _slot(server: Server, side: Server | Served, kind: str, name: str, state: Path) -> list[str]:
    """A new slot, and the command that consumes it."""
    if kind == "tailrace":
        create(name, server.data_dir, state, server.dbname)
        return [str(Path(sys.executable).with_name("tailrace")), "slot", "receive", name, "--state", str(state), "-f", "-"]
    with side.connect() as connection:
        connection.execute("SELECT pg_create_logical_replication_slot(%s, 'test_decoding')", [name])
    return [str(server.bin("pg_recvlogical")), "-d", side.dsn(), "-S", name, "--start", "-f", "-"]


@contextmanager
def running(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)


def load(server: Server, rate: int, seconds: float) -> dict[int, float]:
    """Rows by id, and when their COMMIT returned."""
    done: dict[int, float] = {}

    def work(client: int) -> None:
        with server.connect() as connection:
            begun = time.monotonic()
            for number in range(int(rate * seconds / CLIENTS)):
                row = number * CLIENTS + client
                connection.execute("INSERT INTO t VALUES (%s, 'a row')", [row])
                done[row] = time.monotonic()
                time.sleep(max(0.0, begun + (number + 1) * CLIENTS / rate - time.monotonic()))

    threads = [threading.Thread(target=work, args=(client,)) for client in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return done


def caught_up(readers: list[Reader], rows: int) -> None:
    ends = time.monotonic() + 60
    while time.monotonic() < ends and any(len(reader.came) < rows for reader in readers):
        time.sleep(0.05)


def cpu_of(process: psutil.Process) -> float:
    """Of it and its children, those that have ended included."""
    while process.is_running():
        with suppress(psutil.NoSuchProcess):  # one that ends meanwhile is of those that have ended
            times = [process.cpu_times(), *(child.cpu_times() for child in process.children(recursive=True))]
            return sum(each.user + each.system for each in times) + times[0].children_user + times[0].children_system
    raise RuntimeError(f"{process} has ended")


if __name__ == "__main__":
    main()
