"""Many messages at once: which are changes, of what relation and transaction, and where their tuples lie.

In: the bytes of many messages, one after another, and where each begins. Out: `Scanned`, facts by message as columns. A kernel
takes what streams mostly consist of, which is Begin, Commit, Insert, Update and Delete, and checks it as `message_flow` does.
Whatever else there is, or looks wrong, it leaves to the reader of single messages: so there is one place that knows the rest, and
one that says what is wrong. State: the flow, the relations it described, and a transaction that was not ended when the bytes did.

No other room reads messages: this and `change_columns` are for programs that receive some (docs/messages.md), and for tests and
benchmarks, which read what we write.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailrace.dataclass import dataclass
from tailrace.decode import DELETE, INSERT, UPDATE
from tailrace.errors import PeerError
from tailrace.kernels import inner_kernel, kernel
from tailrace.logicalproto import message as m
from tailrace.logicalproto.big_endian import be16, be32, be64
from tailrace.logicalproto.message import OUTSIDE, STREAM, TRANSACTION
from tailrace.logicalproto.message_flow import MessageReader
from tailrace.logicalproto.tuple_columns import BINARY_BYTE, NULL_BYTE, TEXT_BYTE, UNCHANGED_BYTE
from tailrace.model import Lsn
from tailrace.types.values import Mask, as_writable
from tailrace.wal.heap import NO_OLD, OLD_KEY, OLD_ROW

_BEGIN, _COMMIT, _INSERT, _UPDATE, _DELETE = (np.uint8(ord(byte)) for byte in "BCIUD")
_NEW, _KEY, _OLD = (np.uint8(ord(byte)) for byte in "NKO")
_BEGIN_SIZE, _COMMIT_SIZE = 21, 26

OPEN, COMMITTED, PREPARED, ROLLED_BACK = range(4)
"""How a transaction ended, as far as the messages tell."""


class ChangeMessages(NamedTuple):
    """By message: INSERT, UPDATE, DELETE or 0; number of the relation's description and of the transaction, or -1; the xid that
    it has in a stream; what old tuple there is, and where tuples begin behind their markers, or -1."""

    kind: NDArray[np.uint8]
    relation: NDArray[np.int64]
    transaction: NDArray[np.int64]
    xid: NDArray[np.int64]
    old_kind: NDArray[np.uint8]
    old_at: NDArray[np.int64]
    new_at: NDArray[np.int64]

    @classmethod
    def room(cls, count: int) -> ChangeMessages:
        numbers = [np.full(count, -1, np.int64) for _ in range(5)]
        kind, old_kind = np.zeros(count, np.uint8), np.zeros(count, np.uint8)
        return cls(kind, numbers[0], numbers[1], numbers[2], old_kind, numbers[3], numbers[4])


class TransactionFacts(NamedTuple):
    """In the order in which they began. LSNs and time (microseconds since 2000) are 0 while they are not known; `state` is OPEN,
    COMMITTED, ..."""

    xid: NDArray[np.int64]
    commit_lsn: NDArray[np.int64]
    end_lsn: NDArray[np.int64]
    time: NDArray[np.int64]
    state: NDArray[np.int64]

    @classmethod
    def room(cls, count: int) -> TransactionFacts:
        return cls(*(np.zeros(count, np.int64) for _ in range(5)))


class KnownRelations(NamedTuple):
    """Relations described so far, by oid: number of the last description, and how many columns it has."""

    oid: NDArray[np.int64]
    number: NDArray[np.int64]
    columns: NDArray[np.int64]

    def having(self, oid: int, number: int, columns: int) -> KnownRelations:
        """The same, with a new description."""
        at = int(np.searchsorted(self.oid, oid))
        if at < len(self.oid) and self.oid[at] == oid:
            self.number[at], self.columns[at] = number, columns
            return self
        values = zip(self, (oid, number, columns), strict=True)
        return KnownRelations(*(np.insert(array, at, value) for array, value in values))


# Places in `state`, which the kernel and the flow share
_PLACE, _LSN, _HAS_CHANGES, _CURRENT, _COUNT = range(5)


@dataclass(frozen=True, slots=True)
class Scanned:
    """Of all messages of `data`, message i being `data[offsets[i] : offsets[i + 1]]`: facts of the changes, transactions, the
    relations that were described so far, and by their number all messages that are neither changes nor Begin or Commit. `undone`
    are changes of subtransactions that were rolled back."""

    data: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    rows: ChangeMessages
    transactions: TransactionFacts
    relations: tuple[m.Relation, ...]
    types: dict[int, m.Type]
    others: dict[int, m.AnyMessage]
    undone: Mask


class ChangeReader:
    """Reads one session's messages, buffer by buffer. After an error it is of no more use."""

    def __init__(self, proto_version: int, streaming: str) -> None:
        self._reader = MessageReader(proto_version, streaming)
        self._relations: list[m.Relation] = []
        self._types: dict[int, m.Type] = {}
        self._known = KnownRelations(*(np.zeros(0, np.int64) for _ in range(3)))
        self._open: TransactionFacts = TransactionFacts.room(0)

    def read(self, data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> Scanned:
        """The next messages. Raises PeerError for the first that is none, or cannot stand where it does; its context says the
        message's number."""
        data, offsets = as_writable(data), as_writable(offsets)
        count = len(offsets) - 1
        rows = ChangeMessages.room(count)
        notes = _Notes(TransactionFacts.room(count + 1), rows)
        flow = self._reader.flow
        state = np.zeros(5, np.int64)
        state[_CURRENT] = -1
        if flow.place not in (OUTSIDE, STREAM):
            for array, value in zip(notes.transactions, self._open, strict=True):
                array[0] = value[0]
            state[_CURRENT], state[_COUNT] = 0, 1
        elif flow.place == STREAM:
            state[_CURRENT] = notes.streamed(state, int(self._open.xid[0]))
        at = 0
        while True:
            state[_PLACE], state[_LSN], state[_HAS_CHANGES] = flow.place, _signed(flow.lsn), flow.has_changes
            at = int(_scan(data, offsets, at, state, self._known, rows, notes.transactions))
            flow.place, flow.has_changes = int(state[_PLACE]), bool(state[_HAS_CHANGES])
            flow.lsn = Lsn(int(state[_LSN]) % 2**64)
            if at >= count:
                break
            try:
                message = self._reader.read(data[offsets[at] : offsets[at + 1]].tobytes())
            except PeerError as error:
                error.context = f"{error.context}, message {at}"
                raise
            self._note(message)
            notes.note(at, message, state)
            at += 1
        facts = TransactionFacts(*(array[: int(state[_COUNT])] for array in notes.transactions))
        current = int(state[_CURRENT]) if flow.place != OUTSIDE else len(facts.xid)
        self._open = TransactionFacts(*(array[current : current + 1].copy() for array in facts))
        return Scanned(data, offsets, rows, facts, tuple(self._relations), dict(self._types), notes.others, notes.undone)

    def _note(self, message: m.AnyMessage) -> None:
        """What is kept for the whole flow."""
        if isinstance(message, m.Relation):
            self._known = self._known.having(message.relation_oid, len(self._relations), len(message.columns))
            self._relations.append(replace(message, xid=None))
        elif isinstance(message, m.Type):
            self._types[message.type_oid] = message


class _Notes:
    """What single messages said of transactions."""

    def __init__(self, transactions: TransactionFacts, rows: ChangeMessages) -> None:
        self.transactions = transactions
        self.rows = rows
        self.others: dict[int, m.AnyMessage] = {}
        self.undone = np.zeros(len(rows.kind), np.bool_)
        self._streamed: dict[int, int] = {}
        self._prepared: dict[str, int] = {}

    def begin(self, state: NDArray[np.int64], xid: int) -> int:
        """The number of a new transaction."""
        number = int(state[_COUNT])
        state[_COUNT] += 1
        self.transactions.xid[number] = xid
        return number

    def streamed(self, state: NDArray[np.int64], xid: int) -> int:
        """The number of a transaction that comes in blocks: a new one in the first of these bytes."""
        if xid not in self._streamed:
            self._streamed[xid] = self.begin(state, xid)
        return self._streamed[xid]

    def note(self, at: int, message: m.AnyMessage, state: NDArray[np.int64]) -> None:
        """Message number `at`, which the flow has accepted."""
        self.others[at] = message
        match message:
            case m.StreamStart(xid=xid):
                state[_CURRENT] = self.streamed(state, xid)
            case m.StreamCommit(xid=xid):
                self._end(self._streamed.pop(xid, None), COMMITTED, message.commit_lsn, message.end_lsn, message.commit_timestamp)
            case m.StreamPrepare(xid=xid):
                self._prepare(self._streamed.pop(xid, None), message)
            case m.StreamAbort(xid=xid, subxid=subxid):
                if xid == subxid:
                    self._end(self._streamed.pop(xid, None), ROLLED_BACK)
                elif xid in self._streamed:
                    self._undo(self._streamed[xid], subxid, at)
            case m.BeginPrepare():
                state[_CURRENT] = self.begin(state, message.xid)
            case m.Prepare():
                self._prepare(int(state[_CURRENT]), message)
            case m.CommitPrepared(gid=gid):
                self._end(self._prepared.pop(gid, None), COMMITTED, message.commit_lsn, message.end_lsn, message.commit_timestamp)
            case m.RollbackPrepared(gid=gid):
                self._end(self._prepared.pop(gid, None), ROLLED_BACK)
            case _:
                pass  # they say nothing of a transaction's outcome

    def _prepare(self, number: int | None, message: m.Prepare | m.StreamPrepare) -> None:
        if number is not None:
            self._prepared[message.gid] = number
        self._end(number, PREPARED)

    def _end(self, number: int | None, state: int, commit_lsn: int = 0, end_lsn: int = 0, time: int = 0) -> None:
        """What is known of a transaction that these messages began."""
        if number is not None:
            facts = self.transactions
            facts.state[number], facts.time[number] = state, time
            facts.commit_lsn[number], facts.end_lsn[number] = _signed(commit_lsn), _signed(end_lsn)

    def _undo(self, number: int, subxid: int, at: int) -> None:
        """All that the transaction did since the first change of the subtransaction, as the subscriber does."""
        mine = self.rows.transaction[:at] == number
        first = np.flatnonzero(mine & (self.rows.xid[:at] == subxid) & ~self.undone[:at])
        if len(first):
            self.undone[first[0] : at] |= mine[first[0] :]


def _signed(lsn: int) -> int:
    """The same 64 bits as a signed number, as the kernel reads them."""
    return lsn - 2**64 if lsn >> 63 else lsn


@kernel
def _scan(data: Any, offsets: Any, start: Any, state: Any, known: Any, rows: Any, transactions: Any) -> Any:
    """From message `start` on, up to one that is neither Begin nor Commit nor a change, or not as it should be: returns its
    number."""
    place, current, last = state[_PLACE], state[_CURRENT], np.int64(0)
    number = start
    while number < len(offsets) - 1:
        at, stop = offsets[number], offsets[number + 1]
        if at >= stop:
            break
        byte = data[at]
        if byte == _BEGIN:
            if place != OUTSIDE or stop - at != _BEGIN_SIZE or be64(data, at + 1) == 0:
                break
            current = state[_COUNT]
            state[_COUNT] += 1
            state[_LSN] = be64(data, at + 1)
            state[_HAS_CHANGES] = 0
            transactions.commit_lsn[current] = state[_LSN]
            transactions.time[current] = be64(data, at + 9)
            transactions.xid[current] = be32(data, at + 17)
            place = TRANSACTION
        elif byte == _COMMIT:
            if place != TRANSACTION or stop - at != _COMMIT_SIZE or data[at + 1] != 0 or be64(data, at + 2) != state[_LSN]:
                break
            transactions.end_lsn[current] = be64(data, at + 10)
            transactions.time[current] = be64(data, at + 18)
            transactions.state[current] = COMMITTED
            place = OUTSIDE
        elif byte in (_INSERT, _UPDATE, _DELETE) and place != OUTSIDE:
            last = _find_relation(data, at + (5 if place == STREAM else 1), stop, known, last)
            if last < 0 or not _note_change(data, at, stop, place == STREAM, known.columns[last], rows, number):
                break
            rows.relation[number] = known.number[last]
            rows.transaction[number] = current
            state[_HAS_CHANGES] = 1
        else:
            break
        number += 1
    state[_PLACE], state[_CURRENT] = place, current
    return number


@inner_kernel
def _find_relation(data: Any, at: Any, stop: Any, known: Any, last: Any) -> Any:
    """The place in `known` of the oid that lies here, or -1; `last` is where the one before was."""
    if stop - at < 4:
        return np.int64(-1)
    oid = be32(data, at)
    if 0 <= last < len(known.oid) and known.oid[last] == oid:
        return last
    low, high = np.int64(0), np.int64(len(known.oid))
    while low < high:
        middle = (low + high) // 2
        if known.oid[middle] < oid:
            low = middle + 1
        else:
            high = middle
    return low if low < len(known.oid) and known.oid[low] == oid else np.int64(-1)


@inner_kernel
def _note_change(data: Any, at: Any, stop: Any, in_stream: Any, columns: Any, rows: Any, number: Any) -> Any:
    """Walk the tuples of a change. Whether all is as it should be; nothing is noted otherwise."""
    byte = data[at]
    here = at + (9 if in_stream else 5)
    old_at = new_at = np.int64(-1)
    old_kind = NO_OLD
    if byte != _INSERT and here < stop and data[here] in (_KEY, _OLD):
        old_kind = OLD_KEY if data[here] == _KEY else OLD_ROW
        old_at = here + 1
        here = _tuple_end(data, old_at, stop, columns, False)
        if here < 0:
            return False
    if byte == _DELETE:
        if old_kind == NO_OLD:
            return False
    else:
        if here >= stop or data[here] != _NEW:
            return False
        new_at = here + 1
        here = _tuple_end(data, new_at, stop, columns, True)
    if here != stop:
        return False
    rows.kind[number] = INSERT if byte == _INSERT else (UPDATE if byte == _UPDATE else DELETE)
    rows.old_kind[number] = old_kind
    rows.old_at[number] = old_at
    rows.new_at[number] = new_at
    if in_stream:
        rows.xid[number] = be32(data, at + 1)
    return True


@inner_kernel
def _tuple_end(data: Any, at: Any, stop: Any, columns: Any, is_new: Any) -> Any:
    """Where a tuple of so many columns ends; -1 if it is none."""
    if stop - at < 2 or be16(data, at) != columns:
        return np.int64(-1)
    at += 2
    for _ in range(columns):
        if at >= stop:
            return np.int64(-1)
        kind = data[at]
        at += 1
        if kind in (TEXT_BYTE, BINARY_BYTE):
            if stop - at < 4:
                return np.int64(-1)
            at += 4 + be32(data, at)
            if at > stop:
                return np.int64(-1)
        elif kind != NULL_BYTE and not (kind == UNCHANGED_BYTE and is_new):
            return np.int64(-1)
    return at
