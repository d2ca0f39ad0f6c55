"""What it costs to receive a server's log over a connection, and how soon a row comes out: beside PostgreSQL's own programs, on one server.

    python benchmarks/live.py --megabytes 1000 --runs 5 --consumers 1,4,8
    python benchmarks/live.py --latency --rate 100 --seconds 20

First, `tailrace wal receive` and pg_receivewal receive the same backlog, by turns, over a Unix socket and over TLS: seconds until all of it is on
disk with its names, CPU seconds of the two programs as they are typed (Python's start included), and CPU seconds of the server, with their share of
the time: where that is near 100 %, the walsender has no pause, and no receiver could be faster. Then consumers
decode: that many `tailrace slot receive`, which share one receiver, and that many pg_recvlogical, which have a logical walsender each. With
--latency: from COMMIT's return to the row's line on standard output of `tailrace slot receive -f -`, and of pg_recvlogical; and what each takes while
nothing happens.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "tests")]

import psutil
from rich.console import Console
from rich.table import Table

from latency import Reader, caught_up, cpu_of, load, running
from postgres import MAJOR, SETTINGS
from support.builds import find_build
from support.servers import Server
from tailrace.model import Lsn

TAILRACE = str(Path(sys.executable).with_name("tailrace"))
_ROW = 480
"""Bytes of WAL that a row takes."""
_IDLE = 10.0
_STARTS = 8.0
_Taken = tuple[float, float, float]
"""Seconds, CPU seconds of the clients, CPU seconds of the server."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--decoded", type=int, default=200, help="megabytes that consumers decode")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--consumers", default="1,4,8")
    parser.add_argument("--latency", action="store_true")
    parser.add_argument("--rate", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=20.0)
    options = parser.parse_args()
    settings = {**SETTINGS, "unix_socket_directories": ".", "max_replication_slots": 40, "max_wal_senders": 20}
    if options.latency:
        settings["synchronous_commit"] = "on"
    with (
        tempfile.TemporaryDirectory(prefix="tailrace-live-") as home,
        Server(MAJOR, settings, dbname="app", wal_segment_mb=16) as server,
    ):
        server.say("CREATE TABLE t (id int PRIMARY KEY, v text)")
        if options.latency:
            _latency(server, Path(home), options.rate, options.seconds)
            return
        _receivers(server, Path(home), options.megabytes, options.runs)
        _consumers(server, Path(home), options.decoded, [int(each) for each in options.consumers.split(",")])


# -- receivers -----------------------------------------------------------------------------------------------------------------


def _receivers(server: Server, home: Path, megabytes: int, runs: int) -> None:
    ways = {"Unix socket": f"host={server.data_dir} port={server.port} user=postgres", "TLS": _with_tls(server)}
    begun = {name: home / name for name in ("tailrace", "pg_receivewal")}
    begin = server.flush_lsn()
    for name, directory in begun.items():
        directory.mkdir()
        _run(_receiver(name, ways["Unix socket"], directory, begin))
    size = _fill(server, megabytes)
    end = server.flush_lsn()
    table = Table(
        "over", "pg_receivewal s", "tailrace s", "times the speed", "pg_receivewal CPU s", "tailrace CPU s", "of its CPU", "server's CPU s, either",
        "of the time",
        title=f"{size:,.0f} MB of WAL received, medians of {runs}",
    )  # fmt: skip
    for way, dsn in ways.items():
        taken: dict[str, list[_Taken]] = {name: [] for name in begun}
        for turn in range(runs + 1):
            for name, directory in sorted(begun.items(), reverse=turn % 2 > 0):
                work = Path(shutil.copytree(directory, home / "work"))
                environment = {"LD_PRELOAD": _libpq_with_tls()} if (name, way) == ("pg_receivewal", "TLS") else {}
                taken[name].append(_measured(server, [_receiver(name, dsn, work, end)], environment))
                _check(server, work)
                shutil.rmtree(work)
        theirs, ours = (_medians(taken[name][1:]) for name in ("pg_receivewal", "tailrace"))
        speed, share = theirs[0] / ours[0], ours[1] / theirs[1]
        seconds = [f"{each:.2f}" for each in (theirs[0], ours[0], speed, theirs[1], ours[1])]
        busy = [f"{each[2] / each[0]:.0%}" for each in (theirs, ours)]
        table.add_row(way, *seconds, f"{share:.0%}", f"{theirs[2]:.2f}, {ours[2]:.2f}", ", ".join(busy))
    Console(width=140).print(table)


def _receiver(name: str, dsn: str, directory: Path, end: str) -> list[str]:
    if name == "tailrace":
        return [TAILRACE, "wal", "receive", dsn, "--to", str(directory), "--endpos", end, "--no-loop"]
    return [str(_client("pg_receivewal")), "-d", dsn, "-D", str(directory), "--endpos", end, "--no-loop"]


def _with_tls(server: Server) -> str:
    """Have the server speak TLS; how it is connected to then."""
    key, certificate = server.data_dir / "server.key", server.data_dir / "server.crt"
    words = ["openssl", *"req -new -x509 -days 2 -nodes -subj /CN=127.0.0.1 -out".split(), certificate, "-keyout", key]
    subprocess.run(words, check=True, capture_output=True)
    owner = server.data_dir.stat()
    for path in (key, certificate):
        path.chmod(0o600)
        os.chown(path, owner.st_uid, owner.st_gid)
    server.say("ALTER SYSTEM SET ssl = on", "SELECT pg_reload_conf()")
    time.sleep(1)
    return f"{server.dsn('postgres')} sslmode=require"


def _libpq_with_tls() -> str:
    """The wheel's programs have a libpq that cannot speak TLS; psycopg's, which is ours, can."""
    found = importlib.util.find_spec("psycopg_binary")
    assert found is not None
    assert found.origin is not None
    [path] = (Path(found.origin).parents[1] / "psycopg_binary.libs").glob("libpq-*")
    return str(path)


def _check(server: Server, directory: Path) -> None:
    """Raise unless the last whole segment is the server's."""
    last = max(path for path in directory.iterdir() if len(path.name) == 24)
    if last.read_bytes() != (server.wal_dir / last.name).read_bytes():
        raise RuntimeError(f"{last.name} is another than the server's")


# -- consumers -----------------------------------------------------------------------------------------------------------------


def _consumers(server: Server, home: Path, megabytes: int, counts: Sequence[int]) -> None:
    for count in counts:
        _create_slots(server, home / f"state{count}", count)
    server.sql("SELECT pg_create_logical_replication_slot('base', 'test_decoding')")
    size = _fill(server, megabytes)
    end = server.flush_lsn()
    table = Table(
        "consumers", "walsenders: server's CPU s", "tailrace: server's CPU s", "of theirs", "pg_recvlogical s", "tailrace s", "tailrace CPU s",
        title=f"{size:,.0f} MB of WAL decoded by so many consumers",
    )  # fmt: skip
    for count in counts:
        for number in range(count):
            server.sql(f"SELECT pg_copy_logical_replication_slot('base', 's{number}')")
        common = ["-d", server.dsn(), "--start", "--no-loop", "-f", "/dev/null", "--endpos", end, "-s", "0"]
        theirs = _measured(server, [[str(_client("pg_recvlogical")), *common, "-S", f"s{number}"] for number in range(count)])
        for number in range(count):
            server.sql(f"SELECT pg_drop_replication_slot('s{number}')")
        state = str(home / f"state{count}")
        words = ["--state", state, "-f", "/dev/null", "--endpos", end]
        ours = _measured(server, [[TAILRACE, "slot", "receive", f"s{number}", *words] for number in range(count)])
        seconds = [f"{each:.2f}" for each in (theirs[0], *ours[:2])]
        table.add_row(str(count), f"{theirs[2]:.2f}", f"{ours[2]:.2f}", f"{ours[2] / theirs[2]:.0%}", *seconds)
    Console(width=140).print(table)


def _create_slots(server: Server, state: Path, count: int) -> None:
    _run([TAILRACE, "slot", "create", "s0", server.dsn(), "--database", "app", "--state", str(state)])
    for number in range(1, count):
        _run([TAILRACE, "slot", "copy", "s0", f"s{number}", "--state", str(state)])


# -- latency -------------------------------------------------------------------------------------------------------------------


def _latency(server: Server, home: Path, rate: int, seconds: float) -> None:
    _create_slots(server, home / "state", 1)
    server.sql("SELECT pg_create_logical_replication_slot('theirs', 'test_decoding')")
    commands = {
        "tailrace slot receive": [TAILRACE, "slot", "receive", "s0", "--state", str(home / "state"), "-f", "-"],
        "pg_recvlogical": [str(_client("pg_recvlogical")), "-d", server.dsn(), "-S", "theirs", "--start", "-f", "-"],
    }
    table = Table(
        "consumer", "median ms", "p99 ms", "most ms", "its CPU", "the server's CPU", "its CPU when idle",
        title=f"from COMMIT to standard output, {rate} transactions a second",
    )  # fmt: skip
    for name, command in commands.items():
        server.sql("TRUNCATE t")
        with running(command) as process:
            reader = Reader(process)
            time.sleep(_STARTS)
            consumer, postmaster = psutil.Process(process.pid), psutil.Process(_postmaster(server))
            before = cpu_of(consumer)
            time.sleep(_IDLE)
            idle = (cpu_of(consumer) - before) / _IDLE
            load(server, rate, 2.0)  # kernels are compiled, or read, when the first rows come
            caught_up([reader], int(rate * 2.0))
            server.sql("TRUNCATE t")
            time.sleep(1)
            reader.came.clear()
            before = cpu_of(consumer), cpu_of(postmaster)
            done = load(server, rate, seconds)
            caught_up([reader], len(done))
            used = [(after - each) / seconds for after, each in zip((cpu_of(consumer), cpu_of(postmaster)), before, strict=True)]
            if len(reader.came) < len(done):
                raise RuntimeError(f"{len(done) - len(reader.came)} rows did not come")
            late = sorted(1000 * (reader.came[row] - at) for row, at in done.items())
        figures = (statistics.median(late), late[int(len(late) * 0.99)], late[-1])
        table.add_row(name, *(f"{each:.1f}" for each in figures), *(f"{each:.1%}" for each in (*used, idle)))
    Console(width=140).print(table)


# -- underneath ----------------------------------------------------------------------------------------------------------------


def _fill(server: Server, megabytes: int) -> float:
    """Write so much WAL, about; how much it was."""
    begin = Lsn.parse(server.flush_lsn())
    with server.connect() as connection:
        first = connection.execute("SELECT coalesce(max(id), 0) FROM t").fetchone()
        assert first is not None
        count, step = megabytes * 1_000_000 // _ROW, 100_000
        for at in range(first[0], first[0] + count, step):
            values = f"SELECT i, repeat(md5(i::text), 12) FROM generate_series({at + 1}, {min(at + step, first[0] + count)}) i"
            connection.execute(f"INSERT INTO t {values}".encode())
    server.checkpoint()
    return (Lsn.parse(server.flush_lsn()) - begin) / 1e6


def _measured(server: Server, commands: Sequence[list[str]], environment: Mapping[str, str] | None = None) -> _Taken:
    """All at once, until the last has ended; the server's times count once its walsenders have."""
    began, worked = time.monotonic(), cpu_of(psutil.Process(_postmaster(server)))
    environment = {**os.environ, **(environment or {})}
    clients = [subprocess.Popen(each, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment) for each in commands]
    used = 0.0
    for client in clients:
        assert client.stderr is not None
        said = client.stderr.read()
        _, status, usage = os.wait4(client.pid, 0)
        client.returncode = os.waitstatus_to_exitcode(status)
        if client.returncode:
            raise RuntimeError(f"{client.args} ended with {client.returncode}: {said.decode()}")
        used += usage.ru_utime + usage.ru_stime
    taken = time.monotonic() - began
    while server.sql("SELECT pid FROM pg_stat_replication"):
        time.sleep(0.01)
    time.sleep(0.1)
    return taken, used, cpu_of(psutil.Process(_postmaster(server))) - worked


def _medians(taken: Sequence[_Taken]) -> _Taken:
    wall, clients, servers = (statistics.median(each) for each in zip(*taken, strict=True))
    return wall, clients, servers


def _postmaster(server: Server) -> int:
    return int((server.data_dir / "postmaster.pid").read_text().split()[0])


def _client(name: str) -> Path:
    return find_build(MAJOR, test_decoding=False).bin(name)


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True)


if __name__ == "__main__":
    main()
