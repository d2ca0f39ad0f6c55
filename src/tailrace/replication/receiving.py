"""What a slot gives, as it comes, to a writer (`bin/pg_basebackup/pg_recvlogical.c`)."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from tailrace.errors import MissingHistory
from tailrace.model import Lsn
from tailrace.plugins.output_plugin import OutputPlugin
from tailrace.plugins.printing import few_at_a_time
from tailrace.replication.acquired import Consumer
from tailrace.replication.writers import Rows, Writer
from tailrace.slots.session import Session

POLL = 0.05
"""Seconds between two looks at a log in which nothing is new."""
PACE = 0.1
"""Seconds from one look to the next where something was: a look costs some 15 ms beside what it finds, so smaller bites would be waste."""
_TRY_AGAIN = 1.0
_LOST = "55000"


@dataclass(slots=True)
class _Amid:
    """Whether something was written of a window, and the rest was not."""

    window: bool = False


@dataclass(slots=True)
class _Hangup:
    """Whether SIGHUP came."""

    came: bool = False


def receive_into(
    consumer: Consumer, plugin: OutputPlugin, writer: Writer, *, upto: Lsn | None = None, fsync_interval: float = 10.0,
    tries_again: bool = True,
) -> None:  # fmt: skip
    """Each row once, until all that commits before `upto` has been written; without it, until a signal comes. The writer has begun."""
    # If the slot was moved on by others, what the writer's session knows is of another place.
    session = writer.session if writer.begins_at >= consumer.slot.confirmed_flush_lsn else Session()
    if writer.begins_at > consumer.slot.confirmed_flush_lsn:
        consumer.check_stood(session.stood)
        consumer.confirm(writer.begins_at)
    consumer.streamed = session.streamed
    plugin.recall(session.memory)
    synced = time.monotonic()
    amid = _Amid()
    look = partial(_look, consumer, plugin, writer, upto, amid)
    with _hangup() as hangup:
        try:
            while upto is None or consumer.read_upto < upto:
                began = time.monotonic()
                news = _tried(look, amid, tries_again=tries_again)
                time.sleep(max(0.0, began + PACE - time.monotonic()) if news else POLL)
                if hangup.came or time.monotonic() - synced >= fsync_interval:
                    consumer.confirm(writer.durable_upto())
                    synced = time.monotonic()
                if hangup.came:
                    hangup.came = False
                    writer.reopen()
        finally:
            consumer.confirm(writer.durable_upto())


def _tried(look: Callable[[], bool], amid: _Amid, *, tries_again: bool) -> bool:
    """As `_look`; a source that cannot be read is waited for, unless the slot is lost. Amid a window it is not: rows that are written would come
    again."""
    try:
        return look()
    except MissingHistory as error:
        if not tries_again or error.sqlstate == _LOST or amid.window:
            raise
        time.sleep(_TRY_AGAIN)
        return False


def _look(consumer: Consumer, plugin: OutputPlugin, writer: Writer, upto: Lsn | None, amid: _Amid) -> bool:
    """Write what is new; whether there was any."""
    news = False
    for window in consumer.look(plugin.demand, upto):
        news = True
        told = consumer.read_upto
        for lines in window.lines(plugin):
            for few in few_at_a_time(lines):
                amid.window = True
                writer.write(Rows(few, plugin))
            told = lines.position_behind(told)
            if len(lines.ends) and lines.ends[-1] == len(lines):
                plugin.written_upto(told)
                writer.whole(told, Session(window.blocks.before, plugin.memory, consumer.stood_at(told)))
        end = min(window.log.end, upto or window.log.end)
        writer.whole(end, Session(window.blocks.after, plugin.memory, consumer.stood_at(end)))
        writer.flush()
        amid.window = False
    return news


@contextmanager
def _hangup() -> Iterator[_Hangup]:
    hangup = _Hangup()

    def came(number: int, frame: object) -> None:
        hangup.came = True

    before = signal.signal(signal.SIGHUP, came)
    try:
        yield hangup
    finally:
        signal.signal(signal.SIGHUP, before)
