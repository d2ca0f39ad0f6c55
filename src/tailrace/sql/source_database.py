"""The database that statements are carried out in: one of a source's, with the state location that has its slots and is made with the first of them.

Whatever is asked for is as it is then: a running server's log grows, and others use the state location, too. Of the log only what is new is read
(`sql.kept_catalogs`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.model import NAMEDATALEN, Lsn
from tailrace.pipeline.followed_end import FollowedEnd
from tailrace.pipeline.following import Steps
from tailrace.pipeline.runner import Runner
from tailrace.replication.acquired_slot import AcquiredSlot
from tailrace.replication.origin_file import OriginFile
from tailrace.replication.server_activity import ServerActivity, read_activity
from tailrace.replication.session_slots import SessionSlots
from tailrace.replication.slot_location import SlotLocation
from tailrace.replication.waiting import Waiter, finish
from tailrace.slots.slot import Slot, check_name
from tailrace.sources.named import directory_of, files_of
from tailrace.sources.received_log import ReceivedLog
from tailrace.sources.source_name import SourceName
from tailrace.sql.interrupt import Interrupt
from tailrace.sql.privileges import UNRESTRICTED, Privileges
from tailrace.storage.segment_files import open_segments
from tailrace.storage.segments import Segments
from tailrace.types.style import TextStyle

if TYPE_CHECKING:
    from tailrace.client.server_end import ServerEnd
    from tailrace.sql.kept_catalogs import KeptCatalogs
    from tailrace.sql.views.catalog_tables import CatalogTables

_PG_DATABASE = 1262
Result = TypeVar("Result")
RunnerFor = Callable[[int], Runner]
"""What works on so many bytes of WAL."""


@dataclass
class SourceDatabase:
    """`name` is the database's, `source` names the log, `state` the state location. `temporary` are the slots that end with the session, which others
    know by its number, `pid`. `activity_here` tells who is connected, where this is the server. `kept` are the catalogs, of this
    session alone if nobody gives others; `end`, where the log ends, as a server keeps it; `source_end`, where it ends at the source, if this is a
    server that receives it. `settings_here` has the rows of pg_settings, where this is the server."""

    source: SourceName
    name: str
    state: Path
    runner_for: RunnerFor
    warn: Callable[[str], None]
    temporary: SessionSlots = field(default_factory=SessionSlots)
    pid: int = field(default_factory=os.getpid)
    activity_here: Callable[[], ServerActivity] | None = None
    privileges: Privileges = UNRESTRICTED
    notice: Callable[[str], None] = lambda text: None
    kept: KeptCatalogs | None = None
    end: FollowedEnd | None = None
    source_end: ServerEnd | None = None
    interrupt: Interrupt = field(default_factory=Interrupt)
    settings_here: Callable[[], list[dict[str, object]]] | None = None
    _told_untracked: set[str] = field(default_factory=set)
    _told_away: bool = False

    @cached_property
    def _facts(self) -> tuple[int, int]:
        segments = self.segments()
        return segments.major, segments.system

    @property
    def major(self) -> int:
        return self._facts[0]

    @property
    def system(self) -> int:
        return self._facts[1]

    def segments(self) -> Segments:
        return open_segments(files_of(self.source))

    def check_exists(self) -> None:
        """Raise UsageError (3D000) if the source is a data directory, which knows its databases, and there is none of this name. Of WAL alone nobody
        can tell. A name that stands in pg_database's file is taken to be there; one that does not may be in the log yet."""
        directory = directory_of(self.source)
        if directory is None:
            if ReceivedLog.of(self.source) is not None:  # its server can
                try:
                    self._catalogs_at_hand(None, TextStyle())
                except UsageError:  # it may be a new one
                    self.catalogs(None, TextStyle())
            return
        file = directory.files_of(0) / str(directory.relation_map(0).get(_PG_DATABASE, _PG_DATABASE))
        padded = self.name.encode("utf-8", "surrogateescape").ljust(NAMEDATALEN, b"\0")
        if not file.is_file() or padded not in file.read_bytes():
            self.catalogs(None, TextStyle())

    @property
    def found(self) -> SlotLocation | None:
        """The location, for who only reads: None where there is nothing yet."""
        return self.location if self.activity_here is not None or self.state.exists() else None

    @property
    def location(self) -> SlotLocation:
        """The state location, which is created if there is none."""
        if self.activity_here is None:
            found = SlotLocation.open_or_create(self.state, self.system, warn=self.warn)
        else:  # a server's was made when it started: one that has gone since does not begin anew
            found = SlotLocation.open(self.state, warn=self.warn)
            found.check_system(self.system)
        return replace(found, pid=self.pid)

    def slot(self, name: str, location: SlotLocation | None = None) -> Slot:
        """In the location, which whoever has it open gives. Raises UsageError (42704) if there is none, whatever its name; 42501 if it may not be
        used."""
        self.privileges.check_replication(self.major)
        self.privileges.check_slot(name)
        try:
            check_name(name)
        except UsageError:
            raise UsageError(f'replication slot "{name}" does not exist', sqlstate="42704") from None
        if (location := location or self.found) is None:
            raise UsageError(f'replication slot "{name}" does not exist', sqlstate="42704")
        slot = location.slot(name)
        self.privileges.check_database(slot.database)
        return slot

    def slots(self) -> list[Slot]:
        """Those that there are for who asks."""
        found = self.found
        return [each for each in found.slots() if self.privileges.sees_slot(each.name, each.database)] if found else []

    def acquired(self, slot: Slot) -> AcquiredSlot:
        """The slot, which may be one that this session has made for itself; to be released at the end of a `with` block."""
        if (log := ReceivedLog.of(slot.source)) is not None:
            log.catch_up(self.warn)
        runner = self.runner_for(slot.backlog(self.segments().stop_lsn))
        return self.finish(self.temporary.acquire(slot, self.location, runner))

    def finish(self, steps: Steps[Result]) -> Result:
        """Take all steps, and wait between them, unless somebody ends the statement."""
        waiter = Waiter()
        with self.interrupt.telling(waiter.wake):
            return finish(steps, waiter, self.interrupt.check)

    @property
    def activity(self) -> ServerActivity:
        """Who is connected to the server of the state location."""
        if self.activity_here is not None:
            activity = self.activity_here()
            return replace(activity, clients=tuple(map(self.privileges.seen, activity.clients)))
        return read_activity(self.state) or ServerActivity()

    @property
    def origins(self) -> OriginFile:
        return OriginFile(self.location.path, self.system)

    def end_of_log(self) -> Lsn:
        """Behind the last whole record at hand."""
        return (self.end or FollowedEnd(self.source)).find(self.runner_for)

    def catalogs(self, at: Lsn | None, style: TextStyle) -> CatalogTables:
        """The database's catalogs at an LSN, or where the log ends: that of a server that receives it is waited for, up to where the source has it by
        now. Told is if the source does not answer."""
        if (log := ReceivedLog.of(self.source)) is not None:
            self._catch_up(log)
        return self._catalogs_at_hand(at, style)

    def _catch_up(self, log: ReceivedLog) -> None:
        if self.source_end is None:
            log.catch_up(self.warn, self.interrupt.check)
        elif (upto := self.source_end.find()) is not None:
            self._told_away = False
            log.receive_upto(upto, self.warn, self.interrupt.check)
        elif not self._told_away:
            self._told_away = True
            self.notice("the source does not answer: what it has done since it was heard last is not known here")

    def _catalogs_at_hand(self, at: Lsn | None, style: TextStyle) -> CatalogTables:
        if self.kept is None:
            from tailrace.sql.kept_catalogs import KeptCatalogs  # noqa: PLC0415 - what reads SQL takes a while to load

            self.kept = KeptCatalogs(self.source, self.runner_for)
        return self.kept.tables(self.name, at, style)

    def rows_at_source(self, query: str) -> list[tuple[Any, ...]] | None:
        """What the server that the log is received from answers, in this database; None where there is none, or it does not answer."""
        if (log := ReceivedLog.of(self.source)) is None:
            return None
        from tailrace.client.source_session import SourceSession  # noqa: PLC0415 - only those who connect need it

        try:
            session = SourceSession.opened(log.dsn, self.name)
        except UsageError:  # those who ask are told that nothing is known
            return None
        try:
            return session.rows(query)
        finally:
            session.close()

    def tell_untracked(self, catalog: str) -> None:
        """Say, once in a session, that a catalog is not tracked, and taken to be empty."""
        if catalog not in self._told_untracked:
            self._told_untracked.add(catalog)
            self.notice(f"{catalog} is not tracked: no rows of it are known here")

    def end_session(self) -> None:
        """Drop its temporary slots."""
        self.temporary.end()
