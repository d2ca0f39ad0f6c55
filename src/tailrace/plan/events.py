"""What comes out besides rows and needs no second pass: logical messages and TRUNCATEs, from the records that indexes kept whole."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.history import History
from tailrace.errors import MissingHistory
from tailrace.model import Lsn, Relation
from tailrace.transactions.scanned_log import ScannedLog
from tailrace.wal import heap, index, records
from tailrace.wal.kept import kept_records
from tailrace.wal.unaligned import number


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


@dataclass(frozen=True, slots=True)
class Truncation:
    """A TRUNCATE, with all the logged relations it named."""

    lsn: Lsn
    ordinal: int
    relations: tuple[Relation, ...]
    cascade: bool
    restart_sequences: bool


def messages_of(log: ScannedLog, database: int, start: Lsn, upto: Lsn, *, only_local: bool) -> list[LogicalMessage]:
    """Messages of this database: transactional ones of committed transactions, others if they lie in the range themselves."""
    messages: list[LogicalMessage] = []
    for source, row, raw, parsed in kept_records(log.indexes, index.MESSAGE):
        main = int(parsed[records.MAIN])
        if number(raw, main, 4) != database or (only_local and parsed[records.ORIGIN]):
            continue
        lsn = Lsn(int(source.kept.lsn[row]))
        xid = int(parsed[records.XID])
        prefix_size, size = number(raw, main + 8, 8), number(raw, main + 16, 8)
        ordinal = -1
        if raw[main + 4]:
            ordinal = int(log.fates.ordinals_of(np.array([log.clock.full(xid, lsn)], np.int64))[0])
            if ordinal < 0:
                continue
        elif not start <= lsn < upto:
            continue
        text = raw[main + 24 : main + 24 + prefix_size + size].tobytes()
        messages.append(
            LogicalMessage(
                lsn,
                Lsn(int(source.kept.end_lsn[row])),
                xid,
                ordinal,
                text[: prefix_size - 1].decode(errors="surrogateescape"),
                text[prefix_size:],
                int(source.kept.followed_by[row]),
            )
        )
    return messages


def truncations_of(log: ScannedLog, wanted: NDArray[np.bool_], history: History, *, only_local: bool) -> list[Truncation]:
    truncations: list[Truncation] = []
    for source, row, raw, parsed in kept_records(log.indexes, index.TRUNCATE):
        main = int(parsed[records.MAIN])
        lsn = Lsn(int(source.kept.lsn[row]))
        ordinal = int(log.fates.ordinals_of(np.array([log.clock.full(int(parsed[records.XID]), lsn)], np.int64))[0])
        if (
            number(raw, main, 4) != history.database
            or ordinal < 0
            or not wanted[ordinal]
            or (only_local and parsed[records.ORIGIN])
        ):
            continue
        oids = [number(raw, main + 12 + 4 * i, 4) for i in range(number(raw, main + 4, 4))]
        relations = [history.relation_by_oid(oid, lsn, ordinal) for oid in oids]
        missing = [oid for oid, relation in zip(oids, relations, strict=True) if relation is None]
        if missing:
            raise MissingHistory(f"could not open relation with OID {missing[0]}", context=f"WAL record at {lsn}")
        logged = tuple(relation for relation in relations if relation is not None and relation.persistence == "p")
        flags = int(raw[main + 8])
        truncations.append(
            Truncation(lsn, ordinal, logged, bool(flags & heap.TRUNCATE_CASCADE), bool(flags & heap.TRUNCATE_RESTART_SEQUENCES))
        )
    return truncations
