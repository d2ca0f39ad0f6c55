"""Servers whose transaction ids are about to begin again."""

from __future__ import annotations

import shutil

from support.servers import Server


def near_the_end(server: Server, left: int) -> None:
    """Let so many transaction ids be left of this epoch."""
    server.sql("ALTER DATABASE template0 ALLOW_CONNECTIONS true")
    _freeze(server)
    # In two leaps: one of more than 2^31 would land in the past of what is frozen.
    for xid in (2_000_000_000, 2**32 - left):
        server.stop()
        _leap(server, xid)
        server.start()
        _freeze(server)
    server.checkpoint()


def _leap(server: Server, xid: int) -> None:
    """Let the next transaction id be `xid`. Commit status is kept for 2^20 xids a file; pg_resetwal makes none for the new ones."""
    first = sorted((server.data_dir / "pg_xact").iterdir())[0]
    owner = first.stat()
    for number in (xid >> 20, 0):
        file = first.with_name(f"{number:04X}")
        file.write_bytes(bytes(256 << 10))
        shutil.chown(file, owner.st_uid, owner.st_gid)
    server.run_offline("pg_resetwal", "-x", str(xid), "-D", str(server.data_dir))


def _freeze(server: Server) -> None:
    for database in ("postgres", "template0", "template1", server.dbname):
        server.sql("VACUUM (FREEZE, DISABLE_PAGE_SKIPPING)", dbname=database)
