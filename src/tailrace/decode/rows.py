"""Walk the records of a stretch and note where the wanted rows lie, and the TOAST chunks that hold values of theirs.

Rows of aborted, foreign or unwanted work are dropped where they stand, and of the others nothing is copied.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailrace.decode.toast_chunks import CarriedChunks, ChunkTuples, all_chunks
from tailrace.errors import MissingHistory
from tailrace.kernels import inner_kernel, kernel
from tailrace.model import Lsn
from tailrace.plan.stretch_plan import NOT_DECODED, UNMAPPED, StretchPlan
from tailrace.transactions.epochs import LOW_WORD
from tailrace.tuples.toast import Chunks
from tailrace.wal import framing, heap, records
from tailrace.wal.crc import NO_RECORDS, fingerprinted
from tailrace.wal.end_of_log import NeedMoreWal, changed_since, explain
from tailrace.wal.framing import SPARE, next_records
from tailrace.wal.hashing import find, find_pair, rehashed
from tailrace.wal.heap import NO_OLD
from tailrace.wal.pages import LogIdentity, WalBytes
from tailrace.wal.records import DATA, DATA_LENGTH, FIRST_BLOCK
from tailrace.wal.resource_managers import HEAP, HEAP2
from tailrace.wal.stretch_bytes import Reader, read_whole
from tailrace.wal.versions import FORMATS

INSERT, UPDATE, DELETE = 1, 2, 3
CANCELLED = 0
"""What a row's kind becomes whose speculative insert came to nothing."""

_NARROW = {"kind": np.uint8, "old_kind": np.uint8}
"""Columns of rows that are not 64 bits wide."""
_SMALLEST_ROW = 8
"""Bytes of WAL that a row takes at least: one of a multi-insert with no columns."""


class WantedXids(NamedTuple):
    """The transactions whose rows are wanted, a subtransaction being one of them: `xid` as records have it, which `table` finds,
    and `ordinal`.

    Where the walk is with each: `turn` numbers which TOAST chunks serve its next row (:mod:`tailrace.tuples.toast`),
    `speculative` is the number of its row that waits to be confirmed, or -1. Rows at LSNs in `confirmed` will be, in another
    stretch.
    """

    table: NDArray[np.int32]
    xid: NDArray[np.int64]
    ordinal: NDArray[np.int64]
    turn: NDArray[np.int64]
    speculative: NDArray[np.int64]
    confirmed: NDArray[np.int64]

    @classmethod
    def of(cls, plan: StretchPlan) -> WantedXids:
        count = len(plan.xid)
        xid = plan.xid & LOW_WORD
        return cls(
            table=rehashed(xid, count, count), xid=xid, ordinal=plan.ordinal, turn=np.arange(count),
            speculative=np.full(count, -1, np.int64), confirmed=plan.confirmed,
        )  # fmt: skip


class MappedFiles(NamedTuple):
    """What files meant, as the plan's `FileMap` has it. `table` finds a file by `key` and `tablespace`; `own_table`, by
    `own_key`, the timeline that a file has to a transaction which changed its meaning."""

    table: NDArray[np.int32]
    key: NDArray[np.int64]
    tablespace: NDArray[np.int64]
    bounds: NDArray[np.int64]
    has_own: NDArray[np.bool_]
    own_table: NDArray[np.int32]
    own_key: NDArray[np.int64]
    own_bounds: NDArray[np.int64]
    span_start: NDArray[np.int64]
    span_relation: NDArray[np.int64]

    @classmethod
    def of(cls, plan: StretchPlan) -> MappedFiles:
        files = plan.files
        return cls(
            table=rehashed(files.key, len(files.key), max(1, len(files.key))), key=files.key, tablespace=files.tablespace,
            bounds=files.bounds, has_own=files.has_own,
            own_table=rehashed(files.own_key, len(files.own_key), max(1, len(files.own_key))), own_key=files.own_key,
            own_bounds=files.own_bounds, span_start=files.span_start, span_relation=files.span_relation,
        )  # fmt: skip


class WalRows(NamedTuple):
    """Rows as they lie in the WAL of a stretch, in its order. `collect_rows` notes them.

    Which relation's; whose, as the place of the xid among the wanted, and the transaction that this is part of; where in the
    order, what happened, and where the tuples lie (`old_kind` says which old one), -1 for none."""

    relation: NDArray[np.int64]
    owner: NDArray[np.int64]
    ordinal: NDArray[np.int64]
    lsn: NDArray[np.int64]
    sequence: NDArray[np.int64]
    kind: NDArray[np.uint8]
    new: NDArray[np.int64]
    new_length: NDArray[np.int64]
    old: NDArray[np.int64]
    old_length: NDArray[np.int64]
    old_kind: NDArray[np.uint8]
    turn: NDArray[np.int64]

    @classmethod
    def room(cls, raw: int) -> WalRows:
        """For all that `raw` bytes of WAL can hold. What is not written to costs nothing, so nothing is cleared."""
        many = raw // _SMALLEST_ROW + 64
        return cls._make(np.empty(many, _NARROW.get(name, np.int64)) for name in cls._fields)

    def take(self, which: slice | NDArray[np.int64]) -> WalRows:
        return WalRows._make(column[which] for column in self)


class Collected(NamedTuple):
    """How many rows and chunks there are; why the walk ended, and the fingerprint of its records; the first row of a file that no
    relation had: its LSN (0: there is none) and file."""

    rows: int
    chunks: int
    reason: int
    fingerprint: int
    unmapped_lsn: int
    unmapped_file: int


@kernel
def collect_rows(buf, frame, compressed, unwanted_origins, wanted, files, rows, chunks):  # type: ignore[no-untyped-def]
    """Fill `rows` and `chunks` with those of a stretch that are wanted. `compressed` are the version's image-compression bits."""
    parsed = np.zeros(records.PARSED_SIZE, np.int64)
    batch = np.empty((framing.BATCH, framing.F_FIELDS), np.int64)
    fingerprint = np.uint64(NO_RECORDS)
    row = 0
    chunk = 0
    turns = len(wanted.xid)
    last_xid = slot = np.int64(-1)
    unmapped_lsn = unmapped_file = 0
    while True:
        present = next_records(buf, frame, batch)
        if present < 0:
            break
        for here in range(present):
            at = batch[here, framing.F_AT]
            fingerprint = fingerprinted(fingerprint, records.crc_of(buf, at))
            manager = records.manager_of(buf, at)
            if manager != HEAP and manager != HEAP2:
                continue
            xid = records.xid_of(buf, at)
            if xid != last_xid:
                slot = find(wanted.table, wanted.xid, xid)
                last_xid = xid
            if slot < 0:
                continue
            if not records.parse(buf, at, batch[here, framing.F_LENGTH], compressed, parsed):
                # The first pass has refused such a record: these are other bytes.
                frame[framing.POSITION] = batch[here, framing.F_LSN]
                frame[framing.DETAIL] = (manager << 8) | parsed[records.INFO]
                present = framing.INVALID_DATA
                break
            kind = heap.row_kind(buf, parsed)
            if kind == heap.NOT_A_ROW or records.is_among(unwanted_origins, parsed[records.ORIGIN]):
                continue
            if kind == heap.TOAST_CHUNK:
                chunks.at[chunk] = parsed[FIRST_BLOCK + DATA]
                chunks.length[chunk] = parsed[FIRST_BLOCK + DATA_LENGTH]
                chunks.turn[chunk] = wanted.turn[slot]
                chunks.lsn[chunk] = batch[here, framing.F_LSN]
                chunk += 1
                continue
            if kind == heap.SPECULATIVE_CONFIRM or kind == heap.SPECULATIVE_CANCEL:
                end_speculation(rows, wanted, slot, kind)
                continue
            lsn = batch[here, framing.F_LSN]
            relation = relation_of(files, parsed, wanted.ordinal[slot], lsn)
            if relation >= 0:
                begin = row
                row = note_rows(buf, parsed, kind, rows, begin)
                for i in range(begin, row):
                    rows.relation[i] = relation
                    rows.owner[i] = slot
                    rows.lsn[i] = lsn
                    rows.sequence[i] = i - begin
                    rows.turn[i] = wanted.turn[slot]
                if kind == heap.SPECULATIVE_INSERT:
                    wanted.speculative[slot] = begin
            elif relation == UNMAPPED and unmapped_lsn == 0 and not is_bare_delete(buf, parsed, kind):
                unmapped_lsn = lsn
                unmapped_file = records.file_key(parsed)
            if heap.clears_toast(buf, parsed, kind):
                wanted.turn[slot] = turns
                turns += 1
        if present < 0:
            break
    cancel_unconfirmed(rows, wanted)
    return Collected(row, chunk, present, np.int64(fingerprint), unmapped_lsn, unmapped_file)  # type: ignore[arg-type]


@inner_kernel
def relation_of(files, parsed, ordinal, lsn):  # type: ignore[no-untyped-def]
    """What the record's file meant at `lsn` to its transaction: a relation's number, NOT_DECODED or UNMAPPED."""
    file = find_pair(files.table, files.key, files.tablespace, records.file_key(parsed), parsed[FIRST_BLOCK + records.TABLESPACE])
    if file < 0:
        return NOT_DECODED
    first = files.bounds[file]
    stop = files.bounds[file + 1]
    if files.has_own[file]:
        own = find(files.own_table, files.own_key, (file << 32) | ordinal)
        if own >= 0:
            first = files.own_bounds[own]
            stop = files.own_bounds[own + 1]
    low = first
    while low < stop:  # the last span that begins before
        middle = (low + stop) // 2
        if files.span_start[middle] < lsn:
            low = middle + 1
        else:
            stop = middle
    return files.span_relation[low - 1] if low > first else UNMAPPED


@inner_kernel
def note_rows(buf, parsed, kind, rows, row):  # type: ignore[no-untyped-def]
    """What the record says of its rows, the first of which is number `row`. Returns the number behind the last."""
    if kind == heap.ROW_MULTI_INSERT:
        return note_multi_insert(buf, parsed, rows, row)
    if kind == heap.ROW_DELETE:
        note_delete(buf, parsed, rows, row)
    elif kind == heap.ROW_UPDATE:
        note_update(buf, parsed, rows, row)
    else:
        note_insert(parsed, rows, row)
    return row + 1


@inner_kernel
def note_insert(parsed, rows, row):  # type: ignore[no-untyped-def]
    """Note the row of an INSERT, speculative or not."""
    rows.kind[row] = INSERT
    rows.new[row] = parsed[FIRST_BLOCK + DATA]
    rows.new_length[row] = parsed[FIRST_BLOCK + DATA_LENGTH]
    rows.old[row] = -1
    rows.old_length[row] = 0
    rows.old_kind[row] = NO_OLD


@inner_kernel
def note_update(buf, parsed, rows, row):  # type: ignore[no-untyped-def]
    rows.kind[row] = UPDATE
    rows.new[row] = parsed[FIRST_BLOCK + DATA]
    rows.new_length[row] = parsed[FIRST_BLOCK + DATA_LENGTH]
    rows.old_kind[row], rows.old[row], rows.old_length[row] = heap.old_tuple(buf, parsed, heap.ROW_UPDATE)


@inner_kernel
def note_delete(buf, parsed, rows, row):  # type: ignore[no-untyped-def]
    rows.kind[row] = DELETE
    rows.new[row] = -1
    rows.new_length[row] = 0
    rows.old_kind[row], rows.old[row], rows.old_length[row] = heap.old_tuple(buf, parsed, heap.ROW_DELETE)


@inner_kernel
def note_multi_insert(buf, parsed, rows, row):  # type: ignore[no-untyped-def]
    """Returns the number behind its last row. That is a tuple that does not lie within the block's data, if one does not: it gets
    no length, which deforming refuses."""
    behind = parsed[FIRST_BLOCK + DATA]
    stop = behind + parsed[FIRST_BLOCK + DATA_LENGTH]
    for _ in range(heap.tuple_count(buf, parsed)):
        at = length = np.int64(0)
        fits = heap.has_inserted(parsed, behind)
        if fits:
            at, length = heap.next_inserted(buf, parsed, behind)
            fits = at + length <= stop
        rows.kind[row] = INSERT
        rows.new[row] = at if fits else stop
        rows.new_length[row] = length if fits else 0
        rows.old[row] = -1
        rows.old_length[row] = 0
        rows.old_kind[row] = NO_OLD
        behind = at + length
        row += 1
        if not fits:
            break
    return row


@inner_kernel
def is_bare_delete(buf, parsed, kind):  # type: ignore[no-untyped-def]
    """Whether it says nothing of the row. A catalog that moved leaves such deletions, on a file that no row of pg_class is about;
    the server skips them too."""
    return kind == heap.ROW_DELETE and heap.old_tuple(buf, parsed, kind)[0] == NO_OLD


@inner_kernel
def end_speculation(rows, wanted, slot, kind):  # type: ignore[no-untyped-def]
    """The transaction's speculative insert, if there is one here, is confirmed or cancelled."""
    row = wanted.speculative[slot]
    if kind == heap.SPECULATIVE_CANCEL and row >= 0:
        rows.kind[row] = CANCELLED
    wanted.speculative[slot] = -1


@inner_kernel
def cancel_unconfirmed(rows, wanted):  # type: ignore[no-untyped-def]
    """Speculative inserts that still wait at the end of the stretch, unless another stretch confirms them."""
    for slot in range(len(wanted.speculative)):
        row = wanted.speculative[slot]
        if row >= 0:
            kept = False
            for i in range(len(wanted.confirmed)):
                kept = kept or wanted.confirmed[i] == rows.lsn[row]
            if not kept:
                rows.kind[row] = CANCELLED


@kernel
def grouped(relation, kind, group_of, groups):  # type: ignore[no-untyped-def]
    """Numbers of rows by the group of their relation, in order within each, without CANCELLED ones and group -1. Returns
    (numbers, bounds)."""
    bounds = np.zeros(groups + 1, np.int64)
    for row in range(len(kind)):
        group = group_of[relation[row]]
        if kind[row] != CANCELLED and group >= 0:
            bounds[group + 1] += 1
    for i in range(groups):
        bounds[i + 1] += bounds[i]
    place = bounds[:-1].copy()
    numbers = np.empty(bounds[-1], np.int64)
    for row in range(len(kind)):
        group = group_of[relation[row]]
        if kind[row] != CANCELLED and group >= 0:
            numbers[place[group]] = row
            place[group] += 1
    return numbers, bounds


def wanted_rows(plan: StretchPlan, read: Reader) -> tuple[WalBytes, WalRows, Chunks]:
    """The bytes read, the wanted rows and their chunks. Raises as `decode` does."""
    carried = CarriedChunks.of(plan, read)
    return read_whole(partial(read, extra=len(carried.data)), plan.stretch, partial(_collected, plan, carried))


def _collected(
    plan: StretchPlan, carried: CarriedChunks, wal: WalBytes, *, at_end_of_log: bool
) -> tuple[WalBytes, WalRows, Chunks]:
    form = FORMATS[plan.major]
    frame = framing.new_frame(wal, LogIdentity(form, plan.segment_size), plan.start, plan.stretch.stop)
    frame[SPARE] += (len(carried.data) + 7) & ~7
    rows, chunks = WalRows.room(wal.raw), ChunkTuples.room(wal.raw)
    seen: Collected = collect_rows(
        wal.buf, frame, form.image_compressed, plan.unwanted_origins, WantedXids.of(plan), MappedFiles.of(plan), rows, chunks
    )
    if seen.reason == framing.NEED_MORE and not at_end_of_log:
        raise NeedMoreWal(explain(seen.reason, frame))
    if seen.reason == framing.INVALID_DATA or seen.fingerprint != plan.fingerprint:
        raise changed_since(plan.stretch, wal, seen.reason, frame)
    if seen.unmapped_lsn:
        database, number = seen.unmapped_file >> 32, seen.unmapped_file & 0xFFFFFFFF
        raise MissingHistory(f'could not map filenumber "{database}/{number}" to relation OID').at(Lsn(seen.unmapped_lsn))
    here = ChunkTuples(*(column[: seen.chunks] for column in chunks))
    return wal, _owned(rows.take(slice(seen.rows)), plan), all_chunks(wal, carried, here)


def _owned(rows: WalRows, plan: StretchPlan) -> WalRows:
    """The rows with the transactions that they are of, without those that were given before."""
    rows = rows._replace(ordinal=plan.ordinal[rows.owner])
    return rows.take(np.flatnonzero(rows.lsn >= plan.since[rows.owner])) if plan.since.any() else rows
