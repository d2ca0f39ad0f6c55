"""The rows of a server's table under a snapshot, as one side of a comparison.

In: a snapshot's sessions, a relation with the columns that are compared, and which rows. Out: sums by bucket, from one COPY of all rows in parts that
go side by side; and from a file that notes three numbers of each, the rows of buckets that differ, wherever they lie. Rows themselves are asked for
by their ctid, in the same snapshot, where a row keeps it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tailrace.client.catalog_files import as_ours
from tailrace.client.copy_out import copied_rows
from tailrace.client.table_parts import BlockRange, block_ranges
from tailrace.dataclass import dataclass
from tailrace.model import Relation
from tailrace.types.quoting import quote_identifier
from tailrace.types.registry import ArrowStyle
from tailrace.verify.checksums import BucketSums, Mask, RowNumbers
from tailrace.verify.hashed_columns import HashedColumns
from tailrace.wire.copied_rows import CopiedRows

_PART_BYTES = 64 << 20
_FETCHED = 5000
"""Rows that are asked for by their ctid at once."""
_NOTED = 1 << 20
"""Rows of the file that are looked at at once."""
_LEAF, _BLOCK_NUMBER = 48, 16
"""Bits of a place: the table that has the row, its block there, and the number in the block."""
Sessions = SimpleQueue[Any]


@dataclass(frozen=True, slots=True)
class Leaf:
    """A table that has rows: the one that is compared, or a partition of it; `size` in bytes."""

    schema: str
    name: str
    size: int

    @property
    def quoted(self) -> str:
        return f"{quote_identifier(self.schema)}.{quote_identifier(self.name)}"


class ServerRows:
    """`noted` is a file that is not there yet. State: whether it is."""

    def __init__(
        self, sessions: Sessions, relation: Relation, style: ArrowStyle, columns: HashedColumns, leaves: Sequence[Leaf],
        where: str | None, noted: Path,
    ) -> None:  # fmt: skip
        self._sessions, self._leaves, self._where, self._columns = sessions, leaves, where, columns
        self._copied, self._noted = CopiedRows(relation, style), noted
        self._lock = Lock()

    def forget(self) -> None:
        """Nothing of what was noted is needed any more."""
        self._noted.unlink(missing_ok=True)

    def sums(self, threads: int) -> BucketSums:
        """Of all rows, by so many threads, each of which has a session. Raises PeerError as the server does."""
        self._noted.write_bytes(b"")
        parts = [(number, each) for number, leaf in enumerate(self._leaves) for each in block_ranges(leaf.size, _PART_BYTES)]
        whole = BucketSums.none()
        with ThreadPoolExecutor(threads) as pool:
            for found in pool.map(lambda part: self._sums_of(*part), parts):
                whole.add(found)
        return whole

    def numbers(self, buckets: Mask) -> RowNumbers:
        """Those of the rows in these buckets, once all rows were summed up."""
        parts = []
        with self._noted.open("rb") as file:
            while len(noted := np.fromfile(file, np.uint64, 3 * _NOTED)):
                keys, rows, places = (np.ascontiguousarray(each) for each in noted.reshape(-1, 3).T)
                parts.append(RowNumbers(keys, rows, places.astype(np.int64)).of_buckets(buckets))
        return RowNumbers.joined(parts)

    def rows(self, places: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], pa.RecordBatch]]:
        """The rows in these places, in any order, each with its place."""
        for number, leaf in enumerate(self._leaves):
            here = places[places >> _LEAF == number]
            for first in range(0, len(here), _FETCHED):
                tids = ",".join(
                    f'"({place >> _BLOCK_NUMBER & 0xFFFF_FFFF},{place & 0xFFFF})"'
                    for place in here[first : first + _FETCHED].tolist()
                )
                yield from self._copy(
                    number, f"COPY ({self._select(leaf)} WHERE ctid = ANY ('{{{tids}}}'::tid[])) TO STDOUT (FORMAT binary)"
                )

    def _sums_of(self, number: int, blocks: BlockRange) -> BucketSums:
        found = BucketSums.none()
        command = f"COPY ({self._select(self._leaves[number])}{blocks.where(self._where)}) TO STDOUT (FORMAT binary)"
        for places, batch in self._copy(number, command):
            keys, rows = self._columns.numbers(batch)
            found.add_rows(keys, rows)
            noted = np.column_stack([keys, rows, places.astype(np.uint64)])
            with self._lock, self._noted.open("ab") as file:
                noted.tofile(file)
        return found

    def _select(self, leaf: Leaf) -> str:
        return f"SELECT ctid, {self._copied.select_list} FROM ONLY {leaf.quoted}"

    def _copy(self, number: int, command: str) -> Iterator[tuple[NDArray[np.int64], pa.RecordBatch]]:
        """The rows of a table, and their places."""
        import psycopg  # noqa: PLC0415 - only those who connect need it

        session = self._sessions.get()
        try:
            with closing(copied_rows(session, command, 1 + self._copied.fields)) as found:
                for rows in found:
                    _, tids = rows.texts(0)
                    yield _places(number, tids.data), self._copied.batch(rows.behind(1))
        except psycopg.Error as error:
            raise as_ours(error, "", f"table {self._copied.relation}") from error
        finally:
            self._sessions.put(session)


def _places(number: int, tids: NDArray[np.uint8]) -> NDArray[np.int64]:
    """A ctid is sent as a block's number, of 32 bits, and one of 16 bits."""
    places = np.full(len(tids) // 6, number, np.int64)
    for byte in tids.reshape(-1, 6).T:
        places = places << 8 | byte
    return places
