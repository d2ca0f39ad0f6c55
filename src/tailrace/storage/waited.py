"""Calls into libraries that do not look for signals while they wait: who interrupts the command is heard at once all the same.

The call is made in a thread of its own, while the main thread waits as Python does. Nothing waits for that thread when the process ends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import ParamSpec, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")


def waited(call: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """What `call` returns or raises. In other threads than the main one, which signals do not reach, it is called there."""
    if threading.current_thread() is not threading.main_thread():
        return call(*args, **options)
    ended: SimpleQueue[tuple[bool, object]] = SimpleQueue()

    def run() -> None:
        try:
            ended.put((True, call(*args, **options)))
        except BaseException as error:
            ended.put((False, error))

    threading.Thread(target=run, daemon=True).start()
    is_good, result = ended.get()
    if not is_good:
        raise cast(BaseException, result)
    return cast(T, result)
