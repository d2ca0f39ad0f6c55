"""Cases made on the spot: what :mod:`support.cases` unpacks, but from a server that runs now, through work that is given.

In: a major, and a function that works on a server. Out: a :class:`Case` below a directory: the stopped server's data directory,
whole, and another as it was before the work. WAL is there from the last checkpoint before the work.

`with_slot` expects exactly what the server's own slot gave, and suits any work. `without_slot` does the work twice, on clones of
one cluster: the WAL is that of the clone without a slot, and the expectation, normalised, that of the other; the work must
therefore be deterministic (:mod:`support.schedule`). Empty transactions are left out there: VACUUM finds other pages to give back
in a cluster whose slot holds dead catalog rows, and each time is a transaction.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from support.cases import Case
from support.normalise import normalise, print_rows
from support.segments import forget_other_segments
from support.servers import Server

DBNAME = "app"
SLOT = "s"
CHANGES = "SELECT lsn, xid, data FROM pg_logical_slot_get_changes(%s, NULL, NULL, 'skip-empty-xacts', %s)"

Work = Callable[[Server], object]
Settings = Mapping[str, str | int]


def with_slot(
    major: int,
    work: Work,
    directory: Path,
    settings: Settings | None = None,
    *,
    wal_segment_mb: int = 16,
    before: Path | None = None,
) -> Case:
    """A case that is known to the LSN. It begins with the stopped cluster `before`, else with a new one."""
    before = before or cluster(major, directory, settings, wal_segment_mb=wal_segment_mb)
    meta, expected = _live_through(major, work, before, directory / "data", settings, with_slot=True)
    return Case("live", major, "with_slot", directory / "data", before, expected, meta)


def without_slot(
    major: int,
    work: Work,
    directory: Path,
    settings: Settings | None = None,
    *,
    wal_segment_mb: int = 16,
    before: Path | None = None,
) -> Case:
    """A case whose server had no slot, so that it forgot what no snapshot needed any more."""
    before = before or cluster(major, directory, settings, wal_segment_mb=wal_segment_mb)
    meta, _ = _live_through(major, work, before, directory / "data", settings, with_slot=False)
    _, expected = _live_through(major, work, before, None, settings, with_slot=True, skip_empty=True)
    meta |= {"options": {"skip-empty-xacts": "on"}}
    return Case("live", major, "no_slot", directory / "data", before, normalise(expected), meta)


def cluster(
    major: int, directory: Path, settings: Settings | None = None, prepare: Work | None = None, *, wal_segment_mb: int = 16
) -> Path:
    """A stopped cluster to clone: one database, and in it what `prepare` makes."""
    before = directory / "before"
    shutil.rmtree(before, ignore_errors=True)
    with Server(major, settings, wal_segment_mb=wal_segment_mb) as server:
        server.sql(f"CREATE DATABASE {DBNAME}")
        if prepare:
            prepare(server)
        server.checkpoint()
        server.switch_wal()
        server.stop()
        forget_other_segments(server.data_dir)
        server.copy_to(before)
    return before


def _live_through(
    major: int,
    work: Work,
    before: Path,
    data: Path | None,
    settings: Settings | None,
    *,
    with_slot: bool,
    skip_empty: bool = False,
) -> tuple[dict[str, Any], str]:
    """A clone of `before` lives through the work, and is left in `data`: what is known of it, and what its slot gave."""
    expected = ""
    with Server(major, settings, data=before) as server:
        if with_slot:
            created = "SELECT lsn FROM pg_create_logical_replication_slot(%s, 'test_decoding')"
            start_lsn = str(server.value(created, [SLOT], dbname=DBNAME))
        else:
            start_lsn = server.flush_lsn()
        work(server)
        meta = describe(server, DBNAME) | {"start_lsn": start_lsn, "end_lsn": server.flush_lsn()}
        server.checkpoint()  # a message outside of transactions waits for somebody else to flush it
        if with_slot:
            expected = print_rows(server.sql(CHANGES, [SLOT, "on" if skip_empty else "off"], dbname=DBNAME))
        server.stop()
        if data:
            shutil.rmtree(data, ignore_errors=True)
            server.copy_to(data)
    return meta, expected


def describe(server: Server, dbname: str) -> dict[str, Any]:
    """What a case's `meta` says of its server."""
    ((identifier, oid),) = server.sql(
        "SELECT system_identifier, (SELECT oid FROM pg_database WHERE datname = %s) FROM pg_control_system()", [dbname]
    )
    return {
        "major": server.major,
        "version": server.value("SHOW server_version"),
        "system_identifier": str(identifier),
        "dbname": dbname,
        "dboid": int(oid),
        "wal_segment_size": int(server.value("SELECT setting FROM pg_settings WHERE name = 'wal_segment_size'")),
    }
