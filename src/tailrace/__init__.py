"""tailrace: PostgreSQL's logical decoding, taken out of the server and run in parallel on Apache Spark."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tailrace.errors import TailraceError
    from tailrace.model import Lsn, Relation, Transaction
    from tailrace.river import LocalRunner, River, open_river

    open = open_river

_HOMES = {
    "LocalRunner": "river", "Lsn": "model", "Relation": "model", "River": "river", "TailraceError": "errors", "Transaction": "model",
    "open": "river", "open_river": "river",
}  # fmt: skip

__all__ = ["LocalRunner", "Lsn", "Relation", "River", "TailraceError", "Transaction", "open", "open_river"]


def __getattr__(name: str) -> Any:
    """A name is imported when it is first asked for: Spark starts processes that import a module of ours and need no kernels."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"tailrace.{_HOMES[name]}"), "open_river" if name == "open" else name)
    globals()[name] = found
    return found
