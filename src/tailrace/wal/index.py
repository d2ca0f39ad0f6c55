"""One stretch of WAL -> its index: the facts that planning needs, so that it never reads WAL itself (rule 2).

In: pages of a stretch and as many after it as its last record needs. Out: `Index`, immutable once `sealed`. What is kept:
ends of transactions; per xid the first LSN, the top-level xid, whether it changed anything, how many rows it has here, TOAST chunks whose
row has not come yet, and a speculative insert or verdict whose other half lies elsewhere; and, whole, the records of the kinds below. Rows of user
tables are not kept: decoding reads them again from the WAL, which costs less than carrying them.

Catalog files: those numbered below 16384 carry the catalog's own oid and are kept for TRACKED_CATALOGS; a file named by a NEW_CID
in this stretch is some catalog that has moved, and is kept too. Every other heap file is listed with its first LSN, so that the plan, once it learns
that a catalog moved there, can ask for the records on it: `scan(…, also=…)` gives that supplement.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from tailrace.errors import CorruptWal
from tailrace.kernels import kernel
from tailrace.model import FIRST_NORMAL_OID, PAGE_SIZE, Locator, Lsn, Stretch
from tailrace.wal import framing, heap, records, xact
from tailrace.wal.crc import NO_RECORDS, fingerprinted
from tailrace.wal.end_of_log import GARBAGE, MORE_OF_THE_LOG, what_follows
from tailrace.wal.framing import POSITION, WalBytes, next_records
from tailrace.wal.hashing import find, find_pair, rehashed
from tailrace.wal.records import FIRST_BLOCK, INFO, MAIN, new_parsed
from tailrace.wal.resource_managers import DBASE, HEAP, HEAP2, IGNORED, LOGICALMSG, RELMAP, STANDBY, XACT, XLOG
from tailrace.wal.unaligned import u8, u16, u32, u64
from tailrace.wal.versions import WalFormat
from tailrace.wal.xact import Ends

FORMAT_VERSION = 5


class NeedMoreWal(CorruptWal):
    """The last record runs on beyond the bytes given, though the log does not end there: give more and scan again."""


TRACKED_CATALOGS: dict[int, str] = {
    1247: "pg_type", 1249: "pg_attribute", 1255: "pg_proc", 1259: "pg_class", 1260: "pg_authid", 1262: "pg_database", 2610: "pg_index",
    2611: "pg_inherits", 2615: "pg_namespace", 2617: "pg_operator", 3456: "pg_collation", 3501: "pg_enum", 3541: "pg_range",
    3600: "pg_ts_dict", 3602: "pg_ts_config", 6000: "pg_replication_origin", 6104: "pg_publication",
    6106: "pg_publication_rel", 6237: "pg_publication_namespace",
}  # fmt: skip

PASSED_OVER = np.array([manager in IGNORED for manager in range(256)])
"""Resource managers whose records count for their xid and nothing else."""

# Kinds of kept records
CATALOG_CHANGE = 1  # HEAP, HEAP2 or XLOG page images on a catalog's file
MESSAGE = 2
TRUNCATE = 3
RUNNING_XACTS = 4
CHECKPOINT = 5  # shutdown or online
WAL_SETTINGS = 6  # PARAMETER_CHANGE, FPW_CHANGE
TIMELINE_END = 7  # END_OF_RECOVERY, OVERWRITE_CONTRECORD
RELATION_MAP = 8
STORAGE = 9  # SMGR on a catalog's file, DBASE
ALIEN = 10  # first record of a custom resource manager

UNKNOWN_XID = 0xFFFFFFFF
"""Of the record behind a message, where that is in the next stretch."""

# Flags of an xid in a stretch
HAS_CHANGE = 1
HAS_ROWS = 2
CHANGES_CATALOG = 4
CLOSED_TOAST = 8  # a row consumed the chunks that were open when the stretch began
SPECULATION_OPEN = 16  # a speculative insert still waits at the end
STARTS_WITH_CONFIRM = 32
STARTS_WITH_CANCEL = 64

# Totals that the kernel returns in one array
T_RECORDS = 0
T_FIRST = 1
T_LAST = 2
T_NEXT = 3
T_FINGERPRINT = 4
T_REASON = 5
T_FIRST_PREVIOUS = 6
T_FIELDS = 8


@kernel
def scan_records(buf, frame, compressed, stats_item, prepare_header, inplace_is_change, tracked_table, tracked, also, facts_only_also,  # type: ignore[no-untyped-def]
                 xid_table, xid_key, xid_top, xid_first, xid_flags, xid_rows, xid_bytes, xid_epoch, xid_speculative,
                 loc_table, loc_key, loc_space, loc_first, loc_count, loc_tracked, ends, end_lsn, kept, chunks, parsed, totals):  # fmt: skip
    """Walk the stretch once, filling the arrays (see `_room`): by xid slot, by file, by end, by kept record, by TOAST chunk, and totals.

    Returns how many of each. The arrays are the caller's and large enough for any stretch of this size: an array that a kernel may replace costs
    reference counting at every use, which tripled the time of this loop.
    """
    fingerprint = np.uint64(NO_RECORDS)

    xids = 0
    locators = 0
    end_count = 0
    kept_count = 0
    chunk_count = 0
    last_key = np.int64(-1)
    last_space = np.int64(-1)
    last_locator = np.int64(-1)
    saw_alien = False
    last_xid = np.int64(-1)
    slot = np.int64(-1)
    message = -1
    count = 0
    last = np.int64(0)
    batch = np.empty((framing.BATCH, framing.F_FIELDS), np.int64)
    here = 0
    present = 0
    while True:
        if here == present:
            present = next_records(buf, frame, batch)
            here = 0
            if present < 0:
                totals[T_REASON] = present
                break
        at = batch[here, framing.F_AT]
        lsn = batch[here, framing.F_LSN]
        length = batch[here, framing.F_LENGTH]
        end = batch[here, framing.F_END]
        here += 1
        manager = u8(buf, at + 17)
        xid = u32(buf, at + 4)
        if message >= 0:
            kept[message, 5] = xid if lsn == kept[message, 4] else 0
            message = -1
        # Of an index, say, only the first record of an xid matters: it may name the top-level transaction.
        passed_over = PASSED_OVER[manager] and (xid == 0 or xid == last_xid)
        if not passed_over and not records.parse(buf, at, length, compressed, parsed):
            totals[T_REASON] = framing.INVALID_LENGTH
            frame[POSITION] = lsn
            break
        if count == 0:
            totals[T_FIRST] = lsn
            totals[T_FIRST_PREVIOUS] = u64(buf, at + 8)
        count += 1
        last = lsn
        fingerprint = fingerprinted(fingerprint, u32(buf, at + 20))
        if passed_over:
            continue
        info = parsed[INFO]
        top = parsed[records.TOP_XID]
        if top != 0:
            # The top-level transaction is registered by whatever record first names it.
            found = find(xid_table, xid_key, top)
            if found < 0:
                xid_table[-1 - found] = xids
                xid_key[xids] = top
                xid_first[xids] = lsn
                xids += 1
                last_xid = -1
        registers = manager != XACT or info & xact.OPCODE == xact.INVALIDATIONS
        if xid != 0 and (registers or top != 0):
            if xid != last_xid:
                slot = find(xid_table, xid_key, xid)
                if slot < 0:
                    xid_table[-1 - slot] = xids
                    slot = xids
                    xid_key[xids] = xid
                    xid_first[xids] = lsn
                    xids += 1
                last_xid = xid
            if top != 0:
                xid_top[slot] = top
        else:
            slot = -1
            last_xid = -1
        keep = 0
        if manager == HEAP or manager == HEAP2 or (manager == XLOG and info & 0xF0 >= 0xA0 and info & 0xF0 <= 0xB0):
            opcode = info & heap.OPCODE
            # Which files does it touch? The first block names the heap; page images may name many.
            blocks = parsed[records.BLOCKS]
            touches = False
            for i in range(blocks if manager == XLOG else min(blocks, 1)):
                block = FIRST_BLOCK + i * records.BLOCK_FIELDS
                if manager == HEAP2 and opcode == 0x40 and blocks > 1:  # VISIBLE: block 1 is the heap's
                    block += records.BLOCK_FIELDS
                if parsed[block + records.FORK] != 0:
                    continue
                key = (parsed[block + records.DATABASE] << 32) | parsed[block + records.NUMBER]
                space = parsed[block + records.TABLESPACE]
                if key != last_key or space != last_space:
                    found = find_pair(loc_table, loc_key, loc_space, key, space)
                    if found < 0:
                        loc_table[-1 - found] = locators
                        loc_key[locators] = key
                        loc_space[locators] = space
                        loc_first[locators] = lsn
                        number = parsed[block + records.NUMBER]
                        is_tracked = number < FIRST_NORMAL_OID and find(tracked_table, tracked, number) >= 0
                        for j in range(len(also)):
                            is_tracked = is_tracked or (also[j, 0] == key and also[j, 1] == space)
                        loc_tracked[locators] = is_tracked
                        found = np.int64(locators)
                        locators += 1
                    last_key = key
                    last_space = space
                    last_locator = found
                loc_count[last_locator] += 1
                touches = touches or loc_tracked[last_locator] != 0
            if touches:
                keep = CATALOG_CHANGE
            if manager == HEAP2 and opcode == heap.NEW_CID:
                keep = 0
                main = parsed[MAIN]
                key = (u32(buf, main + 20) << 32) | u32(buf, main + 24)
                space = np.int64(u32(buf, main + 16))
                found = find_pair(loc_table, loc_key, loc_space, key, space)
                if found < 0:
                    loc_table[-1 - found] = locators
                    loc_key[locators] = key
                    loc_space[locators] = space
                    loc_first[locators] = lsn
                    found = np.int64(locators)
                    locators += 1
                number = u32(buf, main + 24)
                if number >= FIRST_NORMAL_OID or find(tracked_table, tracked, number) >= 0:
                    loc_tracked[found] = 1
                if slot >= 0:
                    xid_flags[slot] |= CHANGES_CATALOG
            elif slot >= 0:
                if heap.begins_transaction(parsed):
                    xid_flags[slot] |= HAS_CHANGE
                elif manager == HEAP and opcode == heap.INPLACE and inplace_is_change:
                    xid_flags[slot] |= HAS_CHANGE | CHANGES_CATALOG
                if manager == HEAP and opcode == heap.TRUNCATE:
                    keep = TRUNCATE
                kind = heap.row_kind(buf, parsed)
                if kind != heap.NOT_A_ROW:
                    if kind == heap.TOAST_CHUNK:
                        chunks[chunk_count, 0] = slot
                        chunks[chunk_count, 1] = xid_epoch[slot]
                        chunks[chunk_count, 2] = lsn
                        chunks[chunk_count, 3] = u32(buf, at + 20)
                        chunk_count += 1
                        xid_flags[slot] |= HAS_ROWS
                        xid_bytes[slot] += length
                    elif kind == heap.SPECULATIVE_CONFIRM or kind == heap.SPECULATIVE_CANCEL:
                        if xid_speculative[slot] == 0 and not xid_flags[slot] & (
                            STARTS_WITH_CONFIRM | STARTS_WITH_CANCEL | SPECULATION_OPEN
                        ):
                            xid_flags[slot] |= STARTS_WITH_CONFIRM if kind == heap.SPECULATIVE_CONFIRM else STARTS_WITH_CANCEL
                        xid_speculative[slot] = 0
                    else:
                        xid_flags[slot] |= HAS_ROWS
                        xid_bytes[slot] += length
                        if kind == heap.SPECULATIVE_INSERT:
                            xid_speculative[slot] = lsn
                            xid_flags[slot] |= (
                                SPECULATION_OPEN  # stays as "has speculated here"; the LSN says whether it still waits
                            )
                        if kind == heap.ROW_MULTI_INSERT:
                            xid_rows[slot] += u16(buf, parsed[MAIN] + 2)
                        else:
                            xid_rows[slot] += 1
                        if kind != heap.ROW_DELETE and (
                            kind != heap.ROW_MULTI_INSERT or u8(buf, parsed[MAIN]) & heap.INSERT_LAST_IN_MULTI
                        ):
                            xid_epoch[slot] += 1
                            xid_flags[slot] |= CLOSED_TOAST
        elif manager == XACT:
            opcode = info & xact.OPCODE
            if opcode == xact.INVALIDATIONS:
                if slot >= 0:
                    xid_flags[slot] |= CHANGES_CATALOG
            elif opcode != xact.ASSIGNMENT:
                if not xact.parse_end(buf, parsed, stats_item, prepare_header, ends[end_count]):
                    totals[T_REASON] = framing.INVALID_LENGTH
                    frame[POSITION] = lsn
                    break
                end_lsn[end_count, 0] = lsn
                end_lsn[end_count, 1] = end
                end_lsn[end_count, 2] = parsed[records.ORIGIN]
                end_count += 1
        elif manager == LOGICALMSG:
            keep = MESSAGE
            if slot >= 0 and u8(buf, parsed[MAIN] + 4) != 0:
                xid_flags[slot] |= HAS_CHANGE
        elif manager == STANDBY:
            if info & 0xF0 == 0x10:
                keep = RUNNING_XACTS
        elif manager == XLOG:
            opcode = info & 0xF0
            if opcode <= 0x10:
                keep = CHECKPOINT
            elif opcode == 0x60 or opcode == 0x80:
                keep = WAL_SETTINGS
            elif opcode == 0x90 or opcode == 0xD0:
                keep = TIMELINE_END
        elif manager == RELMAP:
            keep = RELATION_MAP
        elif manager == DBASE:
            keep = STORAGE
        elif manager >= 128 and not saw_alien:
            saw_alien = True
            keep = ALIEN
        if facts_only_also and keep != CATALOG_CHANGE:
            keep = 0
        if keep != 0:
            kept[kept_count, 0] = keep
            kept[kept_count, 1] = at
            kept[kept_count, 2] = length
            kept[kept_count, 3] = lsn
            kept[kept_count, 4] = end
            message = kept_count if keep == MESSAGE else -1
            kept_count += 1
    if message >= 0:
        kept[message, 5] = UNKNOWN_XID

    totals[T_RECORDS] = count
    totals[T_LAST] = last
    totals[T_NEXT] = frame[POSITION]
    totals[T_FINGERPRINT] = np.int64(fingerprint)
    waiting = 0
    for i in range(chunk_count):
        if chunks[i, 1] == xid_epoch[chunks[i, 0]]:
            chunks[waiting] = chunks[i]
            waiting += 1
    return xids, locators, end_count, kept_count, waiting


_SMALLEST_XID = 48
"""Bytes of WAL that a transaction id, a heap file or a chunk takes at least: a record with one block reference."""


def _room(raw: int) -> tuple[NDArray, ...]:
    """Arrays for everything that `raw` bytes of WAL can hold. Untouched pages of them cost nothing."""
    many = raw // _SMALLEST_XID + 64
    size = 1 << (2 * many - 1).bit_length()
    by_xid = [np.zeros(many, kind) for kind in (np.int64, np.int64, np.int64, np.uint8, np.int64, np.int64, np.int64, np.int64)]
    by_file = [np.zeros(many, kind) for kind in (np.int64, np.int64, np.int64, np.int64, np.uint8)]
    return (
        np.full(size, -1, np.int32), *by_xid, np.full(size, -1, np.int32), *by_file,
        np.zeros((raw // 32 + 64, xact.E_FIELDS), np.int64), np.zeros((raw // 32 + 64, 3), np.int64),
        np.zeros((raw // framing.RECORD_HEADER + 64, 6), np.int64), np.zeros((many, 4), np.int64),
        new_parsed(), np.zeros(T_FIELDS, np.int64),
    )  # fmt: skip


@kernel
def gather(buf, starts, lengths, align):  # type: ignore[no-untyped-def]
    """Copy byte ranges one after another, each start rounded up to `align`. Returns the bytes, where each begins, and the total."""
    at = np.zeros(len(starts) + 1, np.int64)
    total = 0
    for i in range(len(starts)):
        at[i] = total
        total += (lengths[i] + align - 1) // align * align
    at[len(starts)] = total
    out = np.zeros(total, np.uint8)
    for i in range(len(starts)):
        out[at[i] : at[i] + lengths[i]] = buf[starts[i] : starts[i] + lengths[i]]
    return out, at


@dataclass(slots=True)
class Kept:
    """Records kept whole, in WAL order: row i is `data[at[i] : at[i] + length[i]]`, starting 8-aligned. `followed_by` is, for messages, the xid of
    the record that begins where it ends; 0 if none does or it has none, UNKNOWN_XID if that lies beyond the stretch."""

    kind: NDArray[np.uint8]
    lsn: NDArray[np.int64]
    end_lsn: NDArray[np.int64]
    followed_by: NDArray[np.uint32]
    at: NDArray[np.int64]
    length: NDArray[np.int64]
    data: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.kind)

    def rows_of(self, *kinds: int) -> NDArray[np.int64]:
        """Which rows are of these kinds."""
        return np.flatnonzero(np.isin(self.kind, kinds))

    def record(self, row: int) -> bytes:
        return self.data[self.at[row] : self.at[row] + self.length[row]].tobytes()


@dataclass(slots=True)
class Xids:
    """What each xid seen in the stretch did there; of xids 32 bits, or all (:mod:`tailrace.transactions.epochs`). `speculative` is the LSN of a
    speculative insert still waiting at the end, or 0."""

    xid: NDArray[np.integer]
    top: NDArray[np.integer]
    first_lsn: NDArray[np.int64]
    flags: NDArray[np.uint8]
    rows: NDArray[np.int64]
    bytes: NDArray[np.int64]
    speculative: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.xid)


@dataclass(slots=True)
class Files:
    """Every heap file with records in the stretch; `tracked` ones have theirs among the kept."""

    tablespace: NDArray[np.uint32]
    database: NDArray[np.uint32]
    number: NDArray[np.uint32]
    first_lsn: NDArray[np.int64]
    records: NDArray[np.int64]
    tracked: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.number)


@dataclass(slots=True)
class Index:
    """The facts of one stretch. `next_lsn` is where the first record after it starts (or would), `previous` what its first record names as
    its predecessor, `last` its last record: neighbours must fit. Unsealed: the log ended inside, and the stretch will be scanned again; `reason` says
    why it ended, `place` which page or record that is about, and `torn` that there is something, but no whole record. Of a sealed one that
    begins with zeros, `place` is where they do."""

    stretch: Stretch
    sealed: bool
    system: int
    timeline: int
    major: int
    records: int
    first: Lsn
    previous: Lsn
    last: Lsn
    next_lsn: Lsn
    fingerprint: int
    reason: str
    xids: Xids
    files: Files
    ends: Ends
    kept: Kept
    waiting_xid: NDArray[np.integer]
    waiting_lsn: NDArray[np.int64]
    waiting_crc: NDArray[np.uint32]
    also: tuple[Locator, ...] = field(default=())
    place: Lsn = Lsn(0)  # noqa: RUF009 - immutable
    torn: bool = False


def scan(
    wal: WalBytes, stretch: Stretch, form: WalFormat, segment_size: int, *, system: int, timeline: int, at_end_of_log: bool,
    start: int | None = None, also: Sequence[Locator] = (), check_crc: bool = True,
) -> Index:  # fmt: skip
    """Index the records that start in `stretch`.

    `wal` begins at the stretch's page or earlier; `at_end_of_log` says that there are no bytes after those given, so that an incomplete
    record is the end of the log and not a hole. Raises CorruptWal where the log is damaged but goes on. With `also`, only the catalog
    changes (those on these files included) are worth reading in the result.
    """
    begin = first_written_page(wal, stretch, segment_size) if start is None else start
    frame = framing.new_frame(
        wal, begin, stretch.stop, segment_size, form.page_magic, check_crc=check_crc,
        custom_managers=form.custom_resource_managers, system=system,
    )  # fmt: skip
    tracked = np.array(sorted(TRACKED_CATALOGS), np.int64)
    also_keys = np.array([((file.database << 32) | file.number, file.tablespace) for file in also], np.int64).reshape(-1, 2)
    room = _room(wal.raw)
    counts = scan_records(
        wal.buf, frame, form.image_compressed, form.stats_item, form.prepare_header, form.inplace_is_change,
        rehashed(tracked, len(tracked), len(tracked)), tracked, also_keys, bool(also), *room,
    )  # fmt: skip
    reason = int(room[-1][T_REASON])
    # Asked before it is looked at what lies behind, which moves the frame.
    words, place, torn = framing.explain(reason, frame), framing.place_of(reason, frame), framing.is_torn(reason, frame)
    if reason != framing.REACHED_STOP:
        judge_end(wal, frame, reason, at_end_of_log=at_end_of_log)
    found = _index(
        wal,
        room,
        counts,
        stretch,
        form,
        sealed=reason == framing.REACHED_STOP,
        system=system,
        timeline=timeline,
        also=tuple(also),
    )
    if not found.sealed:
        return replace(found, reason=words, place=place, torn=torn)
    return found if start is not None or begin == stretch.start else replace(found, place=stretch.start)


def first_written_page(wal: WalBytes, stretch: Stretch, segment_size: int) -> int:
    """Where to begin. After a segment switch the rest of the segment is zeros (1.5), and a stretch may start among them, but not with a segment."""
    at = stretch.start - wal.base
    if stretch.start % segment_size and at + PAGE_SIZE <= wal.raw and not wal.buf[at : at + PAGE_SIZE].any():
        return -(-(stretch.start + 1) // segment_size) * segment_size
    return stretch.start


def judge_end(wal: WalBytes, frame: NDArray[np.int64], reason: int, *, at_end_of_log: bool) -> None:
    """Raise unless the walk ended where the log may end. The context ends with the LSN that is to blame."""
    position, place = int(frame[POSITION]), framing.place_of(reason, frame)
    words = framing.explain(reason, frame)
    context = f"WAL record at {Lsn(position)}" + (f", page at {place}" if place != position else "")
    if reason == framing.NEED_MORE:
        if at_end_of_log:
            return
        raise NeedMoreWal(words, context=context)
    if reason == framing.INVALID_SYSTEM:
        raise CorruptWal(words, context=context)
    behind = what_follows(wal.buf, frame, position)
    if behind == MORE_OF_THE_LOG:
        hint = (
            "Valid WAL follows, so this is damage and not the end of the log. Take the segment from another copy or the archive."
        )
        raise CorruptWal(words, hint=hint, context=context)
    if behind == GARBAGE:
        garbage = Lsn(int(frame[framing.PAGE]))
        hint = "Behind the end of a log are zeros, or older pages of it; this is neither. Take the segment from another copy or the archive."
        if garbage == place:
            raise CorruptWal(words, hint=hint, context=context)
        raise CorruptWal(
            "invalid page behind the end of the log", hint=hint, context=f"the log ends at {Lsn(position)}, page at {garbage}"
        )


def _index(
    wal: WalBytes, room: tuple[NDArray, ...], counts: tuple[int, ...], stretch: Stretch, form: WalFormat, *, sealed: bool, system: int, timeline: int,
    also: tuple[Locator, ...],
) -> Index:  # fmt: skip
    xids, files, end_count, kept_count, waiting_count = counts
    xid_key, xid_top, xid_first, xid_flags, xid_rows, xid_bytes, _, speculative = (array[:xids] for array in room[1:9])
    loc_key, loc_space, loc_first, loc_count, loc_tracked = (array[:files] for array in room[10:15])
    ends, end_lsn, kept, waiting = room[15][:end_count], room[16][:end_count], room[17][:kept_count], room[18][:waiting_count]
    totals = room[-1]
    data, at = gather(wal.buf, kept[:, 1], kept[:, 2], 8)
    flags = xid_flags.copy()
    flags[speculative == 0] &= 0xFF ^ SPECULATION_OPEN
    return Index(
        stretch=stretch,
        sealed=sealed,
        system=system,
        timeline=timeline,
        major=form.major,
        records=int(totals[T_RECORDS]),
        first=Lsn(int(totals[T_FIRST])),
        previous=Lsn(int(totals[T_FIRST_PREVIOUS])),
        last=Lsn(int(totals[T_LAST])),
        next_lsn=Lsn(int(totals[T_NEXT])),
        fingerprint=int(totals[T_FINGERPRINT]),
        reason="",
        xids=Xids(
            xid_key.astype(np.uint32), xid_top.astype(np.uint32), xid_first.copy(), flags, xid_rows.copy(), xid_bytes.copy(),
            speculative.copy(),
        ),
        files=Files(
            loc_space.astype(np.uint32), (loc_key >> 32).astype(np.uint32), (loc_key & 0xFFFFFFFF).astype(np.uint32),
            loc_first.copy(), loc_count.copy(), loc_tracked.astype(np.bool_),
        ),
        ends=_ends(wal, ends, end_lsn),
        kept=Kept(
            kept[:, 0].astype(np.uint8), kept[:, 3].copy(), kept[:, 4].copy(), kept[:, 5].astype(np.uint32), at[:-1].copy(), kept[:, 2].copy(),
            data,
        ),
        waiting_xid=xid_key[waiting[:, 0]].astype(np.uint32),
        waiting_lsn=waiting[:, 2].copy(),
        waiting_crc=waiting[:, 3].astype(np.uint32),
        also=also,
    )  # fmt: skip


def _ends(wal: WalBytes, ends: NDArray[np.int64], lsn: NDArray[np.int64]) -> Ends:
    def bytes_of(start: int, count: int, width: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        return gather(wal.buf, ends[:, start], ends[:, count] * width, 1)

    subxids, sub_at = bytes_of(xact.E_SUBXACTS, xact.E_SUBXACT_COUNT, 4)
    gids, gid_at = bytes_of(xact.E_GID, xact.E_GID_LENGTH, 1)
    invalidations, invalidation_at = bytes_of(xact.E_INVALIDATIONS, xact.E_INVALIDATION_COUNT, 16)
    return Ends(
        kind=ends[:, xact.E_KIND].astype(np.uint8),
        xid=ends[:, xact.E_XID].astype(np.uint32),
        lsn=lsn[:, 0].copy(),
        end_lsn=lsn[:, 1].copy(),
        time=ends[:, xact.E_TIME].copy(),
        database=ends[:, xact.E_DATABASE].astype(np.uint32),
        origin=lsn[:, 2].astype(np.uint16),
        origin_lsn=ends[:, xact.E_ORIGIN_LSN].copy(),
        origin_time=ends[:, xact.E_ORIGIN_TIME].copy(),
        subxact_bounds=sub_at // 4,
        subxids=subxids.view(np.uint32),
        gid_bounds=gid_at,
        gids=gids,
        invalidation_bounds=invalidation_at // 16,
        invalidations=invalidations,
    )
