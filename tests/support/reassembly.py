"""What a subscriber is left with of a session of pgoutput, however it was streamed.

In: messages as they came, each with its LSN. Out: what a subscriber did, in order: transactions that it committed or prepared, ends of prepared ones,
and messages outside of transactions. Blocks are put together, what was rolled back is cut off as the subscriber cuts it, and a change says of what
relation it is, as the subscriber knows that when it applies it; so an end is the same whether or not its transaction came in blocks. Transactions
without changes are left out. Since 18 a server tells a prepared transaction that only took locks at PREPARE, though it never begins
(`ReorderBufferPrepare`); its subscriber refuses that, and so do our readers. Here it is what was told and no more.

State, of `Subscriber`: what was described to it, and of each transaction in blocks what came so far (`replication/logical/worker.c`).
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from tailrace.logicalproto import message as m
from tailrace.logicalproto.formats import read_message
from tailrace.logicalproto.message import OUTSIDE
from tailrace.logicalproto.message_flow import MessageReader
from tailrace.model import FIRST_NORMAL_OID

Event = tuple[Any, ...]
_Came = tuple[int, m.AnyMessage]


@dataclass
class _Spool:
    """Of one transaction. `began` says of each subtransaction where in `came` its first message is."""

    came: list[_Came] = field(default_factory=list)
    began: dict[int, int] = field(default_factory=dict)

    def add(self, lsn: int, message: m.AnyMessage) -> None:
        xid = None if isinstance(message, m.Message) else getattr(message, "xid", None)
        if xid is not None:
            self.began.setdefault(xid, len(self.came))
        self.came.append((lsn, message))

    def cut(self, subxid: int) -> None:
        """What was done since the subtransaction began is rolled back with it."""
        if (at := self.began.get(subxid)) is not None:
            del self.came[at:]
            self.began = {xid: first for xid, first in self.began.items() if first < at}


class Subscriber:
    """A relation is known as it was `described`; or else by its oid alone, as where two streams were told at different times what it is. In a block
    a logical message says of what transaction it is, not of what subtransaction, so nobody can tell whether it was rolled back: of messages within
    transactions those at `lasting` LSNs are kept; None: all are."""

    def __init__(self, *, described: bool = True, lasting: Container[int] | None = None) -> None:
        self._described = described
        self._lasting = lasting
        self.relations: dict[int, m.Relation] = {}
        self.types: dict[int, m.Type] = {}
        self.did: list[Event] = []
        self._streams: dict[int, _Spool] = {}
        self._current = _Spool()
        self._begun: m.Begin | m.BeginPrepare | None = None
        self._told: m.Relation | m.Type | None = None

    def take(self, lsn: int, message: m.AnyMessage) -> None:
        match message:
            case m.Begin() | m.BeginPrepare():
                self._current, self._begun = _Spool(), message
            case m.StreamStart(xid=xid):
                self._current = self._streams.setdefault(xid, _Spool())
            case m.StreamStop():
                self._current = _Spool()
            case m.StreamAbort(xid=xid, subxid=subxid):
                if xid == subxid:
                    del self._streams[xid]
                else:
                    self._streams[xid].cut(subxid)
            case m.Commit():
                assert isinstance(self._begun, m.Begin)
                assert (self._begun.final_lsn, self._begun.commit_timestamp) == (message.commit_lsn, message.commit_timestamp)
                self._apply("commit", lsn, self._current, self._begun.xid, _ending(message))
            case m.StreamCommit(xid=xid):
                self._apply("commit", lsn, self._streams.pop(xid), xid, _ending(message))
            case m.Prepare(xid=xid):
                self._apply("prepare", lsn, self._current, xid, _ending(message))
            case m.StreamPrepare(xid=xid):
                self._apply("prepare", lsn, self._streams.pop(xid), xid, _ending(message))
            case m.CommitPrepared() | m.RollbackPrepared():
                self.did.append((type(message).__name__, lsn, _ending(message)))
            case m.Message(flags=0):
                self.did.append(("message", message.lsn, message.prefix, message.content))
            case _:
                self._check_told(message)
                self._current.add(lsn, message)

    def take_bare(self, lsn: int, message: m.Prepare) -> None:
        """Of a transaction that never began."""
        self.did.append(("bare prepare", lsn, message.xid, _ending(message)))

    def _check_told(self, message: m.AnyMessage) -> None:
        """What describes a relation comes directly before the change that it is told for, as a part of the same subtransaction."""
        if self._told is not None and self._described:
            assert isinstance(message, m.Relation | m.Type | m.Change | m.Truncate)
            assert message.xid == self._told.xid
        self._told = message if isinstance(message, m.Relation | m.Type) else None

    def _apply(self, how: str, lsn: int, spool: _Spool, xid: int, ending: tuple[Any, ...]) -> None:
        changes, origin = [], None
        for at, message in spool.came:
            match message:
                case m.Relation():
                    self.relations[message.relation_oid] = replace(message, xid=None)
                case m.Type():
                    self.types[message.type_oid] = replace(message, xid=None)
                case m.Origin(name=origin):
                    pass
                case m.Truncate():
                    changes.append((at, "truncate", message.options, tuple(map(self._known, message.relation_oids))))
                case m.Message():
                    if self._lasting is None or message.lsn in self._lasting:
                        changes.append((at, "message", message.lsn, message.prefix, message.content))
                case m.Insert() | m.Update() | m.Delete():
                    sides = getattr(message, "old", None), getattr(message, "new", None)
                    changes.append((at, type(message).__name__, self._known(message.relation_oid), *sides))
                case _:
                    raise AssertionError(f"in a transaction: {message}")
        if changes:
            self.did.append((how, lsn, xid, ending, origin, changes))

    def _known(self, oid: int) -> object:
        """A relation as it was described, with its types that are not built in, which must have been described before it."""
        relation = self.relations[oid]
        if not self._described:
            return oid
        return relation, tuple(self.types[each.type_oid] for each in relation.columns if each.type_oid >= FIRST_NORMAL_OID)


def _ending(message: m.AnyMessage) -> tuple[Any, ...]:
    return tuple(getattr(message, name) for name in message.__slots__ if name not in ("xid", "flags"))


def reassembled(
    rows: Iterable[tuple[int, bytes]], proto_version: int, streaming: str = "off", *, described: bool = True,
    lasting: Container[int] | None = None,
) -> list[Event]:  # fmt: skip
    """Of rows that are LSN and message. Raises what the reader does, KeyError for what was not described, and AssertionError."""
    reader, subscriber = MessageReader(proto_version, streaming), Subscriber(described=described, lasting=lasting)
    for lsn, payload in rows:
        if payload[:1] == b"P" and reader.flow.place == OUTSIDE:
            bare = read_message(payload, in_stream=False)
            assert isinstance(bare, m.Prepare)
            subscriber.take_bare(lsn, bare)
        else:
            subscriber.take(lsn, reader.read(payload))
    return subscriber.did
