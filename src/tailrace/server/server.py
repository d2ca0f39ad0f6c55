"""The server itself: where it listens, and how it ends.

State: who is connected (`Instance.clients`), and the tasks that serve them. One server has a state location for itself, by a lock.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from tailrace.errors import UsageError
from tailrace.replication.server_activity import SERVER_LOCK, ServerActivity, write_activity
from tailrace.server.backend import Backend
from tailrace.server.instance import Instance
from tailrace.server.link import ClientLink
from tailrace.server.plugin_warnings import tell_warnings
from tailrace.server.settings import ServerSettings
from tailrace.server.tls import Tls, load_tls
from tailrace.storage.file_lock import FileLock

Arrived = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None] | None]
"""What is called for each connection."""
_OURSELVES = 0
_EVERY = 1.0
"""Seconds between two times that other processes are told who is connected, and memory is looked at."""
_LONGEST_GOODBYE = 10.0
"""Seconds that clients have to go once the server ends."""


class SlotServer:
    """Listens once it is `started`, until it is `stopped`."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._listeners: list[asyncio.AbstractServer] = []
        self._backends: dict[asyncio.Task[None], Backend] = {}
        self._lock: FileLock | None = None
        self._socket: Path | None = None
        self._tls: Tls | None = None
        self._looking_after: asyncio.Task[None] | None = None
        self._full_since = -_EVERY
        self.port = instance.settings.port

    async def start(self) -> None:
        """Raises UsageError where somebody else serves this location, listens on this port, or a certificate cannot be used."""
        settings = self._instance.settings
        self._tls = load_tls(settings.tls)
        self._lock = _only_server_of(settings.state)
        tell_warnings()
        for address in settings.listen_addresses:
            await self._listen(address)
        if settings.unix_socket_directory is not None:
            self._socket = settings.unix_socket_directory / f".s.PGSQL.{self.port}"
            with suppress(FileNotFoundError):
                self._socket.unlink()  # the lock says that nobody listens there any more
            self._listeners.append(await asyncio.start_unix_server(self._arrived, self._socket))
        self._looking_after = asyncio.create_task(self._every_second())
        where = ", ".join(
            [*(f"{each}:{self.port}" for each in settings.listen_addresses), *([str(self._socket)] if self._socket else [])]
        )
        self._instance.log.say(_OURSELVES, "LOG", f"listening on {where}")

    async def _every_second(self) -> None:
        """Tell who reads the location what goes on now, and give back what nobody needs: memory, and the connection on which the source is asked."""
        told: ServerActivity | None = None
        while True:
            if (source := self._instance.source_end) is not None and source.is_idle:
                await self._instance.in_thread(source.close)
            if self._instance.freed.is_idle:
                await self._instance.in_thread(self._instance.freed.give_back)
            if (now := self._instance.activity()) != told:
                told = now
                with suppress(OSError):
                    await self._instance.in_thread(write_activity, self._instance.settings.state, now)
            await asyncio.sleep(_EVERY)

    async def _listen(self, address: str) -> None:
        listener = await _listener(self._arrived, address, self.port)
        self._listeners.append(listener)
        self.port = listener.sockets[0].getsockname()[1]

    async def _arrived(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        backend = Backend(self._instance, ClientLink(reader, writer), self._tls)
        self._backends[task] = backend
        try:
            await backend.run()
        finally:
            del self._backends[task]

    def reload(self, settings: ServerSettings) -> None:
        """Take rules, roles, certificates and timeouts anew; what is connected stays. Raises UsageError, and keeps what was, for a certificate that
        cannot be used."""
        now = self._instance.settings
        self._tls = load_tls(settings.tls)
        self._instance.settings = replace(
            settings, source=now.source, state=now.state, listen_addresses=now.listen_addresses, port=now.port,
            unix_socket_directory=now.unix_socket_directory,
        )  # fmt: skip
        self._instance.log.say(_OURSELVES, "LOG", "configuration files were read again")

    def failed_unheard(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """What the event loop could not do for nobody in particular: accept a connection, mostly, which it tries a hundred times at once."""
        error = context.get("exception")
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            if loop.time() - self._full_since > _EVERY:
                self._full_since = loop.time()
                self._instance.log.say(_OURSELVES, "LOG", f"could not accept new connection: {error.strerror}")
            return
        loop.default_exception_handler(context)

    async def stop(self) -> bool:
        """Nobody is let in any more; streams end with their last words, and the others go. Whether all have gone: a statement that is being
        carried out ends when it likes."""
        self._instance.log.say(_OURSELVES, "LOG", "shutting down")
        for listener in self._listeners:
            listener.close()
        for backend in list(self._backends.values()):
            backend.stop()
        if self._backends:
            await asyncio.wait(list(self._backends), timeout=_LONGEST_GOODBYE)
        left = list(self._backends)
        for task in left:
            task.cancel()
        if self._looking_after is not None:
            self._looking_after.cancel()
        if self._socket is not None:
            with suppress(FileNotFoundError):
                self._socket.unlink()
        self._instance.threads.shutdown(wait=not left, cancel_futures=True)
        if not left and self._instance.source_end is not None:
            self._instance.source_end.close()
        if self._lock is not None:
            self._lock.release()
        return not left


async def check_addresses(settings: ServerSettings) -> None:
    """Raises UsageError (55006) where somebody else listens: before anything is made, and in place of its being made in vain."""
    for address in settings.listen_addresses:
        (await _listener(lambda reader, writer: writer.close(), address, settings.port)).close()


async def _listener(arrived: Arrived, address: str, port: int) -> asyncio.Server:
    try:
        return await asyncio.start_server(arrived, address, port)
    except OSError as error:
        # The system's own words: asyncio's say the address once more.
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error
        raise UsageError(
            f"could not bind {address} to port {port}: {reason}", sqlstate="55006",
            hint=f"Is another server already running on port {port}? If not, wait a few seconds and retry.",
        ) from None  # fmt: skip


def _only_server_of(state: Path) -> FileLock:
    """The lock of a location's server. Raises UsageError (55006)."""
    file = state / SERVER_LOCK
    lock = FileLock.take(file)
    if lock is None:
        raise UsageError(
            f'state location "{state}" is served already', hint=f"By PID {file.read_text().strip()}.", sqlstate="55006"
        )  # fmt: skip
    lock.write(str(os.getpid()))
    return lock
