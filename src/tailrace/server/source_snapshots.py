"""Snapshots of the live server whose log is served: those that clients have exported with a slot, and sessions there in which others use them
(`ExportSnapshot`, `ImportSnapshot` in `utils/time/snapmgr.c`).

In: names, which are ours: a client never sees those of the server. Out: sessions on the server. Where the log is one of files there is no server, and
no snapshot.

State: which there are, by name, each with the session that holds it.
"""

from __future__ import annotations

import re
import threading
from itertools import count

from tailrace.client.source_session import SourceSession
from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.majors import MISSING_SNAPSHOTS_NAMED, supports
from tailrace.sources.received_log import ReceivedLog
from tailrace.sources.source_name import SourceName

_NAME = re.compile(r"[0-9A-Fa-f-]*")
"""What a name is made of: on the server it is that of a file."""


@dataclass(frozen=True, slots=True)
class ExportedSnapshot:
    """Held by a session on the server, which knows it by the name `there`."""

    holder: SourceSession
    there: str


class SourceSnapshots:
    """Of the server, whose major this is, from which the log of this name is received, if it is from one."""

    def __init__(self, source: SourceName, major: int) -> None:
        self._source, self._major = source, major
        self._lock = threading.Lock()
        self._exported: dict[str, ExportedSnapshot] = {}
        self._numbers = count(1)

    @property
    def log(self) -> ReceivedLog | None:
        """The log that is received; None where it is one of files."""
        return ReceivedLog.of(self._source)

    def session(self, database: str) -> SourceSession:
        """One on the server, in this database. Raises UsageError (0A000) where there is none, and as `SourceSession.opened` does."""
        if (log := self.log) is None:
            raise no_server()
        return SourceSession.opened(log.dsn, database)

    def export(self, holder: SourceSession, pid: int) -> str:
        """The name of the snapshot of the session's transaction, until it is withdrawn."""
        exported = ExportedSnapshot(holder, holder.exported())
        with self._lock:
            name = f"{pid & 0xFFFFFFFF:08X}-{next(self._numbers):08X}-1"
            self._exported[name] = exported
        return name

    def withdraw(self, name: str) -> None:
        """Nobody can use it from now on; who does goes on to."""
        with self._lock:
            exported = self._exported.pop(name, None)
        if exported is not None:
            exported.holder.let_go()

    def imported(self, name: str, database: str) -> SourceSession:
        """A session with the snapshot of this name. Raises UsageError in the server's words (22023, 42704, 0A000)."""
        with self._lock:
            exported = self._exported.get(name)
        if not _NAME.fullmatch(name) or (exported is None and not supports(self._major, MISSING_SNAPSHOTS_NAMED)):
            raise UsageError(f'invalid snapshot identifier: "{name}"', sqlstate="22023")
        if exported is None:
            raise UsageError(f'snapshot "{name}" does not exist', sqlstate="42704")
        if exported.holder.database != database:
            raise UsageError("cannot import a snapshot from a different database", sqlstate="0A000")
        session = self.session(database)
        try:
            session.begin(exported.there)
        except BaseException:
            session.let_go()
            raise
        return session


def no_server() -> UsageError:
    """The log is one of files."""
    return UsageError(
        "COPY is not supported by this server", sqlstate="0A000",
        hint="The log is read from files, and rows of tables are not in it. tailrace serve 'host=… dbname=…' serves a server's log, and has it copy "
        "them.",
    )  # fmt: skip
