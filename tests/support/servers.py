"""Real PostgreSQL servers of any major, for the length of a `with`: the demo's (`tailrace.demo.server`), on builds of the tests' own.

In: a major version and settings. Out: a running server on 127.0.0.1, its data directory, and ways to copy, kill and restart it. Everything is in one
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
import secrets
import shutil
import signal
import struct
import subprocess
import tempfile
import weakref
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil  # type: ignore[import-untyped]

from support.builds import Build, find_build
from support.segments import NAME
from tailrace.demo import server
from tailrace.wal.crc import crc32c

SETTINGS: Mapping[str, str | int] = {
    "max_wal_senders": 16,
    "max_replication_slots": 16,
    "max_prepared_transactions": 16,
    "synchronous_commit": "on",  # what is committed can be read, and outlives a crash
    "shared_buffers": "64MB",
    "wal_init_zero": "off",  # holes in files cost nothing to write or to copy, and read as the zeros that they stand for
    "log_checkpoints": "off",
    "datestyle": "ISO, MDY",
    "intervalstyle": "postgres",
    "lc_monetary": "C",
}
_IMMEDIATE_SECONDS = 10
_COPIED_SEGMENT_MB = 16
"""initdb writes whole segments; larger ones are not worth to be written twice."""
_CONTROL_CRC = (288, 292)
"""Where pg_control's checksum is, up to 17 and since 18 (`catalog/pg_control.h`)."""
_SYSTEM_IDENTIFIER = 24
"""xlp_sysid of a long page header (`access/xlog_internal.h`)."""


class Server(server.Server):
    """A server on a new cluster, or on a copy of another's stopped data directory, `data`."""

    def __init__(
        self,
        major: int,
        settings: Mapping[str, str | int] | None = None,
        *,
        dbname: str = "postgres",
        data: Path | None = None,
        wal_segment_mb: int = 1,
        test_decoding: bool = True,
        checksums: bool = False,
    ) -> None:
        self.major = major
        self.build: Build = find_build(major, test_decoding=test_decoding)
        self._copied_from = data
        self._initdb = (f"--wal-segsize={wal_segment_mb}", *(("--data-checksums",) if checksums else ()))
        self._wal_segment_mb = wal_segment_mb
        home = Path(tempfile.mkdtemp(prefix="tailrace-pg-"))
        super().__init__(home, dbname, settings={**SETTINGS, **(settings or {})}, programs=self.build.home / "bin")
        _open_servers.add(self)

    def __enter__(self) -> Self:
        try:
            return super().__enter__()
        except BaseException:
            self.close()
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # -- its life ------------------------------------------------------------------------------------------------------------

    def make_cluster(self) -> None:
        if self._wal_segment_mb > _COPIED_SEGMENT_MB and not self._copied_from:
            self.initdb(*self._initdb)
            return
        template = self._copied_from or _new_cluster(self.build, self._initdb)
        subprocess.run(["cp", "-a", template, self.data_dir], check=True)  # two thirds of the time that shutil takes
        if not self._copied_from:
            _become_another_system(self.data_dir)
        self.data_dir.chmod(0o700)
        if self._user is not None:
            os.chown(self.home, self._user.pw_uid, self._user.pw_gid)
        if self._copied_from:  # which may be anybody's
            self._give_away()

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
            psutil.wait_procs(family[1:], timeout=_IMMEDIATE_SECONDS)
        self._process.wait()
        self._process = None

    def restart(self) -> None:
        self.stop()
        self.start()

    def close(self) -> None:
        """End it, whatever its state, and remove all it wrote. What has not been copied by now, nobody wants: so there is no checkpoint."""
        try:
            if self._process is not None and self.is_running:
                self._process.send_signal(signal.SIGQUIT)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(_IMMEDIATE_SECONDS)
        finally:
            self.crash()
            _open_servers.discard(self)
            shutil.rmtree(self.home, ignore_errors=True)

    # -- its files -----------------------------------------------------------------------------------------------------------

    @property
    def wal_dir(self) -> Path:
        return self.data_dir / "pg_wal"

    def copy_to(self, destination: Path) -> Path:
        """A cold copy: the server must be stopped."""
        if self.is_running:
            raise RuntimeError("stop the server first: a copy under its feet is not consistent")
        return Path(shutil.copytree(self.data_dir, destination, symlinks=True, ignore=shutil.ignore_patterns("postmaster.pid")))

    def move_to(self, destination: Path) -> Path:
        """The data directory itself, of a stopped server that is not started again."""
        if self.is_running:
            raise RuntimeError("stop the server first: it works on these files")
        (self.data_dir / "postmaster.pid").unlink(missing_ok=True)
        return Path(shutil.move(self.data_dir, destination))

    # -- talking to it -------------------------------------------------------------------------------------------------------

    def say(self, *statements: str) -> None:
        """Run these, one after another, on a connection of their own."""
        with self.connect() as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def in_a_transaction(self, script: str) -> int:
        """Run these statements in one transaction, whose xid is returned."""
        with self.connect(autocommit=False) as connection:
            row = connection.execute("SELECT pg_current_xact_id()::text::bigint").fetchone()
            assert row is not None
            connection.execute(script.encode())
        return int(row[0])

    def checkpoint(self) -> None:
        self.sql("CHECKPOINT")

    def switch_wal(self) -> str:
        """Begin a new segment; the LSN where the old one ended."""
        return str(self.value("SELECT pg_switch_wal()"))

    def flush_lsn(self) -> str:
        return str(self.value("SELECT pg_current_wal_flush_lsn()"))

    def bin(self, name: str) -> Path:
        return self.build.bin(name)

    def _give_away(self) -> None:
        """All below `home` to the server's user."""
        if self._user is not None:
            for path in [self.home, *self.home.rglob("*")]:
                os.chown(path, self._user.pw_uid, self._user.pw_gid, follow_symlinks=False)

    def run_offline(self, name: str, *arguments: str) -> str:
        """Run one of PostgreSQL's programs on the files of the stopped server, as the server's user; what it printed."""
        if self.is_running:
            raise RuntimeError(f"stop the server first: {name} works on its files")
        return self.run(str(self.bin(name)), *arguments)


@cache
def _new_cluster(build: Build, options: tuple[str, ...]) -> Path:
    """What initdb makes, once a process: a copy of it takes a fifth of the time."""
    home = Path(tempfile.mkdtemp(prefix="tailrace-initdb-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    made = server.Server(home, programs=build.home / "bin")
    made.initdb(*options)
    return made.data_dir


def _become_another_system(data_dir: Path) -> None:
    """No two clusters have one system identifier. It stands first in pg_control, whose checksum follows its content, and in the first page of each
    segment, which has none."""
    control = data_dir / "global" / "pg_control"
    data = bytearray(control.read_bytes())
    crc_at = next(at for at in _CONTROL_CRC if struct.unpack_from("<I", data, at) == (int(crc32c(bytes(data[:at]))),))
    before = data[:8]
    after = secrets.token_bytes(4) + before[4:]  # of the same second: answers tell an identifier by its length
    data[:8] = after
    struct.pack_into("<I", data, crc_at, int(crc32c(bytes(data[:crc_at]))))
    control.write_bytes(data)
    for path in (data_dir / "pg_wal").glob(NAME):
        with path.open("r+b") as segment:
            segment.seek(_SYSTEM_IDENTIFIER)
            if segment.read(8) == before:
                segment.seek(_SYSTEM_IDENTIFIER)
                segment.write(after)


_open_servers: weakref.WeakSet[Server] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for each in list(_open_servers):
        with contextlib.suppress(Exception):
            each.close()
