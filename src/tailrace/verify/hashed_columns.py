"""Which columns of a table are compared, as one side names them, and the numbers of rows that have them."""

from __future__ import annotations

import pyarrow as pa

from tailrace.dataclass import dataclass
from tailrace.types.row_hashes import Hashes, row_hashes


@dataclass(frozen=True, slots=True)
class HashedColumns:
    """`names` in an order that both sides have; `key` are those of them that tell a row from all others, none where only all columns do."""

    names: tuple[str, ...]
    key: tuple[str, ...]

    def numbers(self, rows: pa.RecordBatch) -> tuple[Hashes, Hashes]:
        """The hash of each row's key, and of the row."""
        if not self.key:
            whole = row_hashes([rows[name] for name in self.names], len(rows))
            return whole, whole
        keys = row_hashes([rows[name] for name in self.key], len(rows))
        return keys, row_hashes([rows[name] for name in self.names if name not in self.key], len(rows), keys)
