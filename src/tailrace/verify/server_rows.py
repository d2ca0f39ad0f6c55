"""The rows of a server's table under a snapshot, as one side of a comparison.

In: a snapshot's sessions, a relation with the columns that are compared, and which rows. Out: sums by bucket, from one COPY of all rows, or from the
pages of the table's file, in parts that go side by side. A lake that was copied from pages is not proved by the code that read them: so of some
blocks of each part, taken at random, the server is asked as well, and of the whole table where it gives other rows.

Only where sums differ it matters which row is where: then all are copied, each with its ctid, in the same snapshot, where a row keeps it; three
numbers of each go into a file, in which the rows of buckets are found, and rows themselves are asked for by their ctid. To have the ctid sent with
all rows at once would cost the server a quarter more.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tailrace.client.block_ranges import BlockRange, block_ranges
from tailrace.client.catalog_files import as_ours
from tailrace.client.copy_out import copied_rows
from tailrace.client.table_pages import TablePages
from tailrace.client.table_part import TablePart
from tailrace.dataclass import dataclass
from tailrace.model import Relation
from tailrace.threads import Threads
from tailrace.types.quoting import quote_identifier
from tailrace.types.registry import ArrowStyle
from tailrace.verify.checksums import BucketSums, Mask, RowNumbers
from tailrace.verify.hashed_columns import HashedColumns
from tailrace.wire.binary_copy import CopiedFields
from tailrace.wire.copied_rows import CopiedRows

_PART_BYTES = 64 << 20
_SAMPLE = 128
"""Blocks of a part that are read both ways: one in 64. A part begins at a multiple of them, and ends at one, but for the last."""
_FETCHED = 5000
"""Rows that are asked for by their ctid at once."""
_NOTED = 1 << 20
"""Rows of the file that are looked at at once."""
_LEAF, _BLOCK_NUMBER = 48, 16
"""Bits of a place: the table that has the row, its block there, and the number in the block."""
Sessions = SimpleQueue[Any]
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Leaf:
    """A table that has rows: the one that is compared, or a partition of it; `size` in bytes."""

    schema: str
    name: str
    size: int

    @property
    def quoted(self) -> str:
        return f"{quote_identifier(self.schema)}.{quote_identifier(self.name)}"


class _OtherRows(Exception):
    """Pages and the server do not say the same."""


class ServerRows:
    """`noted` is a file that is not there yet. State: whether it is, and has numbers of all rows."""

    def __init__(
        self, sessions: Sessions, relation: Relation, style: ArrowStyle, columns: HashedColumns, leaves: Sequence[Leaf],
        where: str | None, noted: Path, pages: TablePages | None = None,
    ) -> None:  # fmt: skip
        self._sessions, self._leaves, self._where, self._columns, self._pages = sessions, leaves, where, columns, pages
        self._copied, self._noted = CopiedRows(relation, style), noted
        self._lock, self._threads, self._are_noted = Lock(), sessions.qsize(), False

    def forget(self) -> None:
        """Nothing of what was noted is needed any more."""
        self._noted.unlink(missing_ok=True)
        self._are_noted = False

    def sums(self) -> BucketSums:
        """Of all rows. Raises PeerError as the server does."""
        try:
            return self._summed_up()
        except _OtherRows as other:
            warnings.warn(f"table {self._copied.relation}: {other}; the server is asked for all rows", stacklevel=2)
            self._pages = None
            return self._summed_up()

    def _summed_up(self) -> BucketSums:
        whole = BucketSums.none()
        for found in self._parts(self._sums_of):
            whole.add(found)
        return whole

    def numbers(self, buckets: Mask) -> RowNumbers:
        """Those of the rows in these buckets. Raises PeerError as the server does."""
        if not self._are_noted:
            self._noted.write_bytes(b"")
            for _ in self._parts(self._note):
                pass
            self._are_noted = True
        parts = []
        with self._noted.open("rb") as file:
            while len(noted := np.fromfile(file, np.uint64, 3 * _NOTED)):
                keys, rows, places = (np.ascontiguousarray(each) for each in noted.reshape(-1, 3).T)
                parts.append(RowNumbers(keys, rows, places.astype(np.int64)).of_buckets(buckets))
        return RowNumbers.joined(parts)

    def rows(self, places: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], pa.RecordBatch]]:
        """The rows in these places, in any order, each with its place."""
        for number in range(len(self._leaves)):
            here = places[places >> _LEAF == number]
            for first in range(0, len(here), _FETCHED):
                tids = ",".join(
                    f'"({place >> _BLOCK_NUMBER & 0xFFFF_FFFF},{place & 0xFFFF})"'
                    for place in here[first : first + _FETCHED].tolist()
                )
                yield from self._placed(number, f" WHERE ctid = ANY ('{{{tids}}}'::tid[])")

    def _parts(self, work: Callable[[int, BlockRange], Result]) -> Iterator[Result]:
        """Of each part of the rows what comes of it, by as many threads as there are sessions."""
        parts = [(number, each) for number, leaf in enumerate(self._leaves) for each in block_ranges(leaf.size, _PART_BYTES)]
        with Threads(self._threads) as pool:
            yield from pool.map(lambda part: work(*part), parts)

    def _sums_of(self, number: int, blocks: BlockRange) -> BucketSums:
        """Raises _OtherRows where pages cannot be relied on."""
        if self._pages is None:
            return self._sums(self._as_copied(number, blocks))
        behind = self._pages.blocks if blocks.behind is None else min(blocks.behind, self._pages.blocks)
        at = random.randrange(blocks.first, max(blocks.first + 1, behind), _SAMPLE)
        sample = BlockRange(at, at + _SAMPLE)
        found = self._sums(self._in_pages(self._pages, sample))
        if found.different(self._sums(self._as_copied(number, sample))).any():
            raise _OtherRows(f"blocks {sample.first} to {sample.behind} have other rows in the file than the server gives")
        for first, stop in ((blocks.first, at), (at + _SAMPLE, behind)):
            if first < stop:
                found.add(self._sums(self._in_pages(self._pages, BlockRange(first, stop))))
        return found

    def _sums(self, batches: Iterator[pa.RecordBatch]) -> BucketSums:
        found = BucketSums.none()
        for batch in batches:
            found.add_rows(*self._columns.numbers(batch))
        return found

    def _in_pages(self, pages: TablePages, blocks: BlockRange) -> Iterator[pa.RecordBatch]:
        return TablePart(self._sessions, self._copied, None, blocks, pages=pages, keeps_session=True)()

    def _as_copied(self, number: int, blocks: BlockRange) -> Iterator[pa.RecordBatch]:
        command = f"SELECT {self._copied.select_list} FROM ONLY {self._leaves[number].quoted}{blocks.where(self._where)}"
        with closing(self._copy(command, self._copied.fields)) as copied:
            for rows in copied:
                yield self._copied.batch(rows)

    def _note(self, number: int, blocks: BlockRange) -> None:
        for places, batch in self._placed(number, blocks.where(self._where)):
            keys, rows = self._columns.numbers(batch)
            noted = np.column_stack([keys, rows, places.astype(np.uint64)])
            with self._lock, self._noted.open("ab") as file:
                noted.tofile(file)

    def _placed(self, number: int, where: str) -> Iterator[tuple[NDArray[np.int64], pa.RecordBatch]]:
        """Rows of a table, and their places."""
        command = f"SELECT ctid, {self._copied.select_list} FROM ONLY {self._leaves[number].quoted}{where}"
        with closing(self._copy(command, 1 + self._copied.fields)) as copied:
            for rows in copied:
                _, tids = rows.texts(0)
                yield _places(number, tids.data), self._copied.batch(rows.behind(1))

    def _copy(self, query: str, fields: int) -> Generator[CopiedFields]:
        """A session is wanted for other tables where a value of this one does not fit."""
        import psycopg  # noqa: PLC0415 - only those who connect need it

        session = self._sessions.get()
        try:
            rows = copied_rows(session, f"COPY ({query}) TO STDOUT (FORMAT binary)", fields, keeps_session=True)
            with closing(rows) as found:
                yield from found
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
