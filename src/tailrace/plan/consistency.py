"""From where on transactions are known whole (`snapbuild.c`), and whether the stretches at hand fit together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tailrace.errors import CorruptWal, MissingHistory
from tailrace.model import Lsn
from tailrace.transactions.fates import Transactions
from tailrace.wal import index, records, xact
from tailrace.wal.index import Index
from tailrace.wal.loads import number
from tailrace.wal.versions import FORMATS


def check_chain(indexes: Sequence[Index]) -> None:
    """Neighbouring stretches must fit: the first record of one names the last of the one before (xl_prev)."""
    last: Lsn | None = None
    for found in indexes:
        if not found.records:
            continue
        if last is not None and found.previous != last and not _begins_after_overwrite(found):
            raise CorruptWal(
                f"record with incorrect prev-link {found.previous} at {found.first}", context=f"the record before it is at {last}"
            )
        last = found.last


def _begins_after_overwrite(found: Index) -> bool:
    rows = found.kept.rows_of(index.TIMELINE_END)
    return bool(len(rows)) and int(found.kept.lsn[rows[0]]) == found.first


def consistency(
    indexes: Sequence[Index], open_at_start: dict[int, int] | None, transactions: Transactions
) -> tuple[frozenset[int], Lsn]:
    """Transactions that may have begun before the first index, and the LSN from which all that commit are read whole.

    The first RUNNING_XACTS behind the first redo pointer names those that were running; so does a captured state. A shutdown checkpoint, or nothing
    running, is consistent at once, but for prepared transactions; otherwise the consistent point lies where the last of the running has ended.
    One that is logged before the redo pointer does not know who began between the two, where the catalogs are not known yet.
    """
    first = indexes[0].stretch.start
    prepared = _prepared_before(indexes, transactions)
    if open_at_start is not None:
        unread = frozenset(xid for xid, lsn in open_at_start.items() if lsn < first) | prepared
        return unread, _all_ended(unread, indexes, first)
    redo, next_xid = _first_checkpoint(indexes)
    for found in indexes:
        for row in range(len(found.kept)):
            kind = found.kept.kind[row]
            if kind not in (index.RUNNING_XACTS, index.CHECKPOINT) or found.kept.lsn[row] < redo:
                continue
            raw = np.frombuffer(found.kept.record(row), np.uint8)
            lsn = Lsn(int(found.kept.lsn[row]))
            if kind == index.CHECKPOINT:
                if raw[16] & 0xF0 == 0:
                    return prepared, _all_ended(prepared, indexes, lsn)
                continue
            running = _running_xids(raw, found.major)
            earlier = (xid for part in indexes for xid in part.ends.xid[part.ends.lsn < lsn].tolist())
            before = frozenset(xid for xid in (*running, *earlier) if (xid - next_xid) % 2**32 >= 2**31)
            return before | prepared, _all_ended(running | prepared, indexes, lsn)
    raise MissingHistory(
        f"no consistent point between {indexes[0].first} and {indexes[-1].next_lsn}",
        hint="The WAL holds neither a RUNNING_XACTS record nor a shutdown checkpoint. Run CHECKPOINT on the source, or give a captured catalog state.",  # noqa: E501
    )


def _prepared_before(indexes: Sequence[Index], transactions: Transactions) -> frozenset[int]:
    """Transactions that come with their rows at COMMIT PREPARED, and were prepared before the first index. No checkpoint names them."""

    def ended_as(kind: int) -> NDArray[np.uint32]:
        return np.concatenate([found.ends.xid[found.ends.kind == kind] for found in indexes])

    committed = np.setdiff1d(ended_as(xact.COMMIT_PREPARED), ended_as(xact.PREPARE))
    return frozenset(np.intersect1d(committed, transactions.xid[transactions.kind == xact.COMMIT]).tolist())


def _first_checkpoint(indexes: Sequence[Index]) -> tuple[int, int]:
    """The redo pointer of the first checkpoint at hand, and the transaction id that was next there: what has it, or a later one, began after that."""
    for found in indexes:
        for row in found.kept.rows_of(index.CHECKPOINT).tolist():
            raw = np.frombuffer(found.kept.record(row), np.uint8)
            parsed = records.new_parsed()
            records.parse(raw, 0, len(raw), FORMATS[found.major].image_compressed, parsed)
            main = int(parsed[records.MAIN])
            redo = number(raw, main, 8)
            if redo >= indexes[0].stretch.start:
                return redo, number(raw, main + 24, 4)
    return 0, 0


def _running_xids(raw: NDArray[np.uint8], major: int) -> frozenset[int]:
    parsed = records.new_parsed()
    records.parse(raw, 0, len(raw), FORMATS[major].image_compressed, parsed)
    main = int(parsed[records.MAIN])
    count = number(raw, main, 4) + number(raw, main + 4, 4)
    return frozenset(number(raw, main + 24 + 4 * i, 4) for i in range(count))


def _all_ended(running: frozenset[int], indexes: Sequence[Index], since: Lsn) -> Lsn:
    """Where the last of `running` ended. One that never did in this WAL can also never be shown."""
    last = int(since)
    for found in indexes:
        mine = np.isin(found.ends.xid, np.array(sorted(running), np.uint32))
        if mine.any():
            last = max(last, int(found.ends.lsn[mine].max()) + 1)
    return Lsn(last)


def whole(
    transactions: Transactions,
    shown: NDArray[np.int64],
    unread: frozenset[int],
    consistent: Lsn,
    known_from: int,
    *,
    explicit: bool,
) -> NDArray[np.int64]:
    """Those of `shown` that lie whole in the WAL at hand. If the user named the start, one that does not is an error."""
    cut = (transactions.first_lsn[shown] < known_from) | np.isin(transactions.xid[shown], np.array(sorted(unread), np.uint32))
    cut &= transactions.has_rows[shown]
    if explicit and cut.any():
        first = int(shown[np.flatnonzero(cut)[0]])
        raise MissingHistory(
            f"transaction {int(transactions.xid[first])} began before the WAL at hand and commits at {Lsn(int(transactions.commit_lsn[first]))}",
            hint=f"Give older WAL, or start at {consistent}, from where every transaction is read whole.",
        )
    return shown[~cut]
