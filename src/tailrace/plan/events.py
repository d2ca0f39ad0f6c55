"""Logical messages and TRUNCATEs: the indexes keep these records whole, so they are decoded here and need no second pass."""

from __future__ import annotations

from collections.abc import Container, Iterator

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.history.history import History
from tailrace.dataclass import dataclass
from tailrace.errors import MissingHistory
from tailrace.model import Lsn, Relation
from tailrace.transactions.scanned_log import ScannedLog
from tailrace.wal import heap, index
from tailrace.wal.heap_records import HeapTruncate
from tailrace.wal.kept_records import kept_records
from tailrace.wal.logicalmsg import MessageRecord

_SIZE_OF_OID = 4


@dataclass(frozen=True, slots=True)
class LogicalMessage:
    """pg_logical_emit_message(). `xid` is what is printed; `ordinal` its transaction's, or -1 for one that does not wait for a commit; `lsn` is the
    record's start. `prefix` and `content` are in the database's encoding, bytes of the prefix that are not UTF-8 as surrogates. `followed_by` is as
    in the index; `behind` says that the server prints it after the rows of the record that begins where it ends (`plan/message_order.py`)."""

    lsn: Lsn
    end_lsn: Lsn
    xid: int
    ordinal: int
    prefix: str
    content: bytes
    followed_by: int = 0
    behind: bool = False

    @property
    def printed_lsn(self) -> Lsn:
        return self.end_lsn

    @property
    def size(self) -> int:
        """Bytes of memory that the server counts for it, about."""
        return self.end_lsn - self.lsn


@dataclass(frozen=True, slots=True)
class Truncation:
    """A TRUNCATE, with all the logged relations it named. `xid` is that of the subtransaction which it is of."""

    lsn: Lsn
    ordinal: int
    relations: tuple[Relation, ...]
    cascade: bool
    restart_sequences: bool
    xid: int = 0

    @property
    def printed_lsn(self) -> Lsn:
        return self.lsn

    @property
    def size(self) -> int:
        """As of a message."""
        return _SIZE_OF_OID * len(self.relations)


@dataclass(frozen=True, slots=True)
class CommittedTruncation:
    """A TRUNCATE, and where and when (microseconds since 2000) its transaction commits."""

    commit_lsn: Lsn
    truncation: Truncation
    committed: int


def origins_of_events(log: ScannedLog) -> Iterator[int]:
    """Where messages and TRUNCATEs come from."""
    return (kept.origin for kept in kept_records(log.indexes, index.KEPT_MESSAGE, index.KEPT_TRUNCATE))


def messages_of(log: ScannedLog, database: int, start: Lsn, upto: Lsn, unwanted: Container[int]) -> list[LogicalMessage]:
    """Messages of this database, but for those of `unwanted` origins: transactional ones of committed transactions, others if they lie in the range
    themselves."""
    messages: list[LogicalMessage] = []
    for kept in kept_records(log.indexes, index.KEPT_MESSAGE):
        says = kept.read(MessageRecord)
        if says.database != database or kept.origin in unwanted:
            continue
        ordinal = _ordinal_of(kept.xid, kept.lsn, log) if says.transactional else -1
        if says.transactional and ordinal < 0:
            continue
        if not says.transactional and not start <= kept.lsn < upto:
            continue
        messages.append(
            LogicalMessage(
                lsn=kept.lsn,
                end_lsn=kept.end_lsn,
                xid=kept.xid,
                ordinal=ordinal,
                prefix=says.prefix.decode(errors="surrogateescape"),
                content=says.content,
                followed_by=kept.followed_by,
            )
        )
    return messages


def truncations_of(log: ScannedLog, wanted: NDArray[np.bool_], history: History, unwanted: Container[int]) -> list[Truncation]:
    """TRUNCATEs of this database, but for those of `unwanted` origins, in `wanted` transactions (by ordinal). Raises MissingHistory if the catalogs
    do not have one of the relations."""
    truncations: list[Truncation] = []
    for kept in kept_records(log.indexes, index.KEPT_TRUNCATE):
        says = kept.read(HeapTruncate)
        ordinal = _ordinal_of(kept.xid, kept.lsn, log)
        if says.database != history.database or ordinal < 0 or not wanted[ordinal] or kept.origin in unwanted:
            continue
        relations = [history.relation_by_oid(oid, kept.lsn, ordinal) for oid in says.relids]
        missing = [oid for oid, relation in zip(says.relids, relations, strict=True) if relation is None]
        if missing:
            raise MissingHistory(f"could not open relation with OID {missing[0]}").at(kept.lsn)
        truncations.append(
            Truncation(
                lsn=kept.lsn,
                ordinal=ordinal,
                relations=tuple(relation for relation in relations if relation is not None and relation.persistence == "p"),
                cascade=bool(says.flags & heap.TRUNCATE_CASCADE),
                restart_sequences=bool(says.flags & heap.TRUNCATE_RESTART_SEQUENCES),
                xid=kept.xid,
            )
        )
    return truncations


def _ordinal_of(xid: int, lsn: Lsn, log: ScannedLog) -> int:
    """The ordinal of the transaction that a record at `lsn` belongs to; negative if it did not commit."""
    return int(log.outcomes.ordinals_of(np.array([log.clock.full(xid, lsn)], np.int64))[0])
