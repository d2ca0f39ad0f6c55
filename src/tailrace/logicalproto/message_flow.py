"""Logical replication message flow: which message may follow which, and which relations the receiver knows (`apply_dispatch` in
`worker.c`).

    outside  ── Begin ─►  transaction ── Commit ─►  outside
    outside  ── BeginPrepare ─►  prepared ── Prepare ─►  outside
    outside  ── StreamStart ─►  stream ── StreamStop ─►  outside

In: messages in the order in which they were sent. Out: the same, checked. Where each message may stand, and where the flow
stands after it, is said with its format (`message.MESSAGE_FORMATS`); `_RULES` has what is asked of some beside that. An Origin comes only
before the first change of a transaction. StreamCommit, StreamPrepare and StreamAbort end (or cut)
a transaction of which a StreamStart told, outside of any block; CommitPrepared and RollbackPrepared stand outside, too. A change
is of a relation described before, and has as many columns. State: where we are, the transaction's LSN, relations by oid, and
which streamed transactions are open.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tailrace.errors import PeerError, UsageError
from tailrace.logicalproto import message as m
from tailrace.logicalproto.formats import format_of, read_message, write_message
from tailrace.logicalproto.message import MESSAGE_FORMATS, OUTSIDE, STREAM
from tailrace.logicalproto.protocol import LATEST_PROTOCOL, OFF, PARALLEL, STREAMING, check_version_has
from tailrace.model import Lsn


class MessageFlow:
    """Which messages one stream had so far: where it stands, and what its receiver knows. A message that is refused changes
    nothing."""

    def __init__(self, proto_version: int, streaming: str) -> None:
        if not 1 <= proto_version <= LATEST_PROTOCOL:
            raise UsageError(f"proto_version={proto_version} is not between 1 and {LATEST_PROTOCOL}", sqlstate="0A000")
        if streaming not in STREAMING:
            raise UsageError(f'streaming requires a Boolean value or "{PARALLEL}"', sqlstate="42601")
        check_version_has(proto_version, *STREAMING[streaming])
        self.proto_version = proto_version
        self.streaming = streaming
        self.place = OUTSIDE
        self.lsn = Lsn(0)
        self.has_changes = False
        self.relations: dict[int, m.Relation] = {}
        self.streamed: set[int] = set()

    @property
    def in_stream(self) -> bool:
        return self.place == STREAM

    def check_known(self, data: bytes) -> None:
        """Raise PeerError for a message that this version of the protocol does not have, or that was not asked for."""
        known = format_of(data)
        if known.since > self.proto_version:
            raise _refused(
                known.name,
                f"{known.name} message in protocol version {self.proto_version}",
                hint=f"It came with version {known.since}.",
            )
        if known.name.startswith("STREAM") and self.streaming == OFF:
            raise _refused(known.name, f"{known.name} message, and streaming was not requested")

    def accept(self, message: m.AnyMessage) -> None:
        """The next message. Raises PeerError if it cannot stand here."""
        known = MESSAGE_FORMATS[type(message)]
        if self.place not in known.stands:
            raise self._out_of_place(known)
        if rule := _RULES.get(type(message)):
            rule(self, message)
        if known.leads_to is None:
            self.has_changes |= not isinstance(message, m.Origin)
        else:
            self.place, self.has_changes = known.leads_to, False

    def _out_of_place(self, known: m.MessageFormat) -> PeerError:
        if known.value is m.StreamStop:
            return _refused(known.name, "STREAM STOP message without STREAM START")
        if self.in_stream and known.value is m.StreamStart:
            return _refused(known.name, "duplicate STREAM START message")
        if self.in_stream and known.value in (m.StreamCommit, m.StreamPrepare, m.StreamAbort):
            return _refused(known.name, f"{known.name} message without STREAM STOP")
        return _refused(known.name, f"{known.name} message sent out of order")

    # -- what is asked of a message beside its place ---------------------------------------------------------------------------------

    def _begin(self, message: m.Begin) -> None:
        self.lsn = message.final_lsn

    def _commit(self, message: m.Commit) -> None:
        self._check_lsn(message, "commit", message.commit_lsn)

    def _begin_prepare(self, message: m.BeginPrepare) -> None:
        self.lsn = message.prepare_lsn

    def _prepare(self, message: m.Prepare) -> None:
        self._check_lsn(message, "prepare", message.prepare_lsn)

    def _check_lsn(self, message: m.AnyMessage, what: str, lsn: Lsn) -> None:
        if lsn != self.lsn:
            raise _refused(_name(message), f"incorrect {what} LSN {lsn} in {what} message (expected {self.lsn})")

    def _stream_start(self, message: m.StreamStart) -> None:
        if not message.xid:
            raise _refused(_name(message), "invalid transaction ID in streamed replication transaction")
        if (message.xid in self.streamed) == bool(message.first_segment):
            which = "a first segment again" if message.first_segment else "no first segment"
            raise _refused(_name(message), f"STREAM START message for transaction {message.xid}, which had {which}")
        self.streamed.add(message.xid)

    def _stream_end(self, message: m.StreamCommit | m.StreamPrepare | m.StreamAbort) -> None:
        if message.xid not in self.streamed:
            raise _refused(_name(message), f"{_name(message)} message for transaction {message.xid} without STREAM START")
        if not isinstance(message, m.StreamAbort) or message.subxid == message.xid:
            self.streamed.discard(message.xid)

    def _origin(self, message: m.Origin) -> None:
        if self.has_changes:
            raise self._out_of_place(MESSAGE_FORMATS[m.Origin])

    def _message(self, message: m.Message) -> None:
        """One that is not part of a transaction comes before the transaction that it was written in."""
        if (self.place == OUTSIDE) == bool(message.flags):
            raise self._out_of_place(MESSAGE_FORMATS[m.Message])

    def _relation(self, message: m.Relation) -> None:
        self.relations[message.relation_oid] = message

    def _change(self, message: m.Change) -> None:
        tuples = (getattr(message, "old", None), getattr(message, "new", None))
        columns = len(self._described(message, message.relation_oid).columns)
        for each in tuples:
            if each is not None and len(each.columns) != columns:
                raise _refused(
                    _name(message), f"tuple has {len(each.columns)} columns, and relation {message.relation_oid} has {columns}"
                )

    def _truncate(self, message: m.Truncate) -> None:
        for oid in message.relation_oids:
            self._described(message, oid)

    def _described(self, message: m.AnyMessage, oid: int) -> m.Relation:
        if oid not in self.relations:
            raise _refused(_name(message), f"no relation map entry for remote relation ID {oid}")
        return self.relations[oid]


_RULES: dict[type, Callable[[MessageFlow, Any], None]] = {
    m.Begin: MessageFlow._begin,
    m.Commit: MessageFlow._commit,
    m.Origin: MessageFlow._origin,
    m.Relation: MessageFlow._relation,
    m.Insert: MessageFlow._change,
    m.Update: MessageFlow._change,
    m.Delete: MessageFlow._change,
    m.Truncate: MessageFlow._truncate,
    m.Message: MessageFlow._message,
    m.StreamStart: MessageFlow._stream_start,
    m.StreamCommit: MessageFlow._stream_end,
    m.StreamAbort: MessageFlow._stream_end,
    m.StreamPrepare: MessageFlow._stream_end,
    m.BeginPrepare: MessageFlow._begin_prepare,
    m.Prepare: MessageFlow._prepare,
}
"""Of messages that need no more than their place there is nothing here."""


def _name(message: m.AnyMessage) -> str:
    return MESSAGE_FORMATS[type(message)].name


def _refused(name: str, words: str, hint: str = "") -> PeerError:
    return PeerError(words, hint=hint, context=f'offset 0 of message type "{name}"')


class MessageReader:
    """Reads the messages of one session, in their order. It knows itself whether it is in a stream."""

    def __init__(self, proto_version: int, streaming: str) -> None:
        self.flow = MessageFlow(proto_version, streaming)

    def read(self, payload: bytes) -> m.AnyMessage:
        """The next message. Raises PeerError for bytes that are none, and for one that cannot stand here; the flow is then as
        before."""
        self.flow.check_known(payload)
        message = read_message(payload, in_stream=self.flow.in_stream, streaming=self.flow.streaming)
        self.flow.accept(message)
        return message


class MessageWriter:
    """Writes the messages of one session: what it writes its reader accepts."""

    def __init__(self, proto_version: int, streaming: str) -> None:
        self.flow = MessageFlow(proto_version, streaming)

    def write(self, message: m.AnyMessage) -> bytes:
        """The next message's bytes. Raises UsageError for one that cannot be sent here."""
        known = MESSAGE_FORMATS[type(message)]
        if known.carries_xid and (getattr(message, "xid", None) is not None) != self.flow.in_stream:
            raise UsageError(f"{known.name} message {'without' if self.flow.in_stream else 'with'} an xid")
        data = write_message(message)
        try:
            self.flow.check_known(data)
            read_message(data, in_stream=self.flow.in_stream, streaming=self.flow.streaming)
            self.flow.accept(message)
        except PeerError as error:
            raise UsageError(error.message, hint=error.hint, context=error.context, sqlstate=error.sqlstate) from None
        return data
