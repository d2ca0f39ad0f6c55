"""A slot streamed to one client (`WalSndLoop` in `replication/walsender.c`).

In: an acquired slot, its plugin started up, and the client. Out: what the plugin writes, framed; the slot confirms what the client says
it has flushed. Decoding runs in threads, a window at a time; a client that does not read holds back its own stream, and nothing is decoded
ahead of it. When the client has all there is, the log is waited for.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from functools import partial
from itertools import islice
from typing import Any

from tailrace.dataclass import dataclass
from tailrace.errors import PeerError, QueryCanceled, TailraceError, UsageError
from tailrace.model import Lsn
from tailrace.pipeline.following import NothingNew
from tailrace.pipeline.pipeline import Pipeline
from tailrace.plugins.output_plugin import OutputPlugin
from tailrace.plugins.printing import few_at_a_time
from tailrace.replication.acquired_slot import AcquiredSlot
from tailrace.replication.next_window import Limit
from tailrace.replication.shared_plans import SharedPlans
from tailrace.replication.slot_plugin import check_definitions
from tailrace.replication.waiting import AsyncWaiter
from tailrace.server.clock import now
from tailrace.server.lag import LagTracker
from tailrace.server.link import ClientLink
from tailrace.server.malloc import FreedMemory
from tailrace.server.shared_windows import BEGINS, Frame, InThread, SharedWindows, key_of_window
from tailrace.window import WindowSize
from tailrace.wire.frames import frame_payloads
from tailrace.wire.messages import CommandComplete, CopyBothResponse, CopyData, CopyDone, Terminate
from tailrace.wire.stream import PrimaryKeepalive, StandbyStatusUpdate, read_from_receiver, write_to_receiver

FAR_BEHIND = WindowSize(wal_bytes=32 << 20, ends=100_000, kept_bytes=32 << 20)
_KNOWN_REPLIES = (b"r", b"h")
_CONFIRM_EVERY = 0.5
"""Seconds between two times that a slot is written while its client reports on and on, and no server waits for that."""
_LAST_WORDS = 5.0
"""How long a client is waited for that has not said yet that it has all, when the server ends."""


@dataclass(slots=True)
class StreamPositions:
    """What pg_stat_replication shows of a stream: how far it is, and what the client has said, as it said it. 0: nothing yet."""

    state: str = "startup"
    sent: Lsn = Lsn(0)
    written: Lsn = Lsn(0)
    flushed: Lsn = Lsn(0)
    applied: Lsn = Lsn(0)
    reply_time: int = 0
    lag: LagTracker = field(default_factory=LagTracker)

    @property
    def is_heard(self) -> bool:
        """Whether the client may count as synchronous: it has caught up, and has said that it has flushed something."""
        return self.state in ("streaming", "stopping") and bool(self.flushed)

    @property
    def reached(self) -> tuple[int, int, int]:
        """What it has written, flushed and applied."""
        return int(self.written), int(self.flushed), int(self.applied)

    def advance(self, sent: Lsn) -> None:
        """All that comes before `sent` has been sent."""
        if sent > self.sent:
            self.sent = sent
            self.lag.sent(sent, now())


@dataclass(slots=True)
class WalSender:
    """`make_plugin` starts up another plugin like its own. `timeout` is wal_sender_timeout in seconds; 0: none. `others` are the kinds of the other
    streams of the database, those that begin among them. While there are some, windows are planned for all of them (`replication.shared_plans`);
    while there are some of its own `kind`, windows are decoded for all of these (`server.shared_windows`). So is the first window of any stream: of
    several that are begun at once the first is alone for a moment."""

    link: ClientLink
    acquired: AcquiredSlot
    plugin: OutputPlugin
    make_plugin: Callable[[], OutputPlugin]
    in_thread: InThread
    timeout: float
    shared: SharedWindows
    freed: FreedMemory
    plans: SharedPlans | None = None
    kind: str = ""
    others: Callable[[], Sequence[str]] = tuple
    positions: StreamPositions = field(default_factory=StreamPositions)
    timed_out: bool = False
    _waiter: AsyncWaiter = field(default_factory=AsyncWaiter)
    _begins: bool = True
    _is_done: bool = False
    _is_canceled: bool = False
    _is_stopping: bool = False
    _failure: TailraceError | None = None
    _reported: tuple[Lsn, Lsn, Lsn] = (Lsn(0), Lsn(0), Lsn(0))
    _replied: float = field(default_factory=time.monotonic)
    _confirmed_at: float = 0.0
    _asked: bool = False

    async def stream(self) -> None:
        """Until the client has enough, or goes, or something is raised. The slot is released by whoever acquired it."""
        self.positions.state = "catchup"
        self.positions.sent = self.acquired.slot.confirmed_flush_lsn
        self.link.send(CopyBothResponse())
        # Of what an apply worker has skipped nothing is left once it has crashed, though it has confirmed it. Begun anew it counts as where it was
        # before, until it hears something; a table that is copied by then would be handed over to it there, and lack what lies between.
        self._send_keepalive(wants_reply=False)
        await self.link.flush()
        tasks = [asyncio.create_task(each) for each in (self._take_replies(), self._keep_alive())]
        try:
            while not self._is_over:
                await self._turn()
            if self._failure is not None:
                raise self._failure
            if self._is_canceled:
                raise QueryCanceled
            if self._is_stopping:
                await self._say_last_words()
        finally:
            for task in tasks:
                task.cancel()
            await self._confirm()

    @property
    def _is_over(self) -> bool:
        return self._is_done or self.link.is_gone or self._is_canceled or self._is_stopping or self._failure is not None

    def cancel(self) -> None:
        self._is_canceled = True
        self._waiter.wake()

    def stop(self) -> None:
        """The server ends."""
        self._is_stopping = True
        self._waiter.wake()

    # -- what it sends ---------------------------------------------------------------------------------------------------------

    async def _turn(self) -> None:
        """A window, or a wait."""
        polled = await self.in_thread(self._poll)
        await self._confirm_if_due()
        if not isinstance(polled, NothingNew):
            await self._send(polled)
            return
        self._advance(self.acquired.given_upto(polled))
        self.positions.state = "streaming"
        if max(self.positions.flushed, self.positions.written) < self.positions.sent:
            # A server's COMMIT may wait for the reply, if not for something of this client's.
            self._send_keepalive(wants_reply=self.acquired.is_synchronous)
            await self.link.flush()
        if not self._is_over:
            await self._waiter.wait(polled, self._confirmed_at + _CONFIRM_EVERY if self._has_to_confirm else float("inf"))

    def _poll(self) -> Pipeline | NothingNew:
        check_definitions(self.acquired, self.plugin)
        if self.plans is not None and (self._begins or self.others()):
            return self.plans.poll(self.acquired, self.plugin.demand, FAR_BEHIND)
        return self.acquired.poll(self.plugin.demand, Limit(window=FAR_BEHIND))

    async def _send(self, window: Pipeline) -> None:
        sent, is_whole = 0, False
        if self.kind and (self._begins or not {self.kind, BEGINS}.isdisjoint(self.others())):
            key = key_of_window(self.kind, window, self.plugin)
            shared = self.shared.open(key, partial(self._begun_anew, window, self.plugin.memory))
            async for frame in shared.read():
                await self._send_frame(frame)
                sent += 1
                if self._is_over:
                    return
            if is_whole := shared.is_whole:
                self.plugin.recall(shared.memory)
        own = iter(()) if is_whole else islice(self._frames(window, self.plugin), sent, None)
        while (each := await self.in_thread(next, own, None)) is not None:
            await self._send_frame(each)
            if self._is_over:
                return
        end = Lsn(window.log.end)
        self.plugin.written_upto(end)
        self._advance(end)
        self._begins = False

    def _begun_anew(self, window: Pipeline, memory: Mapping[str, Any]) -> tuple[OutputPlugin, Iterator[Frame]]:
        """The window's frames as another plugin makes them, that remembers this."""
        plugin = self.make_plugin()
        plugin.recall(memory)
        plugin.warned = set(self.plugin.warned)
        return plugin, self._frames(window, plugin)

    async def _send_frame(self, frame: Frame) -> None:
        messages, sent = frame
        await self.link.send_frames(messages)
        self.freed.needed()
        self._advance(sent)
        await self._confirm_if_due()

    def _frames(self, window: Pipeline, plugin: OutputPlugin) -> Iterator[Frame]:
        """Some MB at a time, and where the client is that has them."""
        told = self.positions.sent
        for lines in window.lines(plugin):
            headers = plugin.header_lsns(lines)
            begin = 0
            for few in few_at_a_time(lines):
                framed = frame_payloads(headers[begin : begin + len(few)], few.texts.offsets, few.texts.data, now())
                begin += len(few)
                told = few.position_behind(told)
                yield framed, told

    def _advance(self, sent: Lsn) -> None:
        self.positions.advance(sent)
        self._note_reported()

    def _send_keepalive(self, *, wants_reply: bool) -> None:
        self.link.send(CopyData(write_to_receiver(PrimaryKeepalive(self.positions.sent, now(), wants_reply))))

    async def _keep_alive(self) -> None:
        """Ask a client that is silent for half of the timeout, and cut one that is for all of it (`WalSndKeepaliveIfNecessary`,
        `WalSndCheckTimeOut`)."""
        while self.timeout:
            due = self._replied + (self.timeout if self._asked else self.timeout / 2)
            await asyncio.sleep(max(0.01, due - time.monotonic()))
            silent = time.monotonic() - self._replied
            if silent >= self.timeout:
                self.timed_out = True
                self.link.cut()
                self._waiter.wake()
                return
            if silent >= self.timeout / 2 and not self._asked:
                self._asked = True
                self._send_keepalive(wants_reply=True)

    async def _say_last_words(self) -> None:
        """Where the client is to be, and that there is no more: once it has said that it is there (`WalSndDone`)."""
        self.positions.state = "stopping"
        self._send_keepalive(wants_reply=True)
        await self.link.flush()
        until = time.monotonic() + _LAST_WORDS
        while not (self._is_done or self.link.is_gone or self._has_all) and time.monotonic() < until:
            await self._waiter.sleep(min(until, time.monotonic() + 0.1))
        if not self._is_done:
            self.link.send(CopyDone())
        self.link.send(CommandComplete("COPY 0"))

    @property
    def _has_all(self) -> bool:
        return (self.positions.flushed or self.positions.written) >= self.positions.sent

    # -- what the client says --------------------------------------------------------------------------------------------------

    async def _take_replies(self) -> None:
        try:
            while not self._is_done and self._failure is None and (message := await self.link.message()) is not None:
                self._replied, self._asked = time.monotonic(), False
                if isinstance(message, CopyDone):
                    self.link.send(CopyDone())
                    self._is_done = True
                elif isinstance(message, CopyData):
                    self._take(message.data)
                elif isinstance(message, Terminate):
                    break
            if not self._is_done and self._failure is None:
                self.link.is_gone = True
        except PeerError as error:
            self._failure = error
        self._waiter.wake()

    def _take(self, data: bytes) -> None:
        try:
            reply = read_from_receiver(data)
        except PeerError as error:
            if data[:1] in _KNOWN_REPLIES:  # cut short: an error like any other
                self._failure = UsageError(error.message, sqlstate=error.sqlstate)
            else:  # as the server does, without a word
                self.link.cut()
            return
        if not isinstance(reply, StandbyStatusUpdate):
            return
        positions, self._reported = self.positions, (reply.written, reply.flushed, reply.applied)
        self._note_reported()
        positions.reply_time = reply.sent_at
        positions.lag.replied((positions.written, positions.flushed, positions.applied), positions.sent, now())
        if reply.wants_reply:
            self._send_keepalive(wants_reply=False)
        if self._has_to_confirm or self._is_stopping:
            self._waiter.wake()

    def _note_reported(self) -> None:
        """A position that it was never sent is none that it can have: one that lies ahead, as that of an apply worker begun anew may, counts once it
        has been."""
        positions = self.positions
        positions.written, positions.flushed, positions.applied = (min(each, positions.sent) for each in self._reported)

    @property
    def _has_to_confirm(self) -> bool:
        return self.positions.flushed > self.acquired.slot.confirmed_flush_lsn

    async def _confirm_if_due(self) -> None:
        if time.monotonic() >= self._confirmed_at + _CONFIRM_EVERY or (self._has_to_confirm and self.acquired.is_synchronous):
            await self._confirm()

    async def _confirm(self) -> None:
        if self._has_to_confirm:
            with suppress(asyncio.CancelledError):
                await asyncio.shield(self.in_thread(self.acquired.confirm, self.positions.flushed))
            self._confirmed_at = time.monotonic()
