"""tailrace: PostgreSQL's logical decoding, taken out of the server and run in parallel on Apache Spark."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tailrace.errors import TailraceError
    from tailrace.model import Lsn, Relation, Transaction
    from tailrace.pipeline import LocalRunner, Pipeline, open_feed, open_pipeline, open_windows
    from tailrace.pipeline.log_feed import LogFeed
    from tailrace.pipeline.open_snapshot import tables_to_copy

    open = open_pipeline

_HOMES = {
    "LocalRunner": "pipeline", "Lsn": "model", "Relation": "model", "Pipeline": "pipeline", "TailraceError": "errors", "Transaction": "model",
    "LogFeed": "pipeline.log_feed", "open": "pipeline", "open_feed": "pipeline", "open_pipeline": "pipeline",
    "open_windows": "pipeline", "tables_to_copy": "pipeline.open_snapshot",
}  # fmt: skip

__all__ = [
    "LocalRunner", "LogFeed", "Lsn", "Pipeline", "Relation", "TailraceError", "Transaction", "open", "open_feed", "open_pipeline", "open_windows",
    "tables_to_copy",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """A name is imported when it is first asked for: Spark starts processes that import a module of ours and need no kernels."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"tailrace.{_HOMES[name]}"), "open_pipeline" if name == "open" else name)
    globals()[name] = value
    return value
