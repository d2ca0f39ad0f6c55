"""While verbs and their work are imported, and when that is done; and what need not be imported at all."""

from __future__ import annotations

import atexit
import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec


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


def spare_pandas() -> None:
    """Of the first thing that pyarrow makes an array of it asks whether pandas made it, and imports pandas to ask: half a second. It is told that
    there is none. Not where somebody's own code runs in this process, whose Series would then be taken for lists."""
    if "pandas" in sys.modules:
        return
    import pyarrow as pa  # noqa: PLC0415 - not for `--help`

    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([])
    finally:
        sys.meta_path.remove(finder)


class _NoPandas:
    def find_spec(self, name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        if name == "pandas":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None
