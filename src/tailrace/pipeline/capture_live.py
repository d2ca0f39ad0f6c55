"""A catalog state of a server that is reached by a connection alone: `tailrace catalog capture "host=…"`.

Its log is received while its catalogs' files are read, into a directory that is there already or for the while; then the state is captured as from
any data directory.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tailrace.catalog.state.catalog_state import CatalogState
from tailrace.client.catalog_files import ServerFiles, copy_catalog_files
from tailrace.client.receiver import Receiver, received_upto
from tailrace.errors import MissingHistory, PeerError
from tailrace.model import Lsn
from tailrace.pipeline.capture import capture
from tailrace.pipeline.runner import Runner
from tailrace.storage.segment_files import arrange, list_segments
from tailrace.storage.source import Source

_PATIENCE = 60.0
"""Seconds in which what is received must come nearer."""


def capture_live(dsn: str, database: str, wal: Path | None, runner: Runner, tell: Callable[[str], None]) -> CatalogState:
    """`wal` is the directory into which the server's log is received, by this process if by no other; without it the log is received aside.

    Raises:
        PeerError: what the server said, with what is missing of rights.
        MissingHistory: `wal` does not reach back to the server's last checkpoint.
    """
    with tempfile.TemporaryDirectory(prefix="tailrace-capture-") as home, ServerFiles.connected(dsn, database) as files:
        archive = Path(home) / "wal" if wal is None else wal
        redo = files.control().redo
        with _received(dsn, archive, redo, tell) as keep_up:
            _check_reaches_back(archive, redo)
            upto = copy_catalog_files(files, database, Path(home) / "data", archive)
            keep_up(upto)
            return capture(Source.open(Path(home) / "data"), runner, database, upto)


def _check_reaches_back(archive: Path, redo: Lsn) -> None:
    """Raise unless the archive has the log from the last checkpoint on."""
    first = arrange(archive).first_lsn if list_segments(archive) else redo
    if first > redo:
        raise MissingHistory(
            f'"{archive}" begins at {first}, which is behind the redo pointer of the server\'s last checkpoint, {redo}',
            hint="Capture the state once the server has made another checkpoint (CHECKPOINT makes one at once).", lsn=redo,
        )  # fmt: skip


@contextmanager
def _received(dsn: str, archive: Path, begin: Lsn, tell: Callable[[str], None]) -> Iterator[Callable[[Lsn], None]]:
    """Have the log come into `archive`, for the length of a `with`; gives what waits until it is there up to an LSN."""
    if received_upto(archive) is not None:  # somebody else does it
        yield lambda lsn: _wait(lambda: received_upto(archive), lsn, lambda: None)
        return
    receiver = Receiver(dsn, archive, begin=begin, retries=False, tell=tell)
    failed: list[BaseException] = []

    def work() -> None:
        try:
            receiver.run()
        except BaseException as error:
            failed.append(error)

    def check() -> None:
        if failed:
            raise failed[0]

    thread = threading.Thread(target=work, name="receiver")
    thread.start()
    try:
        _wait(lambda: receiver.archive.flushed if receiver.archive is not None else None, begin, check)
        yield lambda lsn: _wait(lambda: receiver.archive.flushed if receiver.archive is not None else None, lsn, check)
    finally:
        receiver.stop()
        thread.join()


def _wait(flushed: Callable[[], Lsn | None], lsn: Lsn, check: Callable[[], None]) -> None:
    """Until so much is there. Raises PeerError where nothing more comes."""
    last, since = None, time.monotonic()
    while (now := flushed()) is None or now < lsn:
        check()
        if now != last:
            last, since = now, time.monotonic()
        if time.monotonic() - since > _PATIENCE:
            raise PeerError(f"the server's log did not come up to {lsn}", sqlstate="08006", lsn=lsn)
        time.sleep(0.01)
