"""A server that is put back to an earlier copy of itself, and goes on to write other things."""

from __future__ import annotations

import shutil
from pathlib import Path

from support.servers import Server
from tailrace.model import Lsn


def copied(server: Server, to: Path) -> Path:
    """A cold copy of a running server's data directory; it runs again afterwards."""
    server.stop()
    copy = server.copy_to(to)
    server.start()
    return copy


def put_back(server: Server, copy: Path) -> None:
    server.stop()
    shutil.rmtree(server.data_dir)
    shutil.copytree(copy, server.data_dir, symlinks=True)
    server.data_dir.chmod(0o700)
    server._give_away()
    server.start()


def written_beyond(server: Server, lsn: Lsn) -> None:
    """Other things into t (id int, v text), until the log is longer than it was."""
    number = 0
    while Lsn.parse(server.flush_lsn()) <= lsn:
        server.say(f"INSERT INTO t SELECT g, 'other {number}' FROM generate_series(1, 200) g")
        number += 1
