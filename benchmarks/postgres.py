"""PostgreSQL's side: WAL is made on a server, decoded by its walsender, and counted by pg_waldump."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import psutil

from measure import Measure, measured, median
from support.builds import find_build
from support.servers import Server
from tailrace.model import Lsn
from tailrace.storage.segment import segment_name
from workloads import EVERYTHING, Workload

MAJOR = 16
_SEGMENT_NAME = 24
_SEGMENT_BYTES = 16 << 20
SETTINGS = {
    "max_wal_size": "50GB", "checkpoint_timeout": "1h", "wal_keep_size": "50GB", "synchronous_commit": "off", "shared_buffers": "512MB",
    "max_locks_per_transaction": "4096",
}  # fmt: skip
PLUGINS = {
    "pgoutput": ["-o", "proto_version=1", "-o", f"publication_names={EVERYTHING}"],
    "test_decoding": [],
}


def prepare(work: Workload, count: int, home: Path, runs: int) -> tuple[Path, float, dict[str, Measure]]:
    """WAL of the workload in a stopped copy of its cluster; how many MB of it; how long walsenders took to decode it, and pg_waldump to count it."""
    with Server(MAJOR, SETTINGS, wal_segment_mb=16) as server:
        end = _fill(server, work, count)
        theirs = {plugin: median([_walsender(server, plugin, end, number) for number in range(runs)]) for plugin in PLUGINS}
        server.stop()
        copy = home / work.name
        server.copy_to(copy)
    theirs["pg_waldump"] = median([_waldump(copy / "pg_wal", str(end)) for _ in range(runs)])
    return copy, (Lsn.parse(str(end)) - _SEGMENT_BYTES) / 1e6, theirs


def write_wal(work: Workload, count: int, home: Path) -> Path:
    """WAL of the workload alone, in a stopped copy of its cluster."""
    with Server(MAJOR, SETTINGS, wal_segment_mb=16) as server:
        _fill(server, work, count)
        server.stop()
        return server.copy_to(home / work.name)


def _fill(server: Server, work: Workload, count: int) -> str:
    """Do the work, with slots that were there before it; where its WAL ends."""
    server.sql("CREATE DATABASE app")
    with server.connect("app") as connection:
        for statement in work.setup:
            connection.execute(statement.encode())
        connection.execute(f"CREATE PUBLICATION {EVERYTHING} FOR ALL TABLES".encode())
        for name, where in work.filters:
            connection.execute(f"CREATE PUBLICATION {name} FOR TABLE {work.main_table} WHERE ({where})".encode())
        server.checkpoint()
        for plugin in PLUGINS:
            connection.execute("SELECT pg_create_logical_replication_slot(%s, %s)", [plugin, plugin])
        work.fill(server, connection, count)
    server.checkpoint()
    return server.flush_lsn()


def _client(name: str) -> str:
    return str(find_build(MAJOR, test_decoding=False).bin(name))


def _walsender(server: Server, plugin: str, end: str, number: int) -> Measure:
    """Drain a copy of the slot up to `end`, as a subscriber would receive it."""
    slot = f"{plugin}_{number}"
    server.sql("SELECT pg_copy_logical_replication_slot(%s, %s)", [plugin, slot], dbname="app")
    command = [
        _client("pg_recvlogical"), "-d", server.dsn("app"), "-S", slot, "--start", "--no-loop", "-f", "/dev/null", "--endpos", end,
        "-s", "0", *PLUGINS[plugin],
    ]  # fmt: skip
    postmaster = int((server.data_dir / "postmaster.pid").read_text().split()[0])
    taken = measured(lambda: _run(command), [postmaster, psutil.Process().pid], _kind)
    server.sql("SELECT pg_drop_replication_slot(%s)", [slot], dbname="app")
    return taken


def _waldump(wal: Path, end: str) -> Measure:
    """It ends with an error where the log ends, having printed its table."""
    position = Lsn.parse(end)
    first = min(file.name for file in wal.iterdir() if len(file.name) == _SEGMENT_NAME)
    last = segment_name(1, position // _SEGMENT_BYTES, _SEGMENT_BYTES)
    command = [_client("pg_waldump"), "--stats", str(wal / first), last, "-e", end]

    def count() -> int:
        said = subprocess.run(command, check=False, capture_output=True, text=True, timeout=3600)
        total = re.search(r"^Total\s+(\d+)", said.stdout, re.MULTILINE)
        if total is None:
            raise RuntimeError(f"pg_waldump: {said.stderr}")
        return int(total[1])

    return measured(count, [psutil.Process().pid], _kind)


def _run(command: list[str]) -> int:
    subprocess.run(command, check=True, capture_output=True, timeout=3600)
    return 0


def _kind(process: psutil.Process) -> str:
    name = process.name()
    return "server" if name.startswith("postgres") else "client" if name.startswith("pg_") else "bench"
