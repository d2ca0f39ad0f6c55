"""Ends what a session is doing, from another thread (`ProcessInterrupts` in `tcop/postgres.c`).

In: an error, from whoever wants the session's statement to end: its client, another's, a clock. Out: the error, raised by the statement where it next
looks, or at once by what can be told to end. Nothing happens to a session that does nothing.

State: whether a statement runs, the error that it is to end with, and what tells it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tailrace.errors import TailraceError


class Interrupt:
    """That of one session."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_running = False
        self._error: TailraceError | None = None
        self._tell: Callable[[], None] | None = None

    @contextmanager
    def running(self) -> Iterator[None]:
        """A statement runs in the block."""
        with self._lock:
            self._is_running = True
        try:
            yield
        finally:
            with self._lock:
                self._is_running, self._error = False, None

    def ask(self, error: TailraceError) -> None:
        """The statement is to end with this error, if there is one; the first who asks is heard."""
        with self._lock:
            if self._is_running and self._error is None:
                self._error = error
                if self._tell is not None:
                    self._tell()

    def check(self) -> None:
        """Raise the error, if somebody has asked."""
        if self._error is not None:
            raise self._error

    @contextmanager
    def telling(self, tell: Callable[[], None]) -> Iterator[None]:
        """What runs in the block ends sooner if it is told; whatever it raises then, the error is raised."""
        with self._lock:
            self.check()
            self._tell = tell
        try:
            yield
        except Exception:
            self.check()
            raise
        finally:
            with self._lock:
                self._tell = None
        self.check()
