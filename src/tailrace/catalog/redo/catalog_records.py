"""The catalog records of a log, and those that a scan could not know to be some.

A scan keeps the records of the files that initdb gave to the catalogs, and of others from where a NEW_CID names them on. A catalog that VACUUM FULL
or CLUSTER moved lies in a file that only its own rows name; stretches that list such a file are scanned once more (a *supplement*).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from tailrace.catalog.pages.catalog_files import FileKey
from tailrace.catalog.redo.replay import CatalogLog
from tailrace.kernels import kernel
from tailrace.model import FIRST_NORMAL_OID, Locator, Stretch
from tailrace.wal import index, records
from tailrace.wal.index import Index
from tailrace.wal.versions import FORMATS


def catalog_log(indexes: Sequence[Index]) -> CatalogLog:
    """The catalog records of all indexes (supplements included), in WAL order and once each."""
    parts = [(part.kept, part.kept.rows_of(index.KEPT_CATALOG_CHANGE)) for part in indexes]
    lsn = np.concatenate([kept.lsn[rows] for kept, rows in parts])
    length = np.concatenate([kept.length[rows] for kept, rows in parts])
    base = np.cumsum([0, *(len(kept.data) for kept, _ in parts)])
    at = np.concatenate([kept.at[rows] + base[i] for i, (kept, rows) in enumerate(parts)])
    data = np.concatenate([kept.data for kept, _ in parts])
    if (lsn[1:] > lsn[:-1]).all():
        return CatalogLog(lsn, at, length, data)
    lsn, first = np.unique(lsn, return_index=True)  # a supplement may have what an index has
    return CatalogLog(lsn, at[first], length[first], data)


def about(log: CatalogLog, files: Collection[FileKey], major: int) -> CatalogLog:
    """The records of these files alone."""
    keys = np.array(sorted(database << 32 | number for database, number in files), np.int64)
    rows = np.flatnonzero(np.isin(first_files(log.data, log.at, log.length, FORMATS[major].image_compressed), keys))
    return log._replace(lsn=log.lsn[rows], at=log.at[rows], length=log.length[rows])


@kernel
def first_files(data, at, length, compressed):  # type: ignore[no-untyped-def]
    """The file of each record's first block, as `file_key` has it."""
    parsed = np.zeros(records.PARSED_SIZE, np.int64)
    keys = np.empty(len(at), np.int64)
    for i in range(len(at)):
        records.parse(data, at[i], length[i], compressed, parsed)
        keys[i] = records.file_key(parsed)
    return keys


def listed(part: Index, files: Mapping[FileKey, int]) -> list[Locator]:
    """Those of the files that have records in the stretch."""
    rows = np.flatnonzero(np.isin(part.files.number, [of for _, of in files]))
    columns = (part.files.tablespace, part.files.database, part.files.number)
    locators = [Locator(*each) for each in zip(*(column[rows].tolist() for column in columns), strict=True)]
    return [locator for locator in locators if (locator.database, locator.number) in files]


def lacking(
    indexes: Sequence[Index], files: Mapping[FileKey, int], tablespaces: frozenset[int], supplements: Sequence[Index]
) -> dict[Stretch, list[Locator]]:
    """Stretches that list a catalog's file without having kept its records, and the files. Those of one database lie in these tablespaces."""
    have = {(supplement.stretch, file) for supplement in supplements for file in supplement.also}
    wanted: dict[Stretch, list[Locator]] = {}
    for part in indexes:
        for locator in listed(part, files):
            if locator.database and locator.tablespace not in tablespaces:
                continue
            # A file named by a NEW_CID is kept only from there on, so it is asked for as well.
            if locator.number >= FIRST_NORMAL_OID and (part.stretch, locator) not in have:
                wanted.setdefault(part.stretch, []).append(locator)
    return wanted
