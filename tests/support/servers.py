"""Real PostgreSQL servers, for the length of a `with`.

In: a major version and settings. Out: a running server on 127.0.0.1 and a Unix socket, its data directory, and ways to copy, kill
and restart it. It runs as an ordinary user even where the tests run as root, since PostgreSQL refuses root. Everything is in one
temporary directory; nothing of it is left when the `with`, or the process, ends.

    with Server(16) as server:
        server.sql("CREATE TABLE t (a int PRIMARY KEY)")
        with server.connect() as connection: ...

State: the postmaster's process, its port. A server is `stopped` or `running`; `stop`, `crash` and `start` move between.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil  # type: ignore[import-untyped]
import psycopg

from support.builds import Build, find_build

SUPERUSER = "postgres"
START_SECONDS = 60
STOP_SECONDS = 60

SETTINGS: Mapping[str, str | int] = {
    "wal_level": "logical",
    "max_wal_senders": 16,
    "max_replication_slots": 16,
    "max_prepared_transactions": 16,
    "fsync": "off",
    "autovacuum": "off",
    "max_wal_size": "16GB",
    "wal_keep_size": "16GB",  # no WAL is recycled: a test may want all of it
    "checkpoint_timeout": "1h",
    "shared_buffers": "64MB",
    "log_checkpoints": "off",
    "timezone": "UTC",
    "datestyle": "ISO, MDY",
    "intervalstyle": "postgres",
    "lc_monetary": "C",
    "lc_messages": "C",
}


class Server:
    """A PostgreSQL server of our own. `data` starts it on a copy of another, stopped, data directory instead of a new one."""

    def __init__(
        self,
        major: int,
        settings: Mapping[str, str | int] | None = None,
        *,
        data: Path | None = None,
        wal_segment_mb: int = 1,
        autovacuum: bool = False,
        test_decoding: bool = True,
    ) -> None:
        self.major = major
        self.build: Build = find_build(major, test_decoding=test_decoding)
        self.settings = {**SETTINGS, "autovacuum": "on" if autovacuum else "off", **(settings or {})}
        self.port = 0
        self._copied_from = data
        self._wal_segment_mb = wal_segment_mb
        self._process: subprocess.Popen[bytes] | None = None
        self._home = Path(tempfile.mkdtemp(prefix="tailrace-pg-"))
        self._sockets = Path(tempfile.mkdtemp(prefix="tr-", dir="/tmp"))  # short: a socket's path has 107 bytes at most
        self._as_user = _ordinary_user()
        _open_servers.add(self)

    def __enter__(self) -> Server:
        try:
            self._give_away(self._home)
            self._give_away(self._sockets)
            if self._copied_from:
                shutil.copytree(self._copied_from, self.data_dir, symlinks=True)
                self.data_dir.chmod(0o700)
                self._give_away(self.data_dir)
            else:
                self._initdb()
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # -- its life ------------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start it, and wait until it takes connections; if somebody was quicker to take the port, try another."""
        if self.is_running:
            return
        for attempt in range(5):
            self.port = _free_port()
            self._launch()
            if self._wait_until_ready():
                return
            if attempt == 4 or "Address already in use" not in self.log_tail():
                raise RuntimeError(f"PostgreSQL {self.major} did not start:\n{self.log_tail()}")

    def stop(self) -> None:
        """A clean, fast shutdown: the last record is a shutdown checkpoint, and the directory is consistent as it lies."""
        if not self.is_running:
            return
        assert self._process is not None
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.crash()
            raise RuntimeError(f"PostgreSQL {self.major} did not stop within {STOP_SECONDS} s:\n{self.log_tail()}") from None
        self._process = None

    def crash(self) -> None:
        """Kill all its processes where they stand; the next start recovers from WAL."""
        if self._process is None:
            return
        with contextlib.suppress(psutil.NoSuchProcess):
            postmaster = psutil.Process(self._process.pid)
            family = [postmaster, *postmaster.children(recursive=True)]
            for process in family:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(family[1:], timeout=STOP_SECONDS)
        self._process.wait()
        self._process = None

    def restart(self) -> None:
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop it, whatever its state, and remove all it wrote."""
        try:
            self.stop()
        finally:
            self.crash()
            _open_servers.discard(self)
            shutil.rmtree(self._home, ignore_errors=True)
            shutil.rmtree(self._sockets, ignore_errors=True)

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    # -- its files -----------------------------------------------------------------------------------------------------------

    @property
    def data_dir(self) -> Path:
        return self._home / "data"

    @property
    def wal_dir(self) -> Path:
        return self.data_dir / "pg_wal"

    @property
    def socket_dir(self) -> Path:
        return self._sockets

    @property
    def log_file(self) -> Path:
        return self._home / "log"

    def log_tail(self, lines: int = 30) -> str:
        log = self.log_file.read_text(errors="replace") if self.log_file.exists() else "(no log)"
        return "\n".join(log.splitlines()[-lines:])

    def copy_to(self, destination: Path) -> Path:
        """A cold copy: the server must be stopped."""
        if self.is_running:
            raise RuntimeError("stop the server first: a copy under its feet is not consistent")
        return Path(shutil.copytree(self.data_dir, destination, symlinks=True, ignore=shutil.ignore_patterns("postmaster.pid")))

    def basebackup(self, destination: Path, *options: str) -> Path:
        """A hot copy, as `pg_basebackup` makes it; its WAL comes with it."""
        self.run("pg_basebackup", "-D", str(destination), "--no-sync", "--checkpoint=fast", *options)
        return destination

    # -- talking to it -------------------------------------------------------------------------------------------------------

    @property
    def dsn(self) -> str:
        return self.dsn_for("postgres")

    def dsn_for(self, dbname: str) -> str:
        return str(psycopg.conninfo.make_conninfo(host="127.0.0.1", port=self.port, user=SUPERUSER, dbname=dbname))

    def connect(self, dbname: str = "postgres", *, autocommit: bool = True, **options: Any) -> psycopg.Connection[Any]:
        connection: psycopg.Connection[Any] = psycopg.connect(self.dsn_for(dbname), autocommit=autocommit, **options)
        return connection

    def sql(self, text: str, parameters: Any = None, *, dbname: str = "postgres") -> list[tuple[Any, ...]]:
        """Run it on a connection of its own; the rows, if it had any."""
        with self.connect(dbname) as connection:
            cursor = connection.execute(text, parameters)
            return cursor.fetchall() if cursor.description else []

    def value(self, text: str, parameters: Any = None, *, dbname: str = "postgres") -> Any:
        """The one value of a query of one row and one column."""
        ((found,),) = self.sql(text, parameters, dbname=dbname)
        return found

    def checkpoint(self) -> None:
        self.sql("CHECKPOINT")

    def switch_wal(self) -> str:
        """Begin a new segment; the LSN where the old one ended."""
        return str(self.value("SELECT pg_switch_wal()"))

    def flush_lsn(self) -> str:
        return str(self.value("SELECT pg_current_wal_flush_lsn()"))

    def bin(self, name: str) -> Path:
        return self.build.bin(name)

    def run(self, name: str, *arguments: str, dbname: str | None = None) -> str:
        """Run one of PostgreSQL's programs against this server; what it printed."""
        environment = {
            **os.environ,
            "PGHOST": "127.0.0.1",
            "PGPORT": str(self.port),
            "PGUSER": SUPERUSER,
            **({"PGDATABASE": dbname} if dbname else {}),
        }
        ran = subprocess.run([self.bin(name), *arguments], env=environment, capture_output=True, text=True, check=False)
        if ran.returncode:
            raise RuntimeError(f"{name} failed with {ran.returncode}:\n{ran.stderr}")
        return ran.stdout

    def run_offline(self, name: str, *arguments: str) -> str:
        """Run one of PostgreSQL's programs on the files of the stopped server, as the server's user; what it printed."""
        if self.is_running:
            raise RuntimeError(f"stop the server first: {name} works on its files")
        command = [str(self.bin(name)), *arguments]
        ran = subprocess.run(
            command, cwd=self._home, env=_environment(), capture_output=True, text=True, check=False, **self._credentials()
        )
        if ran.returncode:
            raise RuntimeError(f"{name} failed with {ran.returncode}:\n{ran.stdout}{ran.stderr}")
        return ran.stdout

    # -- underneath ----------------------------------------------------------------------------------------------------------

    def _initdb(self) -> None:
        command: list[str | Path] = [
            self.bin("initdb"),
            *("-D", self.data_dir, "-U", SUPERUSER, "--no-sync", "--auth=trust", "--encoding=UTF8", "--locale=C"),
            f"--wal-segsize={self._wal_segment_mb}",
        ]
        ran = subprocess.run(
            command, cwd=self._home, env=_environment(), capture_output=True, text=True, check=False, **self._credentials()
        )
        if ran.returncode:
            raise RuntimeError(f"initdb of PostgreSQL {self.major} failed:\n{ran.stdout}{ran.stderr}")

    def _launch(self) -> None:
        settings = {
            **self.settings,
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": self._sockets,
        }
        command: list[str | Path] = [self.bin("postgres"), "-D", self.data_dir]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        with self.log_file.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self._home,
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for the tests; they stop the server in good order
                **self._credentials(),
            )

    def _wait_until_ready(self) -> bool:
        deadline = time.monotonic() + START_SECONDS
        while self.is_running and time.monotonic() < deadline:
            try:
                psycopg.connect(self.dsn, connect_timeout=5).close()
            except psycopg.OperationalError:
                time.sleep(0.02)
            else:
                return True
        self.crash()
        return False

    def _credentials(self) -> dict[str, Any]:
        user = self._as_user
        return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else {}

    def _give_away(self, top: Path) -> None:
        if self._as_user is None:
            return
        for path in [top, *top.rglob("*")]:
            os.chown(path, self._as_user.pw_uid, self._as_user.pw_gid, follow_symlinks=False)


def _ordinary_user() -> pwd.struct_passwd | None:
    """Whom to run as: ourselves, or, being root, `postgres` or else `nobody`."""
    if os.geteuid() != 0:
        return None
    for name in (SUPERUSER, "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise RuntimeError("running as root, and there is no user `postgres` or `nobody` to run PostgreSQL as")


def _environment() -> dict[str, str]:
    """Nothing of ours that PostgreSQL would take for a wish (PGPORT, PGDATA, LC_ALL ...)."""
    return {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


_open_servers: weakref.WeakSet[Server] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for server in list(_open_servers):
        with contextlib.suppress(Exception):
            server.close()
