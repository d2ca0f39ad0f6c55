"""The one table of messages: type byte, since which version of the protocol, and the fields in their order; `read_message` and
`write_message` go by it.

In: a message's bytes, and whether it stands in a stream, which its bytes do not tell. Out: its value; or PeerError, as
PostgreSQL's subscriber says it, but stricter: trailing bytes and flags without a meaning are refused. Order is no matter of this
module, but of `message_flow`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tailrace.errors import PeerError, UsageError
from tailrace.logicalproto import message as m
from tailrace.logicalproto.fields import KINDS, Payload, read_u8, read_u32, shown, write_u32
from tailrace.logicalproto.protocol import EITHER, PARALLEL


@dataclass(frozen=True, slots=True)
class MessageFormat:
    """`name` is what the subscriber calls it, `fields` are (name, kind) as on the wire. `carries_xid`: it begins with its xid
    where it stands in a stream. `in_parallel` are fields that follow only where streaming is parallel."""

    value: type
    name: str
    byte: str
    since: int
    fields: tuple[tuple[str, str], ...]
    carries_xid: bool = False
    in_parallel: tuple[tuple[str, str], ...] = ()


def _format(
    value: type, name: str, byte: str, since: int, fields: str = "", *, xid: bool = False, parallel: str = ""
) -> MessageFormat:
    return MessageFormat(value, name, byte, since, _parsed(fields), xid, _parsed(parallel))


def _parsed(fields: str) -> tuple[tuple[str, str], ...]:
    return tuple((name, kind) for name, _, kind in (field.partition(":") for field in fields.split()))


_TWO_PHASE = "flags:no_flags prepare_lsn:set_lsn end_lsn:set_lsn prepare_timestamp:timestamp xid:xid gid:string"
FORMATS = (
    _format(m.Begin, "BEGIN", "B", 1, "final_lsn:set_lsn commit_timestamp:timestamp xid:xid"),
    _format(m.Message, "MESSAGE", "M", 1, "flags:flag lsn:lsn prefix:string content:content", xid=True),
    _format(m.Commit, "COMMIT", "C", 1, "flags:no_flags commit_lsn:lsn end_lsn:lsn commit_timestamp:timestamp"),
    _format(m.Origin, "ORIGIN", "O", 1, "commit_lsn:lsn name:string"),
    _format(m.Relation, "RELATION", "R", 1,
            "relation_oid:oid namespace:string name:string replica_identity:identity columns:columns", xid=True),
    _format(m.Type, "TYPE", "Y", 1, "type_oid:oid namespace:string name:string", xid=True),
    _format(m.Insert, "INSERT", "I", 1, "relation_oid:oid new:new", xid=True),
    _format(m.Update, "UPDATE", "U", 1, "relation_oid:oid old:optional_old new:new", xid=True),
    _format(m.Delete, "DELETE", "D", 1, "relation_oid:oid old:old", xid=True),
    _format(m.Truncate, "TRUNCATE", "T", 1, "options+relation_oids:truncated", xid=True),
    _format(m.StreamStart, "STREAM START", "S", 2, "xid:xid first_segment:flag"),
    _format(m.StreamStop, "STREAM STOP", "E", 2),
    _format(m.StreamCommit, "STREAM COMMIT", "c", 2, "xid:xid flags:no_flags commit_lsn:lsn end_lsn:lsn commit_timestamp:timestamp"),
    _format(m.StreamAbort, "STREAM ABORT", "A", 2, "xid:xid subxid:xid", parallel="abort_lsn:lsn abort_timestamp:timestamp"),
    _format(m.BeginPrepare, "BEGIN PREPARE", "b", 3, "prepare_lsn:set_lsn end_lsn:set_lsn prepare_timestamp:timestamp xid:xid gid:string"),
    _format(m.Prepare, "PREPARE", "P", 3, _TWO_PHASE),
    _format(m.CommitPrepared, "COMMIT PREPARED", "K", 3,
            "flags:no_flags commit_lsn:set_lsn end_lsn:set_lsn commit_timestamp:timestamp xid:xid gid:string"),
    _format(m.RollbackPrepared, "ROLLBACK PREPARED", "r", 3,
            "flags:no_flags prepare_end_lsn:set_lsn rollback_end_lsn:set_lsn prepare_timestamp:timestamp rollback_timestamp:timestamp "
            "xid:xid gid:string"),
    _format(m.StreamPrepare, "STREAM PREPARE", "p", 3, _TWO_PHASE),
)  # fmt: skip
"""Every message, in the manual's order. `Message` came with servers of major 14, `Truncate` with 11, without a new version of the
protocol."""
BY_BYTE = {ord(each.byte): each for each in FORMATS}
BY_VALUE = {each.value: each for each in FORMATS}


def format_of(data: bytes) -> MessageFormat:
    """Which message it is. Raises PeerError for one that nobody knows."""
    byte = read_u8(Payload(data))
    known = BY_BYTE.get(byte)
    if known is None:
        raise PeerError(
            f'invalid logical replication message type "??? ({byte})"', context=f"offset 0 of message type {shown(byte)!r}"
        )
    return known


def read_message(data: bytes, *, in_stream: bool, streaming: str = "on") -> m.AnyMessage:
    """The message that `data` is, from the first byte to the last."""
    known = format_of(data)
    payload = Payload(data, known.name)
    payload.at = 1
    found: dict[str, Any] = {}
    if in_stream and known.carries_xid:
        found["xid"] = read_u32(payload)
    _read_fields(known, known.fields, payload, found)
    if streaming == PARALLEL or (streaming == EITHER and payload.at < len(data)):
        _read_fields(known, known.in_parallel, payload, found)
    if payload.at != len(data):
        raise payload.refused("invalid message format")
    return known.value(**found)


def _read_fields(known: MessageFormat, fields: tuple[tuple[str, str], ...], payload: Payload, found: dict[str, Any]) -> None:
    for names, kind in fields:
        at = payload.at
        value = KINDS[kind].read(payload)
        if kind == "set_lsn" and not value:
            raise payload.refused(_not_set(names, known), at)
        if "+" in names:
            found.update(zip(names.split("+"), value, strict=True))
        else:
            found[names] = value


def write_message(message: m.AnyMessage) -> bytes:
    """The bytes that `read_message` reads; with the xid where the message has one. Raises UsageError for what has no bytes."""
    known = BY_VALUE[type(message)]
    out = bytearray(known.byte.encode())
    try:
        if known.carries_xid and getattr(message, "xid") is not None:  # noqa: B009 - not all messages have it
            write_u32(out, getattr(message, "xid"))  # noqa: B009
        rest = [(names, kind) for names, kind in known.in_parallel if getattr(message, names) is not None]
        for names, kind in (*known.fields, *rest):
            KINDS[kind].write(out, *(getattr(message, name) for name in names.split("+")))
    except OverflowError as error:
        raise UsageError(f"{known.name} message: {error}", sqlstate="22003") from None
    return bytes(out)


def _not_set(field: str, known: MessageFormat) -> str:
    return f"{field} {'' if known.name.startswith('BEGIN') else 'is '}not set in {known.name.lower()} message"
