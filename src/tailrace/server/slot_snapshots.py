"""What CREATE_REPLICATION_SLOT does with the snapshot of a new slot: exports it, has the transaction use it, or wants none (`CreateReplicationSlot`
in `replication/walsender.c`).

In: the option, and the session. Out: the slot as it is to be created, with a session on the server that holds the snapshot.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future

from tailrace.client.source_session import SourceSession
from tailrace.errors import UsageError
from tailrace.majors import EXPORT_SNAPSHOT, SNAPSHOTS_USED_TO_READ, USE_SNAPSHOT, said_by, supports
from tailrace.replication.service import NewSlot
from tailrace.replication.snapshot_of_slot import Alignment
from tailrace.server.client_session import IDLE, ClientSession
from tailrace.sources.received_log import ReceivedLog

EXPORT, USE, NOTHING = "export", "use", "nothing"


def check_snapshot(action: str, session: ClientSession) -> None:
    """Raise UsageError where the session cannot have it, whatever the server."""
    major = session.instance.major
    if action not in (EXPORT, USE, NOTHING):
        raise UsageError(
            f'unrecognized value for CREATE_REPLICATION_SLOT option "snapshot": "{action}"', sqlstate="22023"
        )  # fmt: skip
    if action == EXPORT and session.status != IDLE:
        raise _must(said_by(major, EXPORT_SNAPSHOT), "must not be called inside a transaction")
    if action != USE:
        return
    command, kept = said_by(major, USE_SNAPSHOT), session.parameters.kept
    if session.status == IDLE:
        raise _must(command, "must be called inside a transaction")
    if kept["transaction_isolation"] != "repeatable read":
        raise _must(command, "must be called in REPEATABLE READ isolation mode transaction")
    if kept["transaction_read_only"] != "on" and supports(major, SNAPSHOTS_USED_TO_READ):
        raise _must(command, "must be called in a read-only transaction")
    if session.block.has_queried:
        raise _must(command, "must be called before any query")
    if session.block.savepoints:
        raise _must(command, "must not be called in a subtransaction")


def _must(command: str, what: str) -> UsageError:
    return UsageError(f"{command} {what}", sqlstate="XX000")


async def with_snapshot(
    new: NewSlot, log: ReceivedLog, session: ClientSession, *, is_wanted: bool
) -> tuple[NewSlot, SourceSession | None]:
    """A new slot, and the session whose snapshot goes with it: None where nobody has said that it `is_wanted`, and there can be none. May take as
    long as transactions run. Raises as `Alignment.aligned` does; the slot is given up then."""
    stops = threading.Event()
    taken = session.instance.threads.submit(_taken, new, log, session, stops, is_wanted)
    try:
        return await asyncio.wrap_future(taken)
    except BaseException:
        stops.set()
        taken.add_done_callback(_let_go)
        if new.hold is not None:
            new.hold.release()
        raise


_Taken = tuple[NewSlot, SourceSession | None]


def _let_go(taken: Future[_Taken]) -> None:
    """Nobody waits any more for what has been taken."""
    if not taken.cancelled() and taken.exception() is None and (source := taken.result()[1]) is not None:
        source.let_go()


def _taken(new: NewSlot, log: ReceivedLog, session: ClientSession, stops: threading.Event, is_wanted: bool) -> _Taken:
    instance, database = session.instance, new.slot.database
    source = SourceSession.opened(log.dsn, database)

    def nudge() -> None:
        other = SourceSession.opened(log.dsn, database)
        try:
            other.spend_xid()
        finally:
            other.close()

    try:
        if not is_wanted and source.is_in_recovery:
            source.let_go()
            return new, None
        segments = instance.segments()
        runner = instance.runner_for(segments.stop_lsn - new.slot.confirmed_flush_lsn)
        alignment = Alignment(source, log.directory, instance.segments, runner, session.warn, stops.is_set, nudge)
        return alignment.aligned(new), source
    except BaseException:
        source.let_go()
        raise
