"""How far a lake is, over HTTP, for people and for Prometheus, while a command keeps it.

In: an address to listen on, and what the command hears of each window. Out: `/` is JSON, `/metrics` is Prometheus' text format
(https://prometheus.io/docs/instrumenting/exposition_formats), anything else is 404. Nothing can be changed by it, and whoever can reach the address
may read: it is one of this machine unless somebody asks for another.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

from tailrace.cli.mirror import commit_time
from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.model import Lsn
from tailrace.replication.apply_worker import WindowApplied

STARTING, COPYING, FOLLOWING = "starting", "copying", "following"
_SLOW_CLIENT = 10.0
"""Seconds after which a client that says nothing is let go."""
_LAST_PORT = 65535


@dataclass(slots=True)
class LakeStanding:
    """Where the lake was when the command began, and what has been heard of it since; read by other threads than the one that tells it."""

    lake: str
    source: str
    began: float = field(default_factory=time.time)
    phase: str = STARTING
    lsn: int = 0
    complete: str = ""
    committed: datetime | None = None
    lag_bytes: int = 0
    applied: float = 0.0
    copied: tuple[int, int] = (0, 0)
    counts: Counter[str] = field(default_factory=Counter)
    tables: Counter[str] = field(default_factory=Counter)
    quarantined: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, complete: Lsn, committed: int) -> None:
        with self._lock:
            self.lsn, self.complete, self.committed = int(complete), str(complete), commit_time(committed)

    def copying(self, done: int, of: int) -> None:
        with self._lock:
            self.phase, self.copied = COPYING, (done, of)

    def tell(self, done: WindowApplied) -> None:
        with self._lock:
            if done.is_copy or self.phase != COPYING:  # while tables are copied that join, windows of others come
                self.phase = FOLLOWING
            self.lsn, self.complete, self.lag_bytes, self.applied = int(done.lsn), str(done.lsn), done.lag_bytes, time.time()
            self.committed = commit_time(done.committed) or self.committed
            for each in done.tables:
                self.tables[each.table] += each.changes
                self.counts["changes"] += each.changes
                self.counts["bytes_written"] += each.written.bytes
            for put in done.quarantined:
                self.quarantined[put.table] += put.changes
            self.counts["windows"] += 1

    def facts(self) -> dict[str, Any]:
        """As `/` gives them; times in ISO 8601 with a zone, or null where nothing is known."""
        with self._lock:
            return {
                "lake": self.lake, "source": self.source, "phase": self.phase, "complete_lsn": self.complete or None,
                "last_commit_time": self.committed.isoformat() if self.committed is not None else None,
                "lag_bytes": self.lag_bytes, "seconds_since_applied": round(time.time() - self.applied, 3) if self.applied else None,
                "copy_parts_done": self.copied[0], "copy_parts": self.copied[1], "uptime_seconds": round(time.time() - self.began, 3),
                "windows": self.counts["windows"], "changes": self.counts["changes"], "bytes_written": self.counts["bytes_written"],
                "tables": dict(self.tables), "quarantined": dict(self.quarantined),
            }  # fmt: skip


@contextmanager
def status_page(address: str, standing: LakeStanding) -> Iterator[str]:
    """Serve it within the block; the URL. Raises UsageError where it is none, or cannot be listened on."""
    host, port = _parsed(address)
    metrics = _metrics_of(standing)

    class Page(BaseHTTPRequestHandler):
        server_version, sys_version, timeout = "tailrace", "", _SLOW_CLIENT

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path == "/":
                self._answer("application/json", (json.dumps(standing.facts(), indent=2) + "\n").encode())
            elif path == "/metrics":
                self._answer("text/plain; version=0.0.4; charset=utf-8", metrics())
            else:
                self.send_error(404, explain="There are / and /metrics")

        def _answer(self, kind: str, body: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Standard error is for what happens to the lake."""

    try:
        server = _Server((host, port), Page)
    except (OSError, OverflowError) as error:
        raise UsageError(
            f'could not listen on "{address}": {getattr(error, "strerror", None) or error}', sqlstate="55006"
        ) from error
    with server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
        thread.start()
        try:
            yield f"http://{_written(*server.server_address[:2])}/"
        finally:
            server.shutdown()
            thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], page: type[BaseHTTPRequestHandler]) -> None:
        found = socket.getaddrinfo(address[0], address[1], type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        self.address_family = found[0][0]
        super().__init__(cast("tuple[str, int]", found[0][4]), page)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes in the middle is no news."""


def _parsed(address: str) -> tuple[str, int]:
    """HOST:PORT, PORT of this machine, or [IPV6]:PORT."""
    host, _, port = address.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) > _LAST_PORT:
        raise UsageError(f'"{address}" is no address to listen on', hint="Write HOST:PORT, or the port alone for 127.0.0.1.")
    return host.removeprefix("[").removesuffix("]") or "127.0.0.1", int(port)


def _written(host: Any, port: Any) -> str:
    return f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"


def _metrics_of(standing: LakeStanding) -> Callable[[], bytes]:
    """What gives the text for Prometheus. Raises UsageError where its library is missing."""
    try:
        from prometheus_client import CollectorRegistry, generate_latest  # noqa: PLC0415 - only who serves a page needs it
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric  # noqa: PLC0415
    except ImportError as error:
        raise UsageError("prometheus_client is not installed", hint="pip install 'tailrace[status]'") from error

    class Standing:
        def collect(self) -> Iterator[Metric]:
            facts = standing.facts()
            for name, told, value in (
                ("complete_lsn", "All that commits before this LSN is in the lake, as a number of bytes", standing.lsn),
                ("lag_bytes", "Log that was there, and not in the lake, when the last window was read", facts["lag_bytes"]),
                ("last_commit_timestamp_seconds", "When the last transaction in the lake was committed",
                 standing.committed.timestamp() if standing.committed is not None else None),
                ("last_applied_timestamp_seconds", "When the lake was last written to", standing.applied or None),
                ("copying", "1 while tables are copied that were there before", int(facts["phase"] == COPYING)),
                ("copy_parts", "Parts of the first copy", facts["copy_parts"]),
                ("copy_parts_done", "Parts of the first copy that are done", facts["copy_parts_done"]),
            ):  # fmt: skip
                if value is not None:
                    yield GaugeMetricFamily(f"tailrace_lake_{name}", told, value)
            for name, told in (
                ("windows", "Windows of the log that were applied"),
                ("bytes_written", "Bytes of data files that were written"),
            ):
                yield CounterMetricFamily(f"tailrace_lake_{name}", told, facts[name])
            for name, told, counts in (
                ("changes", "Changes that were applied", facts["tables"]),
                ("quarantined_changes", "Changes that went into quarantine", facts["quarantined"]),
            ):
                family = CounterMetricFamily(f"tailrace_lake_{name}", told, labels=["table"])
                for table, count in counts.items():
                    family.add_metric([table], count)
                yield family

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Standing())
    return lambda: generate_latest(registry)
