"""While verbs and their work are imported, and when that is done."""

from __future__ import annotations

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collector() -> Iterator[None]:
    """Python's collector looks again and again at the hundred thousand objects that imports make, of which none goes: a seventh of
    what a small log takes. It rests meanwhile."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def loading() -> Iterator[None]:
    """While the work of the called verb is imported, which is the last that is: the collector rests, and leaves all of it alone later."""
    with without_collector():
        try:
            yield
        finally:
            if not gc.get_freeze_count():  # once in a process: what is garbage by now would stay as well
                gc.freeze()
                atexit.register(gc.unfreeze)  # at the end they do go: libraries say what is left then, as a leak
