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
from tailrace.client.catalog_files import ServerFiles, copy_catalog_files
from tailrace.client.receiver import Receiver
from tailrace.client.reception import receiving
from tailrace.errors import MissingHistory
from tailrace.model import Lsn
from tailrace.pipeline.capture import capture
from tailrace.pipeline.runner import Runner
from tailrace.storage.segment_files import arrange, list_segments
from tailrace.storage.source import Source


def capture_live(
    dsn: str, database: str, wal: Path | None, runner: Runner, tell: Callable[[str], None]
) -> tuple[CatalogState, ControlFile]:
    """The state, and what the server's pg_control said before. `wal` is the directory into which the server's log is received, by this process if by
    no other; without it the log is received aside.

    Raises:
        PeerError: what the server said, with what is missing of rights.
        MissingHistory: `wal` does not reach back to the server's last checkpoint.
    """
    with tempfile.TemporaryDirectory(prefix="tailrace-capture-") as home, ServerFiles.connected(dsn, database) as files:
        archive = Path(home) / "wal" if wal is None else wal
        control = files.control()
        redo = control.redo
        with receiving(Receiver(dsn, archive, begin=redo, retries=False, tell=tell)) as reception:
            reception.wait(redo)
            _check_reaches_back(archive, redo)
            upto = copy_catalog_files(files, database, Path(home) / "data", archive)
            reception.wait(upto)
            return capture(Source.open(Path(home) / "data"), runner, database, upto), control


def _check_reaches_back(archive: Path, redo: Lsn) -> None:
    """Raise unless the archive has the log from the last checkpoint on."""
    first = arrange(archive).first_lsn if list_segments(archive) else redo
    if first > redo:
        raise MissingHistory(
            f'"{archive}" begins at {first}, which is behind the redo pointer of the server\'s last checkpoint, {redo}',
            hint="Capture the state once the server has made another checkpoint (CHECKPOINT makes one at once).", lsn=redo,
        )  # fmt: skip
