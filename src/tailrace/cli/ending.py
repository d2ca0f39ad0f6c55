"""How the command line ends before its time: Ctrl-C, a signal, a reader that has gone, a standard stream that is closed.

What a verb has started ends with it: `with` blocks unwind, Java goes at once. What others say on the way out (threads whose Java is gone) is no
news to anybody.
"""

from __future__ import annotations

import atexit
import io
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from tailrace.cli.signals import handling

NOBODY_READS = 128 + signal.SIGPIPE
"""What a shell says of a program that SIGPIPE ended."""
_SOON = 0.01
"""Seconds after which a signal is sent again that came where it could not be heard."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_STREAMS = (("stdin", os.O_RDONLY), ("stdout", os.O_RDONLY), ("stderr", os.O_WRONLY))


class Stopped(BaseException):
    """A signal came. No `except Exception` keeps it."""


class WriteFailed(Exception):
    """An OSError on its way past typer, which would end with status 1 where a reader has gone."""

    def __init__(self, error: OSError) -> None:
        super().__init__(error)
        self.error = error


class Ending:
    """State: nobody asked, or the signal that did."""

    def __init__(self) -> None:
        self.signal = 0
        self.hook = sys.unraisablehook
        """That of before, for what is not ours."""

    def ask(self, number: int, frame: FrameType | None) -> None:
        """The handler. Who asks twice means now."""
        if _is_in_a_callback(frame):
            _ask_again(number)
            return
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # threads will complain that their Java is gone
        spark = sys.modules.get("tailrace.spark.jvm")
        if spark is not None:
            spark.JVM.stop()
        if self.signal:
            os._exit(128 + number)
        self.signal = number
        raise Stopped

    def hear(self, unraisable: sys.UnraisableHookArgs) -> None:
        """What was raised where nobody hears it, as in a finalizer that was just running: who asked is to be heard all the same."""
        if isinstance(unraisable.exc_value, Stopped):
            number, self.signal = self.signal, 0
            _ask_again(number)
        else:
            self.hook(unraisable)

    def leave(self) -> NoReturn:
        """End with the signal's status, without waiting for threads, or for whoever should read what is still buffered."""
        atexit._run_exitfuncs()
        os._exit(128 + self.signal)


def _is_in_a_callback(frame: FrameType | None) -> bool:
    """Whether LLVM has called to ask for a kernel's code. It would go on without, once something is raised there, and the kernel would crash."""
    while frame is not None:
        if frame.f_code.co_name.startswith("_raw_object_cache"):  # llvmlite.binding.executionengine
            return True
        frame = frame.f_back
    return False


def _ask_again(number: int) -> None:
    timer = threading.Timer(_SOON, os.kill, (os.getpid(), number))
    timer.daemon = True
    timer.start()


def leave(status: int) -> NoReturn:
    """End the process as Python does, but for its last step, to take apart all objects: with those of Numba and LLVM, a quarter of what a small log
    takes. The system takes the memory back in one."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    drop_output()
    sys.stderr.flush()
    os._exit(status)


@contextmanager
def ending() -> Iterator[None]:
    """Signals end what runs within, and the process. One that was ignored when the process began (nohup) stays so."""
    asked = Ending()
    sys.unraisablehook = asked.hear
    with handling(dict.fromkeys(_SIGNALS, asked.ask), ignored_too=False):
        try:
            yield
        finally:
            sys.unraisablehook = asked.hook
            if asked.signal:
                asked.leave()


def ready_streams() -> None:
    """Standard streams that can be relied on.

    One that the shell closed (`>&-`) gets its number back, lest a file of ours take it; to write to such a standard output fails as it does in C: Bad
    file descriptor. And one that Python was told not to buffer (PYTHONUNBUFFERED) is buffered all the same: it would write a part, and say how much.
    What is no UTF-8, as text of a database in SQL_ASCII may be, is read and written as it is.
    """
    for number, (name, mode) in enumerate(_STREAMS):
        if getattr(sys, name) is None:
            while os.open(os.devnull, mode) < number:
                pass
            setattr(sys, name, open(number, "r" if number == 0 else "w", closefd=False))  # noqa: SIM115
    for stream in (sys.stdin, sys.stdout):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="surrogateescape")
    if isinstance(getattr(sys.stdout, "buffer", None), io.RawIOBase):
        sys.stdout = open(sys.stdout.fileno(), "w", encoding=sys.stdout.encoding, errors=sys.stdout.errors, closefd=False)  # noqa: SIM115


def drop_output() -> None:
    """What is still buffered for standard output goes nowhere, so that the interpreter's last flush cannot fail as well."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
