"""Which cached catalog rows a transaction invalidated: the SharedInvalidationMessages of commit records (`storage/sinval.h`).

In: the messages of `Ends`, 16 bytes each. Out: `Invalidations`, as columns. A message is of the union's size, whatever its kind; what its kind
does not use is not defined, and is written as zeros here. pgoutput takes what it keeps of a relation for
invalid when a relcache message names that.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tailrace.dataclass import dataclass
from tailrace.errors import CorruptWal
from tailrace.majors import INVALIDATIONS_OF_ALL_RELATIONS, Compared, supports
from tailrace.ragged import ranges
from tailrace.wal import xact
from tailrace.wal.kept_records import MainData
from tailrace.wal.xact import SIZE_OF_INVALIDATION

# `id` of a message; those from 0 on are the numbers of catalog caches
CATALOG = -1
RELCACHE = -2
SMGR = -3
RELMAP = -4
SNAPSHOT = -5
RELSYNC = -6  # since 18: what pgoutput keeps of a relation
EVERY_RELATION = 0
"""Instead of an oid: all of the database."""

_WORDS = {CATALOG: "catalog", RELCACHE: "relcache", SNAPSHOT: "snapshot", RELSYNC: "relsync"}

_LAYOUT = np.dtype(
    {
        "names": ["id", "backend_hi", "backend_lo", "first", "second", "third"],
        "formats": ["i1", "i1", "<u2", "<u4", "<u4", "<u4"],
        "offsets": [0, 1, 2, 4, 8, 12],
        "itemsize": SIZE_OF_INVALIDATION,
    }
)
"""`first` is the database, of SMGR a file's tablespace; `second` what is invalidated: a hash value, the oid of a catalog or relation, a
file's database. `third` is a file's number."""


@dataclass(frozen=True, slots=True)
class Invalidations:
    """Messages in their order: `id` says of which kind, `database` of which one (0: all), `object` what is invalidated; of SMGR and
    RELMAP that is 0."""

    id: NDArray[np.int64]
    database: NDArray[np.int64]
    object: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.id)

    def words(self) -> list[str]:
        """As pg_waldump says it."""
        found = []
        for kind, database, named in zip(self.id.tolist(), self.database.tolist(), self.object.tolist(), strict=True):
            if kind >= 0:
                found.append(f"catcache {kind}")
            elif kind == RELMAP:
                found.append(f"relmap db {database}" if database else "relmap")
            else:
                found.append(
                    "smgr" if kind == SMGR else f"{_WORDS[kind]} {named}" if kind in _WORDS else f"unrecognized id {kind}"
                )
        return found


def read_invalidations(data: NDArray[np.uint8]) -> Invalidations:
    """Messages that lie one after another."""
    rows = np.ascontiguousarray(data).view(_LAYOUT)
    kind = rows["id"].astype(np.int64)
    of_database = kind != SMGR
    return Invalidations(
        id=kind,
        database=np.where(of_database, rows["first"], 0).astype(np.int64),
        object=np.where(of_database & (kind != RELMAP), rows["second"], 0).astype(np.int64),
    )


def invalidations_of(kept: MainData) -> tuple[NDArray[np.int64], Invalidations]:
    """The messages of many XLOG_XACT_INVALIDATIONS records, one after another, and which record each is of. Raises CorruptWal for one that is too
    short."""
    size = xact.XactInvalidations.LAYOUT.size
    for row in np.flatnonzero(kept.length < size)[:1].tolist():
        raise CorruptWal("invalid length of transaction record", lsn=int(kept.lsn[row]))
    counts = kept.data[ranges(kept.at, np.full(len(kept.at), size))].view("<u4").astype(np.int64)
    for row in np.flatnonzero(kept.length < size + counts * SIZE_OF_INVALIDATION)[:1].tolist():
        raise CorruptWal("invalid length of transaction record", lsn=int(kept.lsn[row]))
    data = kept.data[ranges(kept.at + size, counts * SIZE_OF_INVALIDATION)]
    return np.repeat(np.arange(len(counts)), counts), read_invalidations(data)


def write_invalidations(messages: Invalidations) -> NDArray[np.uint8]:
    """The bytes again, of all but SMGR messages, whose file is not kept."""
    rows = np.zeros(len(messages), _LAYOUT)
    rows["id"], rows["first"], rows["second"] = messages.id, messages.database, messages.object
    return rows.view(np.uint8)


COMPARED = Compared(
    __name__, "storage/sinval.h, enum SysCacheIdentifier (utils/syscache.h) and init_rel_sync_cache (pgoutput.c)", upto=18
)
CACHES_OF_RELATIONS = COMPARED.table({14: (), 15: (48, 49, 51), 16: (36, 48, 49, 51), 18: (38,)})
"""The caches whose changes invalidate what pgoutput keeps of every relation (`init_rel_sync_cache`): PUBLICATIONOID, PUBLICATIONNAMESPACEMAP and
PUBLICATIONRELMAP, of which 18 asks RELSYNC instead; from 16 on NAMESPACEOID. In 14 publications decide what is sent, but not whether a relation is
sent again. Their numbers are places in an enumeration (`utils/syscache.h`), seen on servers of each major."""


_CATALOGS_OF_RELATIONS = COMPARED.table({14: (), 15: (6104, 6106, 6237), 16: (2615, 6104, 6106, 6237), 18: (2615,)})
"""The catalogs that are behind these caches: pg_namespace, pg_publication, pg_publication_rel, pg_publication_namespace. One that is rewritten
empties them."""


NOTHING = -1


def invalidated_relations(messages: Invalidations, database: int, major: int) -> NDArray[np.int64]:
    """By message, the oid of the relation of `database` that it invalidates: EVERY_RELATION if all of them, NOTHING if none."""
    caches, catalogs = CACHES_OF_RELATIONS[major], _CATALOGS_OF_RELATIONS[major]
    here = np.isin(messages.database, (0, database))
    named = np.isin(messages.id, (RELCACHE, RELSYNC)) & here
    if not supports(major, INVALIDATIONS_OF_ALL_RELATIONS):  # a message of ALTER PUBLICATION … FOR ALL TABLES finds none
        named &= messages.object != EVERY_RELATION
    every = (np.isin(messages.id, caches) | ((messages.id == CATALOG) & np.isin(messages.object, catalogs))) & here
    return np.where(named, messages.object, np.where(every, EVERY_RELATION, NOTHING))
