"""Rows that were copied: VACUUM FULL and CLUSTER write a catalog into a new file, tuple by tuple, and a copy is the version that we know from the
old file if catalog, xmin, xmax and bytes are the same.

Versions are found by a hash of that: `wal.hashing` names the newest with a hash, `older` the one before it. What two rows with equal hashes say is
compared byte by byte.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.pages.tids import NO_VERSION
from tailrace.catalog.rows.row_versions import XMAX_MULTI, XMIN_FROZEN
from tailrace.kernels import inner_kernel
from tailrace.transactions.epochs import LOW_WORD
from tailrace.wal.hashing import find
from tailrace.wal.heap import SIZE_OF_HEADER
from tailrace.wal.unaligned import u8, u64

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_BYTE_MULTIPLIER = np.uint64(1099511628211)


class Contents(NamedTuple):
    """`newest[i]` is the last version with the hash `key[i]`, of the first `used`; `older[v]` the one before version v with its hash, or -1."""

    key: NDArray[np.int64]
    newest: NDArray[np.int64]
    table: NDArray[np.int32]
    used: NDArray[np.int64]
    older: NDArray[np.int64]


@inner_kernel
def content_hash(catalog, xmin, data, at, length):  # type: ignore[no-untyped-def]
    """Of what two copies of a row have alike: of xmin without its epoch, for a frozen copy has none; not of t_infomask and t_hoff."""
    mixed = np.uint64(catalog) * _MULTIPLIER ^ np.uint64(xmin & LOW_WORD)
    words = SIZE_OF_HEADER + ((length - SIZE_OF_HEADER) & ~7)
    for i in range(SIZE_OF_HEADER, words, 8):
        mixed = (mixed ^ np.uint64(u64(data, at + i))) * _MULTIPLIER
        mixed ^= mixed >> np.uint64(32)
    for i in range(words, length):
        mixed = (mixed ^ np.uint64(u8(data, at + i))) * _BYTE_MULTIPLIER
    return np.int64(mixed >> np.uint64(1))


@inner_kernel
def note_content(contents, versions, tuples, version):  # type: ignore[no-untyped-def]
    """From now on the version is found by its content."""
    key = content_hash(versions.catalog[version], versions.xmin[version], tuples, versions.at[version], versions.length[version])
    slot = find(contents.table, contents.key, key)
    if slot < 0:
        new = contents.used[0]
        contents.used[0] += 1
        contents.table[-1 - slot] = new
        contents.key[new] = key
        contents.newest[new] = version
    elif contents.newest[slot] < version and contents.older[version] < 0:
        contents.older[version] = contents.newest[slot]
        contents.newest[slot] = version


@inner_kernel
def has_tuple(versions, tuples, version, page, stored):  # type: ignore[no-untyped-def]
    """Whether a tuple on a page has the values of a version: the same bytes behind its header."""
    if versions.length[version] != stored.length:
        return False
    known = versions.at[version]
    for i in range(SIZE_OF_HEADER, stored.length):
        if tuples[known + i] != page[stored.at + i]:
            return False
    return True


@inner_kernel
def has_xmin(versions, version, stored):  # type: ignore[no-untyped-def]
    """Whether a tuple's xmin is that of a version. A frozen one keeps its 32 bits, and no epoch."""
    known = versions.xmin[version]
    frozen = (stored.hints | versions.hints[version]) & XMIN_FROZEN
    return known == stored.xmin or (frozen != 0 and known & LOW_WORD == stored.xmin & LOW_WORD)


@inner_kernel
def copied_version(contents, versions, tuples, catalog, page, stored):  # type: ignore[no-untyped-def]
    """The version that a tuple on a page of `catalog` is a copy of, or NO_VERSION. If none has its xmax, one that was deleted meanwhile."""
    slot = find(contents.table, contents.key, content_hash(catalog, stored.xmin, page, stored.at, stored.length))
    version = contents.newest[slot] if slot >= 0 else np.int64(NO_VERSION)
    deleted_meanwhile = np.int64(NO_VERSION)
    while version >= 0:
        alike = versions.catalog[version] == catalog and has_xmin(versions, version, stored)
        if alike and has_tuple(versions, tuples, version, page, stored):
            xmax = versions.xmax[version]
            if xmax == stored.xmax or (stored.hints & XMAX_MULTI and xmax != 0):
                return version
            if stored.xmax == 0 and deleted_meanwhile < 0:
                deleted_meanwhile = version
        version = contents.older[version]
    return deleted_meanwhile
