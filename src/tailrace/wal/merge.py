"""The indexes of two neighbouring stretches as one: what a scan of both at once would make.

In: indexes whose stretches meet, with xids both as the log has them or both full (`transactions.epochs`). Out: one index, whose xids and files come
in the order of their first records, as a scan's do. So indexes of any size come to the same, wherever a log was cut.
"""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
from numpy.typing import NDArray

from tailrace.model import Lsn, Stretch
from tailrace.wal.crc import fingerprint_of_both
from tailrace.wal.index import (
    CLOSED_TOAST,
    KEPT_ALIEN,
    SPECULATES,
    SPECULATION_OPEN,
    STARTS_WITH_CANCEL,
    STARTS_WITH_CONFIRM,
    UNKNOWN_XID,
    Files,
    Index,
    KeptRecords,
    Xids,
)  # fmt: skip
from tailrace.wal.xact import Ends

_STARTS = np.uint8(STARTS_WITH_CONFIRM | STARTS_WITH_CANCEL)
_SPECULATES = np.uint8(SPECULATES)
_ADDS_UP = np.uint8(0xFF & ~(STARTS_WITH_CONFIRM | STARTS_WITH_CANCEL | SPECULATION_OPEN))


def merged(first: Index, second: Index) -> Index:
    """The index of both stretches, of which the second begins where the first stops. A second one of zeros, behind the end of the log, is to come as
    `plan.whole_log.ended_before` leaves it.

    A scan keeps the records of a file that a NEW_CID names, from there on, and tells by `tracked`; of a file that only the first stretch names, the
    second has kept none. Whoever wants the records of such a file asks for a supplement of the whole stretch anyway
    (`catalog.redo.catalog_records.lacking`). Raises ValueError for two that are not neighbours, or where the log ended in the first.
    """
    whose = [(part.system, part.timeline, part.major, part.also) for part in (first, second)]
    if whose[0] != whose[1] or first.stretch.stop != second.stretch.start or not (first.sealed or not second.records):
        raise ValueError(f"the indexes of {first.stretch} and {second.stretch} do not join")
    stretch = Stretch(first.stretch.start, second.stretch.stop)
    if not first.sealed:
        return replace(first, stretch=stretch)
    still = _still_waiting(first, second)
    begins = first if first.records else second
    return replace(
        second, stretch=stretch, records=first.records + second.records, first=begins.first, first_xid=begins.first_xid,
        previous=begins.previous, last=second.last if second.records else first.last,
        next_lsn=second.next_lsn if second.records else max(first.next_lsn, second.next_lsn),
        fingerprint=fingerprint_of_both(first.fingerprint, second.fingerprint, second.records), xids=_merged_xids(first.xids, second.xids),
        files=_merged_files(first.files, second.files), ends=_joined_ends(first.ends, second.ends),
        kept=_merged_kept(first, second), place=first.place if second.sealed else second.place,
        waiting_xid=np.concatenate([first.waiting_xid[still], second.waiting_xid]),
        waiting_lsn=np.concatenate([first.waiting_lsn[still], second.waiting_lsn]),
        waiting_crc=np.concatenate([first.waiting_crc[still], second.waiting_crc]),
    )  # fmt: skip


def ended_here(part: Index) -> Index:
    """An index in which the log ends, as one of a stretch that stops there: what is written behind belongs to another."""
    if part.sealed:
        return part
    stop = max(part.next_lsn, part.stretch.start)
    return replace(part, stretch=Stretch(part.stretch.start, stop), sealed=True, reason="", place=Lsn(0), torn=False)


def _still_waiting(first: Index, second: Index) -> NDArray[np.bool_]:
    """Which TOAST chunks of the first no row of the second serves itself with."""
    closed = second.xids.xid[(second.xids.flags & CLOSED_TOAST) != 0]
    return ~np.isin(first.waiting_xid, closed)


def _merged_xids(first: Xids, second: Xids) -> Xids:
    row = _rows_in(first.xid, second.xid)
    both = Xids(**{each.name: _appended(getattr(first, each.name), getattr(second, each.name), row) for each in fields(Xids)})
    known = np.flatnonzero(row < len(first))
    mine, theirs = row[known], known
    both.top[mine] = np.where(second.top[theirs] != 0, second.top[theirs], first.top[mine])
    both.rows[mine] += second.rows[theirs]
    both.bytes[mine] += second.bytes[theirs]
    queued = first.queued_lsn[mine] != 0
    both.queued_lsn[mine] = np.where(queued, first.queued_lsn[mine], second.queued_lsn[theirs])
    both.origin[mine] = np.where(queued, first.origin[mine], second.origin[theirs])
    before, after = first.flags[mine], second.flags[theirs]
    # What an xid does first about speculation says how it came in, what it does last how it goes out.
    starts = np.where(before & _SPECULATES, before, after) & _STARTS
    waits = np.where(after & _SPECULATES, second.speculative[theirs], first.speculative[mine])
    both.speculative[mine] = waits
    both.flags[mine] = ((before | after) & _ADDS_UP) | starts | np.where(waits != 0, np.uint8(SPECULATION_OPEN), np.uint8(0))
    return both


def _merged_files(first: Files, second: Files) -> Files:
    row = _rows_in(*_file_keys(first, second))
    both = Files(**{each.name: _appended(getattr(first, each.name), getattr(second, each.name), row) for each in fields(Files)})
    known = np.flatnonzero(row < len(first))
    both.records[row[known]] += second.records[known]
    both.tracked[row[known]] |= second.tracked[known]
    return both


def _file_keys(first: Files, second: Files) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """A number for each file, the same for one that both have."""
    tablespaces, space = np.unique(np.concatenate([first.tablespace, second.tablespace]), return_inverse=True)
    database, number = (
        np.concatenate([getattr(first, of), getattr(second, of)]).astype(np.int64) for of in ("database", "number")
    )
    _, place = np.unique(database << 32 | number, return_inverse=True)
    keys = place * len(tablespaces) + space
    return keys[: len(first)], keys[len(first) :]


def _rows_in(first: NDArray, second: NDArray) -> NDArray[np.int64]:
    """For each of the second's keys its row among the first's, or, of those that are not there, the rows behind these."""
    order = np.argsort(first, kind="stable")
    row = np.full(len(second), -1, np.int64)
    if len(first):
        place = np.minimum(np.searchsorted(first, second, sorter=order), len(first) - 1)
        known = first[order[place]] == second
        row[known] = order[place[known]]
    fresh = row < 0
    row[fresh] = len(first) + np.arange(int(fresh.sum()))
    return row


def _appended(first: NDArray, second: NDArray, row: NDArray[np.int64]) -> NDArray:
    """A column of the first, and of the second the rows that are new."""
    return np.concatenate([first, second[row >= len(first)]])


def _joined_ends(first: Ends, second: Ends) -> Ends:
    columns = {}
    for each in fields(Ends):
        mine, theirs = getattr(first, each.name), getattr(second, each.name)
        columns[each.name] = np.concatenate([mine, theirs[1:] + mine[-1] if each.name.endswith("_bounds") else theirs])
    return Ends(**columns)


def _merged_kept(first: Index, second: Index) -> KeptRecords:
    """The records of both; of a custom resource manager only the first, and the message at the end of the first knows what follows it."""
    mine, theirs = first.kept, second.kept
    if (mine.kind == KEPT_ALIEN).any() and (theirs.kind == KEPT_ALIEN).any():
        theirs = theirs.taken(np.flatnonzero(theirs.kind != KEPT_ALIEN))
    columns = {each.name: np.concatenate([getattr(mine, each.name), getattr(theirs, each.name)]) for each in fields(KeptRecords)}
    columns["at"][len(mine) :] += len(mine.data)
    if second.records:
        followed_by = columns["followed_by"][: len(mine)]
        open_end = followed_by == UNKNOWN_XID
        followed_by[open_end] = np.where(mine.end_lsn[open_end] == second.first, np.uint32(second.first_xid), np.uint32(0))
    return KeptRecords(**columns)
