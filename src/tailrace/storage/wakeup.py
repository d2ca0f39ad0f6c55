"""Who receives a log and who waits for it wake each other, across processes, as latches do (`SetLatch`, `WalSndWakeup`, `WalRcvForceReply`).

In: the directory of the log. The receiver of a directory has a socket that goes by the directory's device and inode; who waits asks there to be
woken, and who has confirmed something says so there. A message says no more than that something is new: whoever is woken looks. The names are in
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
_NEWS = b"n"


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

    def _senders(self) -> set[str | bytes]:
        """From whom messages have come."""
        found: set[str | bytes] = set()
        if self._socket is not None:
            with suppress(OSError):
                for _ in range(_MOST):
                    found.add(self._socket.recvfrom(1)[1])
        return found

    def _send(self, name: str | bytes) -> bool:
        """Whether there is somebody; one who has not taken what was sent before need not have it twice."""
        if self._socket is None:
            return False
        try:
            self._socket.sendto(_NEWS, name)
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

    def take_messages(self) -> None:
        self._readers |= {each for each in self._senders() if each}

    def wake_readers(self) -> None:
        """There is more of the log."""
        self.take_messages()
        self._readers = {each for each in self._readers if self._send(each)}


class ReaderSocket(_Socket):
    """Of one who waits for a directory's log."""

    def __init__(self, directory: Path) -> None:
        self._receiver = _name(directory)
        super().__init__("" if self._receiver is not None else None)  # a name of its own, that the system gives
        self._asks_at = 0.0

    def wait(self, seconds: float) -> bool:
        """Until the receiver says that there is more, or so much time has gone by; whether it did."""
        now = time.monotonic()
        if self._receiver is not None and now >= self._asks_at:
            self._asks_at = now + (_ASK_EVERY if self._send(self._receiver) else _TRY_EVERY)
        if self.fileno() < 0:
            time.sleep(seconds)
            return False
        waiting = select.poll()
        waiting.register(self.fileno(), select.POLLIN)
        return bool(waiting.poll(seconds * 1000)) and bool(self._senders())


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
