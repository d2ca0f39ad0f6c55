"""tailrace: PostgreSQL's logical decoding, taken out of the server and run in parallel on Apache Spark."""

from tailrace.kernels import choose_cache

choose_cache()

from tailrace.errors import TailraceError  # noqa: E402
from tailrace.model import Lsn, Relation, Transaction  # noqa: E402
from tailrace.river import LocalRunner, River, open_river  # noqa: E402

open = open_river

__all__ = ["LocalRunner", "Lsn", "Relation", "River", "TailraceError", "Transaction", "open", "open_river"]
