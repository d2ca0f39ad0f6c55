"""Where versions of catalog rows stand: (file, block, line pointer) as one number, and a table of the version last put there.

A file is known by its number among the state's; line pointer 0 stands for the page itself, and is there if the page's content is known.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailrace.kernels import inner_kernel, kernel
from tailrace.wal.hashing import find

NO_VERSION = -1

_ITEM_BITS = 11  # line pointers of a page of 8 kB: MaxOffsetNumber is 2048, and a heap page has fewer
_BLOCK_BITS = 32
_BLOCK = (1 << _BLOCK_BITS) - 1


class Tids(NamedTuple):
    """`version[i]` is what stands at `key[i]`; found by the `wal.hashing` table. `used` are the first so many."""

    key: NDArray[np.int64]
    version: NDArray[np.int64]
    table: NDArray[np.int32]
    used: NDArray[np.int64]


@kernel
def tid_of(file, block, item):  # type: ignore[no-untyped-def]
    """(file, block, line pointer) as one number."""
    return (np.int64(file) << (_BLOCK_BITS + _ITEM_BITS)) | (np.int64(block) << _ITEM_BITS) | np.int64(item)


def tids_of_pages(file: int, blocks: NDArray[np.int64]) -> NDArray[np.int64]:
    """The same of whole pages of a file."""
    return (np.int64(file) << (_BLOCK_BITS + _ITEM_BITS)) | (blocks << _ITEM_BITS)


def files_of(tids: NDArray[np.int64]) -> NDArray[np.int64]:
    """The file number of each tid."""
    return tids >> (_BLOCK_BITS + _ITEM_BITS)


def moved_tids(tids: NDArray[np.int64], files: NDArray[np.int64]) -> NDArray[np.int64]:
    """The same places in the files with these numbers."""
    within = (1 << (_BLOCK_BITS + _ITEM_BITS)) - 1
    return (files << (_BLOCK_BITS + _ITEM_BITS)) | (tids & within)


@inner_kernel
def version_at(tids, tid):  # type: ignore[no-untyped-def]
    """The version last put there, or NO_VERSION."""
    slot = find(tids.table, tids.key, tid)
    return tids.version[slot] if slot >= 0 else np.int64(NO_VERSION)


@inner_kernel
def put_version(tids, tid, version):  # type: ignore[no-untyped-def]
    """From now on it is `version` that stands there."""
    slot = find(tids.table, tids.key, tid)
    if slot < 0:
        tids.table[-1 - slot] = tids.used[0]
        slot = tids.used[0]
        tids.key[slot] = tid
        tids.used[0] += 1
    tids.version[slot] = version


@inner_kernel
def is_known(tids, file, block):  # type: ignore[no-untyped-def]
    """Whether the page's content is known."""
    return find(tids.table, tids.key, tid_of(file, block, 0)) >= 0


@inner_kernel
def note_known(tids, file, block):  # type: ignore[no-untyped-def]
    """From here on the page's content is known."""
    put_version(tids, tid_of(file, block, 0), np.int64(NO_VERSION))
