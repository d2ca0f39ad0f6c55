"""tailrace: PostgreSQL's logical decoding, taken out of the server and run in parallel on Apache Spark."""

from tailrace.errors import TailraceError
from tailrace.model import Lsn, Relation, Transaction
from tailrace.river import LocalRunner, River, open_river

open = open_river

__all__ = ["LocalRunner", "Lsn", "Relation", "River", "TailraceError", "Transaction", "open", "open_river"]
