"""Who receives a log and who waits for it wake each other, across processes, as latches do (`SetLatch`, `WalSndWakeup`, `WalRcvForceReply`).

In: the directory of the log. The receiver of a directory has a socket that goes by the directory's device and inode; who waits asks there to be
woken, and who has confirmed something says so there. A message says no more than that something is new, and whoever is woken looks; or that the
server can be reached, so that a receiver that has lost it need not wait to try again. The names are in
Linux's abstract namespace, so there is no file, and nothing stays of a process that was killed. Where there is no such namespace, or the other one is
in another container, nobody is woken; so whoever waits looks by himself every so often, too.
"""

from __future__ import annotations

import os
import select
import socket
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self
from weakref import WeakSet

_MOST = 64
"""Messages that are taken at once, so that nobody can keep a receiver from receiving."""
_ASK_EVERY, _TRY_EVERY = 1.0, 0.05
"""Seconds between two times that a reader asks to be woken: another receiver may have come. Where there is none, it tries again sooner."""
_NEWS, _CONNECT = b"n", b"c"


class _Socket:
    """Never waits to send, and never fails: what is not heard at once, others find out by themselves. `fileno` is -1 where there are no such
    sockets."""

    def __init__(self, name: str | None) -> None:
        self._socket: socket.socket | None = None
        if name is None:
            return
        with suppress(OSError, AttributeError):
            made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
            try:
                made.bind(name)
            except OSError:
                made.close()
                raise
            self._socket = made
            _EVERY.add(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def fileno(self) -> int:
        return self._socket.fileno() if self._socket is not None else -1

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _messages(self) -> set[tuple[bytes, str | bytes]]:
        """What has come, and from whom."""
        found: set[tuple[bytes, str | bytes]] = set()
        if self._socket is not None:
            with suppress(OSError):
                for _ in range(_MOST):
                    found.add(self._socket.recvfrom(1))
        return found

    def _has_come(self, seconds: float) -> bool:
        """Whether something comes before so much time has gone by."""
        if self.fileno() < 0:
            time.sleep(seconds)
            return False
        waiting = select.poll()
        waiting.register(self.fileno(), select.POLLIN)
        return bool(waiting.poll(seconds * 1000))

    def _send(self, name: str | bytes, message: bytes = _NEWS) -> bool:
        """Whether there is somebody; one who has not taken what was sent before need not have it twice."""
        if self._socket is None:
            return False
        try:
            self._socket.sendto(message, name)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return True


class ReceiverSocket(_Socket):
    """Of the one receiver of a directory. State: who wants to be woken."""

    def __init__(self, directory: Path) -> None:
        super().__init__(_name(directory))
        self._readers: set[str | bytes] = set()

    def take_messages(self) -> bool:
        """Whether somebody knows that the server can be reached."""
        messages = self._messages()
        self._readers |= {sender for _, sender in messages if sender}
        return any(content == _CONNECT for content, _ in messages)

    def wait_to_connect(self, seconds: float) -> bool:
        """Until somebody knows that the server can be reached, or anything else has come, or so much time has gone by; whether somebody does."""
        return self._has_come(seconds) and self.take_messages()

    def wake_readers(self) -> None:
        """There is more of the log."""
        self.take_messages()
        self._readers = {each for each in self._readers if self._send(each)}


class ReaderSocket(_Socket):
    """Of one who waits for a directory's log. `has_more`: who knows that the server has it, and can be reached."""

    def __init__(self, directory: Path, *, has_more: bool = False) -> None:
        self._receiver, self._message = _name(directory), _CONNECT if has_more else _NEWS
        super().__init__("" if self._receiver is not None else None)  # a name of its own, that the system gives
        self._asks_at = 0.0

    def wait(self, seconds: float) -> bool:
        """Until the receiver says that there is more, or so much time has gone by; whether it did."""
        now = time.monotonic()
        if self._receiver is not None and now >= self._asks_at:
            self._asks_at = now + (_ASK_EVERY if self._send(self._receiver, self._message) else _TRY_EVERY)
        return self._has_come(seconds) and bool(self._messages())


def force_reply(directory: Path) -> None:
    """Somebody has confirmed what was received into the directory: its receiver looks whether the server is to be told (`WalRcvForceReply`)."""
    name = _name(directory)
    if name is not None:
        with suppress(OSError, AttributeError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as made:
            made.sendto(_NEWS, name)


def _name(directory: Path) -> str | None:
    try:
        status = directory.stat()
    except OSError:
        return None
    return f"\0tailrace/{status.st_dev}/{status.st_ino}"


_EVERY: WeakSet[_Socket] = WeakSet()


def _forget_all() -> None:
    """In a forked child, whose copy would keep a name from being free when the parent has gone."""
    for each in list(_EVERY):
        each.close()


os.register_at_fork(after_in_child=_forget_all)
