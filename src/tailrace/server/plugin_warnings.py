"""What a plugin warns of, said to whom it prints for, as elog(WARNING) is: Python's warnings know of no client."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextvars import ContextVar

HEARS: ContextVar[Callable[[str], None] | None] = ContextVar("who hears the warnings of what runs here", default=None)
"""Threads have it from whoever gave them their work (`Instance.in_thread`)."""


def tell_warnings() -> None:
    """From now on who hears them is told; where nobody does, they go where they went before. So do those that are meant for programmers, as
    ResourceWarning is, which may be of another's object: Python's collector runs wherever it likes."""
    before = warnings.showwarning
    warnings.simplefilter("always", UserWarning)

    def show(message: Warning | str, category: type[Warning], *rest: object) -> None:
        hears = HEARS.get()
        if hears is None or not issubclass(category, UserWarning):
            before(message, category, *rest)  # type: ignore[arg-type]
        else:
            hears(str(message))

    warnings.showwarning = show  # type: ignore[assignment]
