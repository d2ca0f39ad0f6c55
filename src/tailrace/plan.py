"""Indexes + catalog history -> what to decode, stretch by stretch, and in which order it comes out.

In: the indexes of consecutive stretches and the history of one database. Out: `Plan`: the transactions to show, in commit order; for each stretch
that holds rows of theirs a `StretchPlan`; the messages and TRUNCATEs, which need no second pass. Nothing here reads WAL.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.history import History, Span
from tailrace.decode import NOT_DECODED, UNMAPPED, FileMap, StretchPlan, is_decoded
from tailrace.errors import CorruptWal, MissingHistory, UsageError
from tailrace.model import FIRST_UNPINNED_OID, Locator, Lsn, Relation
from tailrace.transactions.fates import Fates, Transactions
from tailrace.wal import heap, index, records
from tailrace.wal.index import Index
from tailrace.wal.loads import number
from tailrace.wal.versions import FORMATS


@dataclass(frozen=True, slots=True)
class LogicalMessage:
    """pg_logical_emit_message(). `ordinal` is its transaction's, or -1 for one that does not wait for a commit; `lsn` is the record's start."""

    lsn: Lsn
    end_lsn: Lsn
    xid: int
    ordinal: int
    prefix: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Truncation:
    """A TRUNCATE, with all the logged relations it named."""

    lsn: Lsn
    ordinal: int
    relations: tuple[Relation, ...]
    cascade: bool
    restart_sequences: bool


@dataclass(slots=True)
class Plan:
    """What comes out, and from where. `shown` are ordinals into `transactions`, ascending; `row_bytes` of WAL their rows take, per shown one."""

    transactions: Transactions
    shown: NDArray[np.int64]
    row_bytes: NDArray[np.int64]
    stretches: list[StretchPlan]
    messages: list[LogicalMessage]
    truncations: list[Truncation]
    consistent_from: Lsn
    start_lsn: Lsn
    upto_lsn: Lsn

    @property
    def relations(self) -> tuple[Relation, ...]:
        return tuple({relation: None for stretch in self.stretches for relation in stretch.relations})

    def restricted_to(self, ordinals: NDArray[np.int64]) -> list[StretchPlan]:
        """The stretch plans with only these transactions wanted; stretches without any drop out."""
        found = []
        for stretch in self.stretches:
            keep = np.isin(stretch.ordinal, ordinals)
            if keep.all():
                found.append(stretch)
            elif keep.any():
                xids = stretch.xid[keep]
                carried = tuple(_carry_for(part, xids) for part in stretch.carried)
                found.append(
                    StretchPlan(
                        stretch.stretch,
                        stretch.start,
                        stretch.segment_size,
                        stretch.major,
                        stretch.fingerprint,
                        xids,
                        stretch.ordinal[keep],
                        stretch.files,
                        stretch.relations,
                        tuple(part for part in carried if len(part[2])),
                        stretch.confirmed,
                    )  # fmt: skip
                )
        return found


def _carry_for(part: tuple, xids: NDArray[np.uint32]) -> tuple:
    stretch, start, lsns, owners = part
    mine = np.isin(owners, xids)
    return stretch, start, lsns[mine], owners[mine]


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


def make_plan(
    indexes: Sequence[Index], history: History, fates: Fates, *, start_lsn: Lsn | None, upto_lsn: Lsn | None, segment_size: int,
    open_at_start: dict[int, int] | None = None,
) -> Plan:  # fmt: skip
    """Decide what to show of `[start_lsn, upto_lsn)` and where it lies.

    `open_at_start` are the xids that a captured state knows to have been open, with their first LSN: those within the indexes are read whole.
    Raises MissingHistory if a transaction to be shown began before the first index.
    """
    transactions = fates.transactions
    xids = _all_xids(indexes, fates)
    known, consistent_from = _consistency(indexes, fates, open_at_start)
    start = start_lsn if start_lsn is not None else consistent_from
    upto = upto_lsn if upto_lsn is not None else Lsn(2**63 - 1)
    in_range = (transactions.commit_lsn >= start) & (transactions.commit_lsn < upto)
    ours = in_range & ((transactions.database == history.database) | (transactions.database == 0))
    messages = _messages(indexes, fates, history.database, start, upto, consistent_from)
    has_message = np.zeros(len(transactions), np.bool_)
    has_message[[message.ordinal for message in messages if message.ordinal >= 0]] = True
    changed = np.zeros(len(transactions), np.bool_)
    owned = xids.ordinal >= 0
    # A heap record gives a transaction its snapshot, even one of a rolled-back subtransaction; so does, at its commit, a catalog change.
    changed[xids.ordinal[owned & ((xids.flags & index.HAS_CHANGE) != 0)]] = True
    changed[xids.ordinal[owned & ~xids.orphan & ((xids.flags & index.CHANGES_CATALOG) != 0)]] = True
    transactions.first_lsn[:] = np.iinfo(np.int64).max
    own = owned & (xids.xid == transactions.xid[np.maximum(xids.ordinal, 0)]) if len(transactions) else owned
    np.minimum.at(transactions.first_lsn, xids.ordinal[own], xids.first_lsn[own])
    shown = np.flatnonzero(ours & (changed | has_message))
    shown = _whole(
        transactions,
        shown,
        known,
        max(consistent_from, Lsn(history.known_from)),
        history.known_from,
        explicit=start_lsn is not None,
    )

    row_bytes = np.zeros(len(transactions), np.int64)
    wanted = np.zeros(len(transactions), np.bool_)
    wanted[shown] = True
    np.add.at(row_bytes, xids.ordinal[owned], xids.bytes[owned])
    messages = [message for message in messages if message.ordinal < 0 or wanted[message.ordinal]]
    mapper = _FileMapper(history, wanted)
    stretches = _stretch_plans(indexes, fates, wanted, mapper, segment_size)
    return Plan(
        transactions, shown, row_bytes[shown], stretches, messages, _truncations(indexes, fates, wanted, history), consistent_from, start, upto
    )  # fmt: skip


@dataclass(slots=True)
class _AllXids:
    xid: NDArray[np.uint32]
    ordinal: NDArray[np.int64]
    orphan: NDArray[np.bool_]  # rolled back, but of a transaction that committed
    first_lsn: NDArray[np.int64]
    flags: NDArray[np.uint8]
    bytes: NDArray[np.int64]


def _all_xids(indexes: Sequence[Index], fates: Fates) -> _AllXids:
    """Xids of all stretches, each with the committed transaction it belongs to: its own fate's, or its top-level's if it was rolled back alone."""
    xid = np.concatenate([found.xids.xid for found in indexes])
    top = np.concatenate([found.xids.top for found in indexes])
    # Only the first record of a subtransaction names its top-level one; later stretches know it from there.
    named = np.flatnonzero(top != 0)
    named = named[np.argsort(xid[named], kind="stable")]
    if len(named):
        place = np.minimum(np.searchsorted(xid[named], xid), len(named) - 1)
        top = np.where(xid[named][place] == xid, top[named][place], 0).astype(np.uint32)
    ordinal = fates.ordinals_of(xid)
    orphan = (ordinal < 0) & (top != 0)
    ordinal[orphan] = fates.ordinals_of(top[orphan])
    return _AllXids(
        xid, ordinal, orphan,
        np.concatenate([found.xids.first_lsn for found in indexes]),
        np.concatenate([found.xids.flags for found in indexes]),
        np.concatenate([found.xids.bytes for found in indexes]),
    )  # fmt: skip


def _consistency(indexes: Sequence[Index], fates: Fates, open_at_start: dict[int, int] | None) -> tuple[frozenset[int], Lsn]:
    """Transactions that may have begun before the first index, and the LSN from which all that commit are read whole (facts 6.2).

    The first RUNNING_XACTS names those that were running; so does a captured state. A shutdown checkpoint, or nothing running, is consistent at once;
    otherwise the consistent point lies where the last of the running has ended.
    """
    first = indexes[0].stretch.start
    if open_at_start is not None:
        unread = frozenset(xid for xid, lsn in open_at_start.items() if lsn < first)
        return unread, Lsn(first)
    for found in indexes:
        for row in range(len(found.kept)):
            kind = found.kept.kind[row]
            if kind not in (index.RUNNING_XACTS, index.CHECKPOINT):
                continue
            raw = np.frombuffer(found.kept.record(row), np.uint8).copy()
            lsn = Lsn(int(found.kept.lsn[row]))
            if kind == index.CHECKPOINT:
                if raw[16] & 0xF0 == 0:
                    return frozenset(), lsn
                continue
            running = _running_xids(raw, found.major)
            if not running:
                return frozenset(), lsn
            return running, _all_ended(running, indexes, fates, lsn)
    raise MissingHistory(
        f"no consistent point between {indexes[0].first} and {indexes[-1].next_lsn}",
        hint="The WAL holds neither a RUNNING_XACTS record nor a shutdown checkpoint. Run CHECKPOINT on the source, or give a captured catalog state.",  # noqa: E501
    )


def _running_xids(raw: NDArray[np.uint8], major: int) -> frozenset[int]:
    parsed = records.new_parsed()
    records.parse(raw, 0, len(raw), FORMATS[major].image_compressed, parsed)
    main = int(parsed[records.MAIN])
    count = number(raw, main, 4) + number(raw, main + 4, 4)
    return frozenset(number(raw, main + 24 + 4 * i, 4) for i in range(count))


def _all_ended(running: frozenset[int], indexes: Sequence[Index], fates: Fates, since: Lsn) -> Lsn:
    """Where the last of `running` ended. One that never did in this WAL can also never be shown."""
    last = int(since)
    for found in indexes:
        mine = np.isin(found.ends.xid, np.array(sorted(running), np.uint32))
        if mine.any():
            last = max(last, int(found.ends.lsn[mine].max()) + 1)
    del fates
    return Lsn(last)


def _whole(
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
    if explicit and cut.any():
        first = int(shown[np.flatnonzero(cut)[0]])
        raise MissingHistory(
            f"transaction {int(transactions.xid[first])} began before the WAL at hand and commits at {Lsn(int(transactions.commit_lsn[first]))}",
            hint=f"Give older WAL, or start at {consistent}, from where every transaction is read whole.",
        )
    return shown[~cut]


class _FileMapper:
    """Files -> what they meant, once per file for all stretches."""

    def __init__(self, history: History, wanted: NDArray[np.bool_]) -> None:
        self._history = history
        self._wanted = wanted
        self._timelines: dict[Locator, tuple[list[Span], dict[int, list[Span]]]] = {}

    def map(self, found: Index) -> tuple[FileMap, tuple[Relation, ...]]:
        files = found.files
        mine = np.flatnonzero((files.database == self._history.database) & (files.number >= FIRST_UNPINNED_OID))
        classes = self._history.table("pg_class")
        ours = mine[np.isin(files.number[mine], classes["relfilenode"])]
        numbers: dict[Relation, int] = {}
        keys: list[int] = []
        starts: list[int] = []
        meanings: list[int] = []
        bounds = [0]
        has_own: list[bool] = []
        own_keys: list[int] = []
        own_spans: list[list[Span]] = []

        def add(spans: list[Span]) -> None:
            for span in spans:
                starts.append(span.start)
                relation = span.relation
                if relation is None:
                    meanings.append(UNMAPPED)
                elif not is_decoded(relation):
                    meanings.append(NOT_DECODED)
                else:
                    meanings.append(numbers.setdefault(relation, len(numbers)))

        locators = zip(files.tablespace[ours].tolist(), files.database[ours].tolist(), files.number[ours].tolist(), strict=True)
        for position, locator in enumerate(Locator(*parts) for parts in locators):
            general, own = self._timeline(locator)
            keys.append((locator.database << 32) | locator.number)
            add(general)
            bounds.append(len(starts))
            has_own.append(bool(own))
            for ordinal, spans in own.items():
                own_keys.append((position << 32) | ordinal)
                own_spans.append(spans)
        # Files that no relation ever had: rows in them cannot be decoded, and say so.
        for row in np.setdiff1d(mine, ours).tolist():
            keys.append((int(files.database[row]) << 32) | int(files.number[row]))
            add([Span(0, None)])
            bounds.append(len(starts))
            has_own.append(False)
        own_bounds = [len(starts)]
        for spans in own_spans:
            add(spans)
            own_bounds.append(len(starts))
        file_map = FileMap(
            np.array(keys, np.int64), np.array(bounds, np.int64), np.array(has_own, np.bool_), np.array(own_keys, np.int64),
            np.array(own_bounds, np.int64), np.array(starts, np.int64), np.array(meanings, np.int64),
        )  # fmt: skip
        return file_map, tuple(numbers)

    def _timeline(self, locator: Locator) -> tuple[list[Span], dict[int, list[Span]]]:
        if locator not in self._timelines:
            general = self._history.timeline(locator)
            own = {
                ordinal: self._history.timeline(locator, ordinal)
                for ordinal in sorted(self._history.changers(locator))
                if self._wanted[ordinal]
            }
            self._timelines[locator] = (general, own)
        return self._timelines[locator]


def _stretch_plans(
    indexes: Sequence[Index], fates: Fates, wanted: NDArray[np.bool_], mapper: _FileMapper, segment_size: int
) -> list[StretchPlan]:
    plans: list[StretchPlan] = []
    waiting: dict[int, list[tuple[Index, NDArray[np.int64]]]] = {}
    confirmed = _confirmed_elsewhere(indexes)
    for found in indexes:
        ordinal = fates.ordinals_of(found.xids.xid)
        mine = (ordinal >= 0) & ((found.xids.flags & (index.HAS_ROWS | index.STARTS_WITH_CONFIRM)) != 0)
        mine[mine] = wanted[ordinal[mine]]
        if mine.any():
            order = np.argsort(found.xids.xid[mine])
            xids = found.xids.xid[mine][order]
            file_map, relations = mapper.map(found)
            carried = tuple(
                (source.stretch, int(source.first), lsns, np.full(len(lsns), xid, np.uint32))
                for xid in xids.tolist()
                for source, lsns in waiting.get(xid, ())
            )
            plans.append(
                StretchPlan(
                    found.stretch,
                    int(found.first) if found.first else int(found.stretch.start),
                    segment_size,
                    found.major,
                    found.fingerprint,
                    xids,
                    ordinal[mine][order],
                    file_map,
                    relations,
                    carried,
                    confirmed,
                )  # fmt: skip
            )
        # Chunks wait for the row that they serve, over as many stretches as it takes.
        if waiting:
            closed = found.xids.xid[(found.xids.flags & index.CLOSED_TOAST) != 0]
            for xid in closed.tolist():
                waiting.pop(xid, None)
        for xid in np.unique(found.waiting_xid).tolist():
            waiting.setdefault(xid, []).append((found, found.waiting_lsn[found.waiting_xid == xid]))
    return plans


def _confirmed_elsewhere(indexes: Sequence[Index]) -> NDArray[np.int64]:
    """LSNs of speculative inserts at the end of one stretch whose confirmation begins a later one."""
    confirmed: list[int] = []
    waiting: dict[int, int] = {}
    for found in indexes:
        for slot in np.flatnonzero(found.xids.flags & (index.STARTS_WITH_CONFIRM | index.STARTS_WITH_CANCEL)).tolist():
            lsn = waiting.pop(int(found.xids.xid[slot]), None)
            if lsn is not None and found.xids.flags[slot] & index.STARTS_WITH_CONFIRM:
                confirmed.append(lsn)
        for slot in np.flatnonzero(found.xids.speculative).tolist():
            waiting[int(found.xids.xid[slot])] = int(found.xids.speculative[slot])
    return np.array(confirmed, np.int64)


def _kept(indexes: Sequence[Index], kind: int) -> Iterator[tuple[Index, int, NDArray[np.uint8], NDArray[np.int64]]]:
    parsed = records.new_parsed()
    for found in indexes:
        for row in found.kept.rows_of(kind).tolist():
            raw = np.frombuffer(found.kept.record(row), np.uint8).copy()
            records.parse(raw, 0, len(raw), FORMATS[found.major].image_compressed, parsed)
            yield found, row, raw, parsed


def _messages(
    indexes: Sequence[Index], fates: Fates, database: int, start: Lsn, upto: Lsn, consistent: Lsn
) -> list[LogicalMessage]:
    """Messages of this database: transactional ones of committed transactions, others if they lie in the range themselves (facts 6.8)."""
    found: list[LogicalMessage] = []
    for source, row, raw, parsed in _kept(indexes, index.MESSAGE):
        main = int(parsed[records.MAIN])
        if number(raw, main, 4) != database:
            continue
        lsn = Lsn(int(source.kept.lsn[row]))
        xid = int(parsed[records.XID])
        prefix_size, size = number(raw, main + 8, 8), number(raw, main + 16, 8)
        ordinal = -1
        if raw[main + 4]:
            ordinal = int(fates.ordinals_of(np.array([xid], np.uint32))[0])
            if ordinal < 0:
                continue
        elif not max(start, consistent) <= lsn < upto:
            continue
        text = raw[main + 24 : main + 24 + prefix_size + size].tobytes()
        found.append(
            LogicalMessage(
                lsn,
                Lsn(int(source.kept.end_lsn[row])),
                xid,
                ordinal,
                text[: prefix_size - 1].decode(errors="replace"),
                text[prefix_size:],
            )  # fmt: skip
        )
    return found


def _truncations(indexes: Sequence[Index], fates: Fates, wanted: NDArray[np.bool_], history: History) -> list[Truncation]:
    found: list[Truncation] = []
    for source, row, raw, parsed in _kept(indexes, index.TRUNCATE):
        main = int(parsed[records.MAIN])
        xid = int(parsed[records.XID])
        ordinal = int(fates.ordinals_of(np.array([xid], np.uint32))[0])
        if number(raw, main, 4) != history.database or ordinal < 0 or not wanted[ordinal]:
            continue
        lsn = Lsn(int(source.kept.lsn[row]))
        oids = [number(raw, main + 12 + 4 * i, 4) for i in range(number(raw, main + 4, 4))]
        relations = [history.relation_by_oid(oid, lsn, ordinal) for oid in oids]
        missing = [oid for oid, relation in zip(oids, relations, strict=True) if relation is None]
        if missing:
            raise MissingHistory(f"could not open relation with OID {missing[0]}", context=f"WAL record at {lsn}")
        logged = tuple(relation for relation in relations if relation is not None and relation.persistence == "p")
        flags = int(raw[main + 8])
        found.append(
            Truncation(lsn, ordinal, logged, bool(flags & heap.TRUNCATE_CASCADE), bool(flags & heap.TRUNCATE_RESTART_SEQUENCES))
        )
    return found


def check_decodable(indexes: Sequence[Index], start: int, upto: int) -> None:
    """Raise where wal_level was below logical, or a custom resource manager wrote rows, inside the range."""
    for found, row, raw, parsed in _kept(indexes, index.WAL_SETTINGS):
        if raw[16] & 0xF0 == 0x60 and number(raw, int(parsed[records.MAIN]) + 20, 4) < 2 and start <= found.kept.lsn[row] < upto:
            raise UsageError(
                "logical decoding requires wal_level >= logical",
                hint="wal_level was lowered on the source; WAL after that cannot be decoded. Decode up to there with --upto-lsn.",
                context=f"parameter change at {Lsn(int(found.kept.lsn[row]))}",
                sqlstate="55000",
            )
