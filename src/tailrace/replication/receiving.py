"""Stream from a slot to a writer, for as long as the caller likes (`StreamLogicalLog` in `bin/pg_basebackup/pg_recvlogical.c`).

In: an acquired slot, its plugin, a writer that has begun, and a `Waiter`, which this thread waits with. Out: nothing; the slot
confirms what the writer has made durable. Who wants something of it meanwhile (SIGHUP: files have been moved away) says so, and
wakes the waiter.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from tailrace.dataclass import dataclass
from tailrace.errors import MissingHistory, PeerError
from tailrace.model import Lsn
from tailrace.pipeline.following import POLL, NothingNew
from tailrace.pipeline.pipeline import Pipeline
from tailrace.plugins.output_plugin import OutputPlugin
from tailrace.plugins.printing import few_at_a_time
from tailrace.replication.acquired_slot import AcquiredSlot
from tailrace.replication.next_window import Limit
from tailrace.replication.waiting import Waiter
from tailrace.replication.writers import Rows, Writer
from tailrace.slots.consumer_session import ConsumerSession
from tailrace.sources.source_name import is_stored
from tailrace.storage.segments import UnfinishedCopy

_TRY_AGAIN = 1.0
_LOST = "55000"


def never() -> bool:
    return False


def receive_into(
    acquired: AcquiredSlot, plugin: OutputPlugin, writer: Writer, *, upto: Lsn | None = None, fsync_interval: float = 10.0,
    tries_again: bool = True, waiter: Waiter | None = None, is_to_reopen: Callable[[], bool] = never,
) -> None:  # fmt: skip
    """Write each row once, until all that commits before `upto` has been written; without it, until something is raised. Whenever
    `is_to_reopen` says so, the writer's files are opened anew."""
    # If the slot was moved on by others, what the writer's session knows is of another place.
    session = writer.session if writer.begins_at >= acquired.slot.confirmed_flush_lsn else ConsumerSession()
    if writer.begins_at > acquired.slot.confirmed_flush_lsn:
        acquired.check_fingerprint(session.fingerprint)
        acquired.confirm(writer.begins_at)
    acquired.streamed = session.streamed
    plugin.recall(session.memory)
    waiter = waiter or Waiter()
    outage = Outage(acquired.location.warn, waiter)
    receiving = _Receiving(acquired, plugin, writer, Limit(upto))
    synced = time.monotonic()
    try:
        while upto is None or acquired.read_upto < upto:
            next_sync = synced + fsync_interval
            try:
                receiving.take_turn(waiter, next_sync)
            except (MissingHistory, UnfinishedCopy, PeerError) as error:
                if not tries_again or receiving.is_amid_window or not may_pass(error, acquired.slot.source):
                    raise
                outage.wait(error)
            else:
                outage.file = ""
            is_asked = is_to_reopen()
            if is_asked or time.monotonic() >= next_sync:
                acquired.confirm(writer.durable_upto())
                synced = time.monotonic()
            if is_asked:
                writer.reopen()
    finally:
        acquired.confirm(writer.durable_upto())


def may_pass(error: MissingHistory | UnfinishedCopy | PeerError, source: str) -> bool:
    """Whether a source that cannot be read is to be waited for: not if the slot is lost. Of peers it is stores that come back; a restore_command that
    does not work ends the recovery of a server, too."""
    return is_stored(source) if isinstance(error, PeerError) else error.sqlstate != _LOST


@dataclass(slots=True)
class Outage:
    """Waits for a source that cannot be read, and says so once for each `file` that is in the way."""

    warn: Callable[[str], None]
    waiter: Waiter
    file: str = ""

    def wait(self, error: MissingHistory | UnfinishedCopy | PeerError) -> None:
        if (file := error.file or error.message) != self.file:
            self.file = file
            self.warn(f"{error.message}; waiting until the source can be read")
        self.waiter.sleep(time.monotonic() + _TRY_AGAIN)


@dataclass(slots=True)
class _Receiving:
    """While it `is_amid_window`, something was written of a window, and the rest was not: rows that are written would come
    again. `confirmed` is how far the log was read when what was written was confirmed last, because a server waits for that."""

    acquired: AcquiredSlot
    plugin: OutputPlugin
    writer: Writer
    limit: Limit
    is_amid_window: bool = False
    confirmed: Lsn = Lsn(0)

    def take_turn(self, waiter: Waiter, until: float) -> None:
        """Write a window; or wait for more, until then at the latest."""
        acquired = self.acquired
        polled = acquired.poll(self.plugin.demand, self.limit)
        if not isinstance(polled, NothingNew):
            self._write(polled)
            return
        # With nothing for us in it, too: somebody else's COMMIT may wait for that.
        if acquired.read_upto > self.confirmed and acquired.is_synchronous:
            acquired.confirm(self.writer.durable_upto())
            self.confirmed = acquired.read_upto
        waiter.wait(polled, max(until, time.monotonic() + POLL))

    def _write(self, window: Pipeline) -> None:
        acquired, plugin, writer = self.acquired, self.plugin, self.writer
        told = acquired.read_upto
        for lines in window.lines(plugin):
            for few in few_at_a_time(lines):
                self.is_amid_window = True
                writer.write(Rows(few, plugin))
            told = lines.position_behind(told)
            if len(lines.ends) and lines.ends[-1] == len(lines):
                plugin.written_upto(told)
                writer.whole(told, ConsumerSession(window.blocks.before, plugin.memory, acquired.fingerprint_at(told)))
        end = min(window.log.end, self.limit.upto or window.log.end)
        writer.whole(end, ConsumerSession(window.blocks.after, plugin.memory, acquired.fingerprint_at(end)))
        writer.flush()
        self.is_amid_window = False
