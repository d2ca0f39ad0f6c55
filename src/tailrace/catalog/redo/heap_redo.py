"""What heap records on catalogs say, a kernel for each kind (`access/heapam_xlog.h`; heap_redo and heap2_redo).

Each takes what replaying writes, the record at hand and the page of its first block, and returns a status of `replayed`. A page whose content
before is not known cannot be changed. What an image brings has been replayed by `whole_pages`, and is not put there again.

Locking, pruning, freezing, the visibility map and speculative confirmation leave what rows say, so they are not replayed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tailrace.catalog.pages.page_layout import MAX_HEAP_TUPLES_PER_PAGE
from tailrace.catalog.pages.tids import is_known, note_known, tid_of, version_at
from tailrace.catalog.redo.replay_buffers import (
    DONE,
    TUPLE_BYTES,
    UNKNOWN_PAGE,
    UNREADABLE,
    Target,
    add_version,
    rewrite_version,
)
from tailrace.catalog.redo.whole_pages import ADDS_NOTHING, ADDS_SEVERAL
from tailrace.catalog.rows.row_versions import XMAX_COMMITTED, XMAX_MULTI
from tailrace.kernels import inner_kernel
from tailrace.memcpy import memcpy
from tailrace.tuples.deform import user_data_at
from tailrace.wal import heap, records
from tailrace.wal.records import DATA, DATA_LENGTH, FIRST_BLOCK

SECOND_BLOCK = FIRST_BLOCK + records.BLOCK_FIELDS
_ENDED_ANEW = ~(XMAX_COMMITTED | XMAX_MULTI)


class ChangedPage(NamedTuple):
    """A heap record on a catalog: the page of its first block, whether that block has an image, and whether a page of which nothing is known may be
    changed: if all pages are known, one that is not there is empty."""

    target: Target
    has_image: bool
    complete: bool


@inner_kernel
def added_item(buf, parsed):  # type: ignore[no-untyped-def]
    """The line pointer that a record itself puts a tuple at, on its first page; ADDS_SEVERAL or ADDS_NOTHING."""
    does = heap.tuple_change(parsed)
    if does == heap.ADDS_TUPLE or does == heap.REPLACES_TUPLE:
        return heap.new_item(buf, parsed)
    return np.int64(ADDS_SEVERAL if does == heap.ADDS_TUPLES else ADDS_NOTHING)


@inner_kernel
def heap_redo(replayed, record, change, buf, parsed):  # type: ignore[no-untyped-def]
    """What a record of the managers HEAP and HEAP2 says of the page of its first block. Returns a status."""
    does = heap.tuple_change(parsed)
    if heap.has_old_item(parsed) and not 1 <= heap.old_item(buf, parsed) <= MAX_HEAP_TUPLES_PER_PAGE:
        return UNREADABLE
    if does == heap.LEAVES_TUPLES:
        return DONE
    if does == heap.OVERWRITES_TUPLE:
        if not change.has_image:
            replay_inplace(replayed, change, buf, parsed)
        return DONE
    if not page_is_known(replayed, change, parsed):
        return UNKNOWN_PAGE
    if does == heap.ADDS_TUPLES:
        return replay_multi_insert(replayed, record, change, buf, parsed)
    if does == heap.ADDS_TUPLE:
        return replay_insert(replayed, record, change, buf, parsed)
    if does == heap.REMOVES_TUPLE:
        return replay_delete(replayed, record, change, buf, parsed)
    if does == heap.REPLACES_TUPLE:
        return replay_update(replayed, record, change, buf, parsed)
    return UNREADABLE


@inner_kernel
def replay_insert(replayed, record, change, buf, parsed):  # type: ignore[no-untyped-def]
    """xl_heap_insert: one tuple, all of the block's data."""
    if change.has_image:
        return DONE
    length = parsed[FIRST_BLOCK + DATA_LENGTH]
    memcpy(replayed.tuples, replayed.used[TUPLE_BYTES], buf, parsed[FIRST_BLOCK + DATA], length)
    return add_version(replayed, record, change.target, heap.new_item(buf, parsed), length)


@inner_kernel
def replay_multi_insert(replayed, record, change, buf, parsed):  # type: ignore[no-untyped-def]
    """xl_heap_multi_insert: several tuples, one behind the other."""
    if change.has_image:
        return DONE
    at = parsed[FIRST_BLOCK + DATA]
    stop = at + parsed[FIRST_BLOCK + DATA_LENGTH]
    count = heap.tuple_count(buf, parsed)
    if count > MAX_HEAP_TUPLES_PER_PAGE:
        return UNREADABLE
    for n in range(count):
        if not heap.has_inserted(parsed, at):
            return UNREADABLE
        at, length = heap.next_inserted(buf, parsed, at)
        if at + length > stop:
            return UNREADABLE
        memcpy(replayed.tuples, replayed.used[TUPLE_BYTES], buf, at, length)
        status = add_version(replayed, record, change.target, heap.inserted_item(buf, parsed, n), length)
        if status != DONE:
            return status
        at += length
    return DONE


@inner_kernel
def replay_delete(replayed, record, change, buf, parsed):  # type: ignore[no-untyped-def]
    """xl_heap_delete. One that takes a speculative insertion back ends nothing that anybody saw."""
    target = change.target
    version = version_at(replayed.tids, tid_of(target.file, target.block, heap.old_item(buf, parsed)))
    if version >= 0 and not heap.takes_insert_back(buf, parsed):
        end_version(replayed.versions, version, record)
    return DONE


@inner_kernel
def replay_update(replayed, record, change, buf, parsed):  # type: ignore[no-untyped-def]
    """xl_heap_update: the old tuple is on the second block, if there is one, the new one on the first. Of the new one the record may leave out what
    it has in common with the old one, at its beginning and end."""
    target = change.target
    old_block = parsed[SECOND_BLOCK + records.BLOCK] if parsed[records.BLOCKS] > 1 else target.block
    if not change.complete and not is_known(replayed.tids, target.file, old_block):
        return UNKNOWN_PAGE
    old = version_at(replayed.tids, tid_of(target.file, old_block, heap.old_item(buf, parsed)))
    if old >= 0:
        end_version(replayed.versions, old, record)
    if change.has_image:
        return DONE
    prefix, suffix, at = heap.from_old(buf, parsed)
    length = parsed[FIRST_BLOCK + DATA] + parsed[FIRST_BLOCK + DATA_LENGTH] - at
    if prefix or suffix:
        if old < 0:
            return UNKNOWN_PAGE
        length = put_updated(replayed, old, prefix, suffix, buf, at, length)
    elif length > 0:
        memcpy(replayed.tuples, replayed.used[TUPLE_BYTES], buf, at, length)
    return add_version(replayed, record, target, heap.new_item(buf, parsed), length)


@inner_kernel
def put_updated(replayed, old, prefix, suffix, buf, at, length):  # type: ignore[no-untyped-def]
    """Put the new tuple of an update behind those in use: the first `prefix` bytes of its values and its last `suffix` bytes are the old tuple's, the
    others `buf[at : at + length]`. Returns its length, or -1 if that cannot be. A prefix stands behind null bitmap and padding."""
    tuples = replayed.tuples
    to = replayed.used[TUPLE_BYTES]
    old_at = replayed.versions.at[old]
    old_stop = old_at + replayed.versions.length[old]
    old_values = user_data_at(tuples, old_at)
    head = user_data_at(buf, at) - at if prefix else np.int64(heap.SIZE_OF_HEADER)
    if old_values < old_at or old_values + max(prefix, suffix) > old_stop or not heap.SIZE_OF_HEADER <= head <= length:
        return np.int64(-1)
    rest = length - head
    memcpy(tuples, to, buf, at, head)
    memcpy(tuples, to + head, tuples, old_values, prefix)
    memcpy(tuples, to + head + prefix, buf, at + head, rest)
    memcpy(tuples, to + head + prefix + rest, tuples, old_stop - suffix, suffix)
    return length + prefix + suffix


@inner_kernel
def replay_inplace(replayed, change, buf, parsed):  # type: ignore[no-untyped-def]
    """xl_heap_inplace: other bytes for the values of a tuple, for everybody and at once."""
    target = change.target
    version = version_at(replayed.tids, tid_of(target.file, target.block, heap.old_item(buf, parsed)))
    if version < 0:
        return
    at = replayed.versions.at[version]
    length = replayed.versions.length[version]
    head = user_data_at(replayed.tuples, at) - at
    to = replayed.used[TUPLE_BYTES]
    if heap.SIZE_OF_HEADER <= head <= length and length - head == parsed[FIRST_BLOCK + DATA_LENGTH]:
        memcpy(replayed.tuples, to, replayed.tuples, at, head)
        memcpy(replayed.tuples, to + head, buf, parsed[FIRST_BLOCK + DATA], length - head)
        rewrite_version(replayed, version, length)


@inner_kernel
def end_version(versions, version, record):  # type: ignore[no-untyped-def]
    """The record's transaction deletes or updates it, whoever tried to before."""
    versions.xmax[version] = record.xid
    versions.deleted[version] = record.lsn
    versions.hints[version] &= _ENDED_ANEW


@inner_kernel
def page_is_known(replayed, change, parsed):  # type: ignore[no-untyped-def]
    """Whether the content of the first block's page is known, or the record begins it anew; it is from now on."""
    target = change.target
    if not is_known(replayed.tids, target.file, target.block):
        if not (change.complete or parsed[FIRST_BLOCK + records.BLOCK_FLAGS] & records.WILL_INIT):
            return False
        note_known(replayed.tids, target.file, target.block)
    return True
