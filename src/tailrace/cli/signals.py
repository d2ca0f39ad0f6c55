"""Handlers of signals that stand for the time of a block: whoever comes behind it finds those of before."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

Handler = Callable[[int, Any], Any]


@contextmanager
def handling(handlers: Mapping[signal.Signals, Handler], *, ignored_too: bool = True) -> Iterator[Callable[[], None]]:
    """Within the block these handlers are called. Without `ignored_too`, a signal that was ignored when the block began (nohup) stays so. What this
    gives puts the handlers of before back at once."""
    before = {number: signal.getsignal(number) for number in handlers}

    def put_back() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    for number, handler in handlers.items():
        if ignored_too or before[number] is not signal.SIG_IGN:
            signal.signal(number, handler)
    try:
        yield put_back
    finally:
        put_back()
