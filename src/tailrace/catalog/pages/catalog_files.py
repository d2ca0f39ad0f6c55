"""Which files hold the catalogs of a database: by the numbers that initdb gave, relation maps, and pg_class itself; and where they may lie."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.data_directory.relation_map import read_relation_map
from tailrace.catalog.rows.catalog_rows import Spans, rows_of
from tailrace.catalog.rows.layouts import layouts_of
from tailrace.catalog.rows.row_versions import Versions
from tailrace.kernels import inner_kernel
from tailrace.wal import records
from tailrace.wal.hashing import find, rehashed
from tailrace.wal.index import TRACKED_CATALOGS
from tailrace.wal.relmap import RelationMapUpdate

FileKey = tuple[int, int]
"""(database, or 0 for shared catalogs; file number)."""

SHARED_CATALOGS = frozenset({1260, 1262, 6000})
_MAIN_FORK = 0  # MAIN_FORKNUM (`common/relpath.h`)
_PG_CLASS = 1259
_PG_DATABASE = 1262

NO_FILE = -1
"""Instead of the number of a catalog's file: another relation's."""


class CatalogFiles(NamedTuple):
    """The catalogs' files for kernels, numbered in the order in which a state names them: file i is `key[i]` (database << 32 | file number), found
    by a `wal.hashing` table, and holds the catalog with oid `catalog[i]`. Those of the database lie in one of `tablespaces`; elsewhere a file of the
    same number is another."""

    key: NDArray[np.int64]
    catalog: NDArray[np.int64]
    table: NDArray[np.int32]
    tablespaces: NDArray[np.int64]

    @classmethod
    def of(cls, files: Mapping[FileKey, int], tablespaces: frozenset[int]) -> CatalogFiles:
        key = np.array([(database << 32) | number for database, number in files], np.int64)
        return cls(
            key=key,
            catalog=np.array(list(files.values()), np.int64),
            table=rehashed(key, len(key), max(len(key), 1)),
            tablespaces=np.array(sorted(tablespaces), np.int64),
        )


@inner_kernel
def catalog_file(parsed, block, files):  # type: ignore[no-untyped-def]
    """The number of the catalog's file whose main fork a block reference is to, or NO_FILE."""
    if parsed[block + records.FORK] != _MAIN_FORK:
        return np.int64(NO_FILE)
    database = parsed[block + records.DATABASE]
    file = find(files.table, files.key, (database << 32) | parsed[block + records.NUMBER])
    if file < 0:
        return np.int64(NO_FILE)
    if database == 0:
        return file
    for i in range(len(files.tablespaces)):
        if files.tablespaces[i] == parsed[block + records.TABLESPACE]:
            return file
    return np.int64(NO_FILE)


def initial_files(database: int, shared_map: dict[int, int], database_map: dict[int, int]) -> dict[FileKey, int]:
    """File -> catalog oid, from the numbers initdb gave and from the relation maps."""
    files: dict[FileKey, int] = {}
    for oid in TRACKED_CATALOGS:
        files[(0 if oid in SHARED_CATALOGS else database, oid)] = oid
    for relation_map, where in ((shared_map, 0), (database_map, database)):
        files |= {(where, number): oid for oid, number in relation_map.items() if oid in TRACKED_CATALOGS}
    return files


def files_of_map_records(updates: Iterable[RelationMapUpdate], database: int) -> dict[FileKey, int]:
    """What the relation maps in the log add. Raises CorruptFile for a map that is damaged."""
    files: dict[FileKey, int] = {}
    for update in updates:
        if update.database in (0, database):
            mapped = read_relation_map(update.map, "RELMAP record")
            files |= {(update.database, number): oid for oid, number in mapped.items() if oid in TRACKED_CATALOGS}
    return files


def files_of_pg_class(versions: Versions, spans: Spans, database: int, major: int, since: int) -> dict[FileKey, int]:
    """What pg_class says about the catalogs that are not mapped, in every version that somebody saw at `since` or later. Older ones may be back
    for a moment, when VACUUM FULL has copied one that was forgotten, and name files that were."""
    rows = rows_of(versions, spans, _PG_CLASS, layouts_of(major)["pg_class"], ("oid", "relfilenode"))
    mine = rows.end >= since
    pairs = zip(rows.columns["oid"][mine].tolist(), rows.columns["relfilenode"][mine].tolist(), strict=True)
    return {
        (0 if oid in SHARED_CATALOGS else database, number): oid for oid, number in pairs if oid in TRACKED_CATALOGS and number
    }


def tablespaces_of(versions: Versions, spans: Spans, database: int, major: int) -> frozenset[int]:
    """Where pg_database says, in every version of it, that the database lay: with its catalogs, and all that has no tablespace of its own."""
    rows = rows_of(versions, spans, _PG_DATABASE, layouts_of(major)["pg_database"], ("oid", "dattablespace"))
    return frozenset(rows.columns["dattablespace"][rows.columns["oid"] == database].tolist())
