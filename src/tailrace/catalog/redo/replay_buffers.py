"""What replaying catalog records writes, with room for more: versions of rows, where they stand, and how copies of them are found.

Kernels write into arrays that are long enough for whatever one record can bring (`lacking`); between records the arrays are made longer.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.pages.page_layout import MAX_HEAP_TUPLES_PER_PAGE, MAXALIGN
from tailrace.catalog.pages.tids import Tids, put_version, tid_of
from tailrace.catalog.redo.copied_rows import Contents, note_content
from tailrace.catalog.rows.row_versions import VersionColumns, Versions
from tailrace.kernels import inner_kernel
from tailrace.model import PAGE_SIZE
from tailrace.wal.hashing import grown, rehashed
from tailrace.wal.heap import SIZE_OF_HEADER
from tailrace.wal.records import MAX_BLOCKS

# How replaying went
DONE = 0
UNREADABLE = 1
UNKNOWN_PAGE = 2  # the record changes a page whose content before is not known
# The record was not touched, and is to be replayed once there is more room
MORE_ROWS = 3
MORE_BYTES = 4

# What of the room is used
VERSIONS = 0
TUPLE_BYTES = 1
REWRITTEN = 2

_ROWS_OF_RECORD = (MAX_BLOCKS + 1) * MAX_HEAP_TUPLES_PER_PAGE
"""Versions that a record brings or rewrites at most: a page of them for each of its images, and as many that it inserts itself. Each is noted by its
content, once."""
_PLACES_OF_RECORD = _ROWS_OF_RECORD + MAX_BLOCKS + 1
"""Line pointers and pages that those stand at."""
_BYTES_OF_RECORD = MAX_BLOCKS * PAGE_SIZE + 4 * 65536 + MAXALIGN * _ROWS_OF_RECORD
"""Bytes of tuples that a record brings at most, aligned: its pages, what it says itself (xl_data_length is 16 bits wide), and of an update the old
tuple's beginning and end."""


class Replayed(NamedTuple):
    """Of `versions`, `tuples` and `rewritten` the first `used` entries mean something. `rewritten` are versions whose bytes the record at hand has
    changed."""

    versions: VersionColumns
    tuples: NDArray[np.uint8]
    tids: Tids
    contents: Contents
    rewritten: NDArray[np.int64]
    used: NDArray[np.int64]


class ReplayedRecord(NamedTuple):
    """The record at hand: its LSN and full xid, and a full xid that tells the epoch of others on its pages (`transactions.epochs`). A page of the
    directory counts as a record at 0 of transaction 0."""

    lsn: np.int64
    xid: np.int64
    next_xid: np.int64


class Target(NamedTuple):
    """A page of a catalog: the number of its file among the state's (NO_FILE: another relation's), the catalog, and its block."""

    file: np.int64
    catalog: np.int64
    block: np.int64


def with_room(versions: Versions, rows: int, size: int) -> Replayed:
    """Copies of `versions`, with room for about so many more, of `size` bytes together."""
    count, places = len(versions), len(versions.tids)
    nothing = np.zeros(0, np.int64)
    tids = Tids(versions.tids, versions.version_at, np.zeros(0, np.int32), np.array([places]))
    contents = Contents(nothing, nothing, np.zeros(0, np.int32), np.zeros(1, np.int64), np.full(count, -1, np.int64))
    rewritten = np.zeros(_ROWS_OF_RECORD, np.int64)
    replayed = Replayed(versions.columns, versions.tuples, tids, contents, rewritten, np.array([count, len(versions.tuples), 0]))
    return with_more_room(replayed, rows, size)


def with_more_room(replayed: Replayed, more_rows: int, more_bytes: int) -> Replayed:
    """Longer copies of all arrays, for so much more than there is room for now, and one record."""
    versions, tids, contents = replayed.versions, replayed.tids, replayed.contents
    rows = len(versions.xmin) + more_rows + _ROWS_OF_RECORD
    places = len(tids.key) + more_rows + _PLACES_OF_RECORD
    # A version whose bytes change is noted once more: there may be more contents than versions.
    noted = max(len(contents.key), len(versions.xmin)) + more_rows + _ROWS_OF_RECORD
    tid_keys, content_keys = grown(tids.key, places), grown(contents.key, noted)
    older = np.full(rows, -1, np.int64)
    older[: len(contents.older)] = contents.older
    return replayed._replace(
        versions=VersionColumns(*(grown(column, rows) for column in versions)),
        tuples=grown(replayed.tuples, len(replayed.tuples) + more_bytes + _BYTES_OF_RECORD),
        tids=tids._replace(key=tid_keys, version=grown(tids.version, places), table=rehashed(tid_keys, tids.used[0], places)),
        contents=Contents(
            key=content_keys,
            newest=grown(contents.newest, noted),
            table=rehashed(content_keys, contents.used[0], noted),
            used=contents.used,
            older=older,
        ),
    )


def doubled(replayed: Replayed, status: int) -> Replayed:
    """With twice the room of what the status says is `lacking`. Whole pages bring many rows, and few bytes that were not counted."""
    if status == MORE_ROWS:
        return with_more_room(replayed, len(replayed.versions.xmin), 0)
    return with_more_room(replayed, 0, len(replayed.tuples))


def versions_of(replayed: Replayed) -> Versions:
    """What was replayed, without the room."""
    count, size = replayed.used[VERSIONS], replayed.used[TUPLE_BYTES]
    places = replayed.tids.used[0]
    return Versions(
        columns=VersionColumns(*(column[:count].copy() for column in replayed.versions)),
        tuples=replayed.tuples[:size].copy(),
        tids=replayed.tids.key[:places].copy(),
        version_at=replayed.tids.version[:places].copy(),
    )


@inner_kernel
def lacking(replayed):  # type: ignore[no-untyped-def]
    """What there is too little room of for all that one record can bring: a status, DONE where there is enough."""
    if (
        replayed.used[VERSIONS] + _ROWS_OF_RECORD > len(replayed.versions.xmin)
        or replayed.tids.used[0] + _PLACES_OF_RECORD > len(replayed.tids.key)
        or replayed.contents.used[0] + _ROWS_OF_RECORD > len(replayed.contents.key)
    ):
        return MORE_ROWS
    if replayed.used[TUPLE_BYTES] + _BYTES_OF_RECORD > len(replayed.tuples):
        return MORE_BYTES
    return DONE


@inner_kernel
def add_version(replayed, record, target, item, length):  # type: ignore[no-untyped-def]
    """A tuple that the record inserts, whose bytes the caller has put behind those in use. Returns a status."""
    if not 1 <= item <= MAX_HEAP_TUPLES_PER_PAGE or not SIZE_OF_HEADER <= length <= PAGE_SIZE:
        return UNREADABLE
    versions = replayed.versions
    version = replayed.used[VERSIONS]
    replayed.used[VERSIONS] += 1
    versions.catalog[version] = target.catalog
    versions.xmin[version] = record.xid
    versions.xmax[version] = 0
    versions.added[version] = record.lsn
    versions.deleted[version] = 0
    versions.hints[version] = 0
    versions.at[version] = replayed.used[TUPLE_BYTES]
    versions.length[version] = length
    use_bytes(replayed, length)
    put_version(replayed.tids, tid_of(target.file, target.block, item), version)
    return DONE


@inner_kernel
def use_bytes(replayed, length):  # type: ignore[no-untyped-def]
    """`length` more bytes of tuples are in use."""
    replayed.used[TUPLE_BYTES] += (length + MAXALIGN - 1) & -MAXALIGN


@inner_kernel
def rewrite_version(replayed, version, length):  # type: ignore[no-untyped-def]
    """The version has other bytes from now on, which the caller has put behind those in use."""
    replayed.versions.at[version] = replayed.used[TUPLE_BYTES]
    use_bytes(replayed, length)
    replayed.rewritten[replayed.used[REWRITTEN]] = version
    replayed.used[REWRITTEN] += 1


@inner_kernel
def note_contents(replayed, first):  # type: ignore[no-untyped-def]
    """Versions from number `first` on, and those that were rewritten, are found by their contents from now on."""
    for i in range(replayed.used[REWRITTEN]):
        note_content(replayed.contents, replayed.versions, replayed.tuples, replayed.rewritten[i])
    replayed.used[REWRITTEN] = 0
    for version in range(first, replayed.used[VERSIONS]):
        note_content(replayed.contents, replayed.versions, replayed.tuples, version)
