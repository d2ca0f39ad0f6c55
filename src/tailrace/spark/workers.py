"""What a Python process of Spark's does once because work of ours runs in it.

Spark forks such processes from a daemon and keeps them for further work. Called from the methods that Spark calls; elsewhere (in the driver) this
does nothing.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tailrace.errors import TailraceError

_SPARKS = "pyspark."
_HIDE = "SPARK_HIDE_TRACEBACK"
"""What `pyspark.util.handle_worker_exception` looks at when it writes down what was raised."""
_DAEMON = "pyspark.daemon"
_settled = False


def settle() -> None:
    """Freeze what is imported, and leave without a word when Spark lets this process go."""
    global _settled  # noqa: PLW0603 - once per process
    daemon: Any = sys.modules["__main__"]
    if _settled or getattr(daemon.__spec__, "name", "") != _DAEMON:
        return
    _settled = True
    # Spark's daemon collects after every task; modules need no looking at.
    gc.collect()
    gc.freeze()
    _leave_quietly(daemon)


@contextmanager
def message_first() -> Iterator[None]:
    """An error of ours leaves a process of Spark's as its message, and not as a traceback that ends with it. The process ends with the error, so
    nobody else's tracebacks are hidden."""
    try:
        yield
    except TailraceError:
        if getattr(sys.modules["__main__"].__spec__, "name", "").startswith(_SPARKS):
            os.environ[_HIDE] = "1"
        raise


def _leave_quietly(daemon: Any) -> None:
    """Spark closes the sockets of processes that were idle for a minute. Over Unix sockets such a one then finds its peer gone while it says
    goodbye, and its daemon, which called `worker` in a loop, would print a BrokenPipeError to everybody's standard error."""
    serve = daemon.worker

    def served(*sockets: Any) -> Any:
        try:
            return serve(*sockets)
        except ConnectionError:
            os._exit(0)

    daemon.worker = served
