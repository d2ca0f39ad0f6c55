"""The session of a client that has been let in: who it is, its parameters, temporary slots and transaction, and what it is doing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import field
from functools import partial
from typing import TypeVar

from tailrace.dataclass import dataclass
from tailrace.errors import QueryCanceled, UsageError
from tailrace.replication.session_slots import SessionSlots
from tailrace.server.connected import Client
from tailrace.server.instance import Instance
from tailrace.server.kept_parameters import OF_TRANSACTION
from tailrace.server.link import ClientLink
from tailrace.server.plugin_warnings import HEARS
from tailrace.server.roles import Role
from tailrace.server.session_parameters import SessionParameters
from tailrace.server.transaction_block import TransactionBlock
from tailrace.server.walsender import WalSender
from tailrace.sql.interrupt import Interrupt
from tailrace.sql.source_database import SourceDatabase
from tailrace.wire.error_fields import NOTICE, WARNING, notice_fields
from tailrace.wire.messages import NoticeResponse

Result = TypeVar("Result")
IDLE, IN_BLOCK, FAILED = "I", "T", "E"
"""What ReadyForQuery says of the transaction."""


@dataclass
class ClientSession:
    """`status` is that of its transaction, which is in `block`; `exported` names the snapshot that it has exported. `is_walsender` says that it may
    give replication commands, `is_physical` that it has no database."""

    instance: Instance
    client: Client
    link: ClientLink
    role: Role
    parameters: SessionParameters
    is_walsender: bool = False
    is_physical: bool = False
    status: str = IDLE
    slots: SessionSlots = field(default_factory=SessionSlots)
    block: TransactionBlock = field(default_factory=TransactionBlock)
    exported: str = ""

    def __post_init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._sender: WalSender | None = None
        self._interrupted: asyncio.Event | None = None
        self.is_stopping = False
        self.interrupt = Interrupt()
        HEARS.set(partial(self.notice, WARNING, sqlstate="01000"))

    async def in_thread(self, work: Callable[..., Result], *arguments: object) -> Result:
        return await self.instance.in_thread(work, *arguments)

    def database(self) -> SourceDatabase:
        database = self.instance.database(self.client.database, self.client.pid, self.slots, self.warn, self.role.privileges)
        database.notice, database.interrupt = partial(self.notice, NOTICE), self.interrupt
        database.settings_here = self.parameters.settings
        return database

    def set_parameter(self, name: str, value: str | None) -> None:
        """One of the session's; None: its default. Others see the client by its application_name. Raises UsageError (42704, 22023, 55P02, 0A000)."""
        self.parameters.set(name, value)
        self.client.application_name = self.parameters.kept["application_name"]

    def reset_parameters(self) -> None:
        """All of them to the session's defaults."""
        self.parameters.reset_all()
        self.client.application_name = self.parameters.kept["application_name"]

    # -- its transaction -------------------------------------------------------------------------------------------------------

    def begin_block(self) -> None:
        self.status = IN_BLOCK
        self._new_block()

    def end_block(self) -> None:
        self.status = IDLE
        self._new_block()

    def _new_block(self) -> None:
        """With the isolation level that transactions have by default."""
        self.block.let_go()
        self.block = TransactionBlock()
        kept = self.parameters.kept
        self.parameters.kept = {**kept, **{name: kept[f"default_{name}"] for name in OF_TRANSACTION}}

    def fail_block(self) -> None:
        """A statement has failed: what is left of its block is its end."""
        if self.status != IDLE:
            self.status = FAILED
            self.block.let_go()

    def withdraw_snapshot(self) -> None:
        """A command has come, or the session ends: nobody can use the snapshot any more that it has exported (`SnapBuildClearExportedSnapshot`)."""
        if self.exported:
            self.instance.snapshots.withdraw(self.exported)
            self.exported = ""

    def end(self) -> None:
        """Let go of what it holds on the server whose log is served."""
        self.block.let_go()
        self.withdraw_snapshot()

    def check_database_connection(self) -> None:
        """Raise UsageError (55000) on a connection that asked for WAL itself."""
        if self.is_physical:
            raise UsageError("logical decoding requires a database connection", sqlstate="55000")

    # -- what it is told beside its results ------------------------------------------------------------------------------------

    def notice(self, severity: str, message: str, *, sqlstate: str = "00000", detail: str = "", hint: str = "") -> None:
        """From whichever thread, in its order."""
        said = NoticeResponse(notice_fields(severity, sqlstate, message, detail=detail, hint=hint))
        if threading.get_ident() == self._thread:
            self.link.send(said)
        else:
            self._loop.call_soon_threadsafe(self.link.send, said)

    def warn(self, text: str) -> None:
        """What tailrace warns of goes to whoever runs the server, not to its clients: it may name files."""
        self._loop.call_soon_threadsafe(self.instance.log.say, self.client.pid, WARNING, text)

    @property
    def is_streaming(self) -> bool:
        return self._sender is not None

    # -- what it is doing ------------------------------------------------------------------------------------------------------

    def cancel(self) -> None:
        """End what it is doing, and no more."""
        if self._sender is not None:
            self._sender.cancel()
        elif self._interrupted is not None:
            self._interrupted.set()
        else:
            self.interrupt.ask(QueryCanceled())

    def stop(self) -> None:
        """The server ends."""
        self.is_stopping = True
        if self._sender is not None:
            self._sender.stop()
        elif self._interrupted is not None:
            self._interrupted.set()

    async def while_streaming(self, sender: WalSender, slot: str) -> None:
        self._sender, self.client.stream, self.client.slot = sender, sender.positions, slot
        if self.is_stopping:
            sender.stop()
        try:
            await sender.stream()
        finally:
            self._sender, self.client.stream, self.client.slot = None, None, ""
            if sender.timed_out:
                self.instance.log.say(self.client.pid, "LOG", "terminating walsender process due to replication timeout")

    @contextmanager
    def statement(self) -> Iterator[None]:
        """What runs in the block ends if its client cancels it, goes, or has waited for statement_timeout."""
        timeout = self.parameters.statement_timeout
        late = UsageError("canceling statement due to statement timeout", sqlstate="57014")
        timer = self._loop.call_later(timeout, self.interrupt.ask, late) if timeout else None
        gone = partial(self.interrupt.ask, UsageError("connection to client lost", sqlstate="08006"))
        self.link.on_gone.add(gone)
        try:
            with self.interrupt.running():
                yield
        finally:
            self.link.on_gone.discard(gone)
            if timer is not None:
                timer.cancel()

    @asynccontextmanager
    async def for_as_long_as_the_client_waits(self) -> AsyncIterator[None]:
        """The block, which may take as long as others like, is given up once its client has gone, or cancels. Raises QueryCanceled."""
        task, interrupted = asyncio.current_task(), asyncio.Event()
        assert task is not None

        async def watch() -> None:
            await interrupted.wait()
            task.cancel()

        watcher = asyncio.create_task(watch())
        self._interrupted = interrupted
        self.link.on_gone.add(interrupted.set)
        try:
            yield
        except asyncio.CancelledError:
            if not interrupted.is_set():
                raise
            task.uncancel()
            raise QueryCanceled from None
        finally:
            watcher.cancel()
            self._interrupted = None
            self.link.on_gone.discard(interrupted.set)
