"""A catalog state of a server that is reached by a connection alone: `tailrace catalog capture "host=…"`.

Its log is received while its catalogs' files are read, into a directory that is there already or for the while; then the state is captured as from
any data directory.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from tailrace.catalog.data_directory.control_file import ControlFile
from tailrace.catalog.state.catalog_state import CatalogState
from tailrace.errors import InsufficientLogging
from tailrace.pipeline.capture import capture
from tailrace.pipeline.runner import Runner
from tailrace.sources.received_log import ReceivedLog, held
from tailrace.sources.source import Source
from tailrace.wal.xlog import LOGICAL, WAL_LEVELS


def capture_live(
    dsn: str, database: str, wal: Path | None, runner: Runner, tell: Callable[[str], None]
) -> tuple[CatalogState, ControlFile]:
    """The state, and what the server's pg_control said before. `wal` is the directory into which the server's log is received, by this process if by
    no other; without it the log is received aside. Raises as `server_directory` does."""
    from tailrace.sources.server_directory import server_directory  # noqa: PLC0415 - only those who connect need it

    with tempfile.TemporaryDirectory(prefix="tailrace-capture-") as home:
        archive = Path(home) / "wal" if wal is None else wal
        with server_directory(dsn, database, Path(home) / "data", archive, tell) as taken:
            return capture(Source.open(taken.path), runner, database, taken.upto), taken.control


def captured_by_server(path: Path, database: str, runner: Runner, *, to_decode: bool = False) -> CatalogState | None:
    """The state as of now, where the log at `path` is received from a server; None where it is a log of files, which must tell by themselves.
    Raises InsufficientLogging where what is written from now on is `to_decode`, and cannot be."""
    log = ReceivedLog.of(path)
    if log is None:
        return None
    with held(path):
        log.reach_back()
        state, control = capture_live(log.dsn, database, log.directory, runner, lambda _: None)
    if to_decode and control.wal_level < LOGICAL:
        raise InsufficientLogging(
            "logical decoding requires wal_level >= logical",
            hint=f'wal_level is "{WAL_LEVELS[control.wal_level]}" on the server. Set it to logical there (ALTER SYSTEM SET wal_level = logical), '
            "and restart it.",
            context=f"LSN {state.lsn}", lsn=state.lsn,
        )  # fmt: skip
    return state
