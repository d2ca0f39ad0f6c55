"""`tailrace serve` as a process of its own, for the length of a `with`.

    with Served(server.data_dir, tmp_path / "state") as served:
        with LogicalStream(served, "s", {...}) as stream: ...

State: the process. What it says on standard error is kept in `log`.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg

from support.forked import Forked, forked

_SECONDS = 60


class Served:
    """It listens on 127.0.0.1, at a port that was free. `options` go to the command."""

    def __init__(self, source: Path, state: Path, *options: str, dbname: str = "postgres", user: str = "postgres") -> None:
        self.dbname, self.user, self.state = dbname, user, state
        self.port = _free_port()
        self.log = Path(tempfile.mkstemp(prefix="tailrace-served-", suffix=".log")[1])
        self._words = ["serve", str(source), "--state", str(state), "--port", str(self.port), *options]
        self.process: Forked | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if self.process is not None and self.process.poll() is None:
                self.process.send_signal(signal.SIGTERM)
                try:
                    assert self.process.wait(30) == 0, self.log.read_text()
                except subprocess.TimeoutExpired:
                    self.kill()
                    raise
        finally:
            self.log.unlink(missing_ok=True)

    def start(self) -> None:
        self.process = forked(self._words, self.log)
        until = time.monotonic() + _SECONDS
        while time.monotonic() < until:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        raise AssertionError(self.log.read_text())

    def kill(self) -> None:
        """As the power goes."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def said(self) -> str:
        return self.log.read_text()

    def dsn(self, **more: Any) -> str:
        words = {"host": "127.0.0.1", "port": self.port, "dbname": self.dbname, "user": self.user, **more}
        return " ".join(f"{name}={value}" for name, value in words.items())

    def connect(self, *, autocommit: bool = True, **more: Any) -> psycopg.Connection[Any]:
        return psycopg.connect(self.dsn(**more), autocommit=autocommit)


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])
