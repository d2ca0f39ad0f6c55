"""An archive that grows: pg_receivewal at work on a running server."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.servers import Server
from support.slots import THEIRS, ours
from support.waiting import until
from tailrace.catalog.state.state_file import write_state
from tailrace.cli.verbs.slot import create
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner, Source, capture
from tailrace.replication.acquired_slot import AcquiredSlot


@contextmanager
def written_by_servers() -> Iterator[Path]:
    """A folder for archives, where servers may write, whoever they run as."""
    home = Path(tempfile.mkdtemp(prefix="tailrace-archive-"))
    home.chmod(0o755)
    (home / "archive").mkdir()
    (home / "archive").chmod(0o777)
    yield home / "archive"
    shutil.rmtree(home)


@contextmanager
def receiving(server: Server, archive: Path, *options: str) -> Iterator[None]:
    """While the block lasts, what the server writes goes into `archive`: segments, and a `.partial` one at their end."""
    archive.mkdir(exist_ok=True)
    command = [server.bin("pg_receivewal"), "-D", archive, "-d", server.dsn(), "--synchronous", "--no-password", *options]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            until(lambda: any(archive.iterdir()))
            yield
        finally:
            process.terminate()


def create_on_archive(server: Server, archive: Path, state: Path) -> None:
    """Slots beside each other, ours (`mine`) on the archive: nothing is written between the two but by the server itself."""
    server.sql("SELECT pg_create_logical_replication_slot(%s, 'test_decoding')", [THEIRS])
    captured = capture(Source.open(server.data_dir), LocalRunner(1), server.dbname)
    switch_until_whole(server, archive)
    file = archive.parent / "captured"
    file.write_bytes(write_state(captured))
    create("mine", archive, state, server.dbname, catalog=file)


def switch_until_whole(server: Server, archive: Path) -> str:
    """Begin a new segment; the LSN where the old one ended, which the archive has by then."""
    end = server.switch_wal()
    number = (Lsn.parse(end) - 1) >> 20
    until(lambda: any(not each.name.endswith("partial") and place_of(each) == number for each in archive.iterdir()))
    return end


def place_of(segment: Path) -> int:
    """The number of a segment of 1 MB, by its name; -1 for other files."""
    name = segment.name
    return (int(name[8:16], 16) << 12) + int(name[16:24], 16) if re.match("[0-9A-F]{24}", name) else -1


def ours_upto(consumer: AcquiredSlot, upto: str) -> str:
    """Looks until all is there."""
    taken = ""
    deadline = time.monotonic() + 60
    while consumer.read_upto < Lsn.parse(upto):
        assert time.monotonic() < deadline, f"{consumer.read_upto} of {upto}"
        taken += ours(consumer, Lsn.parse(upto))
    return taken
