"""Cases made on the spot: what :mod:`support.cases` unpacks, but from a server that runs now.

`live_case` has a clone of a cluster live through work that is given. Out: a :class:`Case` below a directory: the stopped server's data directory,
whole, and another as it was before the work. WAL is there from the last checkpoint before the work.

- With a slot, the case expects exactly what the server's own slot gave, and suits any work.
- Without, the work is done twice, on two clones: the WAL is that of the one that had no slot, so that it forgot what no snapshot needed any more, and
  the expectation, normalised, that of the other. The work must therefore be deterministic (:mod:`support.schedule`). Empty transactions are left out:
  VACUUM finds other pages to give back in a cluster whose slot holds dead catalog rows, and each time is a transaction.

A test that does more with its server than work makes a `Slot`, and of what it gave a case with `Slot.stopped`.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.cases import DBNAME, Case
from support.normalise import normalise, print_rows
from support.segments import forget_other_segments
from support.servers import Server

SLOT = "s"

Work = Callable[[Server], object]
Settings = Mapping[str, str | int]


@dataclass(frozen=True, slots=True)
class Slot:
    """A slot of test_decoding, in the database that its server connects to; `start_lsn` is where it began."""

    server: Server
    start_lsn: str
    name: str

    @classmethod
    def on(cls, server: Server, name: str = SLOT, *, two_phase: bool = False) -> Slot:
        made = "SELECT lsn FROM pg_create_logical_replication_slot(%s, 'test_decoding', false, %s)"
        return cls(server, str(server.value(made, [name, two_phase])), name)

    def peek(self, options: Mapping[str, str] | None = None) -> str:
        """What it has to say, as `psql -At` prints it."""
        return self._said("peek", None, options)

    def get(self, options: Mapping[str, str] | None = None, *, upto_lsn: str | None = None) -> str:
        """The same, and it will not say it again."""
        return self._said("get", upto_lsn, options)

    def _said(self, how: str, upto_lsn: str | None, options: Mapping[str, str] | None) -> str:
        words = [word for option in (options or {}).items() for word in option]
        query = f"SELECT lsn, xid, data FROM pg_logical_slot_{how}_changes(%s, %s, NULL{', %s' * len(words)})"
        return print_rows(self.server.sql(query, [self.name, upto_lsn, *words]))

    def stopped(self, directory: Path) -> Case:
        """A case of all that it has to say, and of the data directory of its server, which ends with that."""
        expected = self.get()
        self.server.stop()
        data = self.server.move_to(directory / "data")
        meta = {"dbname": self.server.dbname, "start_lsn": self.start_lsn}
        return Case("live", self.server.major, "with_slot", data, data, expected, meta)


def live_case(
    major: int,
    work: Work,
    directory: Path,
    settings: Settings | None = None,
    *,
    slot: bool = True,
    wal_segment_mb: int = 16,
    before: Path | None = None,
) -> Case:
    """A case of this work, on clones of the stopped cluster `before`, else of a new one."""
    before = before or cluster(major, directory, settings, wal_segment_mb=wal_segment_mb)
    data = directory / "data"
    shutil.rmtree(data, ignore_errors=True)
    with Server(major, settings, dbname=DBNAME, data=before) as server:
        made = Slot.on(server) if slot else None
        meta = describe(server) | {"start_lsn": made.start_lsn if made else server.flush_lsn()}
        work(server)
        meta["end_lsn"] = server.flush_lsn()
        server.checkpoint()  # a message outside of transactions waits for somebody else to flush it
        expected = made.get() if made else ""
        server.stop()
        server.move_to(data)
    if made:
        return Case("live", major, "with_slot", data, before, expected, meta)
    options = {"skip-empty-xacts": "on"}
    with Server(major, settings, dbname=DBNAME, data=before) as server:
        made = Slot.on(server)
        work(server)
        server.checkpoint()
        expected = made.get(options)
    return Case("live", major, "no_slot", data, before, normalise(expected), meta | {"options": options})


def cluster(
    major: int, directory: Path, settings: Settings | None = None, prepare: Work | None = None, *, wal_segment_mb: int = 16
) -> Path:
    """A stopped cluster to clone: one database, and in it what `prepare` makes."""
    before = directory / "before"
    shutil.rmtree(before, ignore_errors=True)
    with Server(major, settings, dbname=DBNAME, wal_segment_mb=wal_segment_mb) as server:
        if prepare:
            prepare(server)
        server.checkpoint()
        server.switch_wal()
        server.stop()
        forget_other_segments(server.data_dir)
        server.move_to(before)
    return before


def describe(server: Server) -> dict[str, Any]:
    """What a case's `meta` says of its server, and of the database that it connects to."""
    ((identifier, oid),) = server.sql(
        "SELECT system_identifier, (SELECT oid FROM pg_database WHERE datname = current_database()) FROM pg_control_system()"
    )
    return {
        "major": server.major,
        "version": server.value("SHOW server_version"),
        "system_identifier": str(identifier),
        "dbname": server.dbname,
        "dboid": int(oid),
        "wal_segment_size": int(server.value("SELECT setting FROM pg_settings WHERE name = 'wal_segment_size'")),
    }
