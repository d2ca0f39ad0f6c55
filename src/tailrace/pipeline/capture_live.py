"""A catalog state of a server that is reached by a connection alone: `tailrace catalog capture "host=…"`.

Its log is received while its catalogs' files are read, into a directory that is there already or for the while; then the state is captured as from
any data directory.
"""

from __future__ import annotations

import shutil
import tempfile
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from tailrace.catalog.data_directory.control_file import ControlFile
from tailrace.catalog.state.catalog_state import CatalogState
from tailrace.errors import InsufficientLogging, PeerError
from tailrace.pipeline.capture import capture
from tailrace.pipeline.runner import Runner
from tailrace.sources.received_log import ReceivedLog, held
from tailrace.sources.source import Source
from tailrace.sources.source_name import SourceName
from tailrace.wal.xlog import LOGICAL, WAL_LEVELS

_MOST_BACKUPS = 8


def capture_live(
    dsn: str,
    database: str,
    wal: Path | None,
    runner: Runner,
    tell: Callable[[str], None],
    *,
    warn: Callable[[str], None] | None = None,
    max_rate: int | None = None,
) -> tuple[CatalogState, ControlFile]:
    """The state, and what the server's pg_control said. `wal` is the directory into which the server's log is received, by this process if by
    no other; without it the log is received aside. That it takes a base backup, and why, hears `warn`, else `tell`; it comes with `max_rate` kB/s at
    most. Raises as `server_directory` does."""
    from tailrace.client.catalog_files import NotLetIn  # noqa: PLC0415 - only those who connect need it
    from tailrace.sources.server_directory import backup_directory, named_files, obstacle_to_reading, server_directory  # noqa: PLC0415

    obstacle = obstacle_to_reading(dsn, database)
    with tempfile.TemporaryDirectory(prefix="tailrace-capture-") as folder:
        home = Path(folder)
        archive = home / "wal" if wal is None else wal
        if obstacle is None:
            with server_directory(dsn, database, home / "data", archive, tell) as taken:
                return capture(Source.open(taken.path), runner, database, taken.upto), taken.control
        (warn or tell)(f"catalogs are taken from a base backup: {obstacle}")
        backup = partial(backup_directory, dsn, wal=archive, tell=tell, max_rate=max_rate)
        if isinstance(obstacle, NotLetIn):
            return _of_backups(backup, database, home, runner, tell)
        with backup(path=home / "data", wanted=partial(named_files, dsn, database)) as taken:
            return capture(Source.open(taken.path), runner, database, taken.upto, taken.since), taken.control


def _of_backups(
    backup: Callable[..., Any], database: str, home: Path, runner: Runner, tell: Callable[[str], None]
) -> tuple[CatalogState, ControlFile]:  # fmt: skip
    """Where nobody says in which files the catalogs are. One backup is enough if nothing has rewritten them; else each tells which files of the next
    one are wanted: the relation map names pg_class, and that the others."""
    from tailrace.client.base_backup import BackupDirectory, DroppedFiles, FilesNotKept, WantedFiles  # noqa: PLC0415 - as above

    wanted = WantedFiles()
    first: DroppedFiles | None = None
    with ExitStack() as receptions:  # there is no gap in the log from the first backup on
        for number in range(_MOST_BACKUPS):
            path = home / f"backup{number}"
            taken = receptions.enter_context(backup(path=path, wanted=lambda wanted=wanted: wanted))
            first = first or taken.dropped
            source = Source.open(taken.path)
            # Of a file that was not there in the first backup the log has all, if it counts from there on.
            source.directory = BackupDirectory(
                taken.path, taken.dropped if taken.since is not None else taken.dropped.among(first)
            )
            try:
                return capture(source, runner, database, taken.upto, taken.since), taken.control
            except FilesNotKept as lacking:
                wanted = replace(wanted, named=wanted.named | lacking.files)
                tell(
                    f"{len(lacking.files)} catalogs have been rewritten (VACUUM FULL): another base backup is taken for their files"
                )
            shutil.rmtree(path)
    raise PeerError("catalogs are rewritten again and again", hint="Let nobody VACUUM FULL them meanwhile.")


def captured_by_server(
    source: SourceName, database: str, runner: Runner, warn: Callable[[str], None] = warnings.warn, *, to_decode: bool = False
) -> CatalogState | None:  # fmt: skip
    """The state as of now, where the log of this name is received from a server; None where it is a log of files, which must tell by themselves.
    Raises InsufficientLogging where what is written from now on is `to_decode`, and cannot be."""
    log = ReceivedLog.of(source)
    if log is None:
        return None
    with held(source):
        log.reach_back(database)
        state, control = capture_live(log.dsn, database, log.directory, runner, lambda _: None, warn=warn)
    if to_decode and control.wal_level < LOGICAL:
        raise InsufficientLogging(
            "logical decoding requires wal_level >= logical",
            hint=f'wal_level is "{WAL_LEVELS[control.wal_level]}" on the server. Set it to logical there (ALTER SYSTEM SET wal_level = logical), '
            "and restart it.",
            context=f"LSN {state.lsn}", lsn=state.lsn,
        )  # fmt: skip
    return state
