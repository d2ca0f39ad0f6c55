"""Catalog records -> versions of catalog rows.

In: the records that indexes kept on catalog files, in WAL order, and pages to begin with. Out: every version of every row that was ever
there, with the transactions that made and unmade it, and where in WAL that happened. Pruning, freezing and locking leave no trace in what a
row said, so they are not replayed; a version, once seen, stays. That is what makes history possible where pages alone have
none (rule 5).

A catalog that is rewritten (VACUUM FULL, CLUSTER) writes images of a new file. A row found there is the version that we know from
the old file, if one has the same xmin, the same xmax and the same bytes; then both places name one version. Otherwise the old file's page was not
to be had, and the copy is how we learn of the row.

Invariants: `occupant` maps (file, block, item) to the version last put there. A page whose content is unknown when it is first
changed, with neither image
nor initialisation, is an error, never an empty page.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailrace.kernels import kernel
from tailrace.transactions.epochs import LOW_WORD, with_epoch
from tailrace.wal import heap, records
from tailrace.wal.compression import lz4, pglz
from tailrace.wal.hashing import find, grown, new_table, rehashed
from tailrace.wal.records import DATA, DATA_LENGTH, FIRST_BLOCK, IMAGE, INFO, MAIN, MANAGER, XID
from tailrace.wal.resource_managers import HEAP, HEAP2
from tailrace.wal.unaligned import u16, u32, u64

# Columns of a version
V_CATALOG = 0
V_XMIN = 1  # full, as is xmax
V_XMAX = 2  # 0: none, or only a lock
V_ADDED = 3  # LSN of the record that put it there; 0: before what we saw
V_DELETED = 4
V_AT = 5  # bytes in the heap: xl_heap_header and what follows
V_LENGTH = 6
V_STATE = 7  # hint bits, see below
V_FIELDS = 8

XMIN_COMMITTED = 1
XMIN_ABORTED = 2
XMAX_COMMITTED = 4
XMAX_MULTI = 8  # xmax is a multixact with an updater, which only pg_multixact can name
XMIN_FROZEN = 16  # committed so long ago that its xid may be another transaction's by now: the epoch of xmin means nothing

PAGE_KNOWN = 1
PAGE_TOUCHED = 2
PAGE_FIRST_TOUCH_WHOLE = 4  # … by an image or an initialisation

_ITEM_BITS = 11  # items per page < 2048
_BLOCK_BITS = 32


@kernel
def tid_key(file, block, item):  # type: ignore[no-untyped-def]
    """(file, block, item) as one number; item 0 stands for the page."""
    return (np.int64(file) << (_BLOCK_BITS + _ITEM_BITS)) | (np.int64(block) << _ITEM_BITS) | np.int64(item)


def file_of(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """The number of the file that each `tid_key` names."""
    return keys >> (_BLOCK_BITS + _ITEM_BITS)


@kernel
def content_key(catalog, xmin, buf, at, length):  # type: ignore[no-untyped-def]
    """A hash of what makes two copies of a row the same version; of xmin without its epoch, for a frozen copy has none."""
    mixed = np.uint64(catalog) * np.uint64(0x9E3779B97F4A7C15) ^ np.uint64(xmin & LOW_WORD)
    words = 5 + ((length - 5) & ~7)
    for i in range(5, words, 8):
        mixed = (mixed ^ np.uint64(u64(buf, at + i))) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(32)
    for i in range(words, length):
        mixed = (mixed ^ np.uint64(buf[at + i])) * np.uint64(1099511628211)
    return np.int64(mixed >> np.uint64(1))


@kernel
def same_bytes(a, a_at, b, b_at, length):  # type: ignore[no-untyped-def]
    """Whether two ranges are equal."""
    for i in range(length):
        if a[a_at + i] != b[b_at + i]:
            return False
    return True


@kernel
def same_xmin(versions, version, xmin, state):  # type: ignore[no-untyped-def]
    """Whether a tuple's xmin is that of a version. A frozen one keeps its 32 bits, and no epoch."""
    known = versions[version, V_XMIN]
    frozen = (state | versions[version, V_STATE]) & XMIN_FROZEN
    return known == xmin or (frozen != 0 and known & LOW_WORD == xmin & LOW_WORD)


@kernel
def catalog_file(parsed, block, file_table, file_key, tablespaces):  # type: ignore[no-untyped-def]
    """Number of the catalog file that a block is on, or -1. Those of the database lie in one of `tablespaces`; elsewhere a file of the same number is
    another."""
    database = parsed[block + records.DATABASE]
    file = find(file_table, file_key, (database << 32) | parsed[block + records.NUMBER])
    if file >= 0 and database != 0:
        for tablespace in tablespaces:
            if tablespace == parsed[block + records.TABLESPACE]:
                return file
        return np.int64(-1)
    return file


@kernel
def restore_image(buf, parsed, block, pglz_bit, lz4_bit, zstd_bit, page, scratch, images, image_row, row):  # type: ignore[no-untyped-def]
    """The page of a block's image, hole filled. False if it cannot be expanded here."""
    at = parsed[block + IMAGE]
    length = parsed[block + records.IMAGE_LENGTH]
    hole = parsed[block + records.HOLE]
    hole_length = parsed[block + records.HOLE_LENGTH]
    info = parsed[block + records.IMAGE_INFO]
    raw = 8192 - hole_length
    if info & (pglz_bit | lz4_bit | zstd_bit):
        if info & pglz_bit:
            done = pglz(buf, at, at + length, scratch, 0, raw)
        elif info & lz4_bit:
            done = lz4(buf, at, at + length, scratch, 0, raw)
        else:
            # zstd was expanded beforehand; its pages stand in `images`, found by the offset of the compressed bytes
            done = -1
            for i in range(len(image_row)):
                if image_row[i] == at:
                    scratch[:raw] = images[i, :raw]
                    done = raw
                    break
        if done != raw:
            return False
    else:
        scratch[:raw] = buf[at : at + raw]
    if hole_length == 0:
        page[:] = scratch[:8192]
    else:
        page[:hole] = scratch[:hole]
        page[hole : hole + hole_length] = 0
        page[hole + hole_length :] = scratch[hole:raw]
    return True


@kernel
def first_touches(buf, at, length, compressed, apply_bit, file_table, file_key, tablespaces):  # type: ignore[no-untyped-def]
    """Which catalog pages the records touch; pruning, freezing and the like do not count, unless they bring an image.

    Returns (page keys, lsn row of the first touch, flags) with keys as `tid_key(file, block, 0)`.
    """
    parsed = np.zeros(records.PARSED_SIZE, np.int64)
    capacity = 1024
    table = new_table(capacity)
    keys = np.zeros(capacity, np.int64)
    rows = np.zeros(capacity, np.int64)
    flags = np.zeros(capacity, np.uint8)
    count = 0
    for row in range(len(at)):
        if not records.parse(buf, at[row], length[row], compressed, parsed):
            continue
        manager = parsed[MANAGER]
        if manager == HEAP2 and parsed[INFO] & heap.OPCODE == heap.NEW_CID:
            continue
        for i in range(parsed[records.BLOCKS]):
            block = FIRST_BLOCK + i * records.BLOCK_FIELDS
            if parsed[block + records.FORK] != 0:
                continue
            file = catalog_file(parsed, block, file_table, file_key, tablespaces)
            if file < 0:
                continue
            whole = parsed[block + records.BLOCK_FLAGS] & records.WILL_INIT
            if parsed[block + IMAGE] != 0 and parsed[block + records.IMAGE_INFO] & apply_bit:
                whole = 1
            if not whole and not heap.changes_rows(parsed):
                continue
            key = tid_key(file, parsed[block + records.BLOCK], 0)
            place = find(table, keys, key)
            if place >= 0:
                continue
            if count + 1 > capacity // 2:
                capacity *= 4
                keys = grown(keys, capacity)
                rows = grown(rows, capacity)
                flags = grown(flags, capacity)
                table = rehashed(keys, count, capacity)
                place = find(table, keys, key)
            table[-1 - place] = count
            keys[count] = key
            rows[count] = row
            flags[count] = PAGE_TOUCHED | (PAGE_FIRST_TOUCH_WHOLE if whole else 0)
            count += 1
    return keys[:count], rows[:count], flags[:count]


@kernel
def replay(
    buf,
    at,
    length,
    lsn,
    next_xid,
    base_next_xid,
    compressed,
    apply_bit,
    pglz_bit,
    lz4_bit,
    zstd_bit,
    inplace_header,
    file_table,
    file_key,
    file_catalog,
    tablespaces,
    base_pages,
    base_key,
    images,
    image_row,
    complete,
    versions,
    version_count,
    store,
    store_used,
    place_key,
    place_version,
):  # type: ignore[no-untyped-def]
    """Play catalog records over the base pages and versions. See `Versions` for what comes out; `complete` says that unknown pages are empty.
    `next_xid` is, per record, a full xid that tells the epoch of others there (`transactions.epochs`), `base_next_xid` one for the base pages.

    Returns (versions, count, store, used, place keys, place versions, bad row or -1, whether bad means an unknown page).
    """
    parsed = np.zeros(records.PARSED_SIZE, np.int64)
    page = np.zeros(8192, np.uint8)
    scratch = np.zeros(8192 + 64, np.uint8)
    rewritten = np.zeros(300, np.int64)  # versions whose bytes in-place updates have changed in this record

    # occupant: (file, block, item) -> version; item 0 marks a page whose content is known
    capacity = max(1024, 4 * len(place_key))
    places = len(place_key)
    keys = grown(place_key, capacity)
    occupant = grown(place_version, capacity)
    table = rehashed(keys, places, capacity)

    # content -> newest version with it, older ones chained
    content_capacity = max(1024, 4 * version_count)
    content_table = new_table(content_capacity)
    content_keys = np.zeros(content_capacity, np.int64)
    content_version = np.zeros(content_capacity, np.int64)
    contents = 0
    older = np.full(len(versions), -1, np.int64)

    for pass_row in range(-len(base_key) - 1, len(at)):
        # First index what was there, then lay down the base pages, then the records.
        if pass_row == -len(base_key) - 1:
            first_new = 0
        else:
            first_new = version_count
        rewritten_count = 0
        is_page = pass_row < 0 and pass_row > -len(base_key) - 1
        is_record = pass_row >= 0
        row = pass_row if is_record else 0
        images_here = 0
        if is_page:
            images_here = 1
        if is_record:
            if not records.parse(buf, at[row], length[row], compressed, parsed):
                return versions, version_count, store, store_used, keys[:places], occupant[:places], row, False
            if parsed[MANAGER] == HEAP2 and parsed[INFO] & heap.OPCODE == heap.NEW_CID:
                continue
            images_here = parsed[records.BLOCKS]
        near = next_xid[row] if is_record else base_next_xid
        xid = with_epoch(parsed[XID], near) if is_record else np.int64(0)
        here = lsn[row] if is_record else 0
        opcode = parsed[INFO] & heap.OPCODE if is_record else 0
        is_heap = is_record and parsed[MANAGER] == HEAP
        is_heap2 = is_record and parsed[MANAGER] == HEAP2
        added_item = 0  # what the record itself puts on its first page; -1: several
        if is_heap and opcode == heap.INSERT:
            added_item = u16(buf, parsed[MAIN])
        elif is_heap and opcode in (heap.UPDATE, heap.HOT_UPDATE):
            added_item = u16(buf, parsed[MAIN] + 12)
        elif is_heap2 and opcode == heap.MULTI_INSERT:
            added_item = -1

        # Room for a page's worth of versions and places, so that nothing below has to check.
        while version_count + 700 > len(versions):
            more = np.zeros((2 * len(versions) + 1024, V_FIELDS), np.int64)
            more[: len(versions)] = versions
            versions = more
            longer = np.full(len(versions), -1, np.int64)
            longer[: len(older)] = older
            older = longer
        while places + 34 * 700 > capacity:
            capacity = 2 * capacity + 64 * 1024
            keys = grown(keys, capacity)
            occupant = grown(occupant, capacity)
            table = rehashed(keys, places, capacity)
        while store_used + 34 * 8192 + 16384 > len(store):
            store = grown(store, 2 * len(store) + 34 * 8192 + 16384)

        # 1. Whole pages: base pages and images.
        has_new_page = False
        for i in range(images_here):
            if is_page:
                page[:] = base_pages[pass_row + len(base_key)]
                file = base_key[pass_row + len(base_key)] >> (_BLOCK_BITS + _ITEM_BITS)
                block_number = (base_key[pass_row + len(base_key)] >> _ITEM_BITS) & 0xFFFFFFFF
            else:
                block = FIRST_BLOCK + i * records.BLOCK_FIELDS
                if (
                    parsed[block + records.FORK] != 0
                    or parsed[block + IMAGE] == 0
                    or not parsed[block + records.IMAGE_INFO] & apply_bit
                ):
                    continue
                file = catalog_file(parsed, block, file_table, file_key, tablespaces)
                if file < 0:
                    continue
                block_number = parsed[block + records.BLOCK]
                if not restore_image(buf, parsed, block, pglz_bit, lz4_bit, zstd_bit, page, scratch, images, image_row, row):
                    return versions, version_count, store, store_used, keys[:places], occupant[:places], row, False
                has_new_page = has_new_page or i == 0
            while version_count + 700 > len(versions):
                more = np.zeros((2 * len(versions) + 1024, V_FIELDS), np.int64)
                more[: len(versions)] = versions
                versions = more
                longer = np.full(len(versions), -1, np.int64)
                longer[: len(older)] = older
                older = longer
            key = tid_key(file, block_number, 0)
            found = find(table, keys, key)
            if found < 0:
                table[-1 - found] = places
                keys[places] = key
                occupant[places] = -1
                places += 1
            lower = u16(page, 12)
            if lower > 8192:
                return versions, version_count, store, store_used, keys[:places], occupant[:places], row, False
            items = (lower - 24) // 4 if lower > 24 else 0
            for item in range(1, items + 1):
                pointer = u32(page, 20 + 4 * item)
                if (pointer >> 15) & 3 != 1:
                    continue
                offset = pointer & 0x7FFF
                tuple_length = pointer >> 17
                if tuple_length < 23 or offset + tuple_length > 8192:
                    return versions, version_count, store, store_used, keys[:places], occupant[:places], row, False
                xmin = with_epoch(u32(page, offset), near)
                infomask = u16(page, offset + 20)
                xmax = u32(page, offset + 4)
                state = 0
                if infomask & 0x0300 == 0x0300 or xmin <= 2:
                    state |= XMIN_COMMITTED | XMIN_FROZEN
                elif infomask & 0x0100:
                    state |= XMIN_COMMITTED
                elif infomask & 0x0200:
                    state |= XMIN_ABORTED
                if infomask & 0x0800 or infomask & 0x0080 or infomask & 0x1050 == 0x0040:
                    xmax = 0
                elif infomask & 0x1000:
                    state |= XMAX_MULTI
                else:
                    xmax = with_epoch(xmax, near)
                    if infomask & 0x0400:
                        state |= XMAX_COMMITTED
                size = tuple_length - 18  # t_infomask2 onwards
                key = tid_key(file, block_number, item)
                place = find(table, keys, key)
                version = occupant[place] if place >= 0 else -1
                is_new = i == 0 and xid != 0 and xmin == xid and (added_item == item or (added_item < 0 and version < 0))
                if is_new:
                    version = -1
                if version >= 0:
                    if not same_xmin(versions, version, xmin, state) or versions[version, V_LENGTH] != size:
                        version = -1
                    elif not same_bytes(store, versions[version, V_AT] + 5, page, offset + 23, size - 5):
                        # The same row with other bytes: an in-place update whose record carries an image (or came before one).
                        versions[version, V_AT] = store_used
                        store[store_used : store_used + size] = page[offset + 18 : offset + 18 + size]
                        store_used += (size + 7) & ~7
                        if rewritten_count < 299:
                            rewritten[rewritten_count] = version
                            rewritten_count += 1
                if version < 0 and not is_new:
                    # Is it a copy of a version that we know from the catalog's former file?
                    content = content_key(file_catalog[file], xmin, page, offset + 18, size)
                    slot = find(content_table, content_keys, content)
                    candidate = content_version[slot] if slot >= 0 else -1
                    second_best = np.int64(-1)
                    while candidate >= 0:
                        if (
                            versions[candidate, V_CATALOG] == file_catalog[file]
                            and same_xmin(versions, candidate, xmin, state)
                            and versions[candidate, V_LENGTH] == size
                            and same_bytes(store, versions[candidate, V_AT] + 5, page, offset + 23, size - 5)
                        ):
                            if versions[candidate, V_XMAX] == xmax or (state & XMAX_MULTI and versions[candidate, V_XMAX] != 0):
                                version = candidate
                                break
                            if xmax == 0 and second_best < 0:
                                second_best = candidate
                        candidate = older[candidate]
                    if version < 0:
                        version = second_best
                if version < 0:
                    version = version_count
                    version_count += 1
                    versions[version, V_CATALOG] = file_catalog[file]
                    versions[version, V_XMIN] = xmin
                    versions[version, V_XMAX] = xmax
                    versions[version, V_ADDED] = here if is_record and xmin == xid and xid != 0 else 0
                    versions[version, V_DELETED] = here if is_record and xmax == xid and xid != 0 else 0
                    versions[version, V_STATE] = state
                    versions[version, V_AT] = store_used
                    versions[version, V_LENGTH] = size
                    store[store_used : store_used + size] = page[offset + 18 : offset + 18 + size]
                    store_used += (size + 7) & ~7
                else:
                    if xmax != 0 and xmax != versions[version, V_XMAX] and not state & XMAX_MULTI:
                        versions[version, V_XMAX] = xmax
                        versions[version, V_DELETED] = here if xmax == xid else 0
                    versions[version, V_STATE] |= state & (XMIN_COMMITTED | XMIN_ABORTED)
                    if state & XMAX_COMMITTED and xmax == versions[version, V_XMAX]:
                        versions[version, V_STATE] |= XMAX_COMMITTED
                if place < 0:
                    table[-1 - place] = places
                    keys[places] = key
                    place = np.int64(places)
                    places += 1
                occupant[place] = version

        # 2. What the record itself says, on blocks without an image.
        if is_heap or is_heap2:
            main = parsed[MAIN]
            block_number = parsed[FIRST_BLOCK + records.BLOCK]
            file = catalog_file(parsed, FIRST_BLOCK, file_table, file_key, tablespaces)
            if parsed[records.BLOCKS] == 0 or file < 0 or parsed[FIRST_BLOCK + records.FORK] != 0:
                file = -1
            adds = 0
            old_item = 0
            old_block = block_number
            old_has_image = has_new_page
            new_has_image = has_new_page
            if file >= 0 and is_heap:
                if opcode == heap.INSERT:
                    adds = 1
                elif opcode in (heap.UPDATE, heap.HOT_UPDATE):
                    adds = 1
                    old_item = u16(buf, main + 4)
                    if parsed[records.BLOCKS] > 1:
                        second = FIRST_BLOCK + records.BLOCK_FIELDS
                        old_block = parsed[second + records.BLOCK]
                        old_has_image = parsed[second + IMAGE] != 0 and parsed[second + records.IMAGE_INFO] & apply_bit != 0
                elif opcode == heap.DELETE:
                    old_item = u16(buf, main + 4)
            elif file >= 0 and opcode == heap.MULTI_INSERT:
                adds = u16(buf, main + 2)

            # A page that we never saw whole cannot be changed.
            if adds != 0 or old_item != 0:
                key = tid_key(file, block_number, 0)
                found = find(table, keys, key)
                if found < 0:
                    if not (complete or parsed[FIRST_BLOCK + records.BLOCK_FLAGS] & records.WILL_INIT or new_has_image):
                        return versions, version_count, store, store_used, keys[:places], occupant[:places], row, True
                    table[-1 - found] = places
                    keys[places] = key
                    occupant[places] = -1
                    places += 1
                if old_item != 0 and old_block != block_number:
                    key = tid_key(file, old_block, 0)
                    if find(table, keys, key) < 0 and not (complete or old_has_image):
                        return versions, version_count, store, store_used, keys[:places], occupant[:places], row, True

            old_version = np.int64(-1)
            if old_item != 0:
                place = find(table, keys, tid_key(file, old_block, old_item))
                if place >= 0:
                    old_version = occupant[place]
                if old_version >= 0 and not (is_heap and opcode == heap.DELETE and buf[main + 7] & heap.DELETE_IS_SUPER):
                    versions[old_version, V_XMAX] = xid
                    versions[old_version, V_DELETED] = here
                    versions[old_version, V_STATE] &= ~(XMAX_COMMITTED | XMAX_MULTI)

            if adds != 0 and not new_has_image:
                data = parsed[FIRST_BLOCK + DATA]
                data_begin = data
                data_stop = data + parsed[FIRST_BLOCK + DATA_LENGTH]
                prefix = 0
                suffix = 0
                if opcode in (heap.UPDATE, heap.HOT_UPDATE) and is_heap:
                    flags = buf[main + 7]
                    if flags & heap.UPDATE_PREFIX_FROM_OLD:
                        prefix = u16(buf, data)
                        data += 2
                    if flags & heap.UPDATE_SUFFIX_FROM_OLD:
                        suffix = u16(buf, data)
                        data += 2
                    if (prefix or suffix) and old_version < 0:
                        return versions, version_count, store, store_used, keys[:places], occupant[:places], row, True
                for n in range(adds):
                    if is_heap:
                        item = u16(buf, main) if opcode == heap.INSERT else u16(buf, main + 12)
                        source = data
                        size = data_stop - data
                    else:
                        item = n + 1 if parsed[INFO] & heap.INIT_PAGE else u16(buf, main + 4 + 2 * n)
                        data = data_begin + ((data - data_begin + 1) & ~1)
                        source = data + 2
                        size = u16(buf, data) + 5
                        data += 2 + size
                    version = version_count
                    version_count += 1
                    versions[version, V_CATALOG] = file_catalog[file]
                    versions[version, V_XMIN] = xid
                    versions[version, V_XMAX] = 0
                    versions[version, V_ADDED] = here
                    versions[version, V_DELETED] = 0
                    versions[version, V_STATE] = 0
                    versions[version, V_AT] = store_used
                    to = store_used
                    if prefix or suffix:
                        old_at = versions[old_version, V_AT]
                        old_data = old_at + 5 + store[old_at + 4] - 23
                        if old_data < old_at or max(prefix, suffix) > old_at + versions[old_version, V_LENGTH] - old_data:
                            return versions, version_count, store, store_used, keys[:places], occupant[:places], row, False
                        head = 5 + (buf[source + 4] - 23 if prefix else 0)
                        store[to : to + head] = buf[source : source + head]
                        to += head
                        store[to : to + prefix] = store[old_data : old_data + prefix]
                        to += prefix
                        rest = size - head
                        store[to : to + rest] = buf[source + head : source + head + rest]
                        to += rest
                        old_stop = old_at + versions[old_version, V_LENGTH]
                        store[to : to + suffix] = store[old_stop - suffix : old_stop]
                        to += suffix
                    else:
                        store[to : to + size] = buf[source : source + size]
                        to += size
                    versions[version, V_LENGTH] = to - store_used
                    store_used = (to + 7) & ~7
                    key = tid_key(file, block_number, item)
                    place = find(table, keys, key)
                    if place < 0:
                        table[-1 - place] = places
                        keys[places] = key
                        place = np.int64(places)
                        places += 1
                    occupant[place] = version

            if file >= 0 and is_heap and opcode == heap.INPLACE and not new_has_image:
                place = find(table, keys, tid_key(file, block_number, u16(buf, main)))
                if place >= 0 and occupant[place] >= 0:
                    version = occupant[place]
                    old_at = versions[version, V_AT]
                    head = 5 + store[old_at + 4] - 23
                    size = versions[version, V_LENGTH]
                    if size - head == parsed[FIRST_BLOCK + DATA_LENGTH]:
                        store[store_used : store_used + head] = store[old_at : old_at + head]
                        data = parsed[FIRST_BLOCK + DATA]
                        store[store_used + head : store_used + size] = buf[data : data + size - head]
                        versions[version, V_AT] = store_used
                        store_used += (size + 7) & ~7
                        rewritten[rewritten_count] = version
                        rewritten_count += 1

        # 3. New versions can be found by content from now on.
        for new in range(first_new - rewritten_count, version_count):
            version = rewritten[first_new - 1 - new] if new < first_new else np.int64(new)
            content = content_key(
                versions[version, V_CATALOG],
                versions[version, V_XMIN],
                store,
                versions[version, V_AT],
                versions[version, V_LENGTH],
            )
            slot = find(content_table, content_keys, content)
            if slot < 0:
                if contents + 1 > content_capacity // 2:
                    content_capacity *= 4
                    content_keys = grown(content_keys, content_capacity)
                    content_version = grown(content_version, content_capacity)
                    content_table = rehashed(content_keys, contents, content_capacity)
                    slot = find(content_table, content_keys, content)
                content_table[-1 - slot] = contents
                content_keys[contents] = content
                content_version[contents] = version
                contents += 1
            elif content_version[slot] != version:
                if older[version] < 0 and content_version[slot] < version:
                    older[version] = content_version[slot]
                    content_version[slot] = version
    return versions, version_count, store, store_used, keys[:places], occupant[:places], -1, False


@dataclass(slots=True)
class Versions:
    """All versions of catalog rows seen so far: `rows` (n x V_FIELDS) with their bytes in `store`, and what stands where on disk:
    `place_key` (`tid_key`) -> version."""

    rows: NDArray[np.int64]
    store: NDArray[np.uint8]
    place_key: NDArray[np.int64]
    place_version: NDArray[np.int64]

    @classmethod
    def none(cls) -> Versions:
        return cls(np.zeros((0, V_FIELDS), np.int64), np.zeros(0, np.uint8), np.zeros(0, np.int64), np.zeros(0, np.int64))

    def __len__(self) -> int:
        return len(self.rows)
