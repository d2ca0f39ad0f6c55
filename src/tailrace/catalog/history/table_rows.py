"""The rows of a catalog, or of a user catalog table, at a moment: what may be read under a historic snapshot
(`RelationIsAccessibleInLogicalDecoding` in `utils/rel.h`).

In: a history, and a moment as its questions name one. Out: columns of `Values`, of the relation as it was then. All else is refused: a table that is
no catalog, and catalogs that are not followed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.history.history import History
from tailrace.catalog.history.user_tables import is_user_catalog
from tailrace.catalog.names.qualified_names import read_identifiers, read_table_name
from tailrace.catalog.rows.catalog_rows import of_a_version
from tailrace.dataclass import dataclass
from tailrace.errors import MissingHistory, UsageError
from tailrace.model import FIRST_NORMAL_OID, Column, Lsn, Relation
from tailrace.tuples.deform import deform
from tailrace.tuples.gather import column_of
from tailrace.tuples.toast import Chunks
from tailrace.types.values import Values
from tailrace.wal.index import TRACKED_CATALOGS

_CHUNK = ((4, 4, -1), (4, 4, 4))
"""attlen and attalign of chunk_id, chunk_seq and chunk_data."""


class Places(NamedTuple):
    """Versions of the rows of a relation: `rows` are their numbers, `chunks` those of its TOAST table."""

    relation: Relation
    rows: NDArray[np.int64]
    chunks: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Stored:
    """The versions that are in a file, or of a catalog, and where they are seen."""

    number: NDArray[np.int64]
    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    made_by: NDArray[np.int64]
    unmade_by: NDArray[np.int64]
    added: NDArray[np.int64]
    deleted: NDArray[np.int64]

    def seen(self, lsn: int, ordinal: int) -> NDArray[np.int64]:
        begin, end = self.begin, self.end
        if ordinal >= 0:
            begin = np.where(self.made_by == ordinal, self.added, begin)
            end = np.where(self.unmade_by == ordinal, self.deleted, end)
        return self.number[(begin < lsn) & (end >= lsn)]


class TableRows:
    """Answers of one history, by `lsn` and `ordinal` as there: what a change at `lsn` in that transaction sees."""

    def __init__(self, history: History) -> None:
        self.history = history
        self._stored: dict[int, _Stored] = {}

    def relation(self, name: str | int, lsn: int, ordinal: int = -1) -> Relation:
        """By oid, or by a name as people write it; one without a schema is looked for along the search path. Raises UsageError if there is none."""
        if isinstance(name, int):
            found = self.history.relation_by_oid(name, lsn, ordinal)
            if found is None:
                raise UsageError(f"could not open relation with OID {name}", sqlstate="42P01", lsn=lsn)
            return found
        schema, table = read_table_name(name, "")
        schemas = (
            (schema,) if len(read_identifiers(name)) > 1 else tuple(dict.fromkeys(("pg_catalog", *self.history.search_path)))
        )
        for each in schemas:
            found = self.history.relation_named(each, table, lsn, ordinal)
            if found is not None:
                return found
        raise UsageError(f'relation "{name}" does not exist', sqlstate="42P01", lsn=lsn)

    def places(self, relation: Relation, lsn: int, ordinal: int = -1) -> Places:
        """The versions that the moment sees. Raises UsageError for what may not be read, MissingHistory for what is not known."""
        if relation.oid in TRACKED_CATALOGS:
            toast = next((oid for oid, name in TRACKED_CATALOGS.items() if name == f"pg_toast_{relation.oid}"), 0)
            return Places(relation, self._seen(relation.oid, lsn, ordinal), self._seen(toast, lsn, ordinal))
        if relation.oid < FIRST_NORMAL_OID and relation.schema == "pg_catalog":
            raise UsageError(
                f'catalog "{relation.name}" is not followed', sqlstate="0A000", lsn=lsn,
                hint=f"These are: {', '.join(sorted(TRACKED_CATALOGS.values()))}.",
            )  # fmt: skip
        classes = self.history.table("pg_class")
        row = int(classes.seen_where("oid", relation.oid, lsn, ordinal)[-1])
        if relation.kind not in "rm" or not is_user_catalog(classes["reloptions"][row]):
            raise UsageError(
                f'cannot query non-catalog table "{relation.name}" during logical decoding', sqlstate="25000", lsn=lsn
            )
        number = int(classes["relfilenode"][row])
        if number not in self.history.user_files or classes["reltablespace"][row]:
            raise MissingHistory(
                f'the rows of user catalog table "{relation}" at {Lsn(lsn)} are not known',
                hint="A table is followed if CREATE TABLE made it a user catalog table in the log, or if it is one in the data directory or catalog "
                "state (--catalog) that the log begins with, in the tablespace of its database.",
                lsn=lsn,
            )
        toast = self._toast_file(int(classes["reltoastrelid"][row]), lsn, ordinal)
        return Places(relation, self._seen(number, lsn, ordinal), self._seen(toast, lsn, ordinal))

    def _toast_file(self, oid: int, lsn: int, ordinal: int) -> int:
        classes = self.history.table("pg_class")
        if not oid:
            return 0
        rows = classes.seen_where("oid", oid, lsn, ordinal)
        number = int(classes["relfilenode"][rows[-1]]) if len(rows) else 0
        return number if number in self.history.user_files else 0

    def _seen(self, catalog: int, lsn: int, ordinal: int) -> NDArray[np.int64]:
        if catalog not in self._stored:
            columns, spans = self.history.versions.columns, self.history.spans
            mine = np.flatnonzero(columns.catalog == catalog)
            self._stored[catalog] = _Stored(
                mine, spans.begin[mine], spans.end[mine], spans.made_by[mine], spans.unmade_by[mine], columns.added[mine],
                columns.deleted[mine],
            )  # fmt: skip
        return self._stored[catalog].seen(lsn, ordinal)

    def values(self, places: Places, columns: Sequence[Column]) -> list[Values]:
        """These columns of the relation. A value that is stored out of line where that is not followed, as for catalogs it is not, is `unchanged`.
        Raises CorruptTuple for a row that has not the columns of its relation."""
        versions = self.history.versions
        every = places.relation.columns
        at, length = versions.columns.at[places.rows], versions.columns.length[places.rows]
        last = max((each.number for each in columns), default=0)
        lengths, aligns = (np.array([getattr(each, name) for each in every[:last]], np.int64) for name in ("length", "align"))
        chunks, turn = self._chunks(places.chunks), np.zeros(len(at), np.int64)
        with of_a_version(versions, places.rows, f"table {places.relation}"):
            attributes = deform(versions.tuples, at, length, lengths, aligns)
            return [
                column_of(versions.tuples, attributes.of(each.number - 1), each.length, each.missing, turn, chunks)
                for each in columns
            ]

    def _chunks(self, rows: NDArray[np.int64]) -> Chunks:
        if not len(rows):
            return Chunks.none()
        tuples, stored = self.history.versions.tuples, self.history.versions.columns
        lengths, aligns = (np.array(each, np.int64) for each in _CHUNK)
        turn = np.zeros(len(rows), np.int64)
        with of_a_version(self.history.versions, rows, "TOAST table"):
            attributes = deform(tuples, stored.at[rows], stored.length[rows], lengths, aligns)
            identity, number = (
                column_of(tuples, attributes.of(i), 4, None, turn, Chunks.none()).as_dtype("<u4") for i in range(2)
            )
        ordered = rows[np.lexsort((number, identity))]
        with of_a_version(self.history.versions, ordered, "TOAST table"):
            return Chunks.of(tuples, stored.at[ordered], stored.length[ordered], turn)


def named_columns(relation: Relation, names: Sequence[str]) -> tuple[Column, ...]:
    """Its columns of these names, all if there are none. Raises UsageError for one that it does not have."""
    if not names:
        return relation.live_columns
    by_name = {column.name: column for column in relation.live_columns}
    for name in names:
        if name not in by_name:
            raise UsageError(f'column "{name}" of relation "{relation.name}" does not exist', sqlstate="42703")
    return tuple(by_name[name] for name in names)
