"""The socket of a client: bytes in and out, with the rules of `wire.connection`.

One task reads, so that a client that goes away is noticed whatever is being done for it; a client that sends more than is taken is held back.
Messages are made of the bytes when they are taken, since what they mean depends on what was answered before. Writing waits for a client that does
not read.

What a stream sends goes past asyncio's transport, which takes it in pieces and copies what the socket has no room for: a socket of our own, a second
handle of the same connection, is given as much at a time as it takes. Not if the connection is encrypted.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from array import array
from collections.abc import Callable
from contextlib import suppress
from ipaddress import ip_address
from typing import Any

from tailrace.errors import PeerError
from tailrace.server.host_based_access import Address
from tailrace.wire.connection import Connection
from tailrace.wire.fields import VIOLATION
from tailrace.wire.formats import Side

LONGEST = 1 << 20
"""Bytes of a message of a client. PostgreSQL takes a thousand times as much; nothing that is understood here is as long, and parsing a statement of
such a length takes seconds, and 200 MB."""
_READ = _AHEAD = 1 << 16
_PIECE = 128 << 10
"""What an encrypted connection is given at a time."""


class ClientLink:
    """Its end of the connection. State: `is_gone`, once the client has ended it, or it was cut."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._connection = Connection(Side.BACKEND, LONGEST)
        self._came, self._taken = asyncio.Event(), asyncio.Event()
        self._has_ended = False
        self._task: asyncio.Task[None] | None = None
        self._second: socket.socket | None = None
        self._behind: list[bytes] | None = None
        """While frames are being sent: what goes behind them."""
        self.is_gone = False
        self.on_gone: set[Callable[[], None]] = set()
        """What is called when the client goes."""

    @property
    def address(self) -> tuple[Address | None, int]:
        """Where the client is, and its port; no address for a Unix socket."""
        peer = self._writer.get_extra_info("peername")
        return (ip_address(peer[0]), peer[1]) if isinstance(peer, tuple) and len(peer) > 1 else (None, -1)

    @property
    def system_user(self) -> int | None:
        """The uid of the client's process, of a Unix socket."""
        file = self._writer.get_extra_info("socket")
        if file is None or file.family != socket.AF_UNIX:
            return None
        credentials = array("i", [0, 0, 0])
        _, uid, _ = array("i", file.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, credentials.itemsize * len(credentials)))
        return uid

    @property
    def is_encrypted(self) -> bool:
        return self._writer.get_extra_info("ssl_object") is not None

    # -- before it has started -------------------------------------------------------------------------------------------------

    async def receive(self) -> Any:
        """The next message, None if the client has gone. For as long as nobody has called `read_ahead`."""
        while (message := self._connection.next_message()) is None:
            data = await self._bytes()
            if not data:
                self._lose()
                return None
            self._connection.receive(data)
        return message

    async def answer_encryption(self, context: ssl.SSLContext | None) -> None:
        """Encrypt from here on, or say that this is not to be had. Raises PeerError for a client that does not go on as it has to."""
        self._writer.write(b"N" if context is None else b"S")
        await self._writer.drain()
        if context is not None:
            try:
                await self._writer.start_tls(context)
            except OSError as error:
                why = getattr(error, "reason", None) or error.strerror or "the client has gone"
                raise PeerError(f"could not accept SSL connection: {why}", sqlstate=VIOLATION) from None
        self._connection.encryption_answered()

    # -- afterwards ------------------------------------------------------------------------------------------------------------

    def read_ahead(self) -> None:
        self._task = asyncio.create_task(self._read())

    async def message(self) -> Any:
        """The next message, None once the client has gone, or `wake` was called. Raises PeerError for what it may not send."""
        while (message := self._connection.next_message()) is None:
            if self._has_ended:
                return None
            await self._came.wait()
            self._came.clear()
        self._taken.set()
        return message

    def wake(self) -> None:
        """Whoever waits for a message is told that there will be none."""
        self._has_ended = True
        self._came.set()

    async def _read(self) -> None:
        while data := await self._bytes():
            self._connection.receive(data)
            self._came.set()
            while self._has_enough:
                self._taken.clear()
                await self._taken.wait()
        self._lose()
        self.wake()

    async def _bytes(self) -> bytes:
        """What has come, nothing once the client has gone."""
        try:
            return await self._reader.read(_READ)
        except OSError:
            return b""

    @property
    def _has_enough(self) -> bool:
        """Whether nothing more is to be read before something is taken; what is no message, since it is too long, is refused then."""
        received = self._connection.received
        return received > LONGEST + _AHEAD or (received > _AHEAD and self._connection.has_message)

    def _lose(self) -> None:
        self.is_gone = True
        for tell in list(self.on_gone):
            tell()

    # -- what it is sent -------------------------------------------------------------------------------------------------------

    def send(self, *messages: Any) -> None:
        """Put messages behind what is on its way; nothing is waited for."""
        if self.is_gone:
            return
        data = b"".join([self._connection.send(message) for message in messages])
        if self._behind is None:
            self._writer.write(data)
        else:
            self._behind.append(data)

    async def send_frames(self, frames: memoryview) -> None:
        """The same of CopyData messages that are whole already; waits until the client has taken most of them."""
        if self.is_gone:
            return
        second = self._second_handle()
        self._behind = []
        try:
            await self._writer.drain()
            if second is None:
                for start in range(0, len(frames), _PIECE):
                    self._writer.write(frames[start : start + _PIECE])
                    await self._writer.drain()
            elif not self.is_gone:
                await asyncio.get_running_loop().sock_sendall(second, frames)
        except (OSError, ssl.SSLError):
            self._lose()
        except asyncio.CancelledError:  # nothing can follow half a message
            self.cut()
            raise
        finally:
            behind, self._behind = self._behind, None
            if behind and not self.is_gone:
                self._writer.write(b"".join(behind))

    def _second_handle(self) -> socket.socket | None:
        """With it, who waits does so until asyncio has nothing left to send, or the two would get mixed up."""
        if self._second is None and not self.is_encrypted:
            with suppress(OSError):  # no more files can be opened: asyncio can do it, too
                self._second = self._writer.get_extra_info("socket").dup()
                self._writer.transport.set_write_buffer_limits(high=0)
        return self._second

    async def flush(self) -> None:
        """Wait until the client has taken most of what was sent."""
        try:
            await self._writer.drain()
        except (OSError, ssl.SSLError):
            self._lose()

    async def close(self) -> None:
        """Send what is left, and end."""
        if self._task is not None:
            self._task.cancel()
        self._close_second()
        with suppress(OSError, ssl.SSLError, asyncio.TimeoutError):
            self._writer.close()
            await asyncio.wait_for(self._writer.wait_closed(), 1)
        self._lose()

    def cut(self) -> None:
        """End at once, whatever is on its way."""
        if self._second is not None:
            with suppress(OSError):
                self._second.shutdown(socket.SHUT_RDWR)  # else it would go on as long as one handle is open
        self._writer.transport.abort()
        self._lose()

    def _close_second(self) -> None:
        second, self._second = self._second, None
        if second is not None:  # once the event loop has stopped watching it
            asyncio.get_running_loop().call_soon(second.close)
