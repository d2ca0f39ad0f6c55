"""User catalog tables: tables `WITH (user_catalog_table = true)`, whose rows an output plugin may read beside the catalogs.

In: all versions of pg_class, and where they are seen. Out: the files that hold such tables and their TOAST. Rows of such a file are versions like
those of a catalog, under the number of the file instead of a catalog's oid: ALTER TABLE, TRUNCATE and VACUUM FULL give a table another file, and
which one a moment sees says its row of pg_class.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.pages.catalog_files import FileKey
from tailrace.catalog.rows.catalog_rows import CatalogRows, Spans, rows_of
from tailrace.catalog.rows.column_values import text_elements
from tailrace.catalog.rows.layouts import layouts_of
from tailrace.catalog.rows.row_versions import Versions
from tailrace.dataclass import dataclass
from tailrace.model import FIRST_NORMAL_OID
from tailrace.settings import parse_bool
from tailrace.transactions.commit_or_abort import NEVER, ROLLED_BACK, Outcomes

_PG_CLASS = 1259
_OPTION = b"user_catalog_table="
_KINDS = (ord("r"), ord("m"))


def user_files(files: Mapping[FileKey, int]) -> set[int]:
    """The numbers of those files that are user catalog tables', which stand under their own numbers."""
    return {oid for (_, number), oid in files.items() if oid == number >= FIRST_NORMAL_OID}


def is_user_catalog(reloptions: bytes | None) -> bool:
    """Whether pg_class.reloptions, a text[], says that it is one (`RelationIsUsedAsCatalogTable`)."""
    if reloptions is None or _OPTION not in reloptions:
        return False
    values = [each.removeprefix(_OPTION) for each in text_elements(reloptions) if each.startswith(_OPTION)]
    return bool(values) and parse_bool(values[0].decode("latin-1")) is True


class Truncated(NamedTuple):
    """A TRUNCATE record, its full xid, and the user files that the tables which it names had then, to its transaction."""

    lsn: int
    xid: int
    files: frozenset[int]


@dataclass(frozen=True, slots=True)
class UserTables:
    """The versions of pg_class, and which of them are of user catalog tables that lie in the tablespace of the database."""

    rows: CatalogRows
    is_one: NDArray[np.bool_]

    @classmethod
    def of(cls, versions: Versions, spans: Spans, major: int) -> UserTables:
        wanted = ("oid", "relfilenode", "reltablespace", "relkind", "reltoastrelid", "reloptions")
        rows = rows_of(versions, spans, _PG_CLASS, layouts_of(major)["pg_class"], wanted)
        is_one = np.isin(rows.columns["relkind"], _KINDS) & (rows.columns["reltablespace"] == 0)
        for row in np.flatnonzero(is_one).tolist():
            is_one[row] = is_user_catalog(rows.columns["reloptions"][row])
        return cls(rows, is_one)

    def first_of(self, number: int) -> int:
        """The first version of pg_class that names a file."""
        named = np.flatnonzero(self.rows.columns["relfilenode"] == number)
        return int(named[np.lexsort((self.rows.begin[named], self.rows.added[named]))[0]])

    def files_seen(self, oids: Collection[int], lsn: int, ordinal: int) -> frozenset[int]:
        """The files that relations have, and those of their TOAST tables, to a change at `lsn` in that transaction."""
        classes = self.rows.columns
        seen = self.rows.seen(np.flatnonzero(np.isin(classes["oid"], list(oids))), lsn, ordinal)
        toast = np.isin(classes["oid"], classes["reltoastrelid"][seen][classes["reltoastrelid"][seen] > 0])
        seen = np.append(seen, self.rows.seen(np.flatnonzero(toast), lsn, ordinal))
        return frozenset(classes["relfilenode"][seen].tolist())

    def toast_of(self, row: int) -> set[int]:
        """The files that the TOAST table of the table of this version ever had."""
        classes = self.rows.columns
        toast = int(classes["reltoastrelid"][row])
        return set(classes["relfilenode"][classes["oid"] == toast].tolist()) - {0} if toast else set()


def files_of_user_tables(tables: UserTables) -> set[int]:
    """All files that are, or ever were, user catalog tables' or their TOAST tables'."""
    numbers: set[int] = set()
    for row in np.flatnonzero(tables.is_one).tolist():
        numbers |= {int(tables.rows.columns["relfilenode"][row])} | tables.toast_of(row)
    return {number for number in numbers if number >= FIRST_NORMAL_OID}


def files_made(tables: UserTables, since: int, unread: NDArray[np.int64]) -> set[int]:
    """Those whose rows are all in the log: their makers committed behind `since`, and made user catalog tables of them from the first. What `unread`
    transactions (ordinals) did is not in the log as a whole. A table that an ALTER TABLE has made one has older rows, which nobody kept."""
    made = set()
    for number in files_of_user_tables(tables):
        first = tables.first_of(number)
        is_toast = number not in tables.rows.columns["relfilenode"][tables.is_one]
        if not is_toast and not tables.is_one[first]:
            continue
        if tables.rows.added[first] > 0 and tables.rows.begin[first] >= since and tables.rows.made_by[first] not in unread:
            made.add(number)
    return made


def files_there(tables: UserTables, sizes: Mapping[int, int]) -> set[int]:
    """Those that a data directory has whole; `sizes` are the bytes of those that it has. Of one that is no longer a table's nothing is left."""
    classes = tables.rows.columns
    current = set(classes["relfilenode"][tables.rows.end == NEVER].tolist())
    return {number for number in files_of_user_tables(tables) if sizes.get(number) or (number in sizes and number in current)}


def truncated_in_place(versions: Versions, outcomes: Outcomes, truncations: Iterable[Truncated]) -> Versions:
    """The same, with the rows ended that a TRUNCATE took away without a word about each: a table that its own subtransaction made, or gave a file,
    keeps that (`ExecuteTruncateGuts`). Others have a new file by then, and nothing is in it."""
    columns = versions.columns
    xmax, deleted = columns.xmax.copy(), columns.deleted.copy()
    rolled_back = outcomes.ordinals_of(columns.xmax) == ROLLED_BACK
    for each in truncations:
        mine = np.isin(columns.catalog, sorted(each.files)) & (columns.added < each.lsn) & ((xmax == 0) | rolled_back)
        xmax[mine], deleted[mine] = each.xid, each.lsn
    return replace(versions, columns=columns._replace(xmax=xmax, deleted=deleted))
