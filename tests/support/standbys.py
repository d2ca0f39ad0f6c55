"""Standbys, which are copies of a server that go on with what it streams to them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from support.servers import Server
from support.waiting import until


def standby_of(primary: Server, directory: Path, more: Mapping[str, str | int] = MappingProxyType({})) -> Server:
    """The primary is stopped to be copied, and goes on. What it writes is streamed to the standby."""
    primary.stop()
    copied = primary.copy_to(directory / "standby")
    (copied / "standby.signal").touch()
    primary.start()
    settings = {"primary_conninfo": primary.dsn(), "hot_standby": "on", "wal_retrieve_retry_interval": "100ms", **more}
    return Server(primary.major, settings, dbname=primary.dbname, data=copied)


def caught_up(standby: Server, primary: Server) -> None:
    """Wait until the standby has replayed what the primary has written."""
    end = primary.flush_lsn()
    until(lambda: bool(standby.value("SELECT pg_last_wal_replay_lsn() >= %s", [end])))
