"""The rows of a table of a server, as one side of a comparison with another server's, which are summed up by SQL on each.

In: a session whose transaction has a snapshot, and the table. Out: sums by bucket, many buckets as one, since a server takes twice as long for 65,536
groups as for 256; of the rows in buckets their numbers; and rows by their places. A place is a hash of what says which version of a row it is: table,
ctid and xmin. A row that has the same place under two snapshots was not changed between them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tailrace.client.catalog_files import as_ours
from tailrace.client.copy_out import copied_rows
from tailrace.dataclass import dataclass
from tailrace.types.quoting import quote_identifier
from tailrace.verify.checksums import BUCKETS, BucketSums, Mask, RowNumbers
from tailrace.verify.sql_hashes import SqlHashes

_PLACE = "pg_catalog.hashtextextended(pg_catalog.concat(tableoid::oid, ctid, xmin), 0)"
_BUCKET = "(({}) >> 48 & 65535)::int4"
_SUMMED = BUCKETS // 256
"""Buckets that are summed up as one."""
_FETCHED = 5000
"""Rows that are asked for by their places at once."""


def summed_with(buckets: Mask) -> Mask:
    """All that are summed up in these."""
    return np.repeat(buckets[::_SUMMED], _SUMMED)


@dataclass(frozen=True, slots=True)
class SqlTable:
    """`kind` is its relkind; `where` is the condition that its rows meet, None where all count."""

    schema: str
    name: str
    kind: str
    where: str | None

    @property
    def rows(self) -> str:
        """FROM and WHERE, open for more conditions."""
        only = "ONLY " if self.kind != "p" else ""
        condition = f"({self.where})" if self.where else "true"
        return f"FROM {only}{quote_identifier(self.schema)}.{quote_identifier(self.name)} WHERE {condition}"


@dataclass(frozen=True, slots=True)
class SqlRows:
    session: Any
    table: SqlTable
    hashes: SqlHashes

    def sums(self) -> BucketSums:
        """Of all rows; those of neighbours are in the first of them (`summed_with`). Raises PeerError as the server does."""
        found = BucketSums.none()
        bucket = f"{_BUCKET.format(self.hashes.of_key)} / {_SUMMED} * {_SUMMED}"
        query = f"SELECT {bucket}, count(*), sum({self.hashes.of_row}) {self.table.rows} GROUP BY 1"
        for number, count, total in self._asked(query):
            found.counts[number], found.sums[number] = count, int(total) % 2**64
        return found

    def numbers(self, buckets: Mask) -> RowNumbers:
        """Those of the rows in these buckets. Raises PeerError as the server does."""
        wanted = np.flatnonzero(buckets)
        if not len(wanted):
            return RowNumbers.joined([])
        key = self.hashes.of_key
        few = (
            f" AND {_BUCKET.format(key)} = ANY ('{{{','.join(map(str, wanted.tolist()))}}}')"
            if len(wanted) < len(buckets)
            else ""
        )
        command = f"COPY (SELECT {key}, {self.hashes.of_row}, {_PLACE} {self.table.rows}{few}) TO STDOUT (FORMAT binary)"
        parts = []
        with closing(copied_rows(self.session, command, 3)) as found:
            for rows in found:
                columns = [rows.numbers(column, 8) for column in range(3)]
                key_hashes, row_hashes, places = (each.as_dtype("<i8") for each in columns if each is not None)
                parts.append(RowNumbers(key_hashes.astype(np.uint64), row_hashes.astype(np.uint64), places))
        return RowNumbers.joined(parts)

    def rows(self, places: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], pa.RecordBatch]]:
        """The rows in these places, in any order, as texts, each with its place."""
        columns = self.hashes.columns
        texts = "".join(f", CASE WHEN {each.quoted} IS NOT NULL THEN pg_catalog.concat({each.quoted}) END" for each in columns)
        for first in range(0, len(places), _FETCHED):
            few = ",".join(map(str, places[first : first + _FETCHED].tolist()))
            found = self._asked(f"SELECT {_PLACE}{texts} {self.table.rows} AND {_PLACE} = ANY ('{{{few}}}')")
            at = np.array([row[0] for row in found], np.int64)
            arrays = [pa.array([row[1 + number] for row in found], pa.string()) for number in range(len(columns))]
            yield at, pa.RecordBatch.from_arrays(arrays, [each.name for each in columns])

    def _asked(self, query: str) -> Sequence[tuple[Any, ...]]:
        import psycopg  # noqa: PLC0415 - only those who connect need it

        try:
            return list(self.session.execute(query.encode()).fetchall())
        except psycopg.Error as error:
            raise as_ours(
                error, "", f"table {quote_identifier(self.table.schema)}.{quote_identifier(self.table.name)}"
            ) from error
