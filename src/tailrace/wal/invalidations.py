"""Which cached catalog rows a transaction made stale: the SharedInvalidationMessages of commit records (`storage/sinval.h`).

In: the messages of `Ends`, 16 bytes each. Out: `Invalidations`, as columns. A message is of the union's size, whatever its kind; what its kind
does not use is not defined, and is written as zeros here. Who keeps what is known of relations, as pgoutput does, takes it for stale when a relcache
message names it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailrace.wal.xact import SIZE_OF_INVALIDATION, Ends

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
"""`first` is the database, of SMGR a file's tablespace; `second` what is stale: a hash value, the oid of a catalog or relation, a file's database.
`third` is a file's number."""


@dataclass(frozen=True, slots=True)
class Invalidations:
    """Messages in their order: `id` says of which kind, `database` of which one (0: all), `object` what is stale; of SMGR and RELMAP that is 0."""

    id: NDArray[np.int64]
    database: NDArray[np.int64]
    object: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.id)

    def words(self) -> list[str]:
        """As pg_waldump says it."""
        found = []
        for kind, database, stale in zip(self.id.tolist(), self.database.tolist(), self.object.tolist(), strict=True):
            if kind >= 0:
                found.append(f"catcache {kind}")
            elif kind == RELMAP:
                found.append(f"relmap db {database}" if database else "relmap")
            else:
                found.append(
                    "smgr" if kind == SMGR else f"{_WORDS[kind]} {stale}" if kind in _WORDS else f"unrecognized id {kind}"
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


def write_invalidations(messages: Invalidations) -> NDArray[np.uint8]:
    """The bytes again, of all but SMGR messages, whose file is not kept."""
    rows = np.zeros(len(messages), _LAYOUT)
    rows["id"], rows["first"], rows["second"] = messages.id, messages.database, messages.object
    return rows.view(np.uint8)


@dataclass(frozen=True, slots=True)
class StaleRelations:
    """Relations of one database that transactions made stale: by the LSN of the commit, in that order, an oid, or EVERY_RELATION."""

    commit_lsn: NDArray[np.int64]
    oid: NDArray[np.int64]


def stale_relations(ends: Ends, database: int, kinds: tuple[int, ...] = (RELCACHE, RELSYNC)) -> StaleRelations:
    """What the commits among these ends say is stale of the relations of `database`, or of all databases."""
    messages = read_invalidations(ends.invalidations)
    of_end = np.repeat(np.arange(len(ends)), np.diff(ends.invalidation_bounds))
    mine = np.isin(messages.id, kinds) & np.isin(messages.database, (0, database))
    return StaleRelations(ends.lsn[of_end[mine]], messages.object[mine])
