"""Receive a server's log by physical replication into a directory, as a standby does, and go on when the connection fails.

In: a connection string, and a `WalArchive`'s directory. Out: segments, history files, and what the server is told of them. It never waits for
whoever reads the directory: a walsender that cannot send holds up its server's checkpointer where a slot is to be given up, so trouble of our own
closes the connection.

The server is told what is written, what is durable, and what counts as applied: what the consumers have confirmed that it is to wait for at
`synchronous_commit = remote_apply`, as far as it is durable here; where there are none, what is durable. Hot standby feedback is never sent.

A receiver ends by itself only where going on would be wrong: another cluster, another history, or WAL that the server has removed. Everything else is
tried again, with longer and longer pauses.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tailrace.client.kept_wal import KeptWal
from tailrace.client.replication_connection import ReplicationConnection, SystemIdentity, TimelineEnd
from tailrace.client.restore_command import RestoreCommand
from tailrace.client.stream_errors import GONE, REMOVED, explained, is_final
from tailrace.client.wal_archive import ResumePoint, WalArchive
from tailrace.dataclass import dataclass
from tailrace.errors import FailedWrite, PeerError, TailraceError, UsageError
from tailrace.model import Lsn, timestamptz_of
from tailrace.storage.file_lock import FileLock
from tailrace.storage.segment_files import history_name, identity_of, list_segments, parse_history
from tailrace.storage.wakeup import ReceiverSocket, force_reply
from tailrace.storage.whole_file import make_folder
from tailrace.wire.stream import PrimaryKeepalive, StandbyStatusUpdate, read_from_walsender, wal_in, write_to_walsender

if TYPE_CHECKING:
    from tailrace.client.restored_wal import RestoredWal

LOCK = ".receiver"
_REPORT_EVERY = 10.0
"""Seconds after which the server is told how far we are, where nothing has told it sooner: a segment that is full, what is flushed at the end, a
keepalive that asks."""
_STALLED = 60.0
"""Seconds without a word after which the server is asked for one; as long again, and the connection counts as lost."""
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0
_LOOK_EVERY, _LOOK_AGAIN = 1.0, 0.05
"""Seconds after which who waits for the server looks whether to stop; and, while consumers have not confirmed all, whether they have: one in another
container cannot wake us."""
_TRIES, _MOMENT = 10, 0.002
_NOT_CONNECTED = "08001"


Confirmed = Callable[[], Lsn | None]
"""Says up to where all consumers have confirmed that count; None where none counts. It never waits."""


def _nobody(_: str) -> None:
    pass


def _no_consumers() -> None:
    return None


@dataclass(slots=True)
class Receiver:
    """`begin`: from where an empty directory is filled, else from where the server's log is flushed to. `slot` is the physical slot to use, if any.
    `restore` brings what the server has removed. `upto`: where to end, else when `stop` is called. `tell` hears what happens, a line each, and `warn`
    what may go wrong. `confirmed` says what counts as applied; whoever changes that calls `force_reply` of the directory."""

    dsn: str
    directory: Path
    begin: Lsn | None = None
    slot: str = ""
    upto: Lsn | None = None
    retries: bool = True
    tell: Callable[[str], None] = _nobody
    warn: Callable[[str], None] | None = None
    restore: RestoreCommand | None = None
    confirmed: Confirmed = _no_consumers
    archive: WalArchive | None = None
    _lock: FileLock | None = None
    _socket: ReceiverSocket | None = None
    _system: int | None = None
    _is_stopping: bool = False
    _reported: float = 0.0
    _applied: Lsn = Lsn(0)
    _heard: float = field(default_factory=time.monotonic)
    _server_end: int = 0
    _asked: bool = False
    _is_behind_whole: bool = False  # to go on behind the last whole segment, which the server has removed
    _identity: SystemIdentity | None = None
    _where: ResumePoint | None = None
    _kept: KeptWal | None = None
    _has_warned: bool = False
    _behind: float = math.inf
    _failing_since: float = 0.0

    def stop(self) -> None:
        """From another thread or a signal's handler: the stream ends, with all that was written on disk."""
        self._is_stopping = True
        force_reply(self.directory)

    @property
    def is_stopping(self) -> bool:
        return self._is_stopping

    @property
    def is_at_work(self) -> bool:
        """Whether it is this one that receives into the directory."""
        return self._lock is not None and self._lock.is_held

    def run(self) -> Lsn:
        """Until it is to stop, or has all up to `upto`; where the log at hand then ends. Raises UsageError (55006) where another receiver is at work
        in the directory."""
        make_folder(self.directory)
        lock = FileLock.take(self.directory / LOCK)
        if lock is None:
            raise UsageError(f'"{self.directory}" is being received into by another process', sqlstate="55006")
        self._lock = lock
        try:
            with ReceiverSocket(self.directory) as self._socket:
                return self._received()
        finally:
            lock.write("")
            lock.release()

    def _received(self) -> Lsn:
        pause = _FIRST_PAUSE
        while True:
            before = self.archive.written if self.archive else Lsn(0)
            try:
                self._connected()
            except (PeerError, FailedWrite) as error:
                if self._is_stopping:
                    break
                if REMOVED in error.message and self._has_restored():
                    self._is_behind_whole = False
                    continue
                if REMOVED in error.message and not self._is_behind_whole:
                    self._is_behind_whole = True
                    self.tell("the server does not have the last segment any more that was received, to be compared with")
                    continue
                if not self.retries or is_final(error) or (self.archive is None and self._is_refusal(error)):
                    raise explained(error) from error
                if self.archive is not None and self.archive.written > before:
                    pause = _FIRST_PAUSE
                hint = f"\nHINT:  {error.hint}" if error.hint and not self._failing_since else ""
                self._failing_since = self._failing_since or time.time()
                since = time.strftime("%H:%M:%S", time.localtime(self._failing_since))
                told = f"{error.message.splitlines()[0]}; trying again in {pause:.0f} s (no connection since {since})"
                (self.warn or self.tell)(told + hint)
            else:
                if self._has_enough or self._is_stopping:
                    break
                if not self.retries:
                    raise PeerError("replication stream was terminated before stop point", sqlstate="08006")
                pause, self._failing_since = _FIRST_PAUSE, self._failing_since or time.time()
                (self.warn or self.tell)("the server ended the stream; connecting again")
            self._pause(pause)
            if self._is_stopping:
                break
            pause = min(2 * pause, _LONGEST_PAUSE)
        return self.archive.flushed if self.archive is not None else Lsn(0)

    def _pause(self, seconds: float) -> None:
        """Until it may try again: sooner, if somebody has reached the server meanwhile."""
        assert self._socket is not None
        until = time.monotonic() + seconds
        while not self._is_stopping and time.monotonic() < until and not self._socket.wait_to_connect(0.1):
            pass

    @property
    def _has_enough(self) -> bool:
        return self.upto is not None and self.archive is not None and self.archive.flushed >= self.upto

    def _is_refusal(self, error: TailraceError) -> bool:
        """Whether we do not get in, and will not the next time: who has been let in before may wait until that is put right, and so may who has
        received something before until a host has its name again."""
        if error.sqlstate != _NOT_CONNECTED:
            return False
        from tailrace.client.refusals import is_away, is_nowhere  # noqa: PLC0415 - seldom called

        return not is_away(error.message) or (is_nowhere(error.message) and not list_segments(self.directory))

    # -- one connection --------------------------------------------------------------------------------------------------------

    def _connected(self) -> None:
        with ReplicationConnection(self.dsn, lambda: self._is_stopping) as connection:
            identity = self._identity = connection.identify()
            self._kept = KeptWal.of(connection)
            archive = self.archive = self._archive(connection, identity)
            where = archive.resume_point(is_behind_whole=self._is_behind_whole)
            if where is None:
                where = self._beginning(connection, archive, identity)
            self._check_reaches(where, identity)
            self._where, self._server_end = where, identity.flushed
            if self.restore is not None and identity.timeline > where.timeline:
                self._add_history(connection, archive, identity.timeline)
            try:
                self._follow(connection, archive, where)
            finally:
                with suppress(FailedWrite):
                    archive.sync()
                archive.close()

    def _beginning(self, connection: ReplicationConnection, archive: WalArchive, identity: SystemIdentity) -> ResumePoint:
        """Where an empty directory is filled from, on the timeline that the log is of there: a server that was promoted a moment ago may have its
        last checkpoint on the one before."""
        begin, size = identity.flushed if self.begin is None else self.begin, archive.segment_size
        first = Lsn(begin // size * size)
        if identity.timeline == 1 or self.begin is None:
            return ResumePoint(identity.timeline, first)
        name = history_name(identity.timeline)
        history = parse_history(connection.timeline_history(identity.timeline).decode("utf-8", "replace"), name)
        return ResumePoint(next((each for each, left_at in history if first < left_at // size * size), identity.timeline), first)

    def _archive(self, connection: ReplicationConnection, identity: SystemIdentity) -> WalArchive:
        """Raises UsageError where the directory has another cluster's log."""
        if self._system is None:
            listed = list_segments(self.directory)
            found = next((each for segment in listed if (each := identity_of(segment)) is not None), None)
            self._system = found.system if found is not None else identity.system
        if identity.system != self._system:
            raise UsageError(
                f'"{self.directory}" has the log of system {self._system}, and the server is system {identity.system}',
                hint="Receive into a directory of its own.", sqlstate="55000",
            )  # fmt: skip
        return WalArchive(self.directory, connection.segment_size())

    def _check_reaches(self, where: ResumePoint, identity: SystemIdentity) -> None:
        if identity.timeline == where.timeline and identity.flushed < where.lsn:
            raise UsageError(
                f"the server's log ends at {identity.flushed}, and was received up to {where.lsn} before",
                hint="The server was put back to an earlier copy of itself. Receive into another directory, and begin there with a new catalog "
                "state.",
                sqlstate="55000", lsn=where.lsn,
            )  # fmt: skip

    def _follow(self, connection: ReplicationConnection, archive: WalArchive, where: ResumePoint) -> None:
        """Stream from there, from timeline to timeline, until the server ends, or all is there that is wanted."""
        while True:
            if where.timeline > 1:
                self._add_history(connection, archive, where.timeline)
            archive.begin(where.timeline, where.lsn)
            self.tell(f"starting log streaming at {where.lsn} (timeline {where.timeline})")
            end = connection.start(where.lsn, where.timeline, self.slot)
            if end is None:
                if self._failing_since:
                    self._failing_since = 0.0
                    (self.warn or self.tell)(f"connected again, and receiving from {where.lsn} on")
                end = self._stream(connection, archive)
                if end is None:
                    return
            self.tell(f"switched to timeline {end.next_timeline} at {end.left_at}")
            where = ResumePoint(end.next_timeline, Lsn(end.left_at // archive.segment_size * archive.segment_size))

    def _add_history(self, connection: ReplicationConnection, archive: WalArchive, timeline: int) -> None:
        """A timeline's history file, of the server's; or of its archive, where the server has it no more."""
        try:
            content = connection.timeline_history(timeline)
        except PeerError as error:
            if error.sqlstate != GONE or (restored := self._restored(archive)) is None or not restored.add_history(timeline):
                raise
        else:
            archive.add_history(timeline, content)

    def _restored(self, archive: WalArchive) -> RestoredWal | None:
        if self.restore is None or self._identity is None:
            return None
        from tailrace.client.restored_wal import RestoredWal  # noqa: PLC0415 - only who has a command needs it

        timeline, system = self._identity.timeline, self._identity.system
        return RestoredWal(self.restore, archive, system, timeline, lambda: self._is_stopping, self.tell, self._tell_others)

    def _has_restored(self) -> bool:
        """Whether the server's archive had more of what the server has removed."""
        if self.archive is None or self._where is None or (restored := self._restored(self.archive)) is None:
            return False
        added = restored.add_segments(self.archive.resume_point() or self._where, self.upto)
        return added > 0 and not self._is_stopping

    def _stream(self, connection: ReplicationConnection, archive: WalArchive) -> TimelineEnd | None:
        """What comes is written as it comes, and synced when nothing more is at hand."""
        self._heard, self._asked = time.monotonic(), False
        assert self._socket is not None
        connection.listen(self._socket.fileno())
        self._flushed(connection, archive)
        has_come = False
        for data in connection.messages():
            if data is not None:
                has_come = True
                self._take(connection, archive, data)
                continue
            if has_come:
                self._heard, self._asked, has_come = time.monotonic(), False, False
            self._settle_at_end(connection, archive)
            if self._is_stopping or self._has_enough:
                archive.sync()
                self._report(connection, archive)
                return None
            self._wait(connection, archive)
        archive.sync()
        return connection.end_of_stream()

    def _take(self, connection: ReplicationConnection, archive: WalArchive, data: memoryview) -> None:
        if (wal := wal_in(data)) is not None:
            at, self._server_end, content = wal
            before = archive.flushed
            archive.write(at, content)
            if archive.flushed > before:  # a segment was completed
                self._flushed(connection, archive)
            return
        message = read_from_walsender(bytes(data))
        if isinstance(message, PrimaryKeepalive):
            self._server_end = max(self._server_end, message.end)
            if message.wants_reply:
                archive.sync()
                self._flushed(connection, archive)

    def _settle_at_end(self, connection: ReplicationConnection, archive: WalArchive) -> None:
        """Nothing more is at hand: what is written is all there is, or more is just coming, which is synced with it."""
        if archive.flushed < archive.written and archive.written >= self._server_end:
            self._report(connection, archive)  # who waits for no more than that it is written goes on
            archive.sync()
            self._flushed(connection, archive)

    def _flushed(self, connection: ReplicationConnection, archive: WalArchive) -> None:
        self._report(connection, archive)
        self._tell_others(archive.flushed)
        self._warn_of_distance(archive)

    def _tell_others(self, flushed: Lsn) -> None:
        assert self._lock is not None
        assert self._socket is not None
        self._lock.write(f"{flushed}\n")
        self._socket.wake_readers()

    def _warn_of_distance(self, archive: WalArchive) -> None:
        """Once, before the server removes what was not received, unless it is new and gets less; and again once that was safe in between."""
        if self._kept is None:
            return
        behind = max(0, self._server_end - archive.flushed)
        is_worse, self._behind = self.begin is None or behind >= self._behind, behind
        text = self._kept.warning(behind, self.slot) if is_worse else ""
        if text and not self._has_warned:
            (self.warn or self.tell)(text)
        self._has_warned = bool(text) or (self._has_warned and bool(self._kept.warning(2 * behind, self.slot)))

    def _wait(self, connection: ReplicationConnection, archive: WalArchive) -> None:
        if connection.wait(_LOOK_EVERY if self._applied >= archive.flushed else _LOOK_AGAIN):
            assert self._socket is not None
            self._socket.take_messages()
        now = time.monotonic()
        if now - self._heard > 2 * _STALLED:
            raise PeerError("no word from the server", sqlstate="08006")
        if now - self._heard > _STALLED and not self._asked:
            self._asked = True
            self._report(connection, archive, asks=True)
        elif now - self._reported > _REPORT_EVERY or self._has_more_applied(archive):
            self._report(connection, archive)

    def _report(self, connection: ReplicationConnection, archive: WalArchive, *, asks: bool = False) -> None:
        """Say how far we are."""
        self._reported, self._applied = time.monotonic(), self._applicable(archive)
        sent_at = timestamptz_of(datetime.now(UTC))
        connection.send(write_to_walsender(StandbyStatusUpdate(archive.written, archive.flushed, self._applied, sent_at, asks)))

    def _has_more_applied(self, archive: WalArchive) -> bool:
        return self._applied < archive.flushed and self._applied < self._applicable(archive)

    def _applicable(self, archive: WalArchive) -> Lsn:
        """What counts as applied: never more than is durable."""
        confirmed = self.confirmed()
        return archive.flushed if confirmed is None else min(confirmed, archive.flushed)


def received_upto(directory: Path) -> Lsn | None:
    """Up to where a receiver that is at work in the directory has written and synced; None where none is. It says so in its lock's file."""
    path = directory / LOCK
    if not FileLock.is_taken(path):
        return None
    for _ in range(_TRIES):
        if (text := path.read_text()).endswith("\n"):
            return Lsn.parse(text.strip())
        time.sleep(_MOMENT)
    return Lsn(0)
